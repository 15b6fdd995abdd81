"""Values in files and in the environment: what a variable stands for, what is refused, and that no secret is shown."""

import re
from collections.abc import Mapping

import pytest

from headgate.gateway.config import BrokerConfig, ConfigError, dynamic
from headgate.gateway.config.describe import describe_broker
from headgate.gateway.config.providers.variables import ProviderProblem, make_providers
from headgate.protocol.errors import KafkaError

CLASSES = {
    f"config.providers.{name}.class": f"org.apache.kafka.common.config.provider.{kind}ConfigProvider"
    for name, kind in (("file", "File"), ("directory", "Directory"), ("env", "EnvVar"))
}
GIVEN = {"config.providers": "file,directory,env", **CLASSES}
FILES = {
    "/etc/secrets.properties": "password=hush\nempty=\na\\:b=colon\nnested=${env:NAME}",
    "/etc/keys/pem": "-----BEGIN\nkey\n",
    "/etc/broken": "a=\\u12",
    "/var/out.properties": "password=outside",
}


class FakeSources:
    def __init__(self, files: Mapping[str, str] = FILES) -> None:
        self.files = files
        self.environment = {"NAME": "alice", "EMPTY": ""}

    def read_text(self, path: str) -> str:
        if path not in self.files:
            raise FileNotFoundError(2, "No such file or directory", path)
        return self.files[path]

    def variable(self, name: str) -> str | None:
        return self.environment.get(name)

    def matches(self, pattern: str, text: str) -> bool:
        try:
            return re.fullmatch(pattern, text) is not None
        except re.error as error:
            raise ValueError(str(error)) from None


def resolve(text: str, **more: str) -> str:
    parameters = {f"config.providers.{name.replace('__', '.param.', 1).replace('_', '.')}": more[name] for name in more}
    return make_providers({**GIVEN, **parameters}, FakeSources()).resolve(text)


@pytest.mark.parametrize(
    "text, value",
    [
        ("${file:/etc/secrets.properties:password}", "hush"),
        ("${file:/etc/secrets.properties:empty}", ""),
        ("${file:/etc/secrets.properties:a:b}", "colon"),
        ("${file:/etc/../etc/secrets.properties:password}", "hush"),
        ("${directory:/etc/keys:pem}", "-----BEGIN\nkey\n"),
        ("${env:NAME}", "alice"),
        ("${env:EMPTY}", ""),
        ('user_${env:NAME}="${file:/etc/secrets.properties:password}";', 'user_alice="hush";'),
        ("${file:/etc/secrets.properties:nested}", "${env:NAME}"),  # once, as in Kafka
        ("no variable: ${x} $1 {env:NAME} ${env}", "no variable: ${x} $1 {env:NAME} ${env}"),
    ],
)
def test_a_variable_stands_for_its_value(text: str, value: str) -> None:
    assert resolve(text) == value


@pytest.mark.parametrize(
    "text, reason",
    [
        ("${vault:/x:y}", "there is no provider 'vault'; config.providers has file, directory, env"),
        ("${file:/etc/gone:password}", "/etc/gone cannot be read: No such file or directory"),
        ("${file:/etc/secrets.properties:passwort}", "/etc/secrets.properties has no key 'passwort'"),
        ("${file:password}", "a path and a key are needed"),
        ("${file:/etc/broken:a}", "/etc/broken is not a file of properties"),
        ("${directory:/etc/keys:../secrets.properties}", "is not the name of a file in a directory"),
        ("${directory:/etc/keys:gone}", "/etc/keys/gone cannot be read"),
        ("${env:GONE}", "the environment has no variable GONE"),
        ("${env:/x:NAME}", "a variable of the environment has no path"),
    ],
)
def test_a_variable_without_a_value_is_an_error(text: str, reason: str) -> None:
    with pytest.raises(ProviderProblem, match=re.escape(reason)) as problem:
        resolve(f"before {text}")
    assert "hush" not in str(problem.value)


def test_paths_and_names_may_be_limited() -> None:
    limits = {"file__allowed_paths": "/etc", "directory__allowed_paths": "/etc/keys/", "env__allowlist_pattern": "NA.*"}
    assert resolve("${file:/etc/secrets.properties:password}", **limits) == "hush"
    assert resolve("${directory:/etc/keys:pem}", **limits) == "-----BEGIN\nkey\n"
    assert resolve("${env:NAME}", **limits) == "alice"
    for text, reason in {
        "${file:/var/out.properties:password}": "/var/out.properties is not in allowed.paths",
        "${file:/etc/../var/out.properties:password}": "is not in allowed.paths",
        "${file:/etcetera:password}": "is not in allowed.paths",
        "${directory:/etc:secrets.properties}": "/etc is not in allowed.paths",
        "${env:EMPTY}": "EMPTY does not match allowlist.pattern",
    }.items():
        with pytest.raises(ProviderProblem, match=re.escape(reason)):
            resolve(text, **limits)


@pytest.mark.parametrize(
    "given, reason",
    [
        ({"config.providers": "file"}, "config.providers has file: set config.providers.file.class to "),
        (
            {"config.providers": "v", "config.providers.v.class": "com.example.Vault"},
            "config.providers.v.class=com.example.Vault: classes of Java are not loaded",
        ),
        ({**GIVEN, "config.providers.file.param.allowed.paths": "etc"}, "'etc' is not an absolute path"),
        ({**GIVEN, "config.providers.env.param.allowlist.pattern": "("}, "'(' is not a regular expression of RE2"),
    ],
)
def test_a_provider_that_cannot_be_used_is_refused(given: dict[str, str], reason: str) -> None:
    with pytest.raises(ProviderProblem, match=re.escape(reason)):
        make_providers(given, FakeSources())


def load(more: Mapping[str, str]) -> BrokerConfig:
    return BrokerConfig.load("", {**GIVEN, **more}, sources=FakeSources())


PASSWORD = "${file:/etc/secrets.properties:password}"


def test_settings_have_the_values_and_show_the_variables() -> None:
    config = load(
        {
            "ssl.key.password": PASSWORD,
            "broker.rack": "${env:NAME}",
            "listener.name.plaintext.ssl.keystore.password": PASSWORD,
        }
    )
    assert config.ssl_key_password is not None
    assert config.ssl_key_password.text == "hush"
    assert config.broker_rack == "alice"
    assert config.listener_value("PLAINTEXT", "ssl.keystore.password").text == "hush"
    assert "hush" not in repr(config)
    assert "hush" not in str([str(answer) for answer in config.answers])
    assert "override: broker.rack=${env:NAME}" in [str(answer) for answer in config.answers]
    described = {entry.name: entry.value for entry in describe_broker(config)}
    assert described["broker.rack"] == "${env:NAME}"
    assert "hush" not in described.values()


def test_problems_of_a_file_have_the_name_of_the_setting() -> None:
    with pytest.raises(ConfigError) as refused:
        load({"ssl.key.password": "${file:/etc/gone:x}", "num.partitions": PASSWORD, "listeners": "${env:GONE}"})
    assert sorted(refused.value.problems) == [
        "override: listeners: ${env:GONE}: the environment has no variable GONE",
        f"override: num.partitions={PASSWORD}: allowed is a whole number from 1 to 2147483647",
        "override: ssl.key.password: ${file:/etc/gone:x}: /etc/gone cannot be read: No such file or directory",
    ]


def test_without_providers_a_text_is_its_own_value() -> None:
    assert BrokerConfig.load("broker.rack=${env:HOME}").broker_rack == "${env:HOME}"


def test_values_at_run_time_are_resolved_and_stored_as_variables() -> None:
    config = load({})
    name = "listener.name.plaintext.ssl.keystore.password"
    dynamic.check(config, {name: PASSWORD}, {}, {name: PASSWORD})
    config.change({}, {name: PASSWORD})
    assert config.listener_value("PLAINTEXT", "ssl.keystore.password").text == "hush"
    assert config.dynamic() == ({name: PASSWORD}, {})
    with pytest.raises(KafkaError, match=re.escape(f"{name}: ${{file:/etc/gone:x}}: /etc/gone cannot be read")):
        dynamic.check(config, {name: "${file:/etc/gone:x}"}, {}, {name: "${file:/etc/gone:x}"})


def test_a_value_of_another_broker_without_its_file_is_skipped(caplog: pytest.LogCaptureFixture) -> None:
    config = load({})
    config.change({"message.max.bytes": "${env:GONE}", "min.insync.replicas": "2"}, {})
    assert config.message_max_bytes == 1_048_588
    assert config.min_insync_replicas == 2
    assert "message.max.bytes: the dynamic value does not fit this version, and is ignored" in caplog.text


def test_zookeeper_stores_a_variable_and_no_secret() -> None:
    config = load({"zookeeper.connect": "zk:2181"})
    name = "listener.name.plaintext.ssl.keystore.password"
    dynamic.check(config, {name: PASSWORD}, {}, {name: PASSWORD})
    with pytest.raises(KafkaError, match="is a secret, and not stored in ZooKeeper"):
        dynamic.check(config, {name: f"x{PASSWORD}"}, {}, {name: f"x{PASSWORD}"})


def test_a_refusal_at_run_time_does_not_show_a_file() -> None:
    config = load({})
    with pytest.raises(KafkaError) as refused:
        dynamic.check(config, {"compression.type": PASSWORD}, {"compression.type": PASSWORD}, {})
    assert "hush" not in str(refused.value)

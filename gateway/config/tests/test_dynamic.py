"""Settings of brokers that change while they run."""

import pytest

from headgate.gateway.config import BrokerConfig, dynamic
from headgate.protocol.errors import ErrorCode, KafkaError


def refusal(of_all: dict[str, str], own: dict[str, str], text: str = "") -> KafkaError:
    with pytest.raises(KafkaError) as refused:
        dynamic.check(BrokerConfig.load(text), {**of_all, **own}, of_all, own)
    return refused.value


def test_what_can_be_changed() -> None:
    of_all, own = {"message.max.bytes": "1000"}, {"num.io.threads": "8", "log.cleanup.policy": ""}
    dynamic.check(BrokerConfig.load(), {**of_all, **own}, of_all, own)


@pytest.mark.parametrize(
    "configs, code, sentence",
    [
        (
            {"num.partitions": "2"},
            ErrorCode.INVALID_REQUEST,
            "Cannot update these configs dynamically: Set(num.partitions)",
        ),
        ({"listeners": "PLAINTEXT://:1"}, ErrorCode.INVALID_REQUEST, "dynamically: Set(listeners)"),
        ({"message.max.bytes": "many"}, ErrorCode.INVALID_REQUEST, "allowed is a whole number from 0 to 2147483647"),
        ({"metric.reporters": "x" * 32_768}, ErrorCode.INVALID_REQUEST, "the value is longer than 32767 bytes"),
        (
            {"num.io.threads": "0"},
            ErrorCode.INVALID_REQUEST,
            "Invalid value 0 for configuration num.io.threads: Value must",
        ),
        (
            {"ssl.keystore.type": "JKS"},
            ErrorCode.INVALID_REQUEST,
            "only per-listener using the listener prefix: Set(ssl.",
        ),
        (
            {"listener.name.a.ssl.keystore.passwort": "x"},
            ErrorCode.INVALID_CONFIG,
            "unknown setting 'listener.name.a.ssl",
        ),
        (
            {"principal.builder.class": "x.Y"},
            ErrorCode.INVALID_REQUEST,
            "names a Java class, which cannot be loaded here",
        ),
        ({"mesage.max.bytes": "1"}, ErrorCode.INVALID_CONFIG, "the nearest name is message.max.bytes"),
        ({"retention.ms": "1"}, ErrorCode.INVALID_CONFIG, "for all topics of a broker, set log.retention.ms"),
    ],
)
@pytest.mark.parametrize("is_own", [True, False])
def test_what_is_refused(configs: dict[str, str], code: ErrorCode, sentence: str, is_own: bool) -> None:
    error = refusal({}, configs) if is_own else refusal(configs, {})
    assert error.code == code
    assert sentence in error.message


@pytest.mark.parametrize("name", ["sasl.kerberos.kinit.cmd", "listener.name.external.ssl.keystore.location"])
def test_some_settings_are_of_one_broker_only(name: str) -> None:
    dynamic.check(BrokerConfig.load(), {name: "/x"}, {}, {name: "/x"})
    with pytest.raises(KafkaError, match="at default cluster level, broker id must be specified: Set") as refused:
        dynamic.check(BrokerConfig.load(), {name: "/x"}, {name: "/x"}, {}, is_own=False)
    assert refused.value.code is ErrorCode.INVALID_REQUEST
    assert name in refused.value.message


def test_a_secret_without_effect_is_not_stored() -> None:
    for name in ("sasl.jaas.config", "listener.name.external.sasl.jaas.config", "rsm.config.key"):
        error = refusal({}, {name: "hush"})
        assert error.code is ErrorCode.INVALID_REQUEST
        assert "hush" not in error.message


def test_a_secret_with_an_effect_is_stored_but_not_in_zookeeper() -> None:
    change = {"listener.name.external.ssl.keystore.password": "hush"}
    dynamic.check(BrokerConfig.load(), change, {}, change)
    error = refusal({}, change, "zookeeper.connect=h:2181")
    assert error.code is ErrorCode.INVALID_REQUEST
    assert "is a secret, and not stored in ZooKeeper" in error.message
    assert "hush" not in error.message


def test_two_settings_that_contradict_each_other() -> None:
    least, most = "log.cleaner.min.compaction.lag.ms", "log.cleaner.max.compaction.lag.ms"
    for of_all, own, text in (
        ({least: "9", most: "8"}, {}, ""),
        ({most: "8"}, {least: "9"}, ""),
        ({}, {least: "9"}, f"{most}=8"),
    ):
        assert refusal(of_all, own, text).message == f"{least}=9 must not exceed {most}=8"
    dynamic.check(BrokerConfig.load(), {least: "7"}, {least: "9", most: "8"}, {least: "7"})


def test_what_was_set_before_keeps_nothing_else_from_being_changed() -> None:
    """Another version may have allowed it, and `BrokerConfig.change` passes it over."""
    least, most = "log.cleaner.min.compaction.lag.ms", "log.cleaner.max.compaction.lag.ms"
    config = BrokerConfig.load(f"{most}=8")
    before = {"no.such": "1", "node.id": "7", "log.cleanup.policy": "shred", least: "early", most: "late"}
    change = {"message.max.bytes": "5"}
    dynamic.check(config, change, before, {**before, **change})
    dynamic.check(config, {"no.such": None}, before, {})
    dynamic.check(config, {least: "8"}, before, {**before, least: "8"})
    for of_all, own in (({least: "7"}, {least: "early"}), ({}, before)):
        dynamic.check(config, {least: None}, of_all, own)
    with pytest.raises(KafkaError, match=f"{least}=9 must not exceed {most}=8"):
        dynamic.check(config, {least: "9"}, before, {**before, least: "9"})
    contradiction = {least: "9"}
    dynamic.check(config, change, contradiction, change)
    with pytest.raises(KafkaError, match=f"{least}=9 must not exceed {most}=8"):
        dynamic.check(config, {most: None}, contradiction, {})


def test_the_value_that_counts() -> None:
    config = BrokerConfig.load("message.max.bytes=1\nlog.retention.ms=2")
    config.change({"message.max.bytes": "3", "log.roll.ms": "4"}, {"message.max.bytes": "5"})
    assert (config.message_max_bytes, config.log_retention_ms, config.log_roll_ms) == (5, 2, 4)
    assert config["message.max.bytes"] == 5
    assert config.texts("message.max.bytes") == ("5", "3", "1")
    assert config.at_start("message.max.bytes") == 1
    config.change({"message.max.bytes": "3"}, {})
    assert (config.message_max_bytes, config.log_roll_ms) == (3, None)
    config.change({}, {})
    assert config.message_max_bytes == 1


def test_topics_follow() -> None:
    config = BrokerConfig.load("log.retention.hours=1")
    assert config.log_config({}).retention_ms == 3_600_000
    config.change({"log.retention.ms": "5", "message.max.bytes": "6"}, {})
    assert config.log_config({}).retention_ms == 5
    assert config.log_config({"retention.ms": "7"}).retention_ms == 7
    assert config.log_config({}).max_message_bytes == 6


def test_what_a_list_has() -> None:
    config = BrokerConfig.load("log.cleanup.policy=delete,compact")
    config.change({"log.cleanup.policy": "delete"}, {})
    assert dynamic.items(config, "log.cleanup.policy", {"log.cleanup.policy": "compact"}) == ("compact",)
    for configs in ({}, {"log.cleanup.policy": "shred"}):
        assert dynamic.items(config, "log.cleanup.policy", configs) == ("delete", "compact")
    assert dynamic.items(config, "sasl.enabled.mechanisms", {}) == ("GSSAPI",)
    assert dynamic.items(config, "ssl.cipher.suites", {"ssl.cipher.suites": "a,b"}) == ("a", "b")
    for name in ("message.max.bytes", "log.dirs", "no.such"):
        assert dynamic.items(config, name, {}) is None


def test_what_another_version_wrote_keeps_no_broker_from_starting(caplog: pytest.LogCaptureFixture) -> None:
    config = BrokerConfig.load()
    config.change({"message.max.bytes": "5", "log.cleanup.policy": "shred"}, {"no.such": "1", "node.id": "7"})
    assert (config.message_max_bytes, config["log.cleanup.policy"], config.node_id) == (5, ("delete",), 0)
    assert config.dynamic() == ({}, {"message.max.bytes": "5"})
    assert [line.split(":")[0] for line in caplog.messages] == ["no.such", "node.id", "log.cleanup.policy"]

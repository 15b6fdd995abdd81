"""The effective TLS settings of a listener, and the start with listeners over TLS."""

from __future__ import annotations

import subprocess
import sys

import pytest

from headgate.gateway.config import BrokerConfig, ConfigError, catalogue, describe, listeners, tls_settings
from headgate.gateway.config.definition import Effect, Secret
from headgate.gateway.config.tls_settings import SETTINGS, TlsSettings

LISTENERS = """
listeners=SSL://:9093,OUT://:9094
listener.security.protocol.map=SSL:SSL,OUT:SASL_SSL,PLAINTEXT:PLAINTEXT
"""


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> None:
    """TLS is served, as soon as the network can."""
    monkeypatch.setattr(listeners, "SERVED_PROTOCOLS", frozenset(("PLAINTEXT", "SSL", "SASL_SSL")))


def problems(text: str) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as refused:
        BrokerConfig.load(LISTENERS + text)
    return refused.value.problems


def test_the_defaults_are_those_of_the_table() -> None:
    for field, default in list(TlsSettings._field_defaults.items())[1:]:
        assert catalogue.BROKER[tls_settings.setting_name(field)].default_value() == default


@pytest.mark.usefixtures("served")
def test_a_listeners_own_value_counts_first() -> None:
    config = BrokerConfig.load(
        LISTENERS
        + "ssl.keystore.location=/all\nssl.keystore.type=PEM\nlistener.name.out.ssl.keystore.location=/out\n"
        + "listener.name.ssl.headgate.ssl.optional=true\nssl.cipher.suites=TLS_AES_256_GCM_SHA384,"
        + "TLS_CHACHA20_POLY1305_SHA256,TLS_AES_128_GCM_SHA256"
    )
    of_ssl, out = config.tls_settings("SSL"), config.tls_settings("OUT")
    assert (of_ssl.keystore_location, out.keystore_location) == ("/all", "/out")
    assert (of_ssl.is_optional, out.is_optional) == (True, False)
    assert out.keystore_type == "PEM"
    assert len(out.cipher_suites) == 3
    assert (of_ssl.prefix, out.prefix, TlsSettings().prefix) == ("listener.name.ssl.", "listener.name.out.", "")
    assert config.notes() == []


@pytest.mark.usefixtures("served")
def test_values_set_at_run_time_count_before_those_of_the_file() -> None:
    own = "listener.name.ssl.ssl.keystore.location"
    config = BrokerConfig.load(f"{LISTENERS}{own}=/file\nssl.client.auth=required\nssl.truststore.location=/t")
    config.change({}, {own: "/now", "ssl.client.auth": "requested", f"{own[:-8]}password": "hush"})
    settings = config.tls_settings("SSL")
    assert (settings.keystore_location, settings.client_auth) == ("/now", "requested")
    assert settings.keystore_password == Secret("hush")
    assert "hush" not in repr(settings)
    entries = {entry.name: entry for entry in describe.describe_broker(config)}
    assert entries[f"{own[:-8]}password"].value is None
    assert "hush" not in repr(entries)
    config.change({}, {})
    assert config.tls_settings("SSL").keystore_location == "/file"


@pytest.mark.usefixtures("served")
def test_client_certificates_beside_sasl_are_asked_for_by_the_listener_alone() -> None:
    """Kafka logs a warning, and does not apply the broker's value to SASL_SSL (KIP-684)."""
    config = BrokerConfig.load(f"{LISTENERS}ssl.client.auth=required")
    assert (config.tls_settings("SSL").client_auth, config.tls_settings("OUT").client_auth) == ("required", "none")
    config = BrokerConfig.load(f"{LISTENERS}listener.name.out.ssl.client.auth=requested")
    assert config.tls_settings("OUT").client_auth == "requested"


@pytest.mark.usefixtures("served")
@pytest.mark.parametrize(
    "text, sentence",
    [
        ("ssl.enabled.protocols=TLSv1.1", "listener SSL: ssl.enabled.protocols=TLSv1.1 are too old"),
        ("listener.name.out.ssl.cipher.suites=TLS_X", "listener OUT: ssl.cipher.suites: TLS_X: no such cipher suite"),
        ("ssl.principal.mapping.rules=RULE:x", "listener SSL: ssl.principal.mapping.rules: 'RULE:x': a rule is RULE:"),
        ("ssl.protocol=TLSv9", "listener SSL: ssl.protocol=TLSv9 does not exist"),
        ("ssl.client.auth=yes", "ssl.client.auth=yes: allowed is one of: required, requested, none"),
        ("ssl.engine.factory.class=x.Y", "ssl.engine.factory.class=x.Y: names a Java class"),
    ],
)
def test_settings_that_cannot_be_served_are_refused(text: str, sentence: str) -> None:
    assert sentence in problems(text)[0]


def test_without_a_listener_over_tls_nothing_is_checked() -> None:
    assert BrokerConfig.load("ssl.enabled.protocols=TLSv9\nssl.principal.mapping.rules=x").notes() == []


def test_a_protocol_is_refused_until_it_is_served() -> None:
    assert "listener SSL: SSL is not supported yet; only PLAINTEXT is" in problems("")[0]


def test_values_of_a_listener_that_does_not_exist_are_noted() -> None:
    config = BrokerConfig.load("listener.name.nosuch.ssl.client.auth=none\nlistener.name.PLAINTEXT.ssl.protocol=TLS")
    assert [(note.effect, note.reason) for note in config.notes()] == [
        (Effect.NONE, "no listener has the name nosuch; in lower case, the names are plaintext"),
        (Effect.NONE, "no listener has the name PLAINTEXT; in lower case, the names are plaintext"),
    ]


def test_a_problem_does_not_show_a_secret() -> None:
    loaded = BrokerConfig.load.__globals__["load"]("ssl.key.password=hush\nnode.id=1", (), "f")
    loaded.problem("ssl.key.password", "it is wrong")
    loaded.problem("node.id", "it is taken")
    assert loaded.problems == ["f line 1: ssl.key.password=[hidden]: it is wrong", "f line 2: node.id=1: it is taken"]


def test_every_setting_of_a_listener_is_one_of_the_table() -> None:
    assert set(SETTINGS) <= set(catalogue.BROKER)
    assert all(catalogue.find(f"listener.name.x.{name}").effect is Effect.FULL for name in SETTINGS)  # type: ignore[union-attr]


@pytest.mark.sockets
def test_a_broker_without_tls_imports_none_of_it() -> None:
    """The start is measured. trio imports `ssl` anyway."""
    program = (
        "import sys; import headgate.gateway.app.broker, headgate.gateway.app.composition;"
        "from headgate.gateway.config import BrokerConfig; BrokerConfig.load('ssl.client.auth=required');"
        "print([name for name in ('cryptography', 'headgate.gateway.security.tls') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"

"""The effective TLS settings of a listener, and the start with listeners over TLS."""

from __future__ import annotations

import subprocess
import sys

import pytest

from headgate.gateway.config import BrokerConfig, broker_table, catalogue, describe
from headgate.gateway.security.tls.settings import SETTINGS, of_listener
from headgate.protocol.security.secret import Secret
from headgate.protocol.security.tls.settings import TlsSettings, setting_name

LISTENERS = """
listeners=SSL://:9093,OUT://:9094
listener.security.protocol.map=SSL:SSL,OUT:SASL_SSL,PLAINTEXT:PLAINTEXT
"""


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> None:
    """TLS is served, as soon as the network can."""


def test_the_defaults_are_those_of_the_table() -> None:
    for field, default in list(TlsSettings._field_defaults.items())[1:]:
        assert catalogue.BROKER[setting_name(field)].default_value() == default


@pytest.mark.usefixtures("served")
def test_a_listeners_own_value_counts_first() -> None:
    config = BrokerConfig.load(
        LISTENERS
        + "ssl.keystore.location=/all\nssl.keystore.type=PEM\nlistener.name.out.ssl.keystore.location=/out\n"
        + "listener.name.ssl.headgate.ssl.optional=true\nssl.cipher.suites=TLS_AES_256_GCM_SHA384,"
        + "TLS_CHACHA20_POLY1305_SHA256,TLS_AES_128_GCM_SHA256"
    )
    of_ssl, out = of_listener(config, "SSL"), of_listener(config, "OUT")
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
    settings = of_listener(config, "SSL")
    assert (settings.keystore_location, settings.client_auth) == ("/now", "requested")
    assert settings.keystore_password == Secret("hush")
    assert "hush" not in repr(settings)
    entries = {entry.name: entry for entry in describe.describe_broker(config)}
    assert entries[f"{own[:-8]}password"].value is None
    assert "hush" not in repr(entries)
    config.change({}, {})
    assert of_listener(config, "SSL").keystore_location == "/file"


@pytest.mark.usefixtures("served")
def test_client_certificates_beside_sasl_are_asked_for_by_the_listener_alone() -> None:
    """Kafka logs a warning, and does not apply the broker's value to SASL_SSL (KIP-684)."""
    config = BrokerConfig.load(f"{LISTENERS}ssl.client.auth=required")
    assert (of_listener(config, "SSL").client_auth, of_listener(config, "OUT").client_auth) == ("required", "none")
    config = BrokerConfig.load(f"{LISTENERS}listener.name.out.ssl.client.auth=requested")
    assert of_listener(config, "OUT").client_auth == "requested"


def test_every_setting_of_tls_may_be_a_listeners_own() -> None:
    assert {*SETTINGS, "headgate.fetch.isolation.default"} <= broker_table.OF_LISTENERS


@pytest.mark.sockets
def test_a_broker_without_tls_imports_none_of_it() -> None:
    """The start is measured. trio imports `ssl` anyway."""
    program = (
        "import sys; import headgate.gateway.app.broker, headgate.gateway.app.composition;"
        "from headgate.gateway.config import BrokerConfig; BrokerConfig.load('ssl.client.auth=required');"
        "of_tls = ('cryptography', 'headgate.gateway.security.tls', 'headgate.protocol.security.tls');"
        "print([name for name in of_tls if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"

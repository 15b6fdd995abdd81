"""Users of the metrics listener: names and passwords in a request, and the settings."""

import base64

import pytest

from headgate.gateway.api.context import Client
from headgate.gateway.config import BrokerConfig, ConfigError
from headgate.gateway.network.metrics_access import configured_users, make_access, read_password
from headgate.gateway.network.tls.tests.fake_listener import listener_tls
from headgate.gateway.runtime.clock import SystemClock
from headgate.gateway.security.sasl.scram_credentials import ScramCredentials
from headgate.gateway.security.tls.listener_tls import open_all

JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_prometheus="right";'
NAME = "listener.name.metrics.plain.sasl.jaas.config"


def head(value: bytes, name: bytes = b"Authorization") -> bytes:
    return b"GET / HTTP/1.1\r\nHost: h\r\n" + name + b": " + value


@pytest.mark.parametrize(
    "text, given",
    [
        (b"Basic " + base64.b64encode(b"alice:p:w"), ("alice", "p:w")),
        (b"BASIC   " + base64.b64encode("älice:pä".encode()), ("älice", "pä")),
        (b"Basic " + base64.b64encode(b"alice"), None),
        (b"Basic " + base64.b64encode(b":pw"), None),
        (b"Basic " + base64.b64encode(b"alice:"), None),
        (b"Basic " + base64.b64encode(b"\xff:\xff"), None),
        (b"Basic a", None),
        (b"Basic", None),
        (b"Digest " + base64.b64encode(b"a:b"), None),
        (b"", None),
    ],
)
def test_a_request_has_a_user_and_a_password(text: bytes, given: tuple[str, str] | None) -> None:
    assert read_password(head(text)) == given
    assert read_password(head(text, b"X-Authorization")) is None
    assert read_password(b"Authorization: Basic YTpi") is None  # the line of the request


def test_users_are_those_of_the_jaas_line_or_of_scram() -> None:
    credentials = ScramCredentials(dict, b"key")
    client = Client("192.0.2.1", 1, "192.0.2.2", 2, "METRICS")
    access = make_access(BrokerConfig.load("", {NAME: JAAS}), listener_tls(), credentials, None)
    right, wrong = (head(b"Basic " + base64.b64encode(f"prometheus:{word}".encode())) for word in ("right", "wrong"))
    assert access.identify(right, None) == "User:prometheus"
    assert access.identify(wrong, None) is None
    assert access.identify(b"", None) is None
    assert access.identify(b"", b"abc") == "User:3 bytes"
    assert access.allows(client)  # without an authorizer every user may
    scram = make_access(BrokerConfig.load(), listener_tls(), credentials, None).identify(right, None)
    assert callable(scram)
    assert scram() is None


def test_a_wrong_line_is_refused_without_the_password() -> None:
    with pytest.raises(ConfigError, match=NAME) as refused:
        configured_users(BrokerConfig.load("", {NAME: 'x.LoginModule required user_a="hush"'}))
    assert "hush" not in str(refused.value)


@pytest.mark.parametrize("address", ["0.0.0.0:9404", "[::]:9404", "192.0.2.1:9404", "metrics.example:9404"])
def test_beyond_the_loopback_interface_a_start_needs_tls(address: str) -> None:
    config = BrokerConfig.load(f"headgate.metrics.listener={address}")
    assert config.secures_metrics
    with pytest.raises(
        ConfigError, match="beyond the loopback interface, where it needs TLS: listener METRICS: "
    ) as no:
        open_all(config, SystemClock())
    assert len(no.value.problems) == 1


@pytest.mark.parametrize("address", ["9404", "127.0.0.2:9404", "[::1]:9404", "localhost:9404", ""])
def test_the_loopback_interface_needs_nothing(address: str) -> None:
    config = BrokerConfig.load(f"headgate.metrics.listener={address}")
    assert not config.secures_metrics
    assert open_all(config, SystemClock()) == {}


def test_no_listener_of_clients_takes_its_settings() -> None:
    listeners = "listeners=METRICS://:9092\nlistener.security.protocol.map=METRICS:PLAINTEXT"
    with pytest.raises(ConfigError, match="give the listener METRICS another name"):
        BrokerConfig.load(f"{listeners}\nheadgate.metrics.listener=0.0.0.0:9404")
    assert BrokerConfig.load(f"{listeners}\nheadgate.metrics.listener=9404").listeners

"""Who may ask over HTTP: names and passwords in a request, names of hosts, and the settings."""

import base64

import pytest

from headgate.gateway.api.context import Client
from headgate.gateway.config import BrokerConfig, ConfigError
from headgate.gateway.http.access import configured_users, make_access, read_password
from headgate.gateway.network.tls.tests.fake_listener import listener_tls
from headgate.gateway.runtime.clock import SystemClock
from headgate.gateway.security.sasl.scram_credentials import ScramCredentials
from headgate.gateway.security.tls.listener_tls import open_all

JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_prometheus="right";'
NAME = "listener.name.http.plain.sasl.jaas.config"


def basic(text: str) -> bytes:
    return b"Basic " + base64.b64encode(text.encode())


@pytest.mark.parametrize(
    "text, given",
    [
        (basic("alice:p:w"), ("alice", "p:w")),
        (b" BASIC   " + base64.b64encode("älice:pä".encode()), ("älice", "pä")),
        (basic("alice"), None),
        (basic(":pw"), None),
        (basic("alice:"), None),
        (b"Basic " + base64.b64encode(b"\xff:\xff"), None),
        (b"Basic a", None),
        (b"Basic", None),
        (b"Digest " + base64.b64encode(b"a:b"), None),
        (b"", None),
    ],
)
def test_a_request_has_a_user_and_a_password(text: bytes, given: tuple[str, str] | None) -> None:
    assert read_password(text) == given


def test_users_are_those_of_the_jaas_line_or_of_scram() -> None:
    credentials = ScramCredentials(dict, b"key")
    client = Client("192.0.2.1", 1, "192.0.2.2", 2, "HTTP")
    access = make_access(BrokerConfig.load("", {NAME: JAAS}), listener_tls(), credentials, None)
    right, wrong = (basic(f"prometheus:{word}") for word in ("right", "wrong"))
    assert access.identify(right, None) == "User:prometheus"
    assert access.identify(wrong, None) is None
    assert access.identify(None, None) is None
    assert access.identify(None, b"abc") == "User:3 bytes"
    assert access.allows(client)  # without an authorizer every user may
    scram = make_access(BrokerConfig.load(), listener_tls(), credentials, None).identify(right, None)
    assert callable(scram)
    assert scram() is None


def test_a_wrong_line_is_refused_without_the_password() -> None:
    with pytest.raises(ConfigError, match=NAME) as refused:
        configured_users(BrokerConfig.load("", {NAME: 'x.LoginModule required user_a="hush"'}))
    assert "hush" not in str(refused.value)


def test_a_listener_over_tls_needs_a_key_store() -> None:
    config = BrokerConfig.load("headgate.http.listeners=https://0.0.0.0:9644,http://127.0.0.1:9644")
    with pytest.raises(
        ConfigError, match=r"headgate.http.listeners=https://0\.0\.0\.0:9644 needs TLS: listener HTTP: "
    ) as no:
        open_all(config, SystemClock())
    assert len(no.value.problems) == 1
    assert open_all(BrokerConfig.load(), SystemClock()) == {}

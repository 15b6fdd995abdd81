"""How a broker logs in to others: its settings, and their changes."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from headgate.gateway.config import BrokerConfig, ConfigError
from headgate.gateway.security.sasl.inter_broker import MECHANISM, InterBrokerLogin
from headgate.protocol.client.connection import ClientConnection
from headgate.protocol.messages.api_versions import ApiVersionsRequest
from headgate.protocol.schema import Versions

_MODULES = "org.apache.kafka.common.security"
_LINE = f'{_MODULES}.plain.PlainLoginModule required username="broker" password="hunter2" user_broker="hunter2";'
BASE = """
listeners=IN://h:9093,OUT://h:9094
listener.security.protocol.map=IN:SASL_SSL,OUT:PLAINTEXT
inter.broker.listener.name=IN
zookeeper.connect=h
"""
PLAIN = f"""{BASE}
{MECHANISM}=PLAIN
listener.name.in.sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-512
listener.name.in.plain.sasl.jaas.config={_LINE}
"""


def peer() -> ClientConnection:
    found = ClientConnection("broker-1")
    found.served_versions = {17: Versions(0, 1), 36: Versions(0, 2), ApiVersionsRequest.api_key: Versions(0, 3)}
    return found


def requests(login: InterBrokerLogin) -> list[Any]:
    """The requests of a login by PLAIN."""
    exchange = login.new_login(peer(), "h")
    handshake, _ = exchange.send(None)

    class Accepted:
        error_code, mechanisms = 0, ()

    authenticate, _ = exchange.send(Accepted())
    return [handshake, authenticate]


def test_the_line_of_the_listener_has_the_user() -> None:
    handshake, authenticate = requests(InterBrokerLogin(BrokerConfig.load(PLAIN)))
    assert handshake.mechanism == "PLAIN"
    assert bytes(authenticate.auth_bytes) == b"\x00broker\x00hunter2"


@pytest.mark.parametrize(
    "text,sentence",
    [
        (BASE, "listener.name.in.gssapi.sasl.jaas.config is missing"),
        (
            f"{BASE}{MECHANISM}=PLAIN",
            f"{MECHANISM}=PLAIN must be included in sasl.enabled.mechanisms of the listener IN",
        ),
        (
            f"{BASE}{MECHANISM}=SCRAM-SHA-512\nlistener.name.in.sasl.enabled.mechanisms=SCRAM-SHA-512",
            "listener.name.in.scram-sha-512.sasl.jaas.config is missing",
        ),
        (
            PLAIN.replace('username="broker" ', ""),
            "listener.name.in.plain.sasl.jaas.config: the option username is missing",
        ),
        (f"{BASE}{MECHANISM}=NONE\nsasl.enabled.mechanisms=NONE", "sasl.mechanism=NONE does not exist"),
    ],
)
def test_settings_without_a_login_are_refused(text: str, sentence: str) -> None:
    with pytest.raises(ConfigError) as refused:
        InterBrokerLogin(BrokerConfig.load(text))
    assert sentence in str(refused.value)
    assert "hunter2" not in str(refused.value)


def test_a_change_counts_for_the_next_login(caplog: pytest.LogCaptureFixture) -> None:
    config = BrokerConfig.load(PLAIN)
    login = InterBrokerLogin(config)
    name = "listener.name.in.plain.sasl.jaas.config"
    config.change({}, {name: _LINE.replace("hunter2", "other")})
    assert bytes(requests(login)[1].auth_bytes) == b"\x00broker\x00other"
    with caplog.at_level(logging.ERROR, "headgate.sasl"):
        config.change({}, {MECHANISM: "OAUTHBEARER"})
        assert requests(login)[0].mechanism == "PLAIN"
    assert (
        "logins to other brokers keep their settings: sasl.mechanism.inter.broker.protocol=OAUTHBEARER" in caplog.text
    )

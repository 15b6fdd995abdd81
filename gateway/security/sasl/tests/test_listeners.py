"""The SASL settings of all listeners: the start, and changes at run time."""

from __future__ import annotations

import logging

import pytest

from headgate.gateway.config import BrokerConfig, ConfigError
from headgate.gateway.security.sasl.exchange import Authenticated, AuthenticationFailed
from headgate.gateway.security.sasl.listeners import SaslListeners, new_nonce
from headgate.gateway.security.sasl.tests.sasl_scenario import plain
from headgate.gateway.security.sasl.tests.test_mechanisms import PARTS

_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule required"
_NAME = "listener.name.out.plain.sasl.jaas.config"
SETTINGS = f"""
listeners=IN://:9093,OUT://:9094,FREE://:9095
listener.security.protocol.map=IN:SASL_SSL,OUT:SASL_PLAINTEXT,FREE:PLAINTEXT
inter.broker.listener.name=FREE
listener.name.in.sasl.enabled.mechanisms=SCRAM-SHA-512
listener.name.out.sasl.enabled.mechanisms=PLAIN
{_NAME}={_MODULE} user_ann="hunter2";
"""


def logs_in(listeners: SaslListeners, password: str, name: str = "OUT") -> bool:
    try:
        return listeners[name].mechanisms["PLAIN"]().step(plain("ann", password)) == Authenticated("ann")
    except AuthenticationFailed:
        return False


@pytest.fixture
def config() -> BrokerConfig:
    return BrokerConfig.load(SETTINGS)


def test_the_listeners_with_logins_have_their_mechanisms(config: BrokerConfig) -> None:
    listeners = SaslListeners(config, PARTS)
    assert {name: listener.names for name, listener in listeners.items()} == {"IN": ["SCRAM-SHA-512"], "OUT": ["PLAIN"]}
    assert logs_in(listeners, "hunter2")


def test_each_listener_that_no_client_can_use_is_named() -> None:
    """What only the start can tell, such as a missing library, and a keytab that is unreadable."""
    line = 'com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true keyTab="/k" principal="kafka/h@R";'
    lines = "".join(
        f"listener.name.{name}.sasl.enabled.mechanisms=GSSAPI\nlistener.name.{name}.gssapi.sasl.jaas.config={line}\n"
        for name in ("in", "out")
    )
    kept = [text for text in SETTINGS.splitlines() if ".sasl." not in text]
    with pytest.raises(ConfigError) as refused:
        SaslListeners(BrokerConfig.load("\n".join([*kept, lines])), PARTS)
    assert refused.value.problems == tuple(
        f"listener.name.{name}.gssapi.sasl.jaas.config: no library for kafka/h@R" for name in ("in", "out")
    )


def test_a_changed_password_counts_after_a_refresh(config: BrokerConfig) -> None:
    listeners = SaslListeners(config, PARTS)
    config.change({}, {_NAME: f'{_MODULE} user_ann="another";'})
    assert logs_in(listeners, "hunter2")
    listeners.refresh()
    assert (logs_in(listeners, "hunter2"), logs_in(listeners, "another")) == (False, True)


def test_settings_that_stay_are_not_made_again(config: BrokerConfig) -> None:
    """The keys of bearer tokens would be fetched again."""
    listeners = SaslListeners(config, PARTS)
    before = dict(listeners)
    config.change({}, {"num.partitions": "3"})
    listeners.refresh()
    assert all(listeners[name] is listener for name, listener in before.items())


def test_a_change_that_cannot_be_used_changes_nothing(config: BrokerConfig, caplog: pytest.LogCaptureFixture) -> None:
    listeners = SaslListeners(config, PARTS)
    with caplog.at_level(logging.ERROR):
        config.change({}, {_NAME: f'{_MODULE} user_ann="hunter3"'})
        listeners.refresh()
    assert logs_in(listeners, "hunter2")
    (record,) = caplog.records
    assert record.getMessage() == (
        f"the listener OUT keeps its settings of logins: {_NAME}: JAAS config entry not terminated by semi-colon"
    )


def test_nonces_are_long_and_never_the_same() -> None:
    nonces = {new_nonce() for _ in range(100)}
    assert len(nonces) == 100
    assert all(len(nonce) >= 24 and nonce.isascii() and "," not in nonce for nonce in nonces)

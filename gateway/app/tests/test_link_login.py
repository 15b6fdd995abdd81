"""Whether a broker logs in to other brokers, by its settings."""

from __future__ import annotations

import pytest

from headgate.gateway.app.link_login import link_login
from headgate.gateway.config import BrokerConfig, ConfigError

_SETTINGS = """
listeners=IN://h:9093,OUT://h:9094
listener.security.protocol.map=IN:{protocol},OUT:PLAINTEXT
inter.broker.listener.name=IN
sasl.enabled.mechanisms=PLAIN
sasl.mechanism.inter.broker.protocol=PLAIN
"""
_LINE = "org.apache.kafka.common.security.plain.PlainLoginModule required"


def settings(protocol: str, *more: str) -> BrokerConfig:
    return BrokerConfig.load("\n".join((_SETTINGS.format(protocol=protocol), *more)))


def test_a_cluster_with_a_login_between_its_brokers_has_one() -> None:
    line = f'listener.name.in.plain.sasl.jaas.config={_LINE} username="b" password="c";'
    assert link_login(settings("SASL_PLAINTEXT", "zookeeper.connect=h", line)) is not None
    assert link_login(settings("SASL_PLAINTEXT", line)) is None, "a broker alone reaches no other one"
    assert link_login(settings("PLAINTEXT", "zookeeper.connect=h")) is None


def test_a_login_without_a_user_is_no_start() -> None:
    with pytest.raises(ConfigError, match=r"listener\.name\.in\.plain\.sasl\.jaas\.config is missing"):
        link_login(settings("SASL_SSL", "zookeeper.connect=h"))

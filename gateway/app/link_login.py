"""The login of this broker at other brokers, by its settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headgate.gateway.config.listeners import SASL_PROTOCOLS

if TYPE_CHECKING:
    from headgate.gateway.config import BrokerConfig
    from headgate.gateway.network.link_logins import MakeLogin


def link_login(config: BrokerConfig) -> MakeLogin | None:
    """How this broker logs in to others; None without a cluster, or without a login between its brokers.

    Raises ConfigError for settings that no login can be made of.
    """
    protocol = config.listener_security_protocol_map[config.inter_broker_listener]
    if config.zookeeper_connect is None or protocol not in SASL_PROTOCOLS:
        return None
    from headgate.gateway.security.sasl.inter_broker import InterBrokerLogin

    return InterBrokerLogin(config).new_login

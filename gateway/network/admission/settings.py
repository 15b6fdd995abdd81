"""The limits on connections, and the trusted proxies, by the settings of a broker."""

from __future__ import annotations

from collections.abc import Sequence

from headgate.gateway.config import BrokerConfig
from headgate.gateway.config.addresses import IpNetwork, parse_networks
from headgate.gateway.network.admission.address_limits import AddressLimits
from headgate.gateway.network.admission.connection_quotas import Limits


def limits_of(config: BrokerConfig, max_descriptors: int, address_limits: AddressLimits) -> Limits:
    """The present limits."""
    names = [listener.name for listener in config.listeners]

    def of_listeners(setting: str) -> dict[str, int]:
        values = {name: config.listener_value(name, setting) for name in names}
        return {name: value for name, value in values.items() if value is not None}

    return Limits(
        max_frame_bytes=config.socket_request_max_bytes,
        max_memory_bytes=config.queued_max_request_bytes,
        max_connections=config.max_connections,
        max_connections_per_ip=config.max_connections_per_ip,
        max_idle_ms=config.connections_max_idle_ms,
        send_buffer_bytes=config.socket_send_buffer_bytes,
        receive_buffer_bytes=config.socket_receive_buffer_bytes,
        max_descriptors=max_descriptors,
        authentication_timeout_ms=config.headgate_authentication_timeout_ms,
        max_connections_of_listeners=of_listeners("max.connections"),
        max_connections_of_addresses=address_limits.of(config.max_connections_per_ip_overrides),
        max_creation_rate=config.max_connection_creation_rate,
        max_creation_rates=of_listeners("max.connection.creation.rate"),
        protected_listener=config.inter_broker_listener if len(names) > 1 else None,
        unauthenticated=config.headgate_max_connections_unauthenticated,
    )


def proxies_of(config: BrokerConfig) -> dict[str, Sequence[IpNetwork]]:
    """The networks of trusted proxies by listener; a listener without one has no entry."""
    networks = {}
    for listener in config.listeners:
        own = config.listener_value(listener.name, "headgate.proxy.trusted")
        networks[listener.name] = parse_networks(config.headgate_proxy_trusted if own is None else own)
    return {name: trusted for name, trusted in networks.items() if trusted}

"""`/brokers/ids`: the registrations of live brokers. The nodes are ephemeral: each lives as long as its session."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple, Self

from headgate.gateway.zookeeper.layout.node import (
    NO_FIELDS,
    NodeFields,
    child_number,
    decode_fields,
    encode_object,
    number_child_path,
    shown,
)

BROKER_IDS_PATH: Final = "/brokers/ids"
PLAINTEXT: Final = "PLAINTEXT"
_SECURITY_PROTOCOLS: Final = {name: name for name in (PLAINTEXT, "SSL", "SASL_PLAINTEXT", "SASL_SSL")}
_ENDPOINT: Final = re.compile(r"([^:/]+)://(?:\[([^\[\]]*)\]|([^\[\]/]*)):(-?[0-9]{1,5})", re.ASCII)
_MAX_PORT: Final = 65535
_INTER_BROKER: Final = "headgate_inter_broker_listener"


class AdvertisedEndpoint(NamedTuple):
    """The advertised address of a listener. IPv6 addresses have no brackets."""

    listener: str
    host: str
    port: int
    security_protocol: str

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.listener}://{host}:{self.port}"


class BrokerRegistration(NamedTuple):
    """A live broker. `features`: the lowest and highest supported level by name.

    The node also has `host` and `port` of the first endpoint without encryption, for clients of the 0.8 age; null
    and -1 without such an endpoint. `inter_broker_listener`, in a field that Kafka's brokers pass over: the listener by
    which this broker reaches others; None for a broker of Kafka, which does not say.
    """

    endpoints: tuple[AdvertisedEndpoint, ...]
    timestamp_ms: int = -1
    rack: str | None = None
    jmx_port: int = -1
    features: Mapping[str, tuple[int, int]] = NO_FIELDS
    inter_broker_listener: str | None = None

    @staticmethod
    def path(broker_id: int) -> str:
        """Raises InvalidNode for a negative id."""
        return number_child_path(BROKER_IDS_PATH, broker_id)

    @property
    def plaintext(self) -> AdvertisedEndpoint | None:
        """The endpoint that clients of the 0.8 age use."""
        return next((endpoint for endpoint in self.endpoints if endpoint.security_protocol == PLAINTEXT), None)

    def encode(self) -> bytes:
        """Version 5."""
        plaintext = self.plaintext
        members = {
            "features": {
                name: {"min_version": low, "max_version": high} for name, (low, high) in self.features.items()
            },
            "listener_security_protocol_map": {
                endpoint.listener: endpoint.security_protocol for endpoint in self.endpoints
            },
            "endpoints": [str(endpoint) for endpoint in self.endpoints],
            **({} if self.rack is None else {"rack": self.rack}),
            "jmx_port": self.jmx_port,
            "port": -1 if plaintext is None else plaintext.port,
            "host": None if plaintext is None else plaintext.host,
            "version": 5,
            "timestamp": str(self.timestamp_ms),
            **({} if self.inter_broker_listener is None else {_INTER_BROKER: self.inter_broker_listener}),
        }
        return encode_object(members)

    @classmethod
    def decode(cls, broker_id: int, data: bytes | None) -> Self:
        """Versions 1 to 5, and newer ones as Kafka does. Raises InvalidNode."""
        fields = decode_fields(cls.path(broker_id), data)
        version = fields.integer("version", low=1)
        endpoints = _single_endpoint(fields) if version == 1 else _endpoints(fields)
        rack = fields.text("rack", None)
        return cls(
            endpoints,
            fields.timestamp_ms(),
            rack,
            fields.integer("jmx_port", -1),
            _features(fields),
            fields.text(_INTER_BROKER, None),
        )


def broker_id_of(name: str) -> int:
    """The broker id in the name of a child of `/brokers/ids`. Raises InvalidNode."""
    return child_number(BROKER_IDS_PATH, name)


def _single_endpoint(fields: NodeFields) -> tuple[AdvertisedEndpoint, ...]:
    port = fields.integer("port", high=_MAX_PORT)
    return (AdvertisedEndpoint(PLAINTEXT, fields.text("host"), port, PLAINTEXT),)


def _endpoints(fields: NodeFields) -> tuple[AdvertisedEndpoint, ...]:
    protocols = fields.mapping_of_text("listener_security_protocol_map") or _SECURITY_PROTOCOLS
    endpoints = []
    for text in fields.texts("endpoints"):
        found = _ENDPOINT.fullmatch(text)
        if found is None or int(found[4]) > _MAX_PORT:
            fields.fail(f"the endpoint {shown(text)} is not LISTENER://host:port")
        listener, host, port = found[1], found[2] or found[3] or "", int(found[4])
        protocol = protocols.get(listener, "")
        if protocol not in _SECURITY_PROTOCOLS:
            fields.fail(f"the security protocol of the listener {shown(listener)} is {shown(protocol)}")
        endpoints.append(AdvertisedEndpoint(listener, host, port, protocol))
    return tuple(endpoints)


def _features(fields: NodeFields) -> Mapping[str, tuple[int, int]]:
    found = {}
    for name, levels in fields.mapping_of_objects("features"):
        found[name] = levels.integer("min_version", 1, low=0), levels.integer("max_version", low=0)
    return found or NO_FIELDS

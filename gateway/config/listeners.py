"""Listeners: parsing and checks of `NAME://host:port`, of security protocols, and of advertised addresses."""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import ip_address
from itertools import combinations
from typing import NamedTuple

_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
SASL_PROTOCOLS = frozenset(("SASL_PLAINTEXT", "SASL_SSL"))
"""The security protocols with a login."""
TLS_PROTOCOLS = frozenset(("SSL", "SASL_SSL"))
"""The security protocols over TLS."""
LOOPBACK = "127.0.0.1"


class Listener(NamedTuple):
    """An address to listen on. An empty host means every interface; port 0 means a free port."""

    name: str
    host: str
    port: int


class ListenerProblem(ValueError):
    """An unusable address; the text says why, and what to do."""


def is_every_address(host: str) -> bool:
    """Whether a host is the unspecified address, of IPv4 or of IPv6 in any notation, or empty."""
    return not host.strip("0.:")


def parse(text: str) -> tuple[Listener, ...]:
    """The endpoints of a list, with names in upper case, as in Kafka. Raises ListenerProblem."""
    endpoints = tuple(_parse_one(part.strip()) for part in text.split(",") if part.strip())
    names = [endpoint.name for endpoint in endpoints]
    for name in names:
        if names.count(name) > 1:
            raise ListenerProblem(f"the name {name} is listed twice; give each listener its own name")
    return endpoints


def _parse_one(text: str) -> Listener:
    name, slashes, address = text.partition("://")
    host, colon, port = address.rpartition(":")
    is_bracketed = host.startswith("[") and host.endswith("]")
    if not (name and slashes and colon and port.isascii() and port.isdecimal()) or (":" in host and not is_bracketed):
        raise ListenerProblem(
            f"{text!r} is not NAME://host:port, as in PLAINTEXT://127.0.0.1:9092 or PLAINTEXT://[::1]:9092"
        )
    if int(port) > 65535:
        raise ListenerProblem(f"{text!r}: the largest port is 65535")
    return Listener(name.upper(), host.strip("[]"), int(port))


def is_loopback(host: str) -> bool:
    """Whether only programs of this machine reach a host."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def parse_metrics_listener(text: str) -> tuple[str, int] | None:
    """`host:port` -> (host, port). A port alone means the loopback interface; an empty text gives None.

    Raises ListenerProblem.
    """
    if not text:
        return None
    host, _, port = text.rpartition(":")
    try:
        listener = _parse_one(f"METRICS://{host}:{port}")
    except ListenerProblem:
        raise ListenerProblem(f"{text!r} is not host:port, as in 127.0.0.1:9404, or a port alone") from None
    return listener.host or LOOPBACK, listener.port


def parse_protocol_map(text: str) -> dict[str, str]:
    """`NAME:PROTOCOL,...` -> {name: protocol}. Raises ListenerProblem."""
    protocols: dict[str, str] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, colon, protocol = part.rpartition(":")
        if not colon or not name:
            raise ListenerProblem(f"{part!r} is not NAME:PROTOCOL, as in INTERNAL:PLAINTEXT")
        protocols[name.strip().upper()] = protocol.strip().upper()
    return protocols


def check_listeners(listeners: tuple[Listener, ...], protocols: Mapping[str, str]) -> None:
    """Check listeners. Raises ListenerProblem: no protocol, an unsupported protocol, or a duplicate address."""
    if not listeners:
        raise ListenerProblem("there is no listener; set one, as in PLAINTEXT://127.0.0.1:9092")
    for listener in listeners:
        _check_protocol(listener.name, protocols)
    for first, second in combinations(listeners, 2):
        if first.port and first.port == second.port and _overlap(first.host, second.host):
            raise ListenerProblem(f"{first.name} and {second.name} have the same address; give each its own port")


def _overlap(first: str, second: str) -> bool:
    """Whether two sockets with these hosts cannot have the same port: `[::]` takes IPv4 too, as in Kafka."""
    for every, other in ((first, second), (second, first)):
        if is_every_address(every) and (":" in every or not every or ":" not in other):
            return True
    return first == second


def _check_protocol(name: str, protocols: Mapping[str, str]) -> None:
    protocol = protocols.get(name)
    if protocol is None:
        raise ListenerProblem(f"listener.security.protocol.map has no protocol for {name}; add {name}:PLAINTEXT to it")
    if protocol not in _PROTOCOLS:
        raise ListenerProblem(
            f"the protocol {protocol} of {name} does not exist; Kafka's protocols are {', '.join(_PROTOCOLS)}"
        )


def check_advertised(advertised: tuple[Listener, ...], listeners: tuple[Listener, ...]) -> None:
    """Check advertised listeners. Raises ListenerProblem for an address that clients cannot use."""
    names = [listener.name for listener in listeners]
    for endpoint in advertised:
        if endpoint.name not in names:
            raise ListenerProblem(f"{endpoint.name} is not among listeners, which has {', '.join(names)}")
        if is_every_address(endpoint.host):
            shown = endpoint.host or "an empty host"
            raise ListenerProblem(
                f"clients cannot connect to {shown}, which means every address of this machine; name an address that"
                " clients can reach, or remove advertised.listeners: then each client gets the address it connected to"
            )


def check_inter_broker(name: str, listeners: tuple[Listener, ...], advertised: tuple[Listener, ...]) -> None:
    """Check the name of the listener between brokers. Raises ListenerProblem: other brokers cannot connect to it."""
    for setting, endpoints in (("listeners", listeners), ("advertised.listeners", advertised or listeners)):
        names = [endpoint.name for endpoint in endpoints]
        if name not in names:
            raise ListenerProblem(f"{name} is not among {setting}, which has {', '.join(names)}; name one of these")


def inter_broker_listener(name: str | None, protocol: str, listeners: tuple[Listener, ...]) -> str:
    """The listener between brokers: the named one, else the one named like the protocol, else the first."""
    if name is not None:
        return name.strip().upper()
    return protocol if any(listener.name == protocol for listener in listeners) else listeners[0].name


def check_registered(listeners: tuple[Listener, ...], advertised: tuple[Listener, ...]) -> None:
    """Check that each listener has an address for ZooKeeper. Raises ListenerProblem."""
    named = {endpoint.name for endpoint in advertised}
    for listener in listeners:
        if listener.name not in named and is_every_address(listener.host):
            shown = listener.host or "an empty host"
            raise ListenerProblem(
                f"{listener.name} listens on {shown}, which is every address of this machine, and ZooKeeper has to tell"
                f" clients one of them: set advertised.listeners={listener.name}://<name or address>:{listener.port}"
            )


def parse_zookeeper(connect: str) -> str:
    """Parse `host:port,host:port/chroot`, and return it without blanks and empty parts. Raises ListenerProblem.

    As ZooKeeper's own parser does, it passes over an empty server and a slash alone at the end.
    """
    servers, _, chroot = connect.partition("/")
    names = [server.strip() for server in servers.split(",") if server.strip()]
    for name in names:
        try:
            host = _parse_one(f"ZOOKEEPER://{name if ':' in name else f'{name}:2181'}").host
        except ListenerProblem:
            host = ""
        if not host:
            raise ListenerProblem(f"{connect!r}: {name!r} is not host:port; write it as in host:2181/kafka")
    if not names:
        raise ListenerProblem(f"{connect!r} names no server; write it as in host:2181/kafka")
    if "," in chroot:
        raise ListenerProblem(
            f"{connect!r}: the path stands once, behind the last server; write it as in host:2181,host:2181/kafka"
        )
    if chroot and ("" in chroot.split("/") or {".", ".."} & set(chroot.split("/"))):
        raise ListenerProblem(f"{connect!r}: the path has empty parts; write it as in host:2181/kafka")
    return ",".join(names) + (f"/{chroot}" if chroot else "")

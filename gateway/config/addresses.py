"""Settings with addresses: limits of single addresses, and networks of proxies."""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from headgate.gateway.config.definition import INT_MAX, split_list

IpNetwork = IPv4Network | IPv6Network


def canonical(host: str) -> str | None:
    """The usual text of an address, one of IPv4 in IPv6 as IPv4; None for the name of a host."""
    try:
        address = ip_address(host)
    except ValueError:
        return None
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return str(address)


def parse_limits(text: str) -> dict[str, int]:
    """`host:limit,...` -> limits by address or name, as Kafka reads it: the last colon divides. Raises ValueError."""
    limits = {}
    for part in split_list(text):
        host, colon, limit = part.rpartition(":")
        host, limit = host.strip().removeprefix("[").removesuffix("]"), limit.strip()
        if not colon or not host or not (limit.isascii() and limit.isdecimal()) or int(limit) > INT_MAX:
            raise ValueError(part)
        limits[canonical(host) or host] = int(limit)
    return limits


def parse_networks(items: Iterable[str]) -> tuple[IpNetwork, ...]:
    """Networks and addresses; bits of an address behind the prefix are ignored. Raises ValueError."""
    return tuple(ip_network(item, strict=False) for item in items)

"""Hosts of ACLs: one address, `*` for all, or a network as a CIDR (KIP-1276). Pure.

An address has one text here, that of Java's `InetAddress.getHostAddress`: Kafka compares it with the text in the ACL.
IPv6 has all eight groups there, `0:0:0:0:0:0:0:1`. Other texts of an address, such as `::1`, mean the address too here;
in Kafka such an ACL matches no client.
"""

from __future__ import annotations

import re
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import TypeAlias

from headgate.protocol.acls import WILDCARD

Network: TypeAlias = tuple[int, int, int]
"""IP version, number of leading bits, and these bits as a number."""

_BITS = {4: 32, 6: 128}
_IPV4 = re.compile(r"[0-9]{1,3}(\.[0-9]{1,3}){3}")
_LENGTH = re.compile(r"[0-9]{1,3}")


def address_text(host: str) -> str:
    """The text of an address as in Java, an IPv4 address in IPv6 as IPv4. Any other text is returned as it is."""
    address = _address(host)
    if address is None or isinstance(address, IPv4Address):
        return host if address is None else str(address)
    groups = address.packed
    text = ":".join(f"{groups[at] << 8 | groups[at + 1]:x}" for at in range(0, 16, 2))
    return text if address.scope_id is None else f"{text}%{address.scope_id}"


def _address(host: str) -> IPv4Address | IPv6Address | None:
    try:
        address = ip_address(host)
    except ValueError:
        return None
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return address


def network_of(host: str) -> Network | None:
    """The network of an ACL's host that has to be compared by bits; None for a text that is compared as it is.

    Bits of the address behind the prefix are ignored. Source: CidrUtils of Apache Kafka 4.4.
    """
    beginning, slash, bits = host.partition("/")
    if not slash:
        address = None if host == address_text(host) else _address(host)
        return None if address is None else (address.version, _BITS[address.version], int(address))
    if _IPV4.fullmatch(beginning):
        beginning = ".".join(str(int(part)) for part in beginning.split("."))  # 010 is ten, as in Kafka
    address = _address(beginning)
    if address is None or _LENGTH.fullmatch(bits) is None or int(bits) > _BITS[address.version]:
        return None
    if isinstance(address, IPv4Address) and ":" in beginning:
        return None  # IPv4 in IPv6, with a number of bits that is meant for IPv6
    return address.version, int(bits), int(address) >> (_BITS[address.version] - int(bits))


def networks_with(host: str) -> list[Network]:
    """Every network that a client's address belongs to, the smallest first; none for a text that is no address."""
    address = _address(host)
    if address is None:
        return []
    bits, number = _BITS[address.version], int(address)
    return [(address.version, length, number >> (bits - length)) for length in range(bits, -1, -1)]


def problem(host: str) -> str | None:
    """Why a new ACL may not have this host; None if it may. Kafka checks networks alone."""
    if "/" not in host or host == WILDCARD or network_of(host) is not None:
        return None
    return f"Invalid host {host}: a network is written as address/bits, as in 10.0.0.0/8 or 2001:db8::/32"

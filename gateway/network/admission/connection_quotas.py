"""The limits on connections: how many may be open, and how many may be opened in a second.

As in Kafka (KIP-402, KIP-612): beyond a rate of the broker or of a listener, the listener accepts nothing for a while;
an address beyond its own rate is disconnected after a pause. With several listeners, the one between brokers is
protected: `max.connections` and the broker's rate do not hold for it. Unlike Kafka, whose listener stops to accept
at `max.connections`, this broker refuses: the client is disconnected, with a line in the log.

Source: `ConnectionQuotas` of kafka.network, Apache Kafka 4.1.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from headgate.gateway.security.quotas.rates import SampledRate, Windows

UNLIMITED: Final = 0x7FFF_FFFF
_NONE: Final[Mapping[str, int]] = MappingProxyType({})


class Limits(NamedTuple):
    """Limits on peers, in bytes and counts. 0 or less for a socket buffer means the system's own size."""

    max_frame_bytes: int
    max_memory_bytes: int
    max_connections: int
    max_connections_per_ip: int
    max_idle_ms: int
    send_buffer_bytes: int
    receive_buffer_bytes: int
    max_descriptors: int  # for connections; the other descriptors of the process are reserved for files
    authentication_timeout_ms: float = 10_000.0
    max_connections_of_listeners: Mapping[str, int] = _NONE
    max_connections_of_addresses: Mapping[str, int] = _NONE
    """`max.connections.per.ip.overrides`, by address."""
    max_creation_rate: int = UNLIMITED
    max_creation_rates: Mapping[str, int] = _NONE
    """`max.connection.creation.rate` of listeners."""
    protected_listener: str | None = None
    """The listener between brokers, if there are others."""
    unauthenticated: int = UNLIMITED

    @property
    def max_unauthenticated(self) -> int:
        """How many connections may be open whose clients are not authenticated: at most half of all, at least one."""
        return max(1, min(self.unauthenticated, min(self.max_connections, self.max_descriptors) // 2))


class ConnectionQuotas:
    """Counts the open connections, and says which limit a new one would exceed."""

    def __init__(self, limits: Limits, windows: Windows) -> None:
        self.limits = limits
        self.total = 0
        self._windows = windows
        self._by_listener: Counter[str] = Counter()
        self._by_address: Counter[str] = Counter()
        self._rates: dict[str | None, SampledRate] = {}  # None: that of the broker

    def opened(self, listener: str) -> None:
        """A connection is accepted."""
        self.total += 1
        self._by_listener[listener] += 1

    def closed(self, listener: str) -> None:
        """A connection has ended."""
        self.total -= 1
        self._by_listener[listener] -= 1

    def opened_from(self, address: str) -> None:
        """The client of a connection has this address."""
        self._by_address[address] += 1

    def closed_from(self, address: str) -> None:
        """A connection of this address has ended."""
        self._by_address[address] -= 1
        if not self._by_address[address]:
            del self._by_address[address]

    def is_protected(self, listener: str) -> bool:
        """Whether a listener has room when the broker has none: another connection ends for each of its own."""
        return listener == self.limits.protected_listener

    def refuse_listener(self, listener: str) -> str | None:
        """The limit of a listener that a new connection would exceed, as a reason for the log."""
        most = self.limits.max_connections_of_listeners.get(listener, UNLIMITED)
        if self._by_listener[listener] < most:
            return None
        return f"listener.name.{listener.lower()}.max.connections={most} are open; raise it, or close some"

    def refuse_broker(self) -> str | None:
        """The limit of the broker that a new connection would exceed, as a reason for the log."""
        limits = self.limits
        if self.total >= limits.max_descriptors:
            kept = f"{self.total} are open; the other descriptors of this process are reserved for files"
            return f"{kept}; raise the limit on open files (`ulimit -Hn`), or close some connections"
        if self.total >= limits.max_connections:
            return f"max.connections={limits.max_connections} are open; raise it, or close some"
        return None

    def refuse_address(self, address: str) -> str | None:
        """The limit of an address that a new connection would exceed, as a reason for the log."""
        limits = self.limits
        most = limits.max_connections_of_addresses.get(address, limits.max_connections_per_ip)
        if self._by_address[address] < most:
            return None
        is_override = address in limits.max_connections_of_addresses
        setting = f"max.connections.per.ip{'.overrides' if is_override else ''}"
        return f"{setting}={most} are open from that address"

    def record(self, listener: str, now_ms: float) -> int:
        """Account for an accepted connection. Returns for how many ms the listener should accept no other one."""
        limits = self.limits
        broker_ms = 0
        if limits.max_creation_rate != UNLIMITED and not self.is_protected(listener):
            broker_ms = self._rate(None, limits.max_creation_rate).record(1, now_ms)
        own = limits.max_creation_rates.get(listener, UNLIMITED)
        own_ms = 0 if own == UNLIMITED else self._rate(listener, own).record(1, now_ms)
        return min(max(broker_ms, own_ms), self._windows.size_ms)

    def _rate(self, listener: str | None, bound: int) -> SampledRate:
        rate = self._rates.get(listener)
        if rate is None:
            rate = self._rates[listener] = SampledRate(self._windows, bound)
        if rate.bound != bound:
            rate.bound = bound
        return rate

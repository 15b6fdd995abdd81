"""How far a broker is from its start to its stop, and where it can be reached: what the listeners alone know."""

from __future__ import annotations

from dataclasses import dataclass, field

from headgate.gateway.runtime.clock import Clock


@dataclass(slots=True)
class ServingState:
    """Set by the broker that runs."""

    started_ms: int
    started_monotonic_ms: float
    endpoints: list[str] = field(default_factory=list)
    """NAME://host:port of each listener of Kafka's protocol, with its real port."""
    http_endpoints: list[str] = field(default_factory=list)
    """scheme://host:port of each HTTP listener, with its real port."""
    is_open: bool = False
    """Whether clients can connect, and find this broker where they look for brokers."""
    is_stopping: bool = False

    @classmethod
    def begin(cls, clock: Clock) -> ServingState:
        """The state of a start at this moment."""
        return cls(clock.now_ms(), clock.monotonic_ms())

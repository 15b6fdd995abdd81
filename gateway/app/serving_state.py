"""How far a broker is from its start to its stop, and where it can be reached: what the listeners alone know."""

from __future__ import annotations

from dataclasses import dataclass, field

from headgate.gateway.maintenance.log_loading import LoadingProgress
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
    console_endpoints: list[str] = field(default_factory=list)
    """http://host:port of the console, with its real port."""
    is_open: bool = False
    """Whether clients can connect, and find this broker where they look for brokers."""
    is_stopping: bool = False

    @classmethod
    def begin(cls, clock: Clock) -> ServingState:
        """The state of a start at this moment."""
        return cls(clock.now_ms(), clock.monotonic_ms())

    def describe(self, connections: int, opening: LoadingProgress | None, now_ms: float) -> tuple[str, bool]:
        """The state in one line, for the service manager, and whether it may change within seconds.

        `opening`: the logs that are being opened, if there are any; `now_ms` of the monotonic clock.
        """
        if not self.is_open:
            return "starting", True
        if opening is not None:
            seconds_left = opening.seconds_left(now_ms)
            left = f", {seconds_left:.0f} s left" if seconds_left else ""
            return f"serving; opening logs: {opening.opened} of {opening.partitions} partitions{left}", True
        return f"serving {connections} connections at {', '.join(self.endpoints)}", False

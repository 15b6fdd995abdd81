"""A request log over a clock that a test moves, and a client."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, field

from headgate.gateway.config import BrokerConfig
from headgate.gateway.request_log.request_log import RequestLog
from headgate.gateway.request_log.request_trace import ConnectionTrace
from headgate.gateway.runtime.tests.fake_scheduler import FakeScheduler, ManualClock

SLOW = "headgate.request.log.slow.ms"
ONE_OF = "headgate.request.log.one.of"


def frame(correlation_id: int, size: int) -> memoryview:
    """A request of this size with its size, of which a trace sees the correlation id."""
    return memoryview(struct.pack(">hhi", 0, 0, correlation_id).ljust(size - 4, b"\0"))


@dataclass
class FakeClient:
    """Bytes arrive when the test says so."""

    clock: ManualClock
    remote_host: str = "192.0.2.9"
    remote_port: int = 50_000
    listener: str = "PLAINTEXT"
    principal: str = "User:ann"
    software_name: str = "unknown"
    software_version: str = "unknown"
    client_id: str | None = "app"
    arrived_ms: float = field(default=0.0)

    @property
    def active_ms(self) -> float:
        return self.arrived_ms

    def receive(self) -> None:
        self.arrived_ms = self.clock.monotonic_ms()


class Tracing:
    """A log with these settings, and one traced connection."""

    def __init__(self, **settings: str) -> None:
        self.clock = ManualClock(0)
        self.scheduler = FakeScheduler(self.clock)
        overrides = {f"headgate.request.log.{name.replace('_', '.')}": value for name, value in settings.items()}
        self.config = BrokerConfig.load("", overrides)
        self.log = RequestLog(self.config, self.clock, self.scheduler)
        self.client = FakeClient(self.clock)
        trace = self.log.trace(self.client)
        assert trace is not None, "the log is on"
        self.trace: ConnectionTrace = trace

    def advance(self, milliseconds: float) -> None:
        self.clock.elapsed_ms += milliseconds
        self.scheduler.run_due()

    def after(self, milliseconds: float, step: Callable[[], None]) -> None:
        self.advance(milliseconds)
        step()

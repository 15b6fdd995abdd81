"""The clocks of brokers beside the one of this machine, as far as the protocol shows them.

Kafka's protocol has no clock. A broker shows its own where it sets a time: in a record of a topic with
`message.timestamp.type=LogAppendTime` (the canary), and in `/v1/broker.json` of Headgate.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from headgate.tools.doctor.check_result import NOTE, OK, WRONG, CheckResult

NOTICED_MS: Final = 2_000
TOO_MUCH_MS: Final = 30_000


class ClockReading(NamedTuple):
    """The clock of a broker, read between two times of this machine's clock."""

    node: int
    broker_ms: float
    before_ms: float
    after_ms: float

    @property
    def ahead_ms(self) -> float:
        """How far the broker's clock is ahead; 0 if it may be right."""
        if self.broker_ms > self.after_ms:
            return self.broker_ms - self.after_ms
        return min(self.broker_ms - self.before_ms, 0)


def check_clocks(readings: Iterable[ClockReading]) -> Iterator[CheckResult]:
    """One row for each broker: the reading with the shortest exchange."""
    best: dict[int, ClockReading] = {}
    for reading in readings:
        known = best.get(reading.node)
        if known is None or reading.after_ms - reading.before_ms < known.after_ms - known.before_ms:
            best[reading.node] = reading
    for node, reading in sorted(best.items()):
        yield _check(node, reading.ahead_ms)


def _check(node: int, ahead_ms: float) -> CheckResult:
    if abs(ahead_ms) < NOTICED_MS:
        return CheckResult("clock", OK, f"the clock of broker {node} agrees with this machine's")
    which = "ahead of" if ahead_ms > 0 else "behind"
    found = f"the clock of broker {node} is {_length(abs(ahead_ms))} {which} this machine's"
    cure = "set the clock of the one that is wrong by NTP (chronyd, systemd-timesyncd): retention, lag in seconds,"
    cure += " certificates and tokens go by it"
    return CheckResult("clock", WRONG if abs(ahead_ms) >= TOO_MUCH_MS else NOTE, found, cure)


def _length(length_ms: float) -> str:
    seconds = length_ms / 1000
    return f"{seconds:.1f} s" if seconds < 120 else f"{seconds / 60:.0f} minutes"

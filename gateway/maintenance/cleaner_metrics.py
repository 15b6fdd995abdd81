"""What compaction says of itself in numbers.

Gauges tell of the last look at all logs, of the last round, or of now; counters of all since the broker's start.
Source: the metrics of Apache Kafka's `LogCleaner` and `LogCleanerManager`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING

from headgate.gateway.runtime.clock import Clock
from headgate.gateway.runtime.metrics import Metrics
from headgate.storage.log.log import Log

if TYPE_CHECKING:
    from headgate.storage.cleanup.compaction.job import Collected, Rewritten
    from headgate.storage.cleanup.compaction.log_compaction import LogCompaction
    from headgate.storage.cleanup.compaction.planning import CleanableRatio


class CleanerMetrics:
    """The counters and gauges of a broker's compaction."""

    def __init__(self, metrics: Metrics, clock: Clock, uncleanable: Callable[[], Collection[Log]]) -> None:
        """`uncleanable`: the logs that are left alone, as they are damaged."""
        self._clock = clock
        self._looked_ms = clock.monotonic_ms()
        self._dirty_ratio = self._table_share = 0.0
        self._overdue_ms = self._round_ms = 0
        self._runs = metrics.counter("compaction.runs")
        self._failures = metrics.counter("compaction.failures")
        self._read_bytes = metrics.counter("compaction.read.bytes")
        self._written_bytes = metrics.counter("compaction.written.bytes")
        self._kept = metrics.counter("compaction.records.kept")
        self._dropped = metrics.counter("compaction.records.dropped")
        metrics.gauge("compaction.dirty.percent", lambda: 100 * self._dirty_ratio)
        metrics.gauge("compaction.delay.seconds", lambda: self._overdue_ms / 1000)
        metrics.gauge("compaction.last.look.seconds", lambda: (clock.monotonic_ms() - self._looked_ms) / 1000)
        metrics.gauge("compaction.last.run.seconds", lambda: self._round_ms / 1000)
        metrics.gauge("compaction.buffer.percent", lambda: 100 * self._table_share)
        metrics.gauge("compaction.uncleanable.partitions", lambda: len(uncleanable()))
        metrics.gauge("compaction.uncleanable.bytes", lambda: sum(log.size for log in uncleanable()))

    def looked(self, found: Iterable[CleanableRatio]) -> None:
        """All logs were looked at, and these may be compacted, now or once they are dirtier."""
        found = list(found)
        self._looked_ms = self._clock.monotonic_ms()
        self._dirty_ratio = max((dirt.ratio for dirt in found), default=0.0)
        self._overdue_ms = max((dirt.overdue_ms for dirt in found if dirt.dirty_bytes), default=0)

    def collected(self, collected: Collected) -> None:
        """The keys of a dirty part were read."""
        if collected.read_bytes:  # else segments are only merged
            self._table_share = collected.table_share
        self._read_bytes.add(collected.read_bytes)

    def rewritten(self, rewritten: Rewritten) -> None:
        """A group of segments was read, and written anew."""
        self._read_bytes.add(rewritten.read_bytes)
        self._written_bytes.add(rewritten.sizes[0])

    def ended(self, its: LogCompaction, after_ms: int) -> None:
        """A round is over, well or not: what it has taken up stays."""
        self._round_ms = after_ms
        self._kept.add(its.kept_records)
        self._dropped.add(its.records - its.kept_records)

    def succeeded(self) -> None:
        """A round did all that it was to do."""
        self._runs.add()

    def failed(self) -> None:
        """A compaction, or the look for one, did not."""
        self._failures.add()

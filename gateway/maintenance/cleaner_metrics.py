"""The metrics of compaction.

Gauges describe the last check of all logs, the last compaction, or now; counters count since the broker's start.
Source: the metrics of Apache Kafka's `LogCleaner` and `LogCleanerManager`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING

from headgate.gateway.runtime.clock import Clock
from headgate.gateway.runtime.metrics import Metrics
from headgate.storage.log.log import Log

if TYPE_CHECKING:
    from headgate.storage.cleanup.compaction.compaction_job import Collected, Rewritten
    from headgate.storage.cleanup.compaction.log_compaction import LogCompaction
    from headgate.storage.cleanup.compaction.planning import CleanableRatio


class CleanerMetrics:
    """The counters and gauges of a broker's compaction."""

    def __init__(self, metrics: Metrics, clock: Clock, uncleanable: Callable[[], Collection[Log]]) -> None:
        """`uncleanable`: the damaged logs, which are not compacted."""
        self._clock = clock
        self._checked_ms = clock.monotonic_ms()
        self._dirty_ratio = self._table_share = 0.0
        self._overdue_ms = self._run_ms = 0
        self._runs = metrics.counter("compaction.runs")
        self._failures = metrics.counter("compaction.failures")
        self._read_bytes = metrics.counter("compaction.read.bytes")
        self._written_bytes = metrics.counter("compaction.written.bytes")
        self._kept = metrics.counter("compaction.records.kept")
        self._dropped = metrics.counter("compaction.records.dropped")
        metrics.gauge("compaction.dirty.percent", lambda: 100 * self._dirty_ratio)
        metrics.gauge("compaction.delay.seconds", lambda: self._overdue_ms / 1000)
        metrics.gauge("compaction.last.look.seconds", lambda: (clock.monotonic_ms() - self._checked_ms) / 1000)
        metrics.gauge("compaction.last.run.seconds", lambda: self._run_ms / 1000)
        metrics.gauge("compaction.buffer.percent", lambda: 100 * self._table_share)
        metrics.gauge("compaction.uncleanable.partitions", lambda: len(uncleanable()))
        metrics.gauge("compaction.uncleanable.bytes", lambda: sum(log.segments.size for log in uncleanable()))

    def note_check(self, found: Iterable[CleanableRatio]) -> None:
        """Note a check of all logs. `found`: the logs that may be compacted, now or once they are dirtier."""
        found = list(found)
        self._checked_ms = self._clock.monotonic_ms()
        self._dirty_ratio = max((cleanable.ratio for cleanable in found), default=0.0)
        self._overdue_ms = max((cleanable.overdue_ms for cleanable in found if cleanable.dirty_bytes), default=0)

    def collected(self, collected: Collected) -> None:
        """Note collected keys."""
        if collected.read_bytes:  # otherwise this compaction only merges segments
            self._table_share = collected.table_share
        self._read_bytes.add(collected.read_bytes)

    def rewritten(self, rewritten: Rewritten) -> None:
        self._read_bytes.add(rewritten.read_bytes)
        self._written_bytes.add(rewritten.sizes[0])

    def ended(self, compaction: LogCompaction, after_ms: int) -> None:
        """Note the end of a compaction, successful or not; the segments that it swapped in stay."""
        self._run_ms = after_ms
        self._kept.add(compaction.kept_records)
        self._dropped.add(compaction.records - compaction.kept_records)

    def succeeded(self) -> None:
        self._runs.add()

    def failed(self) -> None:
        """Count a failed compaction, or a failed check of a log."""
        self._failures.add()

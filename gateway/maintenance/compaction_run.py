"""One compaction of one log, from its first request to the line in the broker's log.

A compaction collects the keys of the dirty part; then it rewrites each group of segments as one, and swaps the new
segment in (`storage/cleanup/compaction/log_compaction.py`). A worker (`cleaner_process`) collects and rewrites, a
thread does the work that waits for the disk, the loop does the rest. Between two steps the log may be deleted, cut or
reconfigured: then the compaction ends, and the segments that were swapped in stay.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from headgate.gateway.config import BrokerConfig
from headgate.gateway.maintenance.cleaner_metrics import CleanerMetrics
from headgate.gateway.replication.replica import Replica
from headgate.gateway.runtime.clock import Clock
from headgate.gateway.runtime.scheduler import Scheduler, StoppedError
from headgate.gateway.runtime.tasks import Task
from headgate.protocol.errors import without_frames
from headgate.storage.cleanup.compaction import log_compaction
from headgate.storage.cleanup.compaction.log_compaction import CompactionAborted, CompactionStep
from headgate.storage.cleanup.compaction.planning import CleanableRatio
from headgate.storage.log.log import Log

if TYPE_CHECKING:
    from headgate.gateway.maintenance.cleaner_process import Worker

logger = logging.getLogger("headgate.cleaning")

MIN_READ_BYTES = 64 * 1024


@dataclass(frozen=True)
class CleanerThread:
    """A cleaner thread: its worker, and its share of the limits of all cleaner threads."""

    worker: Worker
    config: BrokerConfig
    clock: Clock
    scheduler: Scheduler
    metrics: CleanerMetrics

    @property
    def bytes_per_second(self) -> float:
        """The bytes that the thread may read and write in a second."""
        return max(1.0, self.config.log_cleaner_io_max_bytes_per_second / max(1, self.config.log_cleaner_threads))

    @property
    def table_bytes(self) -> int:
        """The bytes that the thread may use for keys."""
        share = self.config.log_cleaner_dedupe_buffer_size / max(1, self.config.log_cleaner_threads)
        return int(share * self.config.log_cleaner_io_buffer_load_factor)

    @property
    def read_bytes(self) -> int:
        """The bytes of one read."""
        return max(MIN_READ_BYTES, self.config.log_cleaner_io_buffer_size // max(1, self.config.log_cleaner_threads))


def compact(
    replica: Replica,
    cleanable: CleanableRatio,
    thread: CleanerThread,
    is_current: Callable[[Log], bool],
    failed: Callable[[Replica, Exception], None],
) -> Task[bool]:
    """Compact a log. Returns whether the compaction is complete.

    is_current(log)              whether this is still the log of a replica, and still compacted
    failed(replica, error)       called for a failure that is not an abortion
    """
    log, began_ms = replica.log, thread.clock.now_ms()
    compaction = log_compaction.LogCompaction(
        log,
        cleanable,
        began_ms,
        table_bytes=thread.table_bytes,
        read_bytes=thread.read_bytes,
        is_current=partial(is_current, log),
    )
    failure = None
    try:
        yield from _carry_out(compaction.steps(), thread)
    except Exception as error:  # noqa: BLE001  logged below, unless the log or the broker has gone
        failure = without_frames(error)
    run_ms = thread.clock.now_ms() - began_ms
    thread.metrics.ended(compaction, run_ms)
    if failure is None:
        thread.metrics.succeeded()
        _log_result(log, compaction, run_ms)
    elif not isinstance(failure, (StoppedError, CompactionAborted)) and is_current(log):
        failed(replica, failure)
    return failure is None


def _carry_out(steps: Generator[CompactionStep, Any, None], thread: CleanerThread) -> Task[None]:
    """Run the steps of a compaction, each with the answer to the request before it. Raises what they raise."""
    answer: Any = None
    while True:
        try:
            request = log_compaction.advance(steps, answer)
        except StopIteration:
            return
        try:
            if isinstance(request, log_compaction.Collect):
                answer = yield partial(thread.worker.collect, request.job, thread.bytes_per_second)
                thread.metrics.collected(answer)
            elif isinstance(request, log_compaction.Rewrite):
                answer = yield partial(thread.worker.rewrite, request.bases, thread.bytes_per_second)
                thread.metrics.rewritten(answer)
            else:
                answer = yield partial(thread.scheduler.in_thread, request.work)
        except Exception as error:  # noqa: BLE001  raised in the compaction
            answer = error


def _log_result(log: Log, compaction: log_compaction.LogCompaction, run_ms: int) -> None:
    logger.info(
        "%s-%d is compacted up to offset %d: kept %d of %d records, %.1f of %.1f MB, in %.1f s",
        *log.key, log.segments.compacted.offset, compaction.kept_records, compaction.records, log.segments.size / 1e6,
        compaction.before_bytes / 1e6, max(1, run_ms) / 1000,
    )  # fmt: skip
    if compaction.unreadable_batches:
        logger.warning(
            "%s-%d has %d batches with unreadable records; compaction leaves these batches unchanged",
            *log.key, compaction.unreadable_batches,
        )  # fmt: skip

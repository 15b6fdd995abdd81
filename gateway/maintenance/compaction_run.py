"""Drives the compaction of one log on the loop, step by step.

A compaction collects the keys of the dirty part; then it rewrites each group of segments as one, and swaps the new
segment in (`storage/cleanup/compaction/log_compaction.py`). A worker (`cleaner_process`) collects and rewrites, a
thread does the work that waits for the disk, the loop does the rest. Between two steps the log may be deleted, cut or
reconfigured: then the compaction ends, and the segments that were swapped in stay.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headgate.gateway.config import BrokerConfig
from headgate.gateway.maintenance.cleaner_metrics import CleanerMetrics
from headgate.gateway.replication.replica import Replica
from headgate.gateway.runtime.clock import Clock
from headgate.gateway.runtime.scheduler import Scheduler, StoppedError
from headgate.protocol.errors import KafkaError, without_frames
from headgate.storage.cleanup.compaction import log_compaction
from headgate.storage.cleanup.compaction.compaction_job import Collected, Rewritten
from headgate.storage.cleanup.compaction.log_compaction import CompactionAborted
from headgate.storage.cleanup.compaction.planning import CleanableRatio
from headgate.storage.errors import StorageError
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


class CompactionRun:
    """One compaction of one log: has each request of `LogCompaction` done, and continues with the answer.

    is_current(replica, log)     whether this is still the log of the replica, and still compacted
    failed(replica, error)       called for a failure that is not an abortion
    ended(run, is_done)          called at the end
    """

    def __init__(
        self,
        partition: Replica,
        cleanable: CleanableRatio,
        thread: CleanerThread,
        is_current: Callable[[Replica, Log], bool],
        failed: Callable[[Replica, BaseException], None],
        ended: Callable[[CompactionRun, bool], None],
    ) -> None:
        self._partition = partition
        self._log = partition.log
        self._thread = thread
        self._metrics = thread.metrics
        self._is_current_log, self._failed, self._ended = is_current, failed, ended
        self.worker = thread.worker
        self.key = partition.topic, partition.index
        self._begun_ms = thread.clock.now_ms()
        self._compaction = log_compaction.LogCompaction(
            self._log,
            cleanable,
            self._begun_ms,
            table_bytes=thread.table_bytes,
            read_bytes=thread.read_bytes,
            is_current=self._is_current,
        )
        self._steps = self._compaction.steps()

    def begin(self) -> None:
        """Begin with the first step."""
        self._advance(None)

    def _is_current(self) -> bool:
        return self._is_current_log(self._partition, self._log)

    def _advance(self, answer: object) -> None:
        if isinstance(answer, Collected):
            self._metrics.collected(answer)
        elif isinstance(answer, Rewritten):
            self._metrics.rewritten(answer)
        try:
            request = log_compaction.advance(self._steps, answer)
        except StopIteration:
            self._end(None)
        except (OSError, KafkaError, StorageError, CompactionAborted) as error:
            self._end(without_frames(error))
        except BaseException as error:
            if error is not answer:
                raise
            self._end(without_frames(error))
        else:
            rate = self._thread.bytes_per_second
            if isinstance(request, log_compaction.Collect):
                self.worker.collect(request.job, rate, self._advance)
            elif isinstance(request, log_compaction.Rewrite):
                self.worker.rewrite(request.bases, rate, self._advance)
            else:
                self._thread.scheduler.in_thread(request.work, self._advance)

    def _end(self, error: BaseException | None) -> None:
        self._metrics.ended(self._compaction, self._thread.clock.now_ms() - self._begun_ms)
        if error is None:
            self._metrics.succeeded()
            self._log_result()
        elif not isinstance(error, (StoppedError, CompactionAborted)) and self._is_current():
            self._failed(self._partition, error)
        self._ended(self, error is None)

    def _log_result(self) -> None:
        compaction, segments = self._compaction, self._log.segments
        seconds = max(1, self._thread.clock.now_ms() - self._begun_ms) / 1000
        logger.info(
            "%s-%d is compacted up to offset %d: kept %d of %d records, %.1f of %.1f MB, in %.1f s",
            *self.key, segments.compacted.offset, compaction.kept_records, compaction.records, segments.size / 1e6,
            compaction.before_bytes / 1e6, seconds,
        )  # fmt: skip
        if compaction.unreadable_batches:
            logger.warning(
                "%s-%d has %d batches with unreadable records; compaction leaves these batches unchanged",
                *self.key, compaction.unreadable_batches,
            )  # fmt: skip

"""Drives the compaction of one log on the loop, step by step.

A compaction collects the keys of the dirty part; then it rewrites each group of segments as one, and swaps the new
segment in (`storage/cleanup/compaction/log_compaction.py`). A worker (`cleaner_process`) collects and rewrites, a
thread does the work that waits for the disk, the loop does the rest. Between two steps the log may be deleted, cut or
reconfigured: then the compaction ends, and the segments that were swapped in stay.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from headgate.gateway.replication.replica import Replica
from headgate.gateway.runtime.scheduler import StoppedError
from headgate.protocol.errors import KafkaError, without_frames
from headgate.storage.cleanup.compaction import log_compaction
from headgate.storage.cleanup.compaction.compaction_job import Collected, Rewritten
from headgate.storage.cleanup.compaction.log_compaction import CompactionAborted
from headgate.storage.cleanup.compaction.planning import CleanableRatio
from headgate.storage.errors import StorageError

if TYPE_CHECKING:
    from headgate.gateway.maintenance.cleaner_process import Worker
    from headgate.gateway.maintenance.log_cleaner import LogCleaner

logger = logging.getLogger("headgate.cleaning")


class CompactionRun:
    """One compaction of one log: has each request of `LogCompaction` done, and continues with the answer."""

    def __init__(self, cleaning: LogCleaner, partition: Replica, cleanable: CleanableRatio, worker: Worker) -> None:
        self._cleaning = cleaning
        self._partition = partition
        self._log = partition.log
        self.worker = worker
        self.key = partition.topic, partition.index
        self._begun_ms = cleaning.now_ms
        self._compaction = log_compaction.LogCompaction(
            self._log,
            cleanable,
            self._begun_ms,
            table_bytes=cleaning.table_bytes,
            read_bytes=cleaning.read_bytes,
            is_current=self._is_current,
        )
        self._steps = self._compaction.steps()

    def begin(self) -> None:
        """Begin with the first step."""
        self._advance(None)

    def _is_current(self) -> bool:
        return self._cleaning.is_current(self._partition, self._log)

    def _advance(self, answer: object) -> None:
        if isinstance(answer, Collected):
            self._cleaning.metrics.collected(answer)
        elif isinstance(answer, Rewritten):
            self._cleaning.metrics.rewritten(answer)
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
            rate = self._cleaning.share_of_bytes_per_second
            if isinstance(request, log_compaction.Collect):
                self.worker.collect(request.job, rate, self._advance)
            elif isinstance(request, log_compaction.Rewrite):
                self.worker.rewrite(request.bases, rate, self._advance)
            else:
                self._cleaning.in_thread(request.work, self._advance)

    def _end(self, error: BaseException | None) -> None:
        self._cleaning.metrics.ended(self._compaction, self._cleaning.now_ms - self._begun_ms)
        if error is None:
            self._cleaning.metrics.succeeded()
            self._log_result()
        elif not isinstance(error, (StoppedError, CompactionAborted)) and self._is_current():
            self._cleaning.failed(self._partition, error)
        self._cleaning.ended(self, is_done=error is None)

    def _log_result(self) -> None:
        cleaning, compaction, segments = self._cleaning, self._compaction, self._log.segments
        seconds = max(1, cleaning.now_ms - self._begun_ms) / 1000
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

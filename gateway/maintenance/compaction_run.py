"""How the compaction of one log goes: on the loop, a step at a time.

A round is: collect the keys of the dirty part, and for each group of segments write them anew as one, have it win
over the old ones, and take it up (`storage/cleanup/compaction/log_compaction.py`). The first two are done by a worker
(`cleaner_process`), what waits for the disk by a thread, the rest here. Between any two the log may have been
deleted, cut or configured otherwise: then the round ends, and what was taken up by then stays.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from headgate.gateway.replication.replica import Replica
from headgate.gateway.runtime.scheduler import StoppedError
from headgate.protocol.errors import KafkaError
from headgate.storage.cleanup.compaction import log_compaction
from headgate.storage.cleanup.compaction.job import Collected, Rewritten
from headgate.storage.cleanup.compaction.log_compaction import CompactionAborted
from headgate.storage.cleanup.compaction.planning import CleanableRatio
from headgate.storage.errors import StorageError

if TYPE_CHECKING:
    from headgate.gateway.maintenance.cleaner_process import Worker
    from headgate.gateway.maintenance.log_cleaner import LogCleaner

logger = logging.getLogger("headgate.cleaning")


class CompactionRun:
    """One compaction of one log: has what `rounds.Round` asks for done elsewhere, and goes on with the answer."""

    def __init__(self, cleaning: LogCleaner, partition: Replica, dirt: CleanableRatio, worker: Worker) -> None:
        self._cleaning = cleaning
        self._partition = partition
        self._log = partition.log
        self.worker = worker
        self.key = partition.topic, partition.index
        self._begun_ms = cleaning.now_ms
        self._round = log_compaction.LogCompaction(
            self._log,
            dirt,
            self._begun_ms,
            table_bytes=cleaning.table_bytes,
            read_bytes=cleaning.read_bytes,
            is_current=self._is_current,
        )
        self._steps = self._round.steps()

    def begin(self) -> None:
        """Collect the keys."""
        self._go_on(None)

    def _is_current(self) -> bool:
        return self._cleaning.is_current(self._partition, self._log)

    def _go_on(self, answer: object) -> None:
        if isinstance(answer, Collected):
            self._cleaning.metrics.collected(answer)
        elif isinstance(answer, Rewritten):
            self._cleaning.metrics.rewritten(answer)
        try:
            request = log_compaction.advance(self._steps, answer)
        except StopIteration:
            self._end(None)
        except (OSError, KafkaError, StorageError, CompactionAborted) as error:
            self._end(error)
        except BaseException as error:
            if error is not answer:
                raise
            self._end(error)
        else:
            rate = self._cleaning.share_of_bytes_per_second
            if isinstance(request, log_compaction.Collect):
                self.worker.collect(request.job, rate, self._go_on)
            elif isinstance(request, log_compaction.Rewrite):
                self.worker.rewrite(request.bases, rate, self._go_on)
            else:
                self._cleaning.in_thread(request.work, self._go_on)

    def _end(self, error: BaseException | None) -> None:
        self._cleaning.metrics.ended(self._round, self._cleaning.now_ms - self._begun_ms)
        if error is None:
            self._cleaning.metrics.succeeded()
            self._tell()
        elif not isinstance(error, (StoppedError, CompactionAborted)) and self._is_current():
            self._cleaning.failed(self._partition, error)
        self._cleaning.ended(self, is_done=error is None)

    def _tell(self) -> None:
        cleaning, its, after_bytes = self._cleaning, self._round, self._log.size
        seconds = max(1, cleaning.now_ms - self._begun_ms) / 1000
        logger.info(
            "%s-%d is compacted up to offset %d: %d of %d records are left, %.1f of %.1f MB, after %.1f s",
            *self.key, self._log.compacted.offset, its.kept_records, its.records, after_bytes / 1e6,
            its.before_bytes / 1e6, seconds,
        )  # fmt: skip
        if its.unreadable_batches:
            logger.warning(
                "%s-%d has %d batches with records that cannot be read; compaction leaves them as they are",
                *self.key, its.unreadable_batches,
            )  # fmt: skip

"""Which log is compacted next.

The cleaner looks at the logs of compacted topics every `log.cleaner.backoff.ms`, a few hundred a turn, and compacts
the dirtiest that is due (`compaction_run`); then the next. If the look needs something of a file that is not in memory,
a thread reads it: for one log of a disk after another, and the other logs do not wait.

A full or failing disk is tried again after a while, ever longer. A damaged log is logged once and left alone until its
disk has recovered from a failure, which may have made a sound log look damaged, or until the broker starts again.

What is compacted, and how, is said in `storage.cleanup.compaction`; here is only which log is next.

Source: Apache Kafka's `LogCleaner` and `LogCleanerManager`.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headgate.gateway.config import BrokerConfig
from headgate.gateway.maintenance.cleaner_metrics import CleanerMetrics
from headgate.gateway.replication.replica import Replica
from headgate.gateway.replication.replica_manager import ReplicaManager
from headgate.gateway.runtime.clock import Clock
from headgate.gateway.runtime.metrics import Metrics
from headgate.gateway.runtime.scheduler import Scheduler
from headgate.protocol.errors import KafkaError
from headgate.storage.disk.pool import Pool
from headgate.storage.errors import StorageError
from headgate.storage.files import FilePosition, WouldBlock, parent, planned
from headgate.storage.log.log import Log

if TYPE_CHECKING:
    from headgate.gateway.maintenance.cleaner_process import Worker
    from headgate.gateway.maintenance.compaction_run import CompactionRun
    from headgate.storage.cleanup.compaction.planning import CleanableRatio

logger = logging.getLogger("headgate.cleaning")

LOGS_A_TURN = 500
MOST_BACKOFF_MS = 1_000
LEAST_READ_BYTES = 64 * 1024
FIRST_DELAY_MS, LONGEST_DELAY_MS = 15_000, 600_000
Key = tuple[str, int]


@dataclass(slots=True)
class _Cleaning:
    """What is known of the compaction of one log: running, delayed after a failure, or given up as damaged."""

    log: Log
    run: CompactionRun | None = None
    is_damaged: bool = False
    retry_ms: float = 0.0
    """Not before this moment."""
    delay_ms: float = FIRST_DELAY_MS / 2
    """The last delay; the next one is twice as long."""

    def keeps_out(self, log: Log, now_ms: float) -> bool:
        """Whether no compaction of this log may begin now."""
        return self.run is not None or (self.is_damaged and self.log is log) or now_ms < self.retry_ms


class LogCleaner:
    """The compaction of all logs of a broker."""

    def __init__(
        self,
        partitions: ReplicaManager,
        config: BrokerConfig,
        clock: Clock,
        scheduler: Scheduler,
        metrics: Metrics,
        make_worker: Callable[[Scheduler, Pool], Worker] | None = None,
    ) -> None:
        self._partitions = partitions
        self._config = config
        self._clock = clock
        self._scheduler = scheduler
        self._make_worker = make_worker
        self._cleanings: dict[Key, _Cleaning] = {}  # only of logs that are compacted now, or could not be
        self._idle: list[Worker] = []
        self._is_looking, self._looked_ms = False, 0.0
        self._cold: dict[str, dict[Key, Replica]] = {}  # by log directory: of the first of them a thread reads
        self.is_stopped = False
        self.metrics = CleanerMetrics(metrics, clock, self._left_alone)

    def _left_alone(self) -> list[Log]:
        return [its.log for its in self._cleanings.values() if its.is_damaged and not its.log.is_retired]

    def _runs(self) -> list[CompactionRun]:
        return [its.run for its in self._cleanings.values() if its.run is not None]

    @property
    def running(self) -> Sequence[Key]:
        """Topic and partition of what is being compacted."""
        return tuple(run.key for run in self._runs())

    def start(self) -> None:
        """Look for work every `log.cleaner.backoff.ms`, unless `log.cleaner.enable` is false."""
        if self._config.log_cleaner_enable:
            self._looked_ms = self._clock.monotonic_ms()
            self._look_later()

    def stop(self) -> None:
        """Break everything off; the next start removes what was not taken up."""
        self.is_stopped = True
        for worker in [*self._idle, *(run.worker for run in self._runs())]:
            worker.close()
        self._idle.clear()

    def _look_later(self) -> None:
        """Look often whether the backoff is over, as it may be changed at any time."""

        def look() -> None:
            self._look_later()
            if self._clock.monotonic_ms() - self._looked_ms >= self._config.log_cleaner_backoff_ms:
                self.look()

        self._scheduler.call_after(min(max(1, self._config.log_cleaner_backoff_ms), MOST_BACKOFF_MS), look)

    def look(self) -> None:
        """Look at all logs, over some turns, and begin with the dirtiest that is due, if a thread is free."""
        has_room = len(self._runs()) < self._config.log_cleaner_threads
        if not self._is_looking and has_room and not self.is_stopped:
            self._is_looking, self._looked_ms = True, self._clock.monotonic_ms()
            self._forget_deleted()
            self._look_on(deque(self._partitions), [])

    def disk_recovered(self, directory: str) -> None:
        """Try the logs in a directory again: the disk may have been at fault."""
        self._forget_failures(lambda log: parent(log.directory) == directory)

    def _forget_deleted(self) -> None:
        """Forget failures of deleted logs: a new log of the name is another one."""
        self._forget_failures(lambda log: log.is_retired)

    def _forget_failures(self, is_meant: Callable[[Log], bool]) -> None:
        for key, its in list(self._cleanings.items()):
            if is_meant(its.log):
                self._cleanings[key] = _Cleaning(its.log, its.run)
                self._drop_idle(key)

    def _drop_idle(self, key: Key) -> None:
        """Drop the record of a log that neither runs nor has failed."""
        its = self._cleanings[key]
        if its.run is None and not its.is_damaged and not its.retry_ms:
            del self._cleanings[key]

    @property
    def _is_over(self) -> bool:
        return self.is_stopped or self._scheduler.is_over

    def _look_on(self, left: deque[Replica], found: list[tuple[Replica, CleanableRatio]]) -> None:
        if self._is_over:
            return
        for _ in range(min(LOGS_A_TURN, len(left))):
            partition = left.popleft()
            if self._is_cold(partition):
                continue
            try:
                dirt = self._assess(partition)
            except WouldBlock as cold:
                self._leave(partition, cold)
                continue
            if dirt is not None:
                found.append((partition, dirt))
        if left:
            self._scheduler.call_after(0, lambda: self._look_on(left, found))
            return
        self._is_looking = False
        self.metrics.looked(dirt for _, dirt in found)
        from headgate.storage.cleanup.compaction import (
            planning,
        )  # here and below: most brokers start long before they compact anything

        chosen = planning.dirtiest((its.log.config.min_cleanable_dirty_ratio, dirt) for its, dirt in found)
        if chosen is not None and not self.is_stopped:
            self._begin(*found[chosen])
            self.look()
        elif not self._runs():  # a process takes memory, and is quickly made
            while self._idle:
                self._idle.pop().close()

    def _is_cold(self, partition: Replica) -> bool:
        """Whether a log is left to a later look, as it waits for its disk."""
        return any((partition.topic, partition.index) in waiting for waiting in self._cold.values())

    def _leave(self, partition: Replica, cold: WouldBlock) -> None:
        """Leave a log to a later look, as a thread has to read something of it."""
        is_first = cold.disk not in self._cold
        self._cold.setdefault(cold.disk, {})[partition.topic, partition.index] = partition
        if is_first:
            self._warm_log(cold.disk, cold)
        else:
            cold.release()

    def _warm_log(self, disk: str, cold: WouldBlock) -> None:
        """Have a thread read for the first log that waits for a disk."""
        cold.__traceback__ = None

        def brought(result: object) -> None:
            cold.release()
            self._go_on(disk, cold.place, result)

        self._scheduler.reads(disk).in_thread(cold.warm, brought)

    def _go_on(self, disk: str, brought: FilePosition | None = None, result: object = None) -> None:
        """See what else the first log lacks that waits for a disk; once none waits, look at all logs again."""
        if self._is_over:
            return
        waiting = self._cold[disk]
        key, partition = next(iter(waiting.items()))
        if isinstance(result, Exception):
            if not partition.log.is_retired:
                self.failed(partition, result)
        else:
            try:
                self._assess(partition, brought)
            except WouldBlock as cold:
                self._warm_log(disk, cold)
                return
        del waiting[key]
        if waiting:
            self._scheduler.call_after(0.0, lambda: self._go_on(disk))
        else:
            del self._cold[disk]
            self.look()

    def _assess(self, partition: Replica, brought: FilePosition | None = None) -> CleanableRatio | None:
        """The cleanable ratio of a log; None if the log is not to be compacted, or not now.

        Raises WouldBlock, unless what is missing was `brought` and has left the memory again: that would have no end.
        """
        log = partition.log
        if (
            not log.config.is_compacted
            or log.sync_error is not None
            or not log.compacted.offset < log.active_base_offset > log.start_offset
        ):
            return None
        key = partition.topic, partition.index
        its = self._cleanings.get(key)
        if log.is_retired or (its is not None and its.keeps_out(log, self._clock.monotonic_ms())):
            return None
        try:
            return self._cleanable(partition, brought)
        except (OSError, KafkaError, StorageError) as error:
            self.failed(partition, error)
            return None

    def _cleanable(self, partition: Replica, brought: FilePosition | None) -> CleanableRatio:
        from headgate.storage.cleanup.compaction.job import assess

        log, now_ms, up_to = partition.log, self._clock.now_ms(), partition.high_watermark
        return planned(lambda blocking: assess(log, now_ms, up_to, blocking), (brought,))

    def _begin(self, partition: Replica, dirt: CleanableRatio) -> None:
        from headgate.gateway.maintenance.compaction_run import CompactionRun

        worker = self._idle.pop() if self._idle else self._new_worker(partition.log.pool)
        begun = self._cleaning_of(partition).run = CompactionRun(self, partition, dirt, worker)
        begun.begin()

    def _cleaning_of(self, partition: Replica) -> _Cleaning:
        """What is known of the present log of a partition."""
        key = partition.topic, partition.index
        its = self._cleanings.get(key)
        if its is None or its.log is not partition.log:
            its = self._cleanings[key] = _Cleaning(partition.log, None if its is None else its.run)
        return its

    def _new_worker(self, pool: Pool) -> Worker:
        if self._make_worker is None:
            from headgate.gateway.maintenance.cleaner_process import best_worker

            self._make_worker = best_worker
        return self._make_worker(self._scheduler, pool)

    # For a run

    @property
    def now_ms(self) -> int:
        """The time of the clock."""
        return self._clock.now_ms()

    @property
    def share_of_bytes_per_second(self) -> float:
        """Bytes that one of the threads may read and write in a second."""
        return max(1.0, self._config.log_cleaner_io_max_bytes_per_second / max(1, self._config.log_cleaner_threads))

    @property
    def table_bytes(self) -> int:
        """Bytes that one of the threads may use for keys."""
        config = self._config
        share = config.log_cleaner_dedupe_buffer_size / max(1, config.log_cleaner_threads)
        return int(share * config.log_cleaner_io_buffer_load_factor)

    @property
    def read_bytes(self) -> int:
        """Bytes that are read at a time."""
        share = self._config.log_cleaner_io_buffer_size // max(1, self._config.log_cleaner_threads)
        return max(LEAST_READ_BYTES, share)

    def is_current(self, partition: Replica, log: Log) -> bool:
        """Whether this is still the log of the partition, and a compacted one."""
        try:
            found = self._partitions.get(partition.topic, partition.index)
        except KafkaError:
            return False
        return found.log is log and log.config.is_compacted and not self.is_stopped

    def in_thread(self, work: Callable[[], None], done: Callable[[object], None]) -> None:
        """Do what waits for the disk."""
        self._scheduler.in_thread(work, done)

    def failed(self, partition: Replica, error: BaseException) -> None:
        """A compaction, or the look for one, has failed."""
        from headgate.storage.cleanup.compaction.job import Damaged

        key, its = (partition.topic, partition.index), self._cleaning_of(partition)
        self.metrics.failed()
        if isinstance(error, Damaged):
            its.is_damaged = True
            logger.error("%s-%d is not compacted any more, as it is damaged: %s", *key, error)
            return
        its.delay_ms = min(2 * its.delay_ms, LONGEST_DELAY_MS)
        its.retry_ms = self._clock.monotonic_ms() + its.delay_ms
        message = "%s-%d cannot be compacted, which is tried again in %d s: %s"
        logger.error(message, *key, its.delay_ms / 1000, error)

    def ended(self, finished: CompactionRun, *, is_done: bool) -> None:
        """A run is over: its worker is free, and the next may begin."""
        key = finished.key
        its = self._cleanings.get(key)
        if its is not None and its.run is finished:
            its.run = None
            if is_done:
                its.retry_ms, its.delay_ms = 0.0, FIRST_DELAY_MS / 2
            self._drop_idle(key)
        if self.is_stopped:
            finished.worker.close()
        else:
            self._idle.append(finished.worker)
            self._scheduler.call_after(0, self.look)

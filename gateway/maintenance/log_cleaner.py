"""The log cleaner: decides which log is compacted next.

Every `log.cleaner.backoff.ms` the cleaner looks at the logs of compacted topics, a few hundred in each turn of the
loop, and compacts the dirtiest due log (`compaction_run`); then the next. If the look needs bytes that are not in
memory, a thread reads them, for one log of each disk at a time; the other logs do not wait.

After an error of the disk, such as a full disk, the cleaner tries the log again after growing delays. A damaged log is
logged once, and not compacted until its disk has recovered from a failure, which can make a valid log look damaged, or
until the broker restarts.

`storage.cleanup.compaction` has the compaction itself. Source: Apache Kafka's `LogCleaner` and `LogCleanerManager`.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from headgate.gateway.config import BrokerConfig
from headgate.gateway.maintenance.cleaner_metrics import CleanerMetrics
from headgate.gateway.replication.replica import Replica
from headgate.gateway.replication.replica_manager import ReplicaManager
from headgate.gateway.runtime.backoff import Backoff
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

LOGS_PER_TURN = 500
MAX_BACKOFF_MS = 1_000
FIRST_DELAY_MS, MAX_DELAY_MS = 15_000, 600_000
Key = tuple[str, int]


@dataclass(slots=True)
class _Cleaning:
    """The state of the compaction of one log: running, delayed after a failure, or stopped as damaged."""

    log: Log
    run: CompactionRun | None = None
    is_damaged: bool = False
    backoff: Backoff = field(default_factory=lambda: Backoff(FIRST_DELAY_MS, MAX_DELAY_MS))

    def is_blocked(self, log: Log, now_ms: float) -> bool:
        """Whether no compaction of this log may begin now."""
        return self.run is not None or (self.is_damaged and self.log is log) or now_ms < self.backoff.due_ms


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
        self._cleanings: dict[Key, _Cleaning] = {}  # only logs that are being compacted, or whose compaction failed
        self._idle: list[Worker] = []
        self._is_looking, self._looked_ms = False, 0.0
        self._cold: dict[str, dict[Key, Replica]] = {}  # by log directory; a thread reads for the first of each
        self.is_stopped = False
        self.metrics = CleanerMetrics(metrics, clock, self._uncleanable)

    def _uncleanable(self) -> list[Log]:
        return [
            cleaning.log for cleaning in self._cleanings.values() if cleaning.is_damaged and not cleaning.log.is_retired
        ]

    def _runs(self) -> list[CompactionRun]:
        return [cleaning.run for cleaning in self._cleanings.values() if cleaning.run is not None]

    @property
    def running(self) -> Sequence[Key]:
        """Topic and partition of each log that is being compacted."""
        return tuple(run.key for run in self._runs())

    def start(self) -> None:
        """Look for work every `log.cleaner.backoff.ms`, unless `log.cleaner.enable` is false."""
        if self._config.log_cleaner_enable:
            self._looked_ms = self._clock.monotonic_ms()
            self._look_later()

    def stop(self) -> None:
        """Abort everything. The next start removes new segments that were not swapped in."""
        self.is_stopped = True
        for worker in [*self._idle, *(run.worker for run in self._runs())]:
            worker.close()
        self._idle.clear()

    def _look_later(self) -> None:
        """Check often whether the backoff is over, as the setting may change at any time."""

        def look() -> None:
            self._look_later()
            if self._clock.monotonic_ms() - self._looked_ms >= self._config.log_cleaner_backoff_ms:
                self.look()

        self._scheduler.call_after(min(max(1, self._config.log_cleaner_backoff_ms), MAX_BACKOFF_MS), look)

    def look(self) -> None:
        """Look at all logs, over some turns of the loop, and compact the dirtiest due one, if a thread is free."""
        has_room = len(self._runs()) < self._config.log_cleaner_threads
        if not self._is_looking and has_room and not self.is_stopped:
            self._is_looking, self._looked_ms = True, self._clock.monotonic_ms()
            self._forget_deleted()
            self._look_on(deque(self._partitions), [])

    def disk_recovered(self, directory: str) -> None:
        """Try the logs in a directory again: the disk may have been at fault."""
        self._forget_failures(lambda log: parent(log.directory) == directory)

    def _forget_deleted(self) -> None:
        """Forget failures of deleted logs, as a new log of the same name is another log."""
        self._forget_failures(lambda log: log.is_retired)

    def _forget_failures(self, is_meant: Callable[[Log], bool]) -> None:
        for key, cleaning in list(self._cleanings.items()):
            if is_meant(cleaning.log):
                self._cleanings[key] = _Cleaning(cleaning.log, cleaning.run)
                self._drop_idle(key)

    def _drop_idle(self, key: Key) -> None:
        """Drop the state of a log that neither runs nor has failed."""
        cleaning = self._cleanings[key]
        if cleaning.run is None and not cleaning.is_damaged and not cleaning.backoff.due_ms:
            del self._cleanings[key]

    @property
    def _is_over(self) -> bool:
        return self.is_stopped or self._scheduler.is_over

    def _look_on(self, left: deque[Replica], found: list[tuple[Replica, CleanableRatio]]) -> None:
        if self._is_over:
            return
        for _ in range(min(LOGS_PER_TURN, len(left))):
            partition = left.popleft()
            if self._is_cold(partition):
                continue
            try:
                cleanable = self._assess(partition)
            except WouldBlock as cold:
                self._wait_for_disk(partition, cold)
                continue
            if cleanable is not None:
                found.append((partition, cleanable))
        if left:
            self._scheduler.call_after(0, lambda: self._look_on(left, found))
            return
        self._is_looking = False
        self.metrics.looked(cleanable for _, cleanable in found)
        # Imported late, here and below: a start needs no compaction
        from headgate.storage.cleanup.compaction import planning

        chosen = planning.dirtiest((one.log.config.min_cleanable_dirty_ratio, cleanable) for one, cleanable in found)
        if chosen is not None and not self.is_stopped:
            self._begin(*found[chosen])
            self.look()
        elif not self._runs():  # an idle process costs memory, a new one starts quickly
            while self._idle:
                self._idle.pop().close()

    def _is_cold(self, partition: Replica) -> bool:
        """Whether a log waits for a read from its disk; a later look assesses it."""
        return any((partition.topic, partition.index) in waiting for waiting in self._cold.values())

    def _wait_for_disk(self, partition: Replica, cold: WouldBlock) -> None:
        """Have a log wait for a read from its disk; a later look assesses it."""
        is_first = cold.disk not in self._cold
        self._cold.setdefault(cold.disk, {})[partition.topic, partition.index] = partition
        if is_first:
            self._warm_log(cold.disk, cold)
        else:
            cold.release()

    def _warm_log(self, disk: str, cold: WouldBlock) -> None:
        """Have a thread read for the first log that waits for a disk."""
        cold.warm_by(self._scheduler.reads(disk).in_thread, partial(self._assess_next_cold, disk, cold.place))

    def _assess_next_cold(self, disk: str, warmed: FilePosition | None = None, result: object = None) -> None:
        """Assess the first waiting log of a disk again, then the next; once none waits, look at all logs again."""
        if self._is_over:
            return
        waiting = self._cold[disk]
        key, partition = next(iter(waiting.items()))
        if isinstance(result, Exception):
            if not partition.log.is_retired:
                self.failed(partition, result)
        else:
            try:
                self._assess(partition, warmed)
            except WouldBlock as cold:
                self._warm_log(disk, cold)
                return
        del waiting[key]
        if waiting:
            self._scheduler.call_after(0.0, lambda: self._assess_next_cold(disk))
        else:
            del self._cold[disk]
            self.look()

    def _assess(self, partition: Replica, warmed: FilePosition | None = None) -> CleanableRatio | None:
        """The cleanable ratio of a log; None if the log must not be compacted, or not now.

        Raises WouldBlock, unless the missing bytes are at `warmed`: these were just read and evicted again, so the
        call waits for the disk.
        """
        log = partition.log
        if (
            not log.config.is_compacted
            or log.sync_error is not None
            or not log.segments.compacted.offset < log.segments.active.base_offset > log.start_offset
        ):
            return None
        key = partition.topic, partition.index
        cleaning = self._cleanings.get(key)
        if log.is_retired or (cleaning is not None and cleaning.is_blocked(log, self._clock.monotonic_ms())):
            return None
        try:
            return self._cleanable(partition, warmed)
        except (OSError, KafkaError, StorageError) as error:
            self.failed(partition, error)
            return None

    def _cleanable(self, partition: Replica, warmed: FilePosition | None) -> CleanableRatio:
        from headgate.storage.cleanup.compaction.compaction_job import assess

        log, now_ms, up_to = partition.log, self._clock.now_ms(), partition.high_watermark
        return planned(lambda blocking: assess(log, now_ms, up_to, blocking), (warmed,))

    def _begin(self, partition: Replica, cleanable: CleanableRatio) -> None:
        from headgate.gateway.maintenance.compaction_run import CleanerThread, CompactionRun

        worker = self._idle.pop() if self._idle else self._new_worker(partition.log.pool)
        thread = CleanerThread(worker, self._config, self._clock, self._scheduler, self.metrics)
        begun = CompactionRun(partition, cleanable, thread, self.is_current, self.failed, self.ended)
        self._cleaning_of(partition).run = begun
        begun.begin()

    def _cleaning_of(self, partition: Replica) -> _Cleaning:
        """The state of the present log of a partition."""
        key = partition.topic, partition.index
        cleaning = self._cleanings.get(key)
        if cleaning is None or cleaning.log is not partition.log:
            cleaning = self._cleanings[key] = _Cleaning(partition.log, None if cleaning is None else cleaning.run)
        return cleaning

    def _new_worker(self, pool: Pool) -> Worker:
        if self._make_worker is None:
            from headgate.gateway.maintenance.cleaner_process import best_worker

            self._make_worker = best_worker
        return self._make_worker(self._scheduler, pool)

    # For a run

    def is_current(self, partition: Replica, log: Log) -> bool:
        """Whether this is still the log of the partition, and still compacted."""
        try:
            found = self._partitions.get(partition.topic, partition.index)
        except KafkaError:
            return False
        return found.log is log and log.config.is_compacted and not self.is_stopped

    def failed(self, partition: Replica, error: BaseException) -> None:
        """Note a failed compaction, or a failed look at a log."""
        from headgate.storage.cleanup.compaction.compaction_job import Damaged

        key, cleaning = (partition.topic, partition.index), self._cleaning_of(partition)
        self.metrics.failed()
        if isinstance(error, Damaged):
            cleaning.is_damaged = True
            logger.error("%s-%d is damaged, and is not compacted any more: %s", *key, error)
            return
        delay_ms = cleaning.backoff.postpone(self._clock.monotonic_ms())
        message = "%s-%d cannot be compacted; the next attempt is in %d s: %s"
        logger.error(message, *key, delay_ms / 1000, error)

    def ended(self, finished: CompactionRun, is_done: bool) -> None:
        """Note the end of a run: its worker is free, and the next run may begin."""
        key = finished.key
        cleaning = self._cleanings.get(key)
        if cleaning is not None and cleaning.run is finished:
            cleaning.run = None
            if is_done:
                cleaning.backoff.reset()
            self._drop_idle(key)
        if self.is_stopped:
            finished.worker.close()
        else:
            self._idle.append(finished.worker)
            self._scheduler.call_after(0, self.look)

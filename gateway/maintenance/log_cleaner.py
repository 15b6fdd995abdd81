"""The log cleaner: decides which log is compacted next.

Every `log.cleaner.backoff.ms` the cleaner checks the logs of compacted topics, a few hundred in each turn of the
loop, and compacts the dirtiest due log (`compaction_run`); then the next. If the check needs bytes that are not in
memory, a thread reads them, for one log of each disk at a time; the other logs do not wait.

After an error of the disk, such as a full disk, the cleaner tries the log again after growing delays. A damaged log is
logged once, and not compacted until its disk has recovered from a failure, which can make a valid log look damaged, or
until the broker restarts.

`storage.cleanup.compaction` has the compaction itself. Source: Apache Kafka's `LogCleaner` and `LogCleanerManager`.
"""

from __future__ import annotations

import logging
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
from headgate.gateway.runtime.tasks import SingleTask, Task, run, sleep
from headgate.protocol.errors import KafkaError
from headgate.storage.disk.pool import Pool
from headgate.storage.errors import StorageError
from headgate.storage.files import FilePosition, WouldBlock, parent, planned
from headgate.storage.log.log import Log

if TYPE_CHECKING:
    from headgate.gateway.maintenance.cleaner_process import Worker
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
    worker: Worker | None = None
    is_damaged: bool = False
    backoff: Backoff = field(default_factory=lambda: Backoff(FIRST_DELAY_MS, MAX_DELAY_MS))

    def is_blocked(self, log: Log, now_ms: float) -> bool:
        """Whether no compaction of this log may begin now."""
        return self.worker is not None or (self.is_damaged and self.log is log) or now_ms < self.backoff.due_ms


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
        self._checking = SingleTask()
        self._checked_ms = 0.0
        self._cold: dict[str, dict[Key, Replica]] = {}  # by log directory; a thread reads for the first of each
        self.is_stopped = False
        self.metrics = CleanerMetrics(metrics, clock, self._uncleanable)

    def _uncleanable(self) -> list[Log]:
        return [
            cleaning.log for cleaning in self._cleanings.values() if cleaning.is_damaged and not cleaning.log.is_retired
        ]

    @property
    def running(self) -> Sequence[Key]:
        """Topic and partition of each log that is being compacted."""
        return tuple(key for key, cleaning in self._cleanings.items() if cleaning.worker is not None)

    def start(self) -> None:
        """Look for work every `log.cleaner.backoff.ms`, unless `log.cleaner.enable` is false."""
        if self._config.log_cleaner_enable:
            self._checked_ms = self._clock.monotonic_ms()
            self._check_later()

    def stop(self) -> None:
        """Abort everything. The next start removes new segments that were not swapped in."""
        self.is_stopped = True
        for worker in [*self._idle, *(cleaning.worker for cleaning in self._cleanings.values())]:
            if worker is not None:
                worker.close()
        self._idle.clear()

    def _check_later(self) -> None:
        """Check often whether the backoff is over, as the setting may change at any time."""

        def check() -> None:
            self._check_later()
            if self._clock.monotonic_ms() - self._checked_ms >= self._config.log_cleaner_backoff_ms:
                self.check()

        self._scheduler.call_after(min(max(1, self._config.log_cleaner_backoff_ms), MAX_BACKOFF_MS), check)

    def check(self) -> None:
        """Look at all logs, over some turns of the loop, and compact the dirtiest due ones, while a thread is free."""
        self._checking.start(self._compact_due)

    def _compact_due(self) -> Task[None]:
        while not self._is_over and len(self.running) < self._config.log_cleaner_threads:
            self._checked_ms = self._clock.monotonic_ms()
            self._forget_deleted()
            chosen = yield from self._dirtiest()
            if chosen is None:
                if not (self.running or self._is_over):  # an idle process costs memory, a new one starts quickly
                    while self._idle:
                        self._idle.pop().close()
                return
            run(self._compact(*chosen))

    def disk_recovered(self, directory: str) -> None:
        """Try the logs in a directory again: the disk may have been at fault."""
        self._forget_failures(lambda log: parent(log.directory) == directory)

    def _forget_deleted(self) -> None:
        """Forget failures of deleted logs, as a new log of the same name is another log."""
        self._forget_failures(lambda log: log.is_retired)

    def _forget_failures(self, is_meant: Callable[[Log], bool]) -> None:
        for key, cleaning in list(self._cleanings.items()):
            if is_meant(cleaning.log):
                self._cleanings[key] = _Cleaning(cleaning.log, cleaning.worker)
                self._drop_idle(key)

    def _drop_idle(self, key: Key) -> None:
        """Drop the state of a log that neither runs nor has failed."""
        cleaning = self._cleanings[key]
        if cleaning.worker is None and not cleaning.is_damaged and not cleaning.backoff.due_ms:
            del self._cleanings[key]

    @property
    def _is_over(self) -> bool:
        return self.is_stopped or self._scheduler.is_over

    def _dirtiest(self) -> Task[tuple[Replica, CleanableRatio] | None]:
        """The log that is compacted next; None if no log is due, or the broker stops."""
        found: list[tuple[Replica, CleanableRatio]] = []
        for number, replica in enumerate(list(self._partitions)):
            if number and not number % LOGS_PER_TURN:
                yield sleep(self._scheduler, 0)
                if self._is_over:
                    return None
            if self._is_cold(replica):
                continue
            try:
                cleanable = self._assess(replica)
            except WouldBlock as cold:
                self._wait_for_disk(replica, cold)
                continue
            if cleanable is not None:
                found.append((replica, cleanable))
        self.metrics.note_check(cleanable for _, cleanable in found)
        # Imported late, here and below: a start needs no compaction
        from headgate.storage.cleanup.compaction import planning

        chosen = planning.dirtiest((one.log.config.min_cleanable_dirty_ratio, cleanable) for one, cleanable in found)
        return None if chosen is None else found[chosen]

    def _is_cold(self, replica: Replica) -> bool:
        """Whether a log waits for a read from its disk; a later check assesses it."""
        return any((replica.topic, replica.index) in waiting for waiting in self._cold.values())

    def _wait_for_disk(self, replica: Replica, cold: WouldBlock) -> None:
        """Have a log wait for a read from its disk; a later check assesses it."""
        cold.release()
        is_first = cold.disk not in self._cold
        self._cold.setdefault(cold.disk, {})[replica.topic, replica.index] = replica
        if is_first:
            run(self._assess_cold(cold.disk))

    def _assess_cold(self, disk: str) -> Task[None]:
        """Assess the logs that wait for a disk, one after another; then check all logs again."""
        waiting = self._cold[disk]
        while True:
            key, replica = next(iter(waiting.items()))
            try:
                yield from self._assess_by_thread(replica)
            except Exception as error:  # noqa: BLE001  the log is tried again later
                if not replica.log.is_retired:
                    self.failed(replica, error)
            del waiting[key]
            if not waiting:
                break
            yield sleep(self._scheduler, 0)
        del self._cold[disk]
        self.check()

    def _assess_by_thread(self, replica: Replica) -> Task[None]:
        """Have a thread read what the assessment of a log needs."""
        warmed = None
        while not self._is_over:
            try:
                self._assess(replica, warmed)
                return
            except WouldBlock as cold:
                warmed = cold.place
                yield partial(cold.warm_by, self._scheduler.reads(cold.disk).in_thread)

    def _assess(self, replica: Replica, warmed: FilePosition | None = None) -> CleanableRatio | None:
        """The cleanable ratio of a log; None if the log must not be compacted, or not now.

        Raises WouldBlock, unless the missing bytes are at `warmed`: these were just read and evicted again, so the
        call waits for the disk.
        """
        log = replica.log
        if (
            not log.config.is_compacted
            or log.sync_error is not None
            or not log.segments.compacted.offset < log.segments.active.base_offset > log.start_offset
        ):
            return None
        key = replica.topic, replica.index
        cleaning = self._cleanings.get(key)
        if log.is_retired or (cleaning is not None and cleaning.is_blocked(log, self._clock.monotonic_ms())):
            return None
        try:
            return self._cleanable(replica, warmed)
        except (OSError, KafkaError, StorageError) as error:
            self.failed(replica, error)
            return None

    def _cleanable(self, replica: Replica, warmed: FilePosition | None) -> CleanableRatio:
        from headgate.storage.cleanup.compaction.compaction_job import assess

        log, now_ms, up_to = replica.log, self._clock.now_ms(), replica.high_watermark
        return planned(lambda blocking: assess(log, now_ms, up_to, blocking), (warmed,))

    def _compact(self, replica: Replica, cleanable: CleanableRatio) -> Task[None]:
        """Compact a log; then the next one may begin."""
        from headgate.gateway.maintenance.compaction_run import CleanerThread, compact

        worker = self._idle.pop() if self._idle else self._new_worker(replica.log.pool)
        self._cleaning_of(replica).worker = worker
        thread = CleanerThread(worker, self._config, self._clock, self._scheduler, self.metrics)
        is_done = yield from compact(replica, cleanable, thread, self.is_current, self.failed)
        key = replica.topic, replica.index
        cleaning = self._cleanings.get(key)
        if cleaning is not None and cleaning.worker is worker:
            cleaning.worker = None
            if is_done:
                cleaning.backoff.reset()
            self._drop_idle(key)
        if self.is_stopped:
            worker.close()
        else:
            self._idle.append(worker)
            self._scheduler.call_after(0, self.check)

    def _cleaning_of(self, replica: Replica) -> _Cleaning:
        """The state of the present log of a partition."""
        key = replica.topic, replica.index
        cleaning = self._cleanings.get(key)
        if cleaning is None or cleaning.log is not replica.log:
            cleaning = self._cleanings[key] = _Cleaning(replica.log, None if cleaning is None else cleaning.worker)
        return cleaning

    def _new_worker(self, pool: Pool) -> Worker:
        if self._make_worker is None:
            from headgate.gateway.maintenance.cleaner_process import best_worker

            self._make_worker = best_worker
        return self._make_worker(self._scheduler, pool)

    # For a compaction

    def is_current(self, log: Log) -> bool:
        """Whether this is still the log of the partition, and still compacted."""
        is_of_partition = self._partitions.of_log(log) is not None
        return is_of_partition and log.config.is_compacted and not self.is_stopped

    def failed(self, replica: Replica, error: BaseException) -> None:
        """Note a failed compaction, or a failed check of a log."""
        from headgate.storage.cleanup.compaction.compaction_job import Damaged

        key, cleaning = (replica.topic, replica.index), self._cleaning_of(replica)
        self.metrics.failed()
        if isinstance(error, Damaged):
            cleaning.is_damaged = True
            logger.error("%s-%d is damaged, and is not compacted any more: %s", *key, error)
            return
        delay_ms = cleaning.backoff.postpone(self._clock.monotonic_ms())
        message = "%s-%d cannot be compacted; the next attempt is in %d s: %s"
        logger.error(message, *key, delay_ms / 1000, error)

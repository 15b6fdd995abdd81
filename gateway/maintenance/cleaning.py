"""Which log is compacted next.

The logs of compacted topics are looked at every `log.cleaner.backoff.ms`, a few hundred a turn, and the dirtiest that
is due is compacted (`cleaning_round`); then the next. What that asks a file for, and is not in memory, a thread reads:
for one log of a disk after another, and the other logs do not wait for it.

A full or failing disk is tried again after a while, ever longer. A log that is damaged is left alone, and said once,
until its disk is back after a failure, which may have shown what is not so, or the broker starts again.

Source: Apache Kafka's `LogCleaner` and `LogCleanerManager`.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from headgate.gateway.config import BrokerConfig
from headgate.gateway.maintenance.cleaning_metrics import CleaningMetrics
from headgate.gateway.replication.partition import Partition
from headgate.gateway.replication.partitions import Partitions
from headgate.gateway.runtime.clock import Clock
from headgate.gateway.runtime.metrics import Metrics
from headgate.gateway.runtime.scheduler import Scheduler
from headgate.protocol.errors import KafkaError
from headgate.storage.disk.pool import Pool
from headgate.storage.errors import StorageError
from headgate.storage.files import ColdRead, Place, parent, planned
from headgate.storage.log.log import Log

if TYPE_CHECKING:
    from headgate.gateway.maintenance.cleaner_process import Worker
    from headgate.gateway.maintenance.cleaning_round import Round
    from headgate.storage.cleanup.cleaner import Dirt

logger = logging.getLogger("headgate.cleaning")

LOGS_A_TURN = 500
MOST_BACKOFF_MS = 1_000
LEAST_READ_BYTES = 64 * 1024
FIRST_DELAY_MS, LONGEST_DELAY_MS = 15_000, 600_000
Key = tuple[str, int]


class Cleaning:
    """The compaction of all logs of a broker."""

    def __init__(
        self,
        partitions: Partitions,
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
        self._rounds: dict[Key, Round] = {}
        self._idle: list[Worker] = []
        self._is_looking, self._looked_ms = False, 0.0
        self._cold: dict[str, dict[Key, Partition]] = {}  # by log directory: of the first of them a thread reads
        self._uncleanable: dict[Key, Log] = {}
        self._delays: dict[Key, tuple[Log, float, float]] = {}  # until when, and how long it is
        self.is_stopped = False
        partitions.disk_is_back = self.disk_is_back
        self.metrics = CleaningMetrics(metrics, clock, self._left_alone)

    def _left_alone(self) -> list[Log]:
        return [log for log in self._uncleanable.values() if not log.is_retired]

    @property
    def running(self) -> Sequence[Key]:
        """Topic and partition of what is being compacted."""
        return tuple(self._rounds)

    def start(self) -> None:
        """Look for work every `log.cleaner.backoff.ms`, unless `log.cleaner.enable` is false."""
        if self._config.log_cleaner_enable:
            self._looked_ms = self._clock.monotonic_ms()
            self._look_later()

    def stop(self) -> None:
        """Break everything off; what was not taken up is removed at the next start."""
        self.is_stopped = True
        for worker in [*self._idle, *(its.worker for its in self._rounds.values())]:
            worker.close()
        self._idle.clear()

    def _look_later(self) -> None:
        """The backoff may be changed at any time: so it is looked at often."""

        def look() -> None:
            self._look_later()
            if self._clock.monotonic_ms() - self._looked_ms >= self._config.log_cleaner_backoff_ms:
                self.look()

        self._scheduler.call_after(min(max(1, self._config.log_cleaner_backoff_ms), MOST_BACKOFF_MS), look)

    def look(self) -> None:
        """Look at all logs, over some turns, and begin with the dirtiest that is due, if a thread is free."""
        has_room = len(self._rounds) < self._config.log_cleaner_threads
        if not self._is_looking and has_room and not self.is_stopped:
            self._is_looking, self._looked_ms = True, self._clock.monotonic_ms()
            self._forget_deleted()
            self._look_on(deque(self._partitions), [])

    def disk_is_back(self, directory: str) -> None:
        """Try the logs in a directory again: what was wrong with them may have been its disk's fault."""
        self._uncleanable = {key: log for key, log in self._uncleanable.items() if parent(log.directory) != directory}
        self._delays = {key: delay for key, delay in self._delays.items() if parent(delay[0].directory) != directory}

    def _forget_deleted(self) -> None:
        """What was wrong with a log is not so of its successor."""
        self._uncleanable = {key: log for key, log in self._uncleanable.items() if not log.is_retired}
        self._delays = {key: delay for key, delay in self._delays.items() if not delay[0].is_retired}

    @property
    def _is_over(self) -> bool:
        return self.is_stopped or self._scheduler.is_over

    def _look_on(self, left: deque[Partition], found: list[tuple[Partition, Dirt]]) -> None:
        if self._is_over:
            return
        for _ in range(min(LOGS_A_TURN, len(left))):
            partition = left.popleft()
            if self._is_cold(partition):
                continue
            try:
                dirt = self._assess(partition)
            except ColdRead as cold:
                self._leave(partition, cold)
                continue
            if dirt is not None:
                found.append((partition, dirt))
        if left:
            self._scheduler.call_after(0, lambda: self._look_on(left, found))
            return
        self._is_looking = False
        self.metrics.looked(dirt for _, dirt in found)
        # Imported here and below: most brokers start long before they compact anything
        from headgate.storage.cleanup import cleaner

        chosen = cleaner.filthiest((its.log.config.min_cleanable_dirty_ratio, dirt) for its, dirt in found)
        if chosen is not None and not self.is_stopped:
            self._begin(*found[chosen])
            self.look()
        elif not self._rounds:  # a process takes memory, and is quickly made
            while self._idle:
                self._idle.pop().close()

    def _is_cold(self, partition: Partition) -> bool:
        """Whether it comes in a later look, as it waits for its disk."""
        return any((partition.topic, partition.index) in waiting for waiting in self._cold.values())

    def _leave(self, partition: Partition, cold: ColdRead) -> None:
        """Leave a log to a later look, as something of it has to be read."""
        is_first = cold.disk not in self._cold
        self._cold.setdefault(cold.disk, {})[partition.topic, partition.index] = partition
        if is_first:
            self._bring(cold.disk, cold)
        else:
            cold.release()

    def _bring(self, disk: str, cold: ColdRead) -> None:
        """Have a thread read that for the first log that waits for a disk."""
        cold.__traceback__ = None

        def brought(result: object) -> None:
            cold.release()
            self._go_on(disk, cold.place, result)

        self._scheduler.reads(disk).in_thread(cold.warm, brought)

    def _go_on(self, disk: str, brought: Place | None = None, result: object = None) -> None:
        """See what else the first of these lacks; once none waits any more, look at all logs again."""
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
            except ColdRead as cold:
                self._bring(disk, cold)
                return
        del waiting[key]
        if waiting:
            self._scheduler.call_after(0.0, lambda: self._go_on(disk))
        else:
            del self._cold[disk]
            self.look()

    def _assess(self, partition: Partition, brought: Place | None = None) -> Dirt | None:
        """How dirty a log is; None if it is not to be compacted, or not now. Most are told by the first line.

        Raises ColdRead, unless what it lacks was `brought`, and is gone again: that would have no end.
        """
        log = partition.log
        if (
            not log.config.is_compacted
            or log.sync_error is not None
            or not log.compacted.offset < log.active_base_offset > log.start_offset
        ):
            return None
        key = partition.topic, partition.index
        if key in self._rounds or self._uncleanable.get(key) is log or log.is_retired:
            return None
        if key in self._delays and self._clock.monotonic_ms() < self._delays[key][1]:
            return None
        try:
            return self._dirt(partition, brought)
        except (OSError, KafkaError, StorageError) as error:
            self.failed(partition, error)
            return None

    def _dirt(self, partition: Partition, brought: Place | None) -> Dirt:
        from headgate.storage.cleanup.compaction.job import assess

        log, now_ms, up_to = partition.log, self._clock.now_ms(), partition.high_watermark
        return planned(lambda patient: assess(log, now_ms, up_to, patient), brought)

    def _begin(self, partition: Partition, dirt: Dirt) -> None:
        from headgate.gateway.maintenance.cleaning_round import Round

        worker = self._idle.pop() if self._idle else self._new_worker(partition.log.pool)
        begun = self._rounds[partition.topic, partition.index] = Round(self, partition, dirt, worker)
        begun.begin()

    def _new_worker(self, pool: Pool) -> Worker:
        if self._make_worker is None:
            from headgate.gateway.maintenance.cleaner_process import best_worker

            self._make_worker = best_worker
        return self._make_worker(self._scheduler, pool)

    # What a round asks

    @property
    def now_ms(self) -> int:
        """The time of the clock."""
        return self._clock.now_ms()

    @property
    def share_of_bytes_per_second(self) -> float:
        """What one of the threads may read and write."""
        return max(1.0, self._config.log_cleaner_io_max_bytes_per_second / max(1, self._config.log_cleaner_threads))

    @property
    def table_bytes(self) -> int:
        """What one of the threads may use for keys."""
        config = self._config
        share = config.log_cleaner_dedupe_buffer_size / max(1, config.log_cleaner_threads)
        return int(share * config.log_cleaner_io_buffer_load_factor)

    @property
    def read_bytes(self) -> int:
        """How much is read at a time."""
        share = self._config.log_cleaner_io_buffer_size // max(1, self._config.log_cleaner_threads)
        return max(LEAST_READ_BYTES, share)

    def is_current(self, partition: Partition, log: Log) -> bool:
        """Whether this is still the log of the partition, and a compacted one."""
        try:
            found = self._partitions.get(partition.topic, partition.index)
        except KafkaError:
            return False
        return found.log is log and log.config.is_compacted and not self.is_stopped

    def in_thread(self, work: Callable[[], None], done: Callable[[object], None]) -> None:
        """Do what waits for the disk."""
        self._scheduler.in_thread(work, done)

    def failed(self, partition: Partition, error: BaseException) -> None:
        """A compaction, or the look for one, ended so."""
        from headgate.storage.cleanup.compaction.job import Damaged

        key = partition.topic, partition.index
        self.metrics.failed()
        if isinstance(error, Damaged):
            self._uncleanable[key] = partition.log
            logger.error("%s-%d is not compacted any more, as it is damaged: %s", *key, error)
            return
        before_ms = self._delays[key][2] if key in self._delays else FIRST_DELAY_MS / 2
        delay_ms = min(2 * before_ms, LONGEST_DELAY_MS)
        self._delays[key] = partition.log, self._clock.monotonic_ms() + delay_ms, delay_ms
        message = "%s-%d cannot be compacted, which is tried again in %d s: %s"
        logger.error(message, *key, delay_ms / 1000, error)

    def ended(self, finished: Round, *, is_done: bool) -> None:
        """A round is over: its worker is free, and the next may begin."""
        key = finished.key
        self._rounds.pop(key, None)
        if is_done:
            self._delays.pop(key, None)
        if self.is_stopped:
            finished.worker.close()
        else:
            self._idle.append(finished.worker)
            self._scheduler.call_after(0, self.look)

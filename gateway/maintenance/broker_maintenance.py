"""The recurring work of a broker: flushes, rolls, retention, checkpoints, repairs.

Worker threads do all work that waits for the disk: flushes (`replication/group_commit.py`), checkpoints and removal of
deleted files (`directory_maintenance.py`), the checks of the disk space. Other work runs on the loop in short pieces.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from headgate.gateway.config import BrokerConfig
from headgate.gateway.maintenance.directory_maintenance import DirectoryMaintenance
from headgate.gateway.maintenance.disk_space import DiskSpace
from headgate.gateway.maintenance.retention_task import FindUnread
from headgate.gateway.maintenance.sync_repair_queue import RepairListener
from headgate.gateway.metadata.new_topics import METADATA_TOPIC
from headgate.gateway.replication.directory_status import DirectoryStatus
from headgate.gateway.replication.replica import Replica
from headgate.gateway.replication.replica_manager import ReplicaManager
from headgate.gateway.runtime.backoff import Backoff
from headgate.gateway.runtime.clock import Clock
from headgate.gateway.runtime.metrics import Metrics
from headgate.gateway.runtime.scheduler import Scheduler
from headgate.gateway.runtime.tasks import SingleTask, Task, sleep
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.storage.directory.log_manager import LogManager
from headgate.storage.files import parent
from headgate.storage.log import flushing
from headgate.storage.log.log import Log

logger = logging.getLogger("headgate.maintenance")

# The longest interval between searches for due flushes; `log.flush.scheduler.interval.ms` may shorten it.
FLUSH_CHECK_MS = 1_000
# The wait before failed creations of partitions are tried again; doubled while all fail.
RETRY_MS, MAX_RETRY_MS = 1_000, 16_000
# The interval between searches for deleted files whose file.delete.delay.ms is over.
REMOVE_MS = 1_000
# The interval between searches for logs that need a repair.
REPAIR_MS = 1_000
# The interval of retention while a disk is nearly full.
LOW_CHECK_MS = 10_000


class BrokerMaintenance:
    """The recurring work on all logs of a broker."""

    def __init__(
        self,
        log_manager: LogManager,
        partitions: ReplicaManager,
        find_unread: FindUnread,
        config: BrokerConfig,
        clock: Clock,
        scheduler: Scheduler,
    ) -> None:
        """`find_unread(groups, topic, partition)`: the first offset that one of the groups has not read."""
        self._log_manager = log_manager
        self._partitions = partitions
        self._clock = clock
        self._scheduler = scheduler
        self._retry_backoff = Backoff(2 * RETRY_MS, MAX_RETRY_MS)
        self._retries = SingleTask()
        self._has_lost_metadata = False
        self._config = config
        self._space = DiskSpace(partitions, config, clock, scheduler, self._room_changed)
        listener = RepairListener(self._was_truncated, self._repaired)
        self._directories = [
            DirectoryMaintenance(
                one, partitions.directories[one.directory], listener, self._changed, find_unread, clock, scheduler
            )
            for one in log_manager
        ]
        self._by_name = {one.directory: one for one in self._directories}
        flush_check_ms = min(config.log_flush_scheduler_interval_ms, FLUSH_CHECK_MS)
        self._works: list[tuple[float, Callable[[], None]]] = [
            (config.replica_high_watermark_checkpoint_interval_ms, self.checkpoint),
            (config.log_retention_check_interval_ms, self.expire),
            (RETRY_MS, self.retry),
            (config.producer_id_expiration_check_interval_ms, self.expire_producers),
            (flush_check_ms, self.flush_due),
            (REMOVE_MS, self.remove_deleted),
            (REPAIR_MS, self.repair),
            (LOW_CHECK_MS, self._expire_if_low),
        ]

    def start(self) -> None:
        """Run each work at its interval, first after one interval."""
        for interval_ms, work in self._works:
            self._again(interval_ms, work)
        self._space.refresh()

    def measure(self, metrics: Metrics) -> None:
        """Register the gauges of the disks."""
        metrics.gauge("disk.free.bytes", lambda: self._space.least)
        directories = self._partitions.directories.values()
        metrics.gauge("disk.full.directories", lambda: sum(one.is_full for one in directories))
        metrics.gauge("disk.offline.directories", lambda: sum(one.is_offline for one in directories))
        metrics.gauge("disk.hung.directories", lambda: sum(one.is_hung for one in directories))
        retentions = [one.retention for one in self._directories]
        metrics.gauge("retention.holding.partitions", lambda: sum(one.holding_count for one in retentions))
        metrics.gauge("disk.unsynced.logs", lambda: len(self._needs_repair()))
        metrics.gauge(
            "disk.deleted.files",
            lambda: sum(len(directory.pool.pending_deletions) for directory in self._log_manager),
        )

    def _again(self, interval_ms: float, work: Callable[[], None]) -> None:
        def run() -> None:
            try:
                work()
            finally:
                self._again(interval_ms, work)

        self._scheduler.call_after(interval_ms, run)

    def checkpoint(self) -> None:
        """Write high watermarks, recovery points and start offsets, in a thread of each directory."""
        high_watermarks = self._partitions.high_watermarks
        for directory in self._directories:
            directory.checkpoint(high_watermarks)

    def remove_deleted(self) -> None:
        """Remove deleted files after file.delete.delay.ms, in a thread; on a nearly full disk without that delay."""
        for directory in self._directories:
            directory.remove_deleted()

    def expire(self) -> None:
        """Roll old segments and delete expired ones, of all partitions, some of them in each turn of the loop."""
        found: dict[str, list[Replica]] = {}
        for replica in self._partitions:
            found.setdefault(parent(replica.log.directory), []).append(replica)
        for directory, partitions in found.items():
            self._by_name[directory].retention.run(partitions)

    def _expire_if_low(self) -> None:
        if any(status.is_full for status in self._partitions.directories.values()):
            self.expire()

    def _room_changed(self, directory: str, is_low: bool) -> None:
        """Note that the disk of a directory became nearly full, or has space again."""
        self._retry_backoff.reset()  # there may be space now for failed creations
        self._expire_if_low()
        if not is_low:
            for listener in self._partitions.events.space_recovered:
                listener(directory)

    def retry(self) -> None:
        """Try again to create partitions whose creation failed: some of them, in a thread."""
        self._retries.start(self._retry_creations)

    def _retry_creations(self) -> Task[None]:
        """After a success the others are tried at once; after failures only, the wait is twice as long."""
        while self._clock.monotonic_ms() >= self._retry_backoff.due_ms:
            created, refused = yield from self._partitions.retry()
            if refused and not created:
                self._retry_backoff.postpone(self._clock.monotonic_ms())
            else:
                self._retry_backoff.reset()
            if not created:
                return
            yield sleep(self._scheduler, 0.0)

    def repair(self) -> None:
        """Repair logs after failed syncs, in a thread of each directory."""
        for directory in self._directories:
            directory.repair()

    def _needs_repair(self) -> list[Log]:
        return [log for directory in self._directories for log in directory.needs_repair()]

    def note_disk_error(self, directory: str, error: object) -> None:
        """Note a failed write or sync in a log directory."""
        self._by_name[directory].health.note(error)
        self._space.note_error(self._partitions.directories[directory], error)
        self._partitions.note_failures()

    def _changed(self, status: DirectoryStatus) -> None:
        """Note that a log directory went offline or came back."""
        if not status.is_offline:
            self._partitions.disk_recovered(status.path)
        if all(one.is_offline for one in self._partitions.directories.values()):
            logger.error("all log directories are offline: nothing is written until one is back")

    def _is_offline(self, replica: Replica) -> bool:
        return self._partitions.directories[parent(replica.log.directory)].is_offline

    def _was_truncated(self, log: Log) -> None:
        self._has_lost_metadata = self._has_lost_metadata or log.topic == METADATA_TOPIC
        self._partitions.leadership.log_was_truncated(log)

    def _repaired(self, log: Log) -> None:
        if log.topic == METADATA_TOPIC and self._has_lost_metadata:
            self._freeze_metadata(log)
        replica = self._partitions.of_log(log)
        if replica is not None:
            replica.repaired()
        self._partitions.note_failures()
        self._partitions.disk_recovered(parent(log.directory))

    def _freeze_metadata(self, log: Log) -> None:
        """Refuse all further changes: they would follow lost records of the log, and no start could replay them."""
        why = (
            "the disk has lost changes of topics or settings that are still in memory: restart, and repeat the changes"
        )
        logger.error("metadata cannot be changed any more: %s", why)
        flushing.refuse(log, KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, why))

    def expire_producers(self) -> None:
        """Expire producers that have not written for `producer.id.expiration.ms`."""
        now_ms = self._clock.now_ms()
        for replica in self._partitions:
            replica.log.producers.expire(now_ms, self._config.producer_id_expiration_ms)

    def flush_due(self) -> None:
        """Flush the logs with a due flush: by flush.ms, or after a roll."""
        now_ms = self._clock.now_ms()
        for replica in self._partitions:
            if flushing.is_due(replica.log, now_ms) and not self._is_offline(replica):
                replica.sync_soon()

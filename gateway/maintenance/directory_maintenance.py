"""The recurring work on one log directory that waits for its disk: checkpoints, retention, removals, repairs.

Each directory has its own threads, one for each kind of work, so that a hung disk delays no other directory.
`broker_maintenance.py` decides when each work is due.
"""

from __future__ import annotations

import errno
import logging
from collections.abc import Callable, Mapping
from functools import partial

from headgate.gateway.maintenance.directory_health import DirectoryHealth
from headgate.gateway.maintenance.retention_task import FindUnread, RetentionTask
from headgate.gateway.maintenance.sync_repair_queue import RepairListener, SyncRepairQueue
from headgate.gateway.replication.directory_status import DirectoryStatus
from headgate.gateway.runtime.clock import Clock
from headgate.gateway.runtime.scheduler import Scheduler
from headgate.gateway.runtime.tasks import SingleTask, Task
from headgate.protocol.errors import KafkaError, without_frames
from headgate.storage.directory.log_directory import LogDirectory
from headgate.storage.disk.checkpoint import TopicPartition, offsets_of
from headgate.storage.log import flushing
from headgate.storage.log.log import Log
from headgate.storage.recovery.sync_failure_repair import SyncFailureRepair, apply_index, needing_repair

logger = logging.getLogger("headgate.maintenance")


class DirectoryMaintenance:
    """The work on one directory, by threads; one at a time of each kind."""

    def __init__(
        self,
        log_directory: LogDirectory,
        status: DirectoryStatus,
        listener: RepairListener,
        changed: Callable[[DirectoryStatus], None],
        find_unread: FindUnread,
        clock: Clock,
        scheduler: Scheduler,
    ) -> None:
        """`listener` is notified of repairs; `changed(status)` is called when the directory goes offline or is back."""
        self._log_directory = log_directory
        self._status = status
        self._clock = clock
        self._scheduler = scheduler
        self._checkpoint, self._removal, self._index_rebuild = SingleTask(), SingleTask(), SingleTask()
        self._notify_changed = changed
        self.health = DirectoryHealth(
            status, log_directory.pool.files, log_directory.meta, self._changed, clock, scheduler
        )
        self._sync_repair_queue = SyncRepairQueue(
            self.needs_repair, self._is_there, listener, clock, scheduler, self.health.note
        )
        self.retention = RetentionTask(
            self._is_available,
            lambda: status.is_full,
            find_unread,
            self.rebuild_index,
            self.health.note,
            clock,
            scheduler,
        )

    def checkpoint(self, high_watermarks: Mapping[TopicPartition, int]) -> None:
        """Write the checkpoints: high watermarks, recovery points and start offsets of this directory's logs."""
        if not self._status.is_offline:
            self._checkpoint.start(partial(self._write_checkpoints, high_watermarks))

    def _write_checkpoints(self, high_watermarks: Mapping[TopicPartition, int]) -> Task[None]:
        write = self._log_directory.begin_checkpoint(offsets_of(self._log_directory.logs, high_watermarks))
        try:
            yield partial(self._scheduler.in_thread, write)
        except Exception as error:  # noqa: BLE001  the next checkpoint writes the files, or reports the error
            self.health.note(error)
            logger.error("the checkpoints of %s cannot be written: %s", self._log_directory.directory, error)

    def remove_deleted(self) -> None:
        """Remove deleted files after file.delete.delay.ms; on a nearly full disk without that delay."""
        self._removal.start(self._remove_deleted)

    def _remove_deleted(self) -> Task[None]:
        pending = self._log_directory.pool.pending_deletions
        while not (self._status.is_offline or self._scheduler.is_over):
            removal = pending.take(self._clock.monotonic_ms(), at_once=self._status.is_full)
            if removal is None:
                return
            try:
                yield partial(self._scheduler.in_thread, removal.run)
            except Exception as error:  # noqa: BLE001  the files that are left are tried again later
                logger.error("deleted files in %s cannot be removed: %s", self._log_directory.directory, error)
            pending.end_removal(removal, self._clock.monotonic_ms())
            if removal.left:  # these would be tried again without a pause
                return

    @property
    def directory(self) -> str:
        return self._log_directory.directory

    def repair(self) -> None:
        """Repair logs after failed syncs."""
        if not self._status.is_offline:
            self._sync_repair_queue.run()

    def rebuild_index(self, log: Log, base_offset: int) -> None:
        """Rebuild the indexes of a segment whose index file was cut by another program."""
        self._index_rebuild.start(partial(self._rebuild_index, log, base_offset))  # else retention asks again

    def _rebuild_index(self, log: Log, base_offset: int) -> Task[None]:
        work = SyncFailureRepair(log, [])
        try:
            yield partial(self._scheduler.in_slices, work.rebuild_index_steps(base_offset))
        except Exception as error:  # noqa: BLE001  logged below
            work.error = without_frames(error)
        if not apply_index(log, work) and work.error is not None:
            logger.error("cannot rebuild the indexes of %r: %s", log, work.error)

    def _changed(self, error: KafkaError | None) -> None:
        if error is None:  # it is unknown which of the last writes reached the disk
            for log in self._log_directory.logs.values():
                log.close_files()  # an open file may belong to the previous mount
                if log.recovery_point < log.end_offset or log.indexes_unsynced:
                    flushing.refuse_after_failed_sync(log, OSError(errno.EIO, "the disk was gone for a time"))
        self._status.set_offline(error)
        self._notify_changed(self._status)
        if error is None:
            self._sync_repair_queue.retry_all()

    def needs_repair(self) -> list[Log]:
        """The logs that need a repair after a failed sync."""
        return needing_repair(self._log_directory.pool)

    def _is_available(self, log: Log) -> bool:
        return self._is_there(log) and not self._status.is_offline

    def _is_there(self, log: Log) -> bool:
        return self._log_directory.logs.get(log.key) is log

"""The recurring work on one log directory that waits for its disk: checkpoints, retention, removals, repair.

Each directory has its own threads for that, one for each kind of work: a disk that hangs holds up no other directory.
When each work is due is decided by `broker_maintenance.py`.
"""

from __future__ import annotations

import errno
import logging
from collections.abc import Callable, Mapping

from headgate.gateway.maintenance.directory_health import DirectoryHealth
from headgate.gateway.maintenance.repair_queue import RepairListener, RepairQueue
from headgate.gateway.maintenance.retention_task import RetentionTask
from headgate.gateway.replication.directory_status import DirectoryStatus
from headgate.gateway.runtime.clock import Clock
from headgate.gateway.runtime.scheduler import Scheduler
from headgate.protocol.errors import KafkaError
from headgate.storage.directory.log_directory import LogDirectory
from headgate.storage.disk.checkpoint import TopicPartition, offsets_of
from headgate.storage.log.log import Log
from headgate.storage.recovery.sync_failure_repair import SyncFailureRepair, needing_repair, apply_index

logger = logging.getLogger("headgate.upkeep")


class DirectoryMaintenance:
    """The work on one directory, by threads; of each kind one after another."""

    def __init__(
        self,
        store: LogDirectory,
        status: DirectoryStatus,
        tell: RepairListener,
        changed: Callable[[DirectoryStatus], None],
        clock: Clock,
        scheduler: Scheduler,
    ) -> None:
        """`tell` hears of repaired logs; `changed(status)` is called when the directory is offline, or back."""
        self._store = store
        self._status = status
        self._clock = clock
        self._scheduler = scheduler
        self._is_checkpointing = self._is_removing = self._is_remaking = False
        self._tell_changed = changed
        self.health = DirectoryHealth(status, store.pool.files, store.meta, self._changed, clock, scheduler)
        self._repair_queue = RepairQueue(self.needs_repair, self._is_there, tell, clock, scheduler, self.health.note)
        self.retention = RetentionTask(self._is_at_hand, self.remake_index, self.health.note, clock, scheduler)

    def checkpoint(self, high_watermarks: Mapping[TopicPartition, int]) -> None:
        """Write down high watermarks, those of this directory, recovery points and log starts."""
        if self._is_checkpointing or self._status.is_offline:
            return
        write = self._store.begin_checkpoint(offsets_of(self._store.logs, high_watermarks))
        self._is_checkpointing = True
        self._scheduler.in_thread(write, self._checkpointed)

    def _checkpointed(self, result: object) -> None:
        self._is_checkpointing = False
        if isinstance(result, BaseException):
            self.health.note(result)
            logger.error("the checkpoints of %s cannot be written: %s", self._store.directory, result)

    def remove_deleted(self) -> None:
        """Remove deleted files whose time has come; at once where the room is needed."""
        if self._is_removing or self._status.is_offline:
            return
        pending = self._store.pool.pending_deletions
        removal = pending.take(self._clock.monotonic_ms(), at_once=self._status.is_full)
        if removal is None:
            return

        def removed(result: object) -> None:
            self._is_removing = False
            pending.take_back(removal, self._clock.monotonic_ms())
            if isinstance(result, BaseException):
                logger.error("deleted files in %s cannot be removed: %s", self._store.directory, result)
            if not (removal.left or self._scheduler.is_over):  # else at once again and again, where the room is needed
                self.remove_deleted()

        self._is_removing = True
        self._scheduler.in_thread(removal.run, removed)

    @property
    def directory(self) -> str:
        """Which it is."""
        return self._store.directory

    def repair(self) -> None:
        """Make logs whole again of which a sync failed."""
        if not self._status.is_offline:
            self._repair_queue.run()

    def remake_index(self, log: Log, base_offset: int) -> None:
        """Make the indexes of a segment anew, which somebody has cut."""
        if self._is_remaking:  # it is asked for again
            return
        self._is_remaking = True
        work = SyncFailureRepair(log, [])

        def done(result: object) -> None:
            self._is_remaking = False
            if isinstance(result, BaseException):
                work.error = result
            if not apply_index(log, work) and work.error is not None:
                logger.error("the indexes of %r cannot be made again: %s", log, work.error)

        self._scheduler.in_slices(work.rebuild_index_steps(base_offset), done)

    def _changed(self, error: KafkaError | None) -> None:
        if error is None:  # what the disk took in the last moments, nobody knows
            for log in self._store.logs.values():
                log.close_files()  # an open file is of the disk that was there before
                if log.recovery_point < log.end_offset or log.indexes_unsynced:
                    log.fail(OSError(errno.EIO, "the disk was gone for a time"))
        self._status.set_offline(error)
        self._tell_changed(self._status)
        if error is None:
            self._repair_queue.retry_all()

    def needs_repair(self) -> list[Log]:
        """The logs of which a sync failed."""
        return needing_repair(self._store.pool)

    def _is_at_hand(self, log: Log) -> bool:
        return self._is_there(log) and not self._status.is_offline

    def _is_there(self, log: Log) -> bool:
        return self._store.logs.get(log.key) is log

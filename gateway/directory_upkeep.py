"""The recurring work on one data directory that waits for its disk: checkpoints, removals, mending.

Each directory has its own threads for that, one for each kind of work: a disk that hangs holds up no other directory.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from gateway.clock import Clock
from gateway.mender import Mender
from gateway.scheduler import Scheduler
from storage.checkpoint import TopicPartition, offsets_of
from storage.log import Log
from storage.store import Store

logger = logging.getLogger("headgate.upkeep")


class DirectoryUpkeep:
    """What is done on one directory, in threads; of each kind one after another."""

    def __init__(
        self,
        store: Store,
        is_low: Callable[[str], bool],
        mended: Callable[[Log], None],
        clock: Clock,
        scheduler: Scheduler,
    ) -> None:
        """`is_low(directory)`: there is little room. `mended` is called for each log that takes records again."""
        self._store = store
        self._is_low = is_low
        self._clock = clock
        self._scheduler = scheduler
        self._is_checkpointing = self._is_removing = False
        self._mender = Mender(self.broken, self._is_there, mended, clock, scheduler)

    def checkpoint(self, high_watermarks: Mapping[TopicPartition, int]) -> None:
        """Write down high watermarks, those of this directory, recovery points and log starts."""
        if self._is_checkpointing:
            return
        write = self._store.begin_checkpoint(offsets_of(self._store.logs, high_watermarks))
        self._is_checkpointing = True
        self._scheduler.in_thread(write, self._checkpointed)

    def _checkpointed(self, result: object) -> None:
        self._is_checkpointing = False
        if isinstance(result, BaseException):
            logger.error("the checkpoints of %s cannot be written: %s", self._store.directory, result)

    def remove_deleted(self) -> None:
        """Remove deleted files whose time has come; at once where the room is needed."""
        if self._is_removing:
            return
        doomed = self._store.pool.doomed
        removal = doomed.take(self._clock.monotonic_ms(), at_once=self._is_low(self._store.directory))
        if removal is None:
            return

        def removed(result: object) -> None:
            self._is_removing = False
            doomed.take_back(removal, self._clock.monotonic_ms())
            if isinstance(result, BaseException):
                logger.error("deleted files in %s cannot be removed: %s", self._store.directory, result)
            if not removal.left:  # else at once again and again, where the room is needed
                self.remove_deleted()

        self._is_removing = True
        self._scheduler.in_thread(removal.run, removed)

    def mend(self) -> None:
        """Make logs whole again of which a sync failed."""
        self._mender.run()

    def broken(self) -> list[Log]:
        """The logs of which a sync failed."""
        return list(self._store.pool.broken)

    def _is_there(self, log: Log) -> bool:
        return self._store.logs.get(log.key) is log

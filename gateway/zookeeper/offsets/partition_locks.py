"""Locks of one group's partitions: an operation holds some of them, or all. Conflicting operations keep their order."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Self

logger = logging.getLogger("headgate.groups")

Partition = tuple[str, int]
"""A topic and an index."""
Partitions = frozenset[Partition] | None
"""Some partitions; None: all of them."""


class PartitionLock:
    """The partitions of one operation: a task yields `acquire`; the end of the `with` block releases the lock."""

    __slots__ = ("_locks", "partitions", "resume")

    def __init__(self, locks: PartitionLocks, partitions: Partitions) -> None:
        self._locks = locks
        self.partitions = partitions
        self.resume: Callable[[None], None] | None = None

    def acquire(self, resume: Callable[[None], None]) -> None:
        """Call `resume` once no earlier operation has one of the partitions."""
        self._locks.acquire(self, resume)

    def release(self) -> None:
        """The operation has ended; a second call does nothing."""
        self._locks.release(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def conflicts(self, other: PartitionLock) -> bool:
        """Whether the operations share a partition."""
        if self.partitions is None or other.partitions is None:
            return True
        return not self.partitions.isdisjoint(other.partitions)


class PartitionLocks:
    """The operations of one group that hold partitions, and those that wait, in order."""

    def __init__(self) -> None:
        self._held: dict[PartitionLock, None] = {}
        self._waiting: dict[PartitionLock, None] = {}
        self._is_resuming = False

    def __len__(self) -> int:
        """The number of operations that wait."""
        return len(self._waiting)

    def lock(self, partitions: Partitions) -> PartitionLock:
        """A lock of these partitions, which is not held yet."""
        return PartitionLock(self, partitions)

    def acquire(self, lock: PartitionLock, resume: Callable[[None], None]) -> None:
        """Call `resume` once no earlier operation has one of the partitions; at once, if none has."""
        lock.resume = resume
        if self._is_free(lock, [*self._held, *self._waiting]):
            self._held[lock] = None
            resume(None)
        else:
            self._waiting[lock] = None

    def release(self, lock: PartitionLock) -> None:
        """Give the partitions to the next operations."""
        operations = self._held if lock in self._held else self._waiting
        if lock not in operations:
            return
        del operations[lock]
        if self._is_resuming:
            return  # an operation that has ended at once: the loop goes on
        self._is_resuming = True
        try:
            while (ready := self._first_ready()) is not None:
                del self._waiting[ready]
                self._held[ready] = None
                self._resume(ready)
        finally:
            self._is_resuming = False

    @staticmethod
    def _resume(lock: PartitionLock) -> None:
        assert lock.resume is not None
        try:
            lock.resume(None)
        except Exception:
            logger.exception("an operation on the offsets of a group failed; the others go on")

    def _first_ready(self) -> PartitionLock | None:
        before = list(self._held)
        for lock in self._waiting:
            if self._is_free(lock, before):
                return lock
            before.append(lock)
        return None

    @staticmethod
    def _is_free(lock: PartitionLock, before: list[PartitionLock]) -> bool:
        return not any(map(lock.conflicts, before))

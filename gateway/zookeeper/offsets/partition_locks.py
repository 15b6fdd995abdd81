"""Locks of one group's partitions: an operation holds some of them, or all. Conflicting operations keep their order."""

from __future__ import annotations

import logging
from collections.abc import Callable

logger = logging.getLogger("headgate.groups")

Partition = tuple[str, int]
"""A topic and an index."""
Partitions = frozenset[Partition] | None
"""Some partitions; None: all of them."""


class Hold:
    """The partitions of one operation; `begin` is called once they are its own."""

    __slots__ = ("begin", "partitions")

    def __init__(self, partitions: Partitions, begin: Callable[[], None]) -> None:
        self.partitions = partitions
        self.begin = begin

    def conflicts(self, other: Hold) -> bool:
        """Whether the operations share a partition."""
        if self.partitions is None or other.partitions is None:
            return True
        return not self.partitions.isdisjoint(other.partitions)


class PartitionLocks:
    """The operations of one group that hold partitions, and those that wait, in order."""

    def __init__(self) -> None:
        self._held: dict[Hold, None] = {}
        self._waiting: dict[Hold, None] = {}
        self._is_going_on = False

    def __len__(self) -> int:
        """The number of operations that wait."""
        return len(self._waiting)

    def acquire(self, hold: Hold) -> None:
        """Call `begin` once no earlier operation has one of the partitions; at once, if none has.

        What `begin` raises ends the operation.
        """
        if self._is_free(hold, [*self._held, *self._waiting]):
            self._begin(hold)
        else:
            self._waiting[hold] = None

    def release(self, hold: Hold) -> None:
        """The operation has ended; a second call does nothing."""
        if self._held.pop(hold, hold) is hold or self._is_going_on:
            return  # an operation that has ended at once: the loop goes on
        self._is_going_on = True
        try:
            while (ready := self._first_ready()) is not None:
                del self._waiting[ready]
                try:
                    self._begin(ready)
                except Exception:
                    logger.exception("an operation on the offsets of a group failed; the others go on")
        finally:
            self._is_going_on = False

    def _begin(self, hold: Hold) -> None:
        self._held[hold] = None
        try:
            hold.begin()
        except BaseException:
            self.release(hold)
            raise

    def _first_ready(self) -> Hold | None:
        before = list(self._held)
        for hold in self._waiting:
            if self._is_free(hold, before):
                return hold
            before.append(hold)
        return None

    @staticmethod
    def _is_free(hold: Hold, before: list[Hold]) -> bool:
        return not any(map(hold.conflicts, before))

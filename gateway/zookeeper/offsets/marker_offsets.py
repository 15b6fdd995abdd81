"""The offsets of transactions of dual groups: ZooKeeper has them before the marker that commits them is in the log.

A transaction that is about to get its marker was committed for good, and a crash in between repeats both steps.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from headgate.gateway.zookeeper.offsets.dual_group import DualGroup, State
from headgate.gateway.zookeeper.offsets.offset_nodes import Targets
from headgate.gateway.zookeeper.offsets.partition_locks import Hold, Partition
from headgate.gateway.zookeeper.offsets.waiting_request import leaving
from headgate.protocol.errors import KafkaError

if TYPE_CHECKING:
    from headgate.gateway.coordinator.groups.group_coordinator import GroupCoordinator

Append = Callable[[], None]
Failed = Callable[[KafkaError], None]


class MarkerOffsets:
    """What the writer of markers asks before it commits offsets in a partition of `__consumer_offsets`."""

    def __init__(self, groups: GroupCoordinator, dual: Callable[[str], DualGroup | None]) -> None:
        """`dual`: the group with an id, if its offsets are in both stores; raises KafkaError while that is unknown."""
        self._groups = groups
        self._dual = dual

    def hold_back(self, index: int, producer_id: int, append: Append, failed: Failed) -> bool:
        """Whether the marker has to wait; then `append` or `failed` is called later."""
        try:
            if not self.pending(index, producer_id):
                return False
        except KafkaError as error:
            failed(error)
            return True
        _Push(self, index, producer_id, append, failed).begin()
        return True

    def pending(self, index: int, producer_id: int) -> dict[DualGroup, dict[Partition, int]]:
        """The pending offsets of a producer, by dual group. Raises KafkaError."""
        shard = self._groups.shard_of(index)
        if shard is None:
            return {}
        offsets = shard.offsets
        found = {
            group: offsets.pending_offsets(group.group_id, producer_id)
            for group in map(self._dual, offsets.groups_of(producer_id))
            if group is not None
        }
        return {group: pending for group, pending in found.items() if pending}


class _Push:
    """The offsets of one transaction on their way into ZooKeeper, group by group."""

    def __init__(self, offsets: MarkerOffsets, index: int, producer_id: int, append: Append, failed: Failed) -> None:
        self._offsets = offsets
        self._index = index
        self._producer_id = producer_id
        self._append = append
        self._failed = failed
        self._holds: list[tuple[DualGroup, Hold]] = []
        self._pushed: dict[tuple[str, Partition], int | None] = {}

    def begin(self) -> None:
        """Push all groups, until nothing new is pending; then append the marker.

        Each round takes the locks in the order of the groups, so that two transactions never wait for each other.
        """
        self._release()
        pending = self._offsets.pending(self._index, self._producer_id)
        if self._is_pushed(pending):
            self._append()
        else:
            self._next(sorted(pending.items(), key=lambda item: item[0].group_id))

    def _is_pushed(self, pending: Mapping[DualGroup, Mapping[Partition, int]]) -> bool:
        return all(
            self._pushed.get((group.group_id, place)) == offset
            for group, offsets in pending.items()
            for place, offset in offsets.items()
        )

    def _next(self, left: list[tuple[DualGroup, dict[Partition, int]]]) -> None:
        if not left:
            # A late request of the producer may have added offsets
            if self._is_pushed(self._offsets.pending(self._index, self._producer_id)):
                self._append()
                self._release()
            else:
                self.begin()
            return
        (group, places), *others = left
        if group.state is not State.DUAL:  # to wait with the locks of other groups could stop all of them
            self._written(group, others, leaving())
            return
        hold = Hold(frozenset(places), lambda: None)
        hold.begin = partial(group.push, self._producer_id, hold, partial(self._written, group, others))
        self._holds.append((group, hold))
        group.acquire(hold)

    def _written(
        self, group: DualGroup, left: list[tuple[DualGroup, dict[Partition, int]]], result: Targets | KafkaError
    ) -> None:
        if isinstance(result, KafkaError):
            self._release()
            self._failed(result)
        else:
            self._pushed.update(((group.group_id, place), offset) for place, offset in result.items())
            self._next(left)

    def _release(self) -> None:
        holds, self._holds = self._holds, []
        for group, hold in holds:
            group.release(hold)

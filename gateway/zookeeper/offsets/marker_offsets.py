"""The offsets of transactions of dual groups: ZooKeeper has them before the marker that commits them is in the log.

A transaction that is about to get its marker was committed for good, and a crash in between repeats both steps.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from headgate.gateway.zookeeper.offsets.dual_group import DualGroup, State
from headgate.gateway.zookeeper.offsets.offset_nodes import Targets
from headgate.gateway.zookeeper.offsets.partition_locks import Hold, Partition
from headgate.gateway.zookeeper.offsets.waiting_request import ask_again, leaving
from headgate.protocol.errors import KafkaError

if TYPE_CHECKING:
    from headgate.gateway.coordinator.groups.group_coordinator import GroupCoordinator
    from headgate.gateway.coordinator.groups.group_shard import GroupShard
    from headgate.gateway.coordinator.transactions.markers import AppendMarker, Check, Failed

Pending = dict[DualGroup, dict[Partition, int]]


class MarkerOffsets:
    """What the writer of markers asks before it commits offsets in a partition of `__consumer_offsets`."""

    def __init__(self, groups: GroupCoordinator, dual: Callable[[str], DualGroup | None]) -> None:
        """`dual`: the group with an id, if its offsets are in both stores; raises KafkaError while that is unknown."""
        self._groups = groups
        self._dual = dual

    def hold_back(self, index: int, producer_id: int, append: AppendMarker, failed: Failed) -> Check | None:
        """Write the producer's pending offsets to ZooKeeper; None: the marker waits for `append` or `failed`.

        A marker that does not wait needs the returned check.
        """
        push = _Push(self, producer_id, append, failed)
        shard = self._groups.shard_of(index)
        try:
            pending = {} if shard is None else self.pending(shard, producer_id)
        except KafkaError as error:
            failed(error)
            return None
        if not pending:
            return push.check
        push.begin(pending)
        return None

    def pending(self, shard: GroupShard, producer_id: int) -> Pending:
        """The pending offsets of a producer, by dual group. Raises KafkaError."""
        offsets = shard.offsets
        found = {
            group: offsets.pending_offsets(group.group_id, producer_id)
            for group in map(self._dual, offsets.groups_of(producer_id))
            if group is not None
        }
        return {group: pending for group, pending in found.items() if pending}


class _Push:
    """The offsets of one transaction on their way into ZooKeeper, group by group."""

    def __init__(self, offsets: MarkerOffsets, producer_id: int, append: AppendMarker, failed: Failed) -> None:
        self._offsets = offsets
        self._producer_id = producer_id
        self._append = append
        self._failed = failed
        self._holds: list[tuple[DualGroup, Hold]] = []
        self._pushed: dict[tuple[str, Partition], int | None] = {}

    def begin(self, pending: Pending) -> None:
        """Push all groups; then append the marker.

        The locks are taken in the order of the groups, so that two transactions never wait for each other.
        """
        self._next(sorted(pending.items(), key=lambda item: item[0].group_id))

    def check(self, shard: GroupShard) -> None:
        """Raise KafkaError if the marker would commit an offset that ZooKeeper does not have.

        A late request of the producer adds such an offset. That request may wait for a slow disk, before the marker:
        so only the marker's own decision sees all pending offsets.
        """
        for group, offsets in self._offsets.pending(shard, self._producer_id).items():
            for place, offset in offsets.items():
                if self._pushed.get((group.group_id, place)) != offset:
                    raise ask_again("a late request has added offsets to the transaction")

    def _next(self, left: list[tuple[DualGroup, dict[Partition, int]]]) -> None:
        if not left:
            self._append(self.check)
            self._release()
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

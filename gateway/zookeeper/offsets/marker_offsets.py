"""The offsets of transactions of dual groups: ZooKeeper has them before the marker that commits them is in the log.

A transaction that is about to get its marker was committed for good, and a crash in between repeats both steps.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING

from headgate.gateway.runtime.tasks import Task
from headgate.gateway.zookeeper.offsets.client_errors import ask_again, leaving
from headgate.gateway.zookeeper.offsets.dual_group import DualGroup, State
from headgate.gateway.zookeeper.offsets.partition_locks import Partition

if TYPE_CHECKING:
    from headgate.gateway.coordinator.groups.group_coordinator import GroupCoordinator
    from headgate.gateway.coordinator.groups.group_shard import GroupShard
    from headgate.gateway.coordinator.transactions.markers import Check

Pending = dict[DualGroup, dict[Partition, int]]


class MarkerOffsets:
    """Asked by the writer of markers before it commits offsets in a partition of `__consumer_offsets`."""

    def __init__(self, groups: GroupCoordinator, dual: Callable[[str], DualGroup | None]) -> None:
        """`dual`: the group with an id, if its offsets are in both stores; raises KafkaError while that is unknown."""
        self._groups = groups
        self._dual = dual

    def before_marker(self, index: int, producer_id: int, locks: ExitStack) -> Check | Task[Check]:
        """Lock a producer's pending offsets, and write them to ZooKeeper. Returns the check of the marker's decision.

        The check is the result alone if there are no such offsets. Raises KafkaError, as the task does.
        """
        shard = self._groups.shard_of(index)
        pending = {} if shard is None else self.pending(shard, producer_id)
        push = _Push(self, producer_id)
        return push.write(pending, locks) if pending else push.check

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

    def __init__(self, offsets: MarkerOffsets, producer_id: int) -> None:
        self._offsets = offsets
        self._producer_id = producer_id
        self._pushed: dict[tuple[str, Partition], int | None] = {}

    def write(self, pending: Pending, locks: ExitStack) -> Task[Check]:
        """Lock the partitions of all groups, and push their offsets. Raises KafkaError.

        The locks are taken in the order of the groups, so that two transactions never wait for each other.
        """
        for group in sorted(pending, key=lambda group: group.group_id):
            if group.state is not State.DUAL:  # a wait with the locks of other groups could stop all of them
                raise leaving()
            lock = locks.enter_context(group.lock(frozenset(pending[group])))
            yield lock.acquire
            for partition, offset in (yield from group.push(self._producer_id, lock)).items():
                self._pushed[group.group_id, partition] = offset
        return self.check

    def check(self, shard: GroupShard) -> None:
        """Raise KafkaError if the marker would commit an offset that ZooKeeper does not have.

        A late request of the producer adds such an offset. That request may wait for a slow disk, before the marker:
        so only the marker's own decision sees all pending offsets.
        """
        for group, offsets in self._offsets.pending(shard, self._producer_id).items():
            for partition, offset in offsets.items():
                if self._pushed.get((group.group_id, partition)) != offset:
                    raise ask_again("a late request has added offsets to the transaction")

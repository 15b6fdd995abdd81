"""The offsets of a group are carried over: then both stores have the same ones, and a mark says so."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from headgate.gateway.config.offset_store import KAFKA
from headgate.gateway.coordinator.decision import Decision, Records, Ticket
from headgate.gateway.coordinator.groups.group_shard import GroupShard
from headgate.gateway.zookeeper.offsets.offset_nodes import Found, Targets
from headgate.gateway.zookeeper.offsets.partition_locks import Partition
from headgate.gateway.zookeeper.offsets.waiting_request import refusal
from headgate.gateway.zookeeper.session import KeeperError
from headgate.protocol.errors import KafkaError
from headgate.protocol.internal.offsets import decode_offset

if TYPE_CHECKING:
    from headgate.gateway.zookeeper.offsets.dual_group import DualGroup, Ended

MOST_READINGS: Final = 5
"""How often the nodes are read to carry offsets over, while others write them; then there is a pause."""


class GroupEntry:
    """The offsets of a group are carried over."""

    def __init__(self, group: DualGroup, source: str, note: Callable[[Ended], None], done: Ended) -> None:
        self._group = group
        self._source = source
        self._note = note
        self._done = done
        self._readings = 0

    def begin(self) -> None:
        self._readings += 1
        self._group.nodes.read_all(self._read)  # without watches, which cost most of the time

    def _read(self, found: Found | KeeperError) -> None:
        if isinstance(found, KeeperError):
            self._done(refusal(found))
        else:
            self._group.decide(partial(self._compare, found), self._compared)

    def _compare(self, found: Found, shard: GroupShard, ticket: Ticket) -> Decision:
        """Plan the records for the log, and the offsets for ZooKeeper."""
        group_id = self._group.group_id
        in_log = {
            (topic, index): decode_offset(packed).offset
            for topic, partitions in shard.offsets.groups.get(group_id, {}).items()
            for index, packed in partitions.items()
        }
        in_zookeeper = {place: node for place, node in found.items() if node.offset is not None}
        if self._source == KAFKA:
            records = self._group.differences(
                shard, {place: node for place, node in in_zookeeper.items() if place not in in_log}, is_whole=False
            )
        else:
            records = self._group.differences(shard, in_zookeeper, is_whole=False)
            in_log = {place: offset for place, offset in in_log.items() if place not in in_zookeeper}
        targets = {
            place: offset
            for place, offset in in_log.items()
            if place not in in_zookeeper or in_zookeeper[place].offset != offset
        }
        plan: Any = _Carry(records, targets)
        return Decision(replies=[(ticket, plan)])

    def _compared(self, plan: Any) -> None:
        if isinstance(plan, _Carry):
            # A node that was written meanwhile may be newer than what the log has
            self._group.nodes.write(plan.targets, partial(self._written, plan), as_read=True)
        else:
            self._done(plan)

    def _written(self, plan: _Carry, failed: dict[Partition, KeeperError]) -> None:
        errors = {error for error in failed.values() if error is not KeeperError.BAD_ARGUMENTS}
        if errors == {KeeperError.BAD_VERSION} and self._readings < MOST_READINGS:
            self.begin()
            return
        if errors:
            self._done(refusal(errors.pop()))
            return

        def write(_: GroupShard, ticket: Ticket) -> Decision:
            reply: Any = True
            return Decision(plan.records, [(ticket, reply)], is_atomic=False)

        self._group.decide(write, self._carried)

    def _carried(self, reply: Any) -> None:
        if isinstance(reply, KafkaError):
            self._done(reply)
        else:
            self._note(self._done)


class _Carry(NamedTuple):
    """What has to be written so that both sides have the same offsets."""

    records: Records
    targets: Targets

"""Groups of ZooKeeper in the responses about groups.

A group of ZooKeeper alone has the type "zookeeper" (ListGroups 5), and a protocol with that name. Members of the 0.8
age have the client id "zookeeper". They are also added to a classic group without own members: a client with
`offsets.storage=kafka` registers in ZooKeeper, and commits to the coordinator.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from headgate.protocol.internal.consumer_protocol import (
    PROTOCOL_TYPE,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
    encode,
)
from headgate.protocol.messages.describe_groups import DescribedGroup, DescribedGroupMember
from headgate.protocol.messages.list_groups import ListedGroup

if TYPE_CHECKING:
    from headgate.gateway.zookeeper.group_view import Listing, ZooKeeperGroup, ZooKeeperMember

ZOOKEEPER: Final = "zookeeper"
_EMPTY, _STABLE = "Empty", "Stable"
_RANGE: Final = "range"
"""The default of `partition.assignment.strategy` in the 0.8 age."""
_CLASSIC_NAMES: Final = frozenset(("", "classic"))


def merge_listed(
    rows: list[ListedGroup], listing: Listing, states: Collection[str], types: Collection[str]
) -> list[ListedGroup]:
    """Add ZooKeeper's groups to ListGroups. `states` and `types`: filters in lower case, empty for all groups.

    `rows`: all groups of the coordinator. The filter "classic" includes ZooKeeper's: older tools mean all groups.
    """
    known = {row.group_id for row in rows}
    for row in rows:
        if row.group_state == _EMPTY and row.group_type.lower() in _CLASSIC_NAMES and listing.get(row.group_id):
            row.group_state, row.protocol_type = _STABLE, row.protocol_type or PROTOCOL_TYPE
    found = [row for row in rows if not types or row.group_type.lower() in types]
    if not types or ZOOKEEPER in types or "classic" in types:
        found += [
            ListedGroup(name, PROTOCOL_TYPE, _STABLE if has_members else _EMPTY, ZOOKEEPER)
            for name, has_members in listing.items()
            if name not in known
        ]
    return [row for row in found if not states or row.group_state.lower() in states]


def merge_described(rows: Sequence[DescribedGroup], groups: Mapping[str, ZooKeeperGroup]) -> None:
    """Add ZooKeeper's members to the rows of DescribeGroups, and describe groups of ZooKeeper alone."""
    for row in rows:
        group = groups.get(row.group_id)
        if group is None:
            continue
        if row.group_state == "Dead":
            row.error_code, row.error_message, row.protocol_data = 0, None, ZOOKEEPER
        elif row.group_state == _EMPTY and group.members:
            row.protocol_data = _RANGE
        else:
            continue
        row.group_state = _STABLE if group.members else _EMPTY
        row.protocol_type = PROTOCOL_TYPE
        row.members = [_member(member) for member in group.members]


def _member(member: ZooKeeperMember) -> DescribedGroupMember:
    partitions = [TopicPartition(topic, list(indexes)) for topic, indexes in sorted(member.partitions.items())]
    return DescribedGroupMember(
        member.consumer_id,
        None,
        ZOOKEEPER,
        f"/{member.host}",
        encode(ConsumerProtocolSubscription(topics=list(member.topics)), 0),
        encode(ConsumerProtocolAssignment(assigned_partitions=partitions), 0),
    )

"""The groups of ZooKeeper, with the offsets in its nodes: each group is shown by the broker that would coordinate it.

The reads are those of requests about these groups, and bounded as they are: `GROUPS_AT_ONCE` groups are read at a time,
`MAX_GROUPS` in one survey. A group that cannot be read keeps its name, and has an error in place of offsets.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

from headgate.gateway.lag.readers import NO_TIME, Committed, GroupReading, OwningMember
from headgate.gateway.runtime.tasks import Task, gather
from headgate.gateway.zookeeper.group_rows import ZOOKEEPER
from headgate.gateway.zookeeper.group_view import Listing, ZooKeeperGroup
from headgate.protocol.errors import KafkaError
from headgate.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse

GROUPS_AT_ONCE: Final = 4
MAX_GROUPS: Final = 256
_EMPTY, _STABLE = "Empty", "Stable"


class GroupsView(Protocol):
    """The view of the groups in ZooKeeper (`gateway.zookeeper.group_view`)."""

    @property
    def is_failing(self) -> bool:
        """Whether the last read has failed."""

    def list_groups(self) -> Task[Listing]:
        """Whether each group has members."""

    def describe(self, names: Any) -> Task[Mapping[str, ZooKeeperGroup]]:
        """The named groups with their members."""


FetchZero = Callable[[OffsetFetchRequest], Task[OffsetFetchResponse]]
"""The offsets in the nodes of a group. Raises KafkaError."""


class ZooKeeperGroups:
    """Reads the groups that are in ZooKeeper alone."""

    def __init__(self, view: GroupsView, fetch_zero: FetchZero, coordinates: Callable[[str], bool]) -> None:
        self._view = view
        self._fetch_zero = fetch_zero
        self._coordinates = coordinates
        self._names: tuple[str, ...] = ()
        """The groups of the last listing: they are named while ZooKeeper does not answer."""

    def read(self, coordinated: Mapping[str, GroupReading]) -> Task[list[GroupReading]]:
        """The groups that the coordinator does not have. To its groups without members those of ZooKeeper are added."""
        listing = yield from self._view.list_groups()
        if self._view.is_failing:
            error = "ZooKeeper does not answer"
            return [GroupReading(name, ZOOKEEPER, error=error) for name in self._names if name not in coordinated]
        names = [name for name in listing if self._coordinates(name)]
        self._names = tuple(name for name in names if name not in coordinated)
        with_members = [
            name for name in names if name in coordinated and listing[name] and not coordinated[name].members
        ]
        read, unread = self._names[:MAX_GROUPS], self._names[MAX_GROUPS:]
        groups = yield from self._view.describe([*read, *with_members[:MAX_GROUPS]])
        for name in with_members:
            if name in groups:
                add_members(coordinated[name], groups[name])
        readings = yield from gather([self._read(name, groups.get(name)) for name in read], GROUPS_AT_ONCE)
        error = f"only {MAX_GROUPS} groups of ZooKeeper are read"
        return [*readings, *(GroupReading(name, ZOOKEEPER, error=error) for name in unread)]

    def _read(self, name: str, group: ZooKeeperGroup | None) -> Task[GroupReading]:
        reading = GroupReading(name, ZOOKEEPER, _EMPTY, 0)
        if group is not None:
            add_members(reading, group)
        try:
            answer = yield from self._fetch_zero(OffsetFetchRequest(group_id=name, topics=[]))
        except KafkaError as error:
            reading.error = error.message
            return reading
        for topic in answer.topics:
            for row in topic.partitions:
                if topic.name and row.committed_offset >= 0:
                    committed = Committed(row.committed_offset, NO_TIME)
                    reading.offsets.setdefault(topic.name, {})[row.partition_index] = committed
                elif not topic.name and row.error_code:
                    reading.error = "ZooKeeper refuses to tell the offsets"
        return reading


def add_members(reading: GroupReading, group: ZooKeeperGroup) -> None:
    """Give a group its members in ZooKeeper."""
    reading.state = _STABLE if group.members else _EMPTY
    reading.members = len(group.members)
    reading.owners = {
        (topic, index): OwningMember(member.consumer_id, ZOOKEEPER, f"/{member.host}")
        for member in group.members
        for topic, indexes in member.partitions.items()
        for index in indexes
    }

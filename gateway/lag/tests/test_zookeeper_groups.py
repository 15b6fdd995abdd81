"""Groups of ZooKeeper: what is read of them, by whom, and what is left of them without an answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headgate.gateway.lag.readers import NO_TIME, Committed, GroupReading, OwningMember
from headgate.gateway.lag.zookeeper_groups import MAX_GROUPS, ZooKeeperGroups
from headgate.gateway.runtime.tasks import Task, as_task, run
from headgate.gateway.zookeeper.group_view import ZooKeeperGroup, ZooKeeperMember
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)

MEMBER = ZooKeeperMember("g_web-1-5-00", "web", ("t",), {"t": [0]})


class View:
    """A view with these groups; `is_failing` has it know none."""

    def __init__(self, **members: bool) -> None:
        self.members = members
        self.is_failing = False

    def list_groups(self) -> Task[Mapping[str, bool]]:
        return as_task({} if self.is_failing else self.members)

    def describe(self, names: Any) -> Task[Mapping[str, ZooKeeperGroup]]:
        return as_task({name: ZooKeeperGroup(name, (MEMBER,) if self.members[name] else ()) for name in names})


def fetch_zero(request: OffsetFetchRequest) -> Task[OffsetFetchResponse]:
    """Two offsets; the nodes of another partition have none, or no number."""
    if request.group_id == "lost":
        raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "ZooKeeper: CONNECTION_LOSS")
    codes = {2: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 3: ErrorCode.UNKNOWN_SERVER_ERROR}
    rows = [
        OffsetFetchResponsePartition(index, -1 if index in codes else 7 + index, -1, "", codes.get(index, 0))
        for index in range(4)
    ]
    return as_task(OffsetFetchResponse(topics=[OffsetFetchResponseTopic("t", rows)]))


def read(groups: ZooKeeperGroups, **coordinated: GroupReading) -> dict[str, GroupReading]:
    found: list[Any] = []
    run(groups.read(coordinated), found.append)
    assert isinstance(found[0], list), found
    return {reading.name: reading for reading in found[0]}


def everything(_name: str) -> bool:
    return True


def test_a_group_has_its_offsets_and_members() -> None:
    (reading,) = read(ZooKeeperGroups(View(g=True), fetch_zero, everything)).values()
    offsets = {"t": {0: Committed(7, NO_TIME), 1: Committed(8, NO_TIME)}}
    owners = {("t", 0): OwningMember("g_web-1-5-00", "zookeeper", "/web")}
    assert reading == GroupReading("g", "zookeeper", "Stable", 1, owners, offsets)


def test_another_broker_shows_other_groups() -> None:
    groups = ZooKeeperGroups(View(mine=False, other=False), fetch_zero, lambda name: name == "mine")
    assert [*read(groups)] == ["mine"]


def test_the_offsets_of_the_coordinator_count() -> None:
    """ZooKeeper adds its members to a group without own ones."""
    groups = ZooKeeperGroups(View(g=True, h=True), fetch_zero, everything)
    g, h = GroupReading("g", "classic", "Empty", 0), GroupReading("h", "classic", "Stable", 3)
    assert read(groups, g=g, h=h) == {}
    assert (g.state, g.members, len(g.owners)) == ("Stable", 1, 1)
    assert (h.state, h.members, len(h.owners)) == ("Stable", 3, 0)


def test_groups_are_named_while_zookeeper_is_silent() -> None:
    view = View(g=False)
    groups = ZooKeeperGroups(view, fetch_zero, everything)
    read(groups)
    view.is_failing = True
    assert read(groups) == {"g": GroupReading("g", "zookeeper", error="ZooKeeper does not answer")}


def test_a_group_that_cannot_be_read_has_an_error() -> None:
    reading = read(ZooKeeperGroups(View(lost=False), fetch_zero, everything))["lost"]
    assert (reading.offsets, reading.error) == ({}, "ZooKeeper: CONNECTION_LOSS")


def test_a_survey_reads_a_limited_number_of_groups() -> None:
    view = View(**{f"g{number:04}": False for number in range(MAX_GROUPS + 2)})
    found = read(ZooKeeperGroups(view, fetch_zero, everything))
    unread = [name for name, reading in found.items() if reading.error]
    assert (len(found), unread) == (MAX_GROUPS + 2, ["g0256", "g0257"])

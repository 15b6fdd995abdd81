"""Groups of ZooKeeper in ListGroups and DescribeGroups: marked, filtered, joined with the coordinator's, waited for."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from headgate.gateway.api.handlers.each import VIEW_WAIT_MS
from headgate.gateway.runtime.tasks import Task, is_task
from headgate.gateway.tests.builders import HandlerBroker
from headgate.gateway.tests.requests import commit_request
from headgate.gateway.zookeeper.group_view import Listing, ZooKeeperGroup, ZooKeeperMember
from headgate.protocol.errors import ErrorCode
from headgate.protocol.internal.consumer_protocol import decode_assignment, decode_subscription
from headgate.protocol.messages.describe_groups import DescribeGroupsRequest
from headgate.protocol.messages.list_groups import ListGroupsRequest


class FakeView:
    """Groups as ZooKeeper has them; `is_slow`: the answers come by `answer`."""

    def __init__(self) -> None:
        member = ZooKeeperMember("live_host-1-0a", "host", ("t",), {"t": [0, 1]})
        self.groups = {
            "live": ZooKeeperGroup("live", (member,)),
            "idle": ZooKeeperGroup("idle", ()),
            "both": ZooKeeperGroup("both", (member,)),
        }
        self.is_slow = False
        self.answer: Callable[[], None] = lambda: None

    def list_groups(self) -> Task[Listing]:
        return self._found({name: bool(group.members) for name, group in self.groups.items()})

    def describe(self, names: Collection[str]) -> Task[Mapping[str, ZooKeeperGroup]]:
        return self._found({name: group for name, group in self.groups.items() if name in names})

    def _found(self, value: Any) -> Task[Any]:
        return (yield partial(self._tell, value))

    def _tell(self, value: Any, resume: Callable[[Any], None]) -> None:
        if self.is_slow:
            self.answer = lambda: resume(value)
        else:
            resume(value)


@pytest.fixture
def view() -> FakeView:
    return FakeView()


@pytest.fixture
def node(tmp_path: Path, view: FakeView) -> Iterator[HandlerBroker]:
    """A broker whose coordinator has offsets of `both` and `new`."""
    node = HandlerBroker(tmp_path)
    node.services.metadata.create_topic("t", 2)
    for group in ("both", "new"):
        node.ask(commit_request(group, {0: 5}), 8)
    node.services.zookeeper_groups = view  # type: ignore[assignment]
    yield node
    node.close()


def listed(node: HandlerBroker, version: int = 5, states: tuple[str, ...] = (), types: tuple[str, ...] = ()) -> Any:
    response = node.ask(ListGroupsRequest(list(states), list(types)), version)
    return sorted((row.group_id, row.protocol_type, row.group_state, row.group_type) for row in response.groups)


BOTH, NEW = ("both", "consumer", "Stable", "classic"), ("new", "", "Empty", "classic")
IDLE, LIVE = ("idle", "consumer", "Empty", "zookeeper"), ("live", "consumer", "Stable", "zookeeper")


def test_groups_of_zookeeper_are_listed_with_their_store(node: HandlerBroker) -> None:
    assert listed(node) == [BOTH, IDLE, LIVE, NEW]
    assert listed(node, 3) == [(name, kind, "", "") for name, kind, _, _ in (BOTH, IDLE, LIVE, NEW)]


@pytest.mark.parametrize(
    "states, types, rows",
    [
        (("Stable",), (), [BOTH, LIVE]),
        (("EMPTY",), (), [IDLE, NEW]),
        ((), ("classic", "consumer"), [BOTH, IDLE, LIVE, NEW]),
        ((), ("Zookeeper",), [IDLE, LIVE]),
        ((), ("consumer",), []),
        (("empty",), ("zookeeper",), [IDLE]),
    ],
)
def test_the_filters_know_groups_of_zookeeper(
    node: HandlerBroker, states: tuple[str, ...], types: tuple[str, ...], rows: list[Any]
) -> None:
    assert listed(node, 5, states, types) == rows


def described(node: HandlerBroker, name: str, version: int = 5) -> Any:
    (row,) = node.ask(DescribeGroupsRequest([name]), version).groups
    return row


@pytest.mark.parametrize("version", [0, 5, 6])
def test_a_group_that_zookeeper_alone_has_is_described(node: HandlerBroker, version: int) -> None:
    row = described(node, "live", version)
    assert (row.error_code, row.group_state, row.protocol_type, row.protocol_data) == (
        0,
        "Stable",
        "consumer",
        "zookeeper",
    )
    (member,) = row.members
    assert (member.member_id, member.client_id, member.client_host) == ("live_host-1-0a", "zookeeper", "/host")
    (assigned,) = decode_assignment(member.member_assignment).assigned_partitions
    assert (assigned.topic, list(assigned.partitions)) == ("t", [0, 1])
    assert decode_subscription(member.member_metadata).topics == ["t"]
    row = described(node, "idle", version)
    assert (row.group_state, row.protocol_data, row.members) == ("Empty", "zookeeper", [])


def test_members_of_zookeeper_join_a_group_of_offsets(node: HandlerBroker) -> None:
    row = described(node, "both")
    assert (row.group_state, row.protocol_type, row.protocol_data) == ("Stable", "consumer", "range")
    assert [member.client_id for member in row.members] == ["zookeeper"]


def test_other_groups_are_as_before(node: HandlerBroker, view: FakeView) -> None:
    view.groups["new"] = ZooKeeperGroup("new", ())
    assert described(node, "new").group_state == "Empty"
    assert described(node, "unknown", 6).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert described(node, "unknown").group_state == "Dead"


@pytest.mark.parametrize("request_", [ListGroupsRequest(), DescribeGroupsRequest(["both", "live"])])
def test_a_request_waits_for_zookeeper(node: HandlerBroker, view: FakeView, request_: Any) -> None:
    view.is_slow = True
    replies: list[Any] = []
    waiting = node.handle(request_, 5)
    assert is_task(waiting)
    node.services.tasks.start(waiting, replies.append)
    view.answer()
    node.time.advance()
    assert len(replies) == 1


def test_after_some_seconds_the_coordinator_answers_alone(node: HandlerBroker, view: FakeView) -> None:
    view.is_slow = True
    replies: list[Any] = []
    waiting = node.handle(DescribeGroupsRequest(["both"]), 5)
    assert is_task(waiting)
    node.services.tasks.start(waiting, replies.append)
    node.time.advance(VIEW_WAIT_MS)
    assert [row.group_state for row in replies[0].groups] == ["Empty"]

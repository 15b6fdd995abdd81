"""The view of groups in ZooKeeper, over the model: what it shows, what it costs, and what it leaves out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from headgate.gateway.runtime.tasks import run
from headgate.gateway.runtime.tests.fake_scheduler import ManualTime
from headgate.gateway.zookeeper.group_view import KEPT_MS, GroupView, ZooKeeperGroup, ZooKeeperMember
from headgate.gateway.zookeeper.session import Create
from headgate.gateway.zookeeper.tests.model import Fault, ZooKeeperModel

CONSUMER = "g_web-1.example-1795244443115-0a1b2c3d"


class Consumers:
    """What clients of the 0.8 age write, and a broker that looks."""

    def __init__(self, max_groups: int = 100) -> None:
        self.time = ManualTime()
        self.keeper = ZooKeeperModel()
        self.session = self.keeper.session()
        self.session.start()
        self.keeper.run()
        self.view = GroupView(self.session, self.time.clock, max_groups)

    def put(self, path: str, data: bytes | None = None) -> None:
        """Create a node and its parents."""
        names = path.split("/")[1:]
        for count in range(1, len(names) + 1):
            above = "/" + "/".join(names[:count])
            if above not in self.keeper.tree.nodes:
                self.keeper.transact(7, [Create(above, data if above == path else None)])

    def add_member(self, group: str, consumer_id: str, data: bytes, owned: Sequence[tuple[str, int]] = ()) -> None:
        self.put(f"/consumers/{group}/ids/{consumer_id}", data)
        for topic, partition in owned:
            self.put(f"/consumers/{group}/owners/{topic}/{partition}", f"{consumer_id}-0".encode())

    def listed(self) -> Any:
        found: list[Any] = []
        run(self.view.list_groups(), found.append)
        self.keeper.run()
        return found[0]

    def described(self, *names: str) -> Any:
        found: list[Any] = []
        run(self.view.describe(names), found.append)
        self.keeper.run()
        return found[0]


STATIC = b'{"version":1,"subscription":{"t":1,"a":2},"pattern":"static","timestamp":"1"}'
PATTERN = b'{"version":1,"subscription":{"t.*":1},"pattern":"white_list","timestamp":"1"}'


def test_groups_with_and_without_members() -> None:
    world = Consumers()
    world.put("/consumers/old/offsets/t/0", b"5")
    world.add_member("g", CONSUMER, STATIC)
    assert world.listed() == {"old": False, "g": True}


def test_members_with_their_partitions() -> None:
    world = Consumers()
    world.add_member("g", CONSUMER, STATIC, [("t", 1), ("t", 0), ("a", 3)])
    world.add_member("g", "other", PATTERN)
    assert world.described("g", "unknown") == {
        "g": ZooKeeperGroup(
            "g",
            (
                ZooKeeperMember(CONSUMER, "web-1.example", ("a", "t"), {"a": [3], "t": [0, 1]}),
                ZooKeeperMember("other", "other", (), {}),
            ),
        )
    }


def test_nothing_is_there_before_the_first_consumer() -> None:
    world = Consumers()
    assert world.listed() == {}
    assert world.described("g") == {}


def test_what_cannot_be_read_is_left_out() -> None:
    world = Consumers()
    world.add_member("g", "one", b"no json")
    world.put("/consumers/g/owners/t/x", b"one-0")
    world.put("/consumers/g/owners/t/1", b"\xff")
    world.put("/consumers/g/owners/t?/2", b"one-0")
    assert world.described("g")["g"].members == (ZooKeeperMember("one", "one", (), {}),)


def test_an_owner_that_is_not_registered_is_a_member() -> None:
    """It reads, and may commit, though somebody has deleted its registration."""
    world = Consumers()
    world.add_member("g", "one", STATIC, [("t", 0)])
    world.put("/consumers/g/owners/t/1", CONSUMER.encode() + b"-0")
    assert world.described("g")["g"].members == (
        ZooKeeperMember("one", "one", ("a", "t"), {"t": [0]}),
        ZooKeeperMember(CONSUMER, "web-1.example", (), {"t": [1]}),
    )


def test_a_look_is_kept_for_some_seconds() -> None:
    world = Consumers()
    world.put("/consumers/g")
    assert world.listed() == {"g": False}
    world.put("/consumers/h")
    assert world.listed() == {"g": False}
    world.time.advance(KEPT_MS)
    assert world.listed() == {"g": False, "h": False}


def test_those_who_ask_at_once_share_one_reading() -> None:
    world = Consumers()
    world.put("/consumers/g")
    found: list[Any] = []
    for _ in range(3):
        run(world.view.list_groups(), found.append)
    assert len(world.session.requests) == 1
    world.keeper.run()
    assert found == [{"g": False}] * 3


def test_the_number_of_groups_is_bounded(caplog: pytest.LogCaptureFixture) -> None:
    world = Consumers(max_groups=2)
    for name in "cab":
        world.put(f"/consumers/{name}")
    assert world.listed() == {"a": False, "b": False}
    world.time.advance(KEPT_MS)
    world.listed()
    assert [record.message for record in caplog.records] == ["ZooKeeper has 3 groups: 2 of them are shown"]


def test_a_group_behind_the_limit_is_described() -> None:
    world = Consumers(max_groups=1)
    world.put("/consumers/a")
    world.add_member("b", "one", STATIC)
    assert world.listed() == {"a": False}
    described = world.described("b", "a", "unknown", "a/b")
    assert described.keys() == {"a", "b"}
    assert [member.consumer_id for member in described["b"].members] == ["one"]


def test_without_zookeeper_nothing_is_shown_and_one_line_says_so(caplog: pytest.LogCaptureFixture) -> None:
    world = Consumers()
    world.put("/consumers/g")
    world.session.faults.append(Fault.BEFORE)
    assert world.listed() == {}
    assert world.described("g") == {}
    assert [record.message for record in caplog.records] == [
        "the groups in ZooKeeper are not shown for now: ZooKeeper's /consumers: CONNECTION_LOSS"
    ]
    world.keeper.connect(world.session)
    world.keeper.run()
    assert world.listed() == {"g": False}


def test_few_requests_are_on_their_way_at_once() -> None:
    world = Consumers()
    for number in range(50):
        owned = [(f"t{topic}", index) for topic in range(5) for index in range(10)] if number < 3 else []
        world.add_member(f"g{number}", "one", STATIC, owned)
    found: list[Any] = []
    run(world.view.list_groups(), found.append)
    run(world.view.describe([f"g{number}" for number in range(50)]), found.append)
    most = 0
    while world.keeper.step():
        most = max(most, len(world.session.requests) + len(world.session.answers))
    assert most == 8
    assert [len(one) for one in found] == [50, 50]
    assert {topic: len(rows) for topic, rows in found[1]["g2"].members[0].partitions.items()} == {
        f"t{number}": 10 for number in range(5)
    }


def test_names_that_no_response_can_have_are_left_out(caplog: pytest.LogCaptureFixture) -> None:
    world = Consumers()
    long = "x" * 40_000
    world.add_member("g", long, STATIC)
    world.add_member("g", "broken", b"{")
    world.add_member("g", "strange", b'{"version":1,"subscription":{"%s":1},"pattern":"static"}' % long.encode())
    world.add_member("g", CONSUMER, STATIC)
    world.put(f"/consumers/{long}/ids")
    world.put("/consumers/g/owners/my topic/0", b"x")
    world.put("/consumers/g/owners/t/01", b"x")
    world.put("/consumers/g/owners/t/1", long.encode() + b"-0")
    for _ in range(3):
        assert world.listed() == {"g": True}
        members = world.described("g")["g"].members
        assert [(one.consumer_id, one.topics) for one in members] == [
            ("broken", ()), (CONSUMER, ("a", "t")), ("strange", ()),
        ]  # fmt: skip
        world.time.advance(KEPT_MS)
    paths = [line.removeprefix("ZooKeeper's ").split(": ")[0] for line in caplog.messages]
    assert len(paths) == len(set(paths)) == 7, "each is named once"

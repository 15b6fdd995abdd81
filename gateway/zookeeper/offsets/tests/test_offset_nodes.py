from functools import partial
from typing import Any

import pytest

from headgate.gateway.runtime.tasks import Caller, Task, run
from headgate.gateway.zookeeper.combined_writes import CombinedWrites
from headgate.gateway.zookeeper.layout.node import InvalidNode
from headgate.gateway.zookeeper.offsets.offset_nodes import ABSENT, IN_FLIGHT, NO_OFFSET, NodeOffset, OffsetNodes
from headgate.gateway.zookeeper.requests import Failed
from headgate.gateway.zookeeper.session import ANY_VERSION, Create, Delete, KeeperError, SetData
from headgate.gateway.zookeeper.tests.model import Fault, ZooKeeperModel

A, B = ("t", 0), ("t", 1)
GONE = Caller()
GONE.is_gone = True


class Nodes:
    """The nodes of the group g, in the model."""

    def __init__(self) -> None:
        self.keeper = ZooKeeperModel()
        self.session = self.keeper.session()
        self.session.start()
        self.keeper.run()
        self.writes = CombinedWrites(self.session)
        self.nodes = OffsetNodes(self.session, self.writes, "g")

    def read(self, *places: tuple[str, int]) -> Any:
        return self.result(self.nodes.read(places))

    def read_all(self, watch: Any = None) -> Any:
        return self.result(self.nodes.read_all(watch))

    def write(self, targets: dict[tuple[str, int], int | None], **options: Any) -> Any:
        return self.result(self.nodes.write(targets, **options))

    def result(self, task: Task[Any]) -> Any:
        results: list[Any] = []
        run(task, results.append)
        self.keeper.run()
        return results[0]

    def put(self, path: str, data: bytes) -> None:
        """Another client writes."""
        existing = self.keeper.tree.nodes.get(path)
        operation = Create(path, data) if existing is None else SetData(path, data, ANY_VERSION)
        self.keeper.transact(99, [operation])

    def data(self, place: tuple[str, int] = A) -> bytes | None:
        return self.keeper.tree.nodes[f"/consumers/g/offsets/{place[0]}/{place[1]}"].data


def test_a_write_creates_the_nodes_and_their_parents() -> None:
    nodes = Nodes()
    assert nodes.write({A: 41, B: 7, ("u", 3): -1}) == {}
    assert nodes.data(A) == b"41"
    assert nodes.data(("u", 3)) == b"-1"
    assert nodes.nodes.versions == {A: 0, B: 0, ("u", 3): 0}
    assert nodes.read(A, B, ("t", 2)) == {A: NodeOffset(41, 0), B: NodeOffset(7, 0), ("t", 2): NO_OFFSET}


def test_one_more_write_has_the_version_that_is_known() -> None:
    nodes = Nodes()
    nodes.write({A: 1})
    assert nodes.write({A: 2}) == {}
    assert nodes.nodes.versions[A] == 1
    assert nodes.write({A: None}) == {}
    assert nodes.nodes.versions[A] == ABSENT
    assert nodes.read(A) == {A: NO_OFFSET}
    assert nodes.write({A: None}) == {}, "it is gone already"


@pytest.mark.parametrize("targets", [{A: 5}, {A: 5, B: 6}])
def test_a_write_meets_one_of_another_client(targets: dict[tuple[str, int], int | None]) -> None:
    nodes = Nodes()
    nodes.write({A: 1, B: 1})
    nodes.put("/consumers/g/offsets/t/0", b"100")
    assert nodes.write(targets) == {}
    assert nodes.data() == b"5"
    assert nodes.nodes.versions[A] == 2


def test_a_write_meets_a_deletion_of_nodes_and_parents() -> None:
    nodes = Nodes()
    nodes.write({A: 1})
    nodes.keeper.transact(99, [Delete("/consumers/g/offsets/t/0"), Delete("/consumers/g/offsets/t")])
    assert nodes.write({A: 2, B: 3}) == {}
    assert (nodes.data(A), nodes.data(B)) == (b"2", b"3")


def test_the_end_of_a_connection_leaves_nothing_known() -> None:
    nodes = Nodes()
    nodes.write({A: 1, B: 1})
    nodes.session.faults.append(Fault.AFTER)
    assert nodes.write({A: 2, B: 2}) == {A: KeeperError.CONNECTION_LOSS, B: KeeperError.CONNECTION_LOSS}
    assert nodes.nodes.versions == {}
    assert nodes.write({A: 3}) == {A: KeeperError.NOT_CONNECTED}
    nodes.keeper.connect(nodes.session)
    nodes.keeper.run()
    assert nodes.read(A) == {A: NodeOffset(2, 1)}


def test_nothing_is_sent_for_nobody() -> None:
    nodes = Nodes()
    nodes.write({A: 1})
    assert nodes.write({A: 2}, caller=GONE) == {A: KeeperError.NOT_CONNECTED}
    assert nodes.data() == b"1"


def test_many_partitions_are_several_multis() -> None:
    nodes = Nodes()
    targets = {("t", index): index for index in range(250)}
    assert nodes.write(targets) == {}  # type: ignore[arg-type]
    assert nodes.read_all() == {place: NodeOffset(offset, 0) for place, offset in targets.items()}


def test_reads_are_bounded_in_flight() -> None:
    nodes = Nodes()
    run(nodes.nodes.read([("t", index) for index in range(1_000)]), lambda _: None)
    nodes.keeper.step()
    nodes.keeper.step()
    assert len(nodes.session.requests) <= IN_FLIGHT
    nodes.keeper.run()


def test_names_that_cannot_be_in_zookeeper() -> None:
    nodes = Nodes()
    assert nodes.write({("a/b", 0): 1, A: 2}) == {("a/b", 0): KeeperError.BAD_ARGUMENTS}
    assert nodes.data() == b"2"
    assert nodes.read(("a/b", 0), A) == {("a/b", 0): NO_OFFSET, A: NodeOffset(2, 0)}
    with pytest.raises(InvalidNode):
        OffsetNodes(nodes.session, nodes.writes, "a/b")


def test_data_that_are_no_number() -> None:
    nodes = Nodes()
    nodes.write({A: 1, B: 1})
    nodes.put("/consumers/g/offsets/t/0", b"forty-one")
    nodes.put("/consumers/g/offsets/t/1", b"+0041")
    assert nodes.read(A, B) == {A: NodeOffset(None, 1), B: NodeOffset(41, 1)}


def test_all_offsets_of_a_group() -> None:
    nodes = Nodes()
    assert nodes.read_all() == {}
    nodes.write({A: 1, ("u", 5): 2})
    nodes.put("/consumers/g/offsets/no topic", b"")
    nodes.put("/consumers/g/offsets/t/no-number", b"")
    nodes.nodes.versions["gone", 0] = 3
    assert nodes.read_all() == {A: NodeOffset(1, 0), ("u", 5): NodeOffset(2, 0)}
    assert nodes.nodes.versions["gone", 0] == ABSENT


def test_a_watch_tells_of_the_first_offset_and_of_changes() -> None:
    nodes, told = Nodes(), list[str]()
    nodes.read_all(told.append)
    nodes.write({A: 1})
    assert told == ["/consumers/g/offsets"]
    nodes.read_all(told.append)
    nodes.put("/consumers/g/offsets/t/0", b"7")
    nodes.keeper.run()
    assert told[1:] == ["/consumers/g/offsets/t/0"]
    assert nodes.nodes.partition_of(told[1]) == A
    assert nodes.nodes.partition_of("/consumers/g/offsets/t") == ("t", None)
    assert nodes.nodes.partition_of("/consumers/g/offsets") == (None, None)
    assert nodes.nodes.partition_of("/consumers/g/offsets/t/x") == (None, None)


def test_nodes_are_read_together_and_watched_together(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes, told, asked = Nodes(), list[str](), list[tuple[str, int]]()
    nodes.write({("t", index): index for index in range(10)})

    def ask(name: str, request: Any, paths: Any, *more: Any) -> None:
        asked.append((name, len(paths)))
        request(paths, *more)

    for name in ("get", "get_many", "watch_many"):
        monkeypatch.setattr(nodes.session, name, partial(ask, name, getattr(nodes.session, name)))

    def requests() -> list[tuple[str, int]]:
        asked.clear()
        assert len(nodes.result(nodes.nodes.read_unsynced([("t", index) for index in range(10)], told.append))) == 10
        return list(asked)

    assert requests() == [("get_many", 10), ("watch_many", 10)]
    assert requests() == [("get_many", 10)]
    nodes.put("/consumers/g/offsets/t/3", b"7")
    nodes.keeper.run()
    assert told == ["/consumers/g/offsets/t/3"]
    nodes.nodes.unwatch(("t", 3))
    assert requests() == [("get_many", 10), ("watch_many", 1)]
    assert nodes.nodes.versions["t", 3] == 1
    nodes.put("/consumers/g/offsets/t/3", b"8")
    nodes.keeper.run()
    assert len(told) == 2, "it is watched again"
    nodes.nodes.forget_watches()
    assert requests() == [("get_many", 10), ("watch_many", 10)]


@pytest.mark.parametrize("skipped", range(4))
def test_a_read_ends_once_when_the_connection_does(skipped: int) -> None:
    nodes = Nodes()
    nodes.write({A: 1, B: 1})
    nodes.session.faults.extend([None] * skipped + [Fault.BEFORE])
    assert isinstance(nodes.read_all(), Failed)

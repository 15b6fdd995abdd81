from typing import Any

import pytest

from headgate.gateway.zookeeper.combined_writes import AT_A_TIME, MOST_OPERATIONS, CombinedWrites
from headgate.gateway.zookeeper.session import (
    ANY_VERSION,
    Create,
    Delete,
    KeeperError,
    Operation,
    Refused,
    SetData,
    Stat,
)
from headgate.gateway.zookeeper.tests.model import Fault, ZooKeeperModel


class Writes:
    """Writes to the model, and what they are answered."""

    def __init__(self) -> None:
        self.keeper = ZooKeeperModel()
        self.session = self.keeper.session()
        self.session.start()
        self.keeper.run()
        self.writes = CombinedWrites(self.session)
        self.answers: dict[str, Any] = {}

    def write(self, name: str, *operations: Operation) -> None:
        def done(answer: Any) -> None:
            assert name not in self.answers
            self.answers[name] = answer

        self.writes.write(operations, done)

    def run(self) -> dict[str, Any]:
        self.keeper.run()
        return self.answers


@pytest.fixture
def writes() -> Writes:
    return Writes()


def test_each_write_has_its_own_results(writes: Writes) -> None:
    for number in range(6):
        writes.write(f"w{number}", Create(f"/n{number}", b"1"), SetData(f"/n{number}", b"2", 0))
    assert len(writes.session.requests) == AT_A_TIME
    zxid = writes.keeper.tree.zxid
    for number, answer in enumerate(writes.run().values()):
        assert answer[0] == f"/n{number}"
        assert isinstance(answer[1], Stat)
    assert writes.keeper.tree.zxid == zxid + AT_A_TIME + 1, "four writes became one"


def test_a_refused_write_stops_no_other(writes: Writes) -> None:
    writes.write("first", Create("/a"))
    writes.write("second", Create("/b"))
    writes.write("good", Create("/c"), Create("/d"))
    writes.write("bad", Create("/e"), SetData("/unknown", b"", ANY_VERSION))
    writes.write("last", Create("/f"))
    answers = writes.run()
    assert answers["good"] == ("/c", "/d")
    assert answers["bad"] == Refused(1, KeeperError.NO_NODE)
    assert answers["last"] == ("/f",)
    assert "/e" not in writes.keeper.tree.nodes


def test_writes_keep_their_order(writes: Writes) -> None:
    writes.write("a", Create("/a", b"0"))
    writes.write("b", Create("/b"))
    writes.write("bad", Delete("/unknown"))
    for value in range(5):
        writes.write(f"set {value}", SetData("/a", b"%d" % value, value))
    answers = writes.run()
    assert all(isinstance(answers[f"set {value}"][0], Stat) for value in range(5))
    assert writes.keeper.tree.nodes["/a"].data == b"4"


@pytest.mark.parametrize("operation", [Delete("/unknown"), SetData("/unknown", b""), Create("/a/b")])
def test_one_operation_alone(writes: Writes, operation: Operation) -> None:
    writes.write("bad", operation)
    assert writes.run() == {"bad": Refused(0, KeeperError.NO_NODE)}


def test_the_end_of_a_connection_is_told_to_all(writes: Writes) -> None:
    writes.session.faults.append(Fault.AFTER)
    for number in range(6):
        writes.write(f"w{number}", Create(f"/n{number}"))
    answers = writes.run()
    assert set(answers.values()) == {KeeperError.CONNECTION_LOSS, KeeperError.NOT_CONNECTED}
    writes.keeper.connect(writes.session)
    writes.keeper.run()
    writes.write("later", Create("/later"))
    assert writes.run()["later"] == ("/later",)


def test_a_fault_of_one_write_keeps_no_other_waiting(writes: Writes) -> None:
    def fault(_: Any) -> None:
        raise RuntimeError

    writes.write("a", Create("/a"))
    writes.write("b", Create("/b"))
    writes.writes.write([Create("/c")], fault)
    writes.write("d", Create("/d"))
    assert writes.run()["d"] == ("/d",)


def test_a_large_write_is_alone(writes: Writes) -> None:
    long = "n" * 100_000
    for number in range(20):
        writes.write(f"w{number}", Create(f"/{long}{number}"))
    assert all(isinstance(answer, tuple) for answer in writes.run().values())


def test_a_multi_has_so_many_operations(writes: Writes) -> None:
    for number in range(MOST_OPERATIONS + 10):
        writes.write(f"w{number}", Create(f"/n{number}"))
    writes.write("large", *(Create(f"/m{number}") for number in range(MOST_OPERATIONS + 10)))
    assert all(isinstance(answer, tuple) for answer in writes.run().values())

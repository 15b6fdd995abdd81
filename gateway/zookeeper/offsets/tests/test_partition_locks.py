import pytest

from headgate.gateway.zookeeper.offsets.partition_locks import PartitionLock, PartitionLocks, Partitions

A, B = ("t", 0), ("t", 1)


class Operations:
    """Operations by name, and the order in which they began."""

    def __init__(self) -> None:
        self.locks = PartitionLocks()
        self.begun: list[str] = []

    def ask(self, name: str, *partitions: tuple[str, int], is_whole: bool = False) -> PartitionLock:
        wanted: Partitions = None if is_whole else frozenset(partitions)
        lock = self.locks.lock(wanted)
        lock.acquire(lambda _: self.begun.append(name))
        return lock


def test_operations_on_other_partitions_run_at_once() -> None:
    operations = Operations()
    operations.ask("a", A)
    operations.ask("b", B)
    assert operations.begun == ["a", "b"]
    assert len(operations.locks) == 0


def test_conflicting_operations_keep_their_order() -> None:
    operations = Operations()
    first = operations.ask("first", A)
    second = operations.ask("second", A, B)
    operations.ask("third", B)
    assert operations.begun == ["first"], "the third must not overtake the second"
    first.release()
    assert operations.begun == ["first", "second"]
    second.release()
    assert operations.begun == ["first", "second", "third"]


def test_an_operation_on_all_partitions_is_alone() -> None:
    operations = Operations()
    first = operations.ask("first", A)
    whole = operations.ask("whole", is_whole=True)
    operations.ask("last", B)
    assert operations.begun == ["first"]
    first.release()
    first.release()
    assert operations.begun == ["first", "whole"]
    whole.release()
    assert operations.begun == ["first", "whole", "last"]


def test_operations_without_partitions_never_wait() -> None:
    operations = Operations()
    operations.ask("a", A)
    operations.ask("none")
    assert operations.begun == ["a", "none"]


def test_an_operation_may_end_at_once() -> None:
    locks, begun = PartitionLocks(), list[int]()

    def ask(number: int) -> None:
        def begin(_: None) -> None:
            begun.append(number)
            lock.release()

        with locks.lock(frozenset({A})) as lock:
            lock.acquire(begin)

    for number in range(3):
        ask(number)
    assert begun == [0, 1, 2]


def test_an_operation_that_gives_up_lets_others_pass() -> None:
    operations = Operations()
    first = operations.ask("first", A)
    second = operations.ask("second", A, B)
    operations.ask("third", B)
    second.release()
    assert operations.begun == ["first", "third"]
    first.release()
    assert operations.begun == ["first", "third"]


def test_an_operation_that_raises_stops_no_other(caplog: pytest.LogCaptureFixture) -> None:
    operations = Operations()
    first = operations.ask("first", A)

    def fail(_: None) -> None:
        raise RuntimeError("a fault")

    failing = operations.locks.lock(frozenset({A}))
    failing.acquire(fail)
    operations.ask("last", B)
    first.release()
    assert "the others go on" in caplog.text
    failing.release()
    operations.ask("next", A)
    assert operations.begun == ["first", "last", "next"]

from headgate.gateway.zookeeper.offsets.partition_locks import Hold, PartitionLocks, Partitions

A, B = ("t", 0), ("t", 1)


class Operations:
    """Operations by name, and the order in which they began."""

    def __init__(self) -> None:
        self.locks = PartitionLocks()
        self.begun: list[str] = []

    def ask(self, name: str, *partitions: tuple[str, int], is_whole: bool = False) -> Hold:
        wanted: Partitions = None if is_whole else frozenset(partitions)
        hold = Hold(wanted, lambda: self.begun.append(name))
        self.locks.acquire(hold)
        return hold


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
    operations.locks.release(first)
    assert operations.begun == ["first", "second"]
    operations.locks.release(second)
    assert operations.begun == ["first", "second", "third"]


def test_an_operation_on_all_partitions_is_alone() -> None:
    operations = Operations()
    first = operations.ask("first", A)
    whole = operations.ask("whole", is_whole=True)
    operations.ask("last", B)
    assert operations.begun == ["first"]
    operations.locks.release(first)
    operations.locks.release(first)
    assert operations.begun == ["first", "whole"]
    operations.locks.release(whole)
    assert operations.begun == ["first", "whole", "last"]


def test_operations_without_partitions_never_wait() -> None:
    operations = Operations()
    operations.ask("a", A)
    operations.ask("none")
    assert operations.begun == ["a", "none"]


def test_an_operation_may_end_at_once() -> None:
    locks, begun = PartitionLocks(), list[int]()

    def ask(number: int) -> None:
        def begin() -> None:
            begun.append(number)
            locks.release(hold)

        hold = Hold(frozenset({A}), begin)
        locks.acquire(hold)

    for number in range(3):
        ask(number)
    assert begun == [0, 1, 2]

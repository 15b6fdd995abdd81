"""The budget for unfinished requests."""

from gateway.memory import MemoryBudget


def test_grants_whole_frames_while_anything_is_left() -> None:
    budget = MemoryBudget(100)
    assert budget.reserve(60, _never)
    assert budget.reserve(5_000, _never), "a frame larger than the budget must not be stuck for ever"
    assert not budget.reserve(1, _never)
    assert budget.used_bytes == 5_060


def test_waiters_are_served_in_their_order() -> None:
    budget = MemoryBudget(100)
    budget.reserve(100, _never)
    granted: list[tuple[str, int]] = []
    budget.reserve(70, lambda size: granted.append(("first", size)))
    budget.reserve(20, lambda size: granted.append(("second", size)))
    budget.reserve(20, lambda size: granted.append(("third", size)))
    budget.release(100)
    assert granted == [("first", 70), ("second", 20), ("third", 20)]
    assert budget.used_bytes == 110


def test_a_newcomer_does_not_overtake_those_who_wait() -> None:
    budget = MemoryBudget(10)
    budget.reserve(10, _never)
    first: list[int] = []
    budget.reserve(50, first.append)
    second: list[int] = []
    budget.release(5)
    assert first == [50]
    assert not budget.reserve(1, second.append)


def test_who_is_gone_is_not_granted() -> None:
    budget = MemoryBudget(10)
    budget.reserve(10, _never)
    budget.reserve(10, _never)
    budget.forget(_never)
    budget.release(10)
    assert budget.used_bytes == 0


def _never(size: int) -> None:
    raise AssertionError(f"{size} bytes were granted to one who is not there")

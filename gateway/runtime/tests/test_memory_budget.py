"""The budget for unanswered requests."""

from headgate.gateway.runtime.memory_budget import SMALL_BYTES, MemoryBudget

LARGE = SMALL_BYTES + 1


def test_grants_whole_frames_while_anything_is_left() -> None:
    budget = MemoryBudget(2 * LARGE)
    assert budget.reserve(LARGE, _never)
    assert budget.reserve(50 * LARGE, _never), "a frame larger than the budget must not be stuck for ever"
    assert not budget.reserve(LARGE, _never)
    assert budget.used_bytes == 51 * LARGE


def test_waiters_are_served_in_their_order() -> None:
    budget = MemoryBudget(2 * LARGE)
    budget.reserve(3 * LARGE, _never)
    granted: list[tuple[str, int]] = []
    budget.reserve(LARGE + 1, lambda size: granted.append(("first", size)))
    budget.reserve(LARGE, lambda size: granted.append(("second", size)))
    budget.reserve(LARGE, lambda size: granted.append(("third", size)))
    budget.release(3 * LARGE)
    assert granted == [("first", LARGE + 1), ("second", LARGE)]
    assert budget.used_bytes == 2 * LARGE + 1


def test_a_large_newcomer_does_not_overtake_those_who_wait() -> None:
    budget = MemoryBudget(10)
    budget.reserve(10, _never)
    first: list[int] = []
    second: list[int] = []
    budget.reserve(LARGE, first.append)
    budget.release(5)
    assert first == [LARGE]
    assert not budget.reserve(LARGE, second.append)


def test_small_ones_do_not_wait_for_large_ones_but_have_a_limit() -> None:
    budget = MemoryBudget(100)
    budget.reserve(LARGE, _never)
    assert not budget.reserve(10, _never), "twice the budget is used"
    budget = MemoryBudget(LARGE)
    budget.reserve(LARGE, _never)
    assert not budget.reserve(LARGE, _never)
    assert budget.reserve(1_000, _never)


def test_who_is_gone_is_not_granted() -> None:
    budget = MemoryBudget(10)
    budget.reserve(20, _never)
    budget.reserve(10, _never)
    budget.forget(_never)
    budget.release(20)
    assert budget.used_bytes == 0


def _never(size: int) -> None:
    raise AssertionError(f"{size} bytes were granted to one who is not there")

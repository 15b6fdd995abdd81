"""Long work in steps, and rows that are made while they are written."""

from __future__ import annotations

from headgate.protocol.steps import FEW_ITEMS, LazyArray, Steps, finish, lazy_map


def counting(count: int) -> Steps[int]:
    for _ in range(count):
        yield
    return count


def test_steps_end_with_a_result() -> None:
    assert finish(counting(5)) == 5


def test_elements_of_a_lazy_array_are_made_by_its_iteration() -> None:
    made: list[int] = []

    def make(number: int) -> str:
        made.append(number)
        return str(number)

    assert lazy_map(range(FEW_ITEMS), make) == [str(number) for number in range(FEW_ITEMS)]
    made.clear()
    many = lazy_map(range(FEW_ITEMS + 1), make)
    assert isinstance(many, LazyArray)
    assert len(many) == FEW_ITEMS + 1
    assert made == []
    iterator = iter(many)
    next(iterator)
    assert made == [0]


def test_a_map_of_a_lazy_array_is_lazy() -> None:
    few = lazy_map(lazy_map([1, 2], str), int)
    assert few == [1, 2]
    many = lazy_map(lazy_map(range(FEW_ITEMS + 1), str), int)
    assert isinstance(many, LazyArray)
    assert list(many) == list(range(FEW_ITEMS + 1))
    assert len(many) == FEW_ITEMS + 1

"""Long work in steps, and rows that are made while they are written."""

from __future__ import annotations

from headgate.protocol.steps import FEW, Rows, Steps, again, are_steps, at_once, finish, in_steps, rows


def counting(count: int) -> Steps[int]:
    for _ in range(count):
        yield
    return count


def test_steps_end_with_a_result() -> None:
    assert finish(counting(5)) == 5
    assert finish(in_steps("all")) == "all"


def test_a_few_are_done_at_once() -> None:
    assert at_once(counting(5), FEW) == 5
    steps = at_once(counting(5), FEW + 1)
    assert are_steps(steps)
    assert finish(steps) == 5
    assert not are_steps([])


def test_many_rows_are_made_when_they_are_written() -> None:
    made: list[int] = []

    def make(number: int) -> str:
        made.append(number)
        return str(number)

    assert rows(range(FEW), make) == [str(number) for number in range(FEW)]
    made.clear()
    many = rows(range(FEW + 1), make)
    assert isinstance(many, Rows)
    assert len(many) == FEW + 1
    assert made == []
    iterator = iter(many)
    next(iterator)
    assert made == [0]


def test_rows_of_rows_are_made_when_they_are_written() -> None:
    few = again(rows([1, 2], str), int)
    assert few == [1, 2]
    many = again(rows(range(FEW + 1), str), int)
    assert isinstance(many, Rows)
    assert list(many) == list(range(FEW + 1))
    assert len(many) == FEW + 1

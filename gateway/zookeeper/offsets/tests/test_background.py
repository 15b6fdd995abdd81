from collections.abc import Callable
from functools import partial

import pytest

from headgate.gateway.zookeeper.offsets.background import Background


class Works:
    """Works by name, and what ends them."""

    def __init__(self, at_a_time: int) -> None:
        self.background = Background(at_a_time)
        self.ends: dict[str, Callable[[], None]] = {}

    def add(self, name: str) -> None:
        def work(ended: Callable[[], None]) -> None:
            self.ends[name] = ended

        self.background.add(name, work)


def test_so_many_run_at_a_time() -> None:
    works = Works(2)
    for name in "abc":
        works.add(name)
    assert list(works.ends) == ["a", "b"]
    assert len(works.background) == 1
    works.ends["a"]()
    assert list(works.ends) == ["a", "b", "c"]


def test_who_is_waited_for_is_next() -> None:
    works = Works(1)
    for name in "abc":
        works.add(name)
    works.background.hurry("c")
    works.background.hurry("unknown")
    works.ends["a"]()
    assert list(works.ends) == ["a", "c"]


def test_later_work_of_a_group_replaces_what_waits() -> None:
    works = Works(1)
    works.add("a")
    works.add("b")
    ran = list[str]()

    def later(ended: Callable[[], None]) -> None:
        ran.append("later")
        ended()

    works.background.add("b", later)
    works.ends["a"]()
    assert ran == ["later"]
    assert list(works.ends) == ["a"]


def test_work_may_end_at_once() -> None:
    background, ran = Background(1), list[int]()

    def work(number: int, ended: Callable[[], None]) -> None:
        ran.append(number)
        ended()

    for number in range(2_000):
        background.add(str(number), partial(work, number))
    assert ran == list(range(2_000))


@pytest.mark.parametrize("has_ended", [False, True])
def test_work_that_raises_stops_no_other(has_ended: bool, caplog: pytest.LogCaptureFixture) -> None:
    works = Works(1)

    def work(ended: Callable[[], None]) -> None:
        if has_ended:
            ended()
        raise RuntimeError("a fault")

    works.background.add("a", work)
    assert "work on the offsets of group a failed" in caplog.text
    for name in "bc":
        works.add(name)
    assert list(works.ends) == ["b"]
    works.ends["b"]()
    assert list(works.ends) == ["b", "c"]

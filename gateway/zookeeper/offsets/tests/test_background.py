from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from headgate.gateway.runtime.tasks import PAUSE, Task, Tasks
from headgate.gateway.runtime.tests.fake_scheduler import ManualTime
from headgate.gateway.zookeeper.offsets.background import Background


def new_background(at_a_time: int) -> Background:
    time = ManualTime()
    return Background(Tasks(time.clock, time.scheduler), at_a_time)


class Works:
    """Tasks by name, and what ends them."""

    def __init__(self, at_a_time: int) -> None:
        self.background = new_background(at_a_time)
        self.ends: dict[str, Callable[[Any], None]] = {}

    def work(self, name: str) -> Task[None]:
        yield partial(self.ends.__setitem__, name)

    def add(self, name: str) -> None:
        self.background.add(name, partial(self.work, name))

    def end(self, name: str) -> None:
        self.ends[name](None)


def test_so_many_run_at_a_time() -> None:
    works = Works(2)
    for name in "abc":
        works.add(name)
    assert list(works.ends) == ["a", "b"]
    assert len(works.background) == 1
    works.end("a")
    assert list(works.ends) == ["a", "b", "c"]


def test_who_is_waited_for_is_next() -> None:
    works = Works(1)
    for name in "abc":
        works.add(name)
    works.background.hurry("c")
    works.background.hurry("unknown")
    works.end("a")
    assert list(works.ends) == ["a", "c"]


def test_later_work_of_a_group_replaces_what_waits() -> None:
    works = Works(1)
    works.add("a")
    works.add("b")
    ran = list[str]()

    def later() -> Task[None]:
        ran.append("later")
        yield PAUSE

    works.background.add("b", later)
    works.end("a")
    assert ran == ["later"]
    assert list(works.ends) == ["a"]


def test_work_may_end_at_once() -> None:
    background, ran = new_background(1), list[int]()

    def work(number: int) -> Task[None]:
        ran.append(number)
        yield from ()

    for number in range(2_000):
        background.add(str(number), partial(work, number))
    assert ran == list(range(2_000))


@pytest.mark.parametrize("is_later", [False, True])
def test_work_that_raises_stops_no_other(is_later: bool, caplog: pytest.LogCaptureFixture) -> None:
    works = Works(1)

    def work() -> Task[None]:
        if is_later:
            yield from works.work("a")
        raise RuntimeError("a fault")

    works.background.add("a", work)
    if is_later:
        works.end("a")
    assert "work on the offsets of group a failed" in caplog.text
    for name in "bc":
        works.add(name)
    assert "c" not in works.ends
    works.end("b")
    assert list(works.ends)[-2:] == ["b", "c"]


@pytest.mark.parametrize("fails", [False, True])
def test_a_result_is_passed_on(fails: bool) -> None:
    works, results = Works(1), list[Any]()

    def task() -> Task[int]:
        yield from works.work("b")
        if fails:
            raise OSError
        return 5

    works.add("a")
    works.background.run("b", task(), results.append)
    works.end("a")
    works.end("b")
    (result,) = results
    assert isinstance(result, OSError) if fails else result == 5

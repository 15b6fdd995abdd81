"""Long works: a slice at a time, by turns or one after the other."""

from collections.abc import Iterator
from typing import Any

import pytest

from headgate.gateway.runtime.tests.fake_scheduler import ManualTime
from headgate.gateway.runtime.time_slices import AT_ONCE_MS, SLICE_MS, TimeSlices, Work
from headgate.protocol.steps import Steps


class Working:
    """Works whose every step takes time."""

    def __init__(self) -> None:
        self.time = ManualTime()
        self.slices = TimeSlices(self.time.clock, self.time.scheduler)
        self.seen: list[str] = []

    def work(self, name: str, steps: int, step_ms: float) -> Iterator[None]:
        for number in range(steps):
            self.seen.append(f"{name}{number}")
            self.time.clock.elapsed_ms += step_ms
            yield


def test_a_slice_is_a_millisecond_and_then_others_have_their_turn() -> None:
    working = Working()
    working.slices.add(working.work("a", 5, SLICE_MS / 2))
    assert working.seen == []
    working.time.advance()
    assert working.seen == ["a0", "a1"]
    working.time.scheduler.call_soon(lambda: working.seen.append("somebody else"))
    working.time.advance()
    assert working.seen[2:] == ["a2", "a3", "somebody else"]


def test_works_are_done_in_order_and_each_is_told_that_it_is() -> None:
    working = Working()
    working.slices.add(working.work("a", 2, 0.0), lambda: working.seen.append("a done"))
    working.slices.add(working.work("b", 2, 0.0), lambda: working.seen.append("b done"))
    working.time.advance()
    assert sorted(working.seen) == ["a done", "a0", "a1", "b done", "b0", "b1"]
    assert working.seen.index("a1") < working.seen.index("b0")
    working.slices.add(working.work("c", 1, 0.0))
    working.time.advance()
    assert working.seen[-1] == "c0"


def test_a_work_of_several_parts_is_done_before_another_begins() -> None:
    working = Working()
    for name in ("a", "b"):
        second = working.work(f"{name}-second-", 1, 0.0)
        working.slices.add(working.work(name, 1, 0.0), lambda steps=second: working.slices.add(steps))  # type: ignore[misc]
    working.time.advance()
    assert working.seen == ["a0", "a-second-0", "b0", "b-second-0"]


def test_one_that_raises_is_given_up(caplog: pytest.LogCaptureFixture) -> None:
    def fails() -> Iterator[None]:
        yield
        raise RuntimeError("a fault")

    working = Working()
    working.slices.add(fails(), lambda: working.seen.append("done"))
    working.slices.add(working.work("b", 1, 0.0))
    working.time.advance()
    assert working.seen == ["b0"]
    assert "a long work failed and is abandoned" in caplog.text


def test_a_line_that_was_done_begins_anew() -> None:
    working = Working()
    for name in ("a", "b"):
        working.slices.add(working.work(name, 1, 0.0))
        working.time.advance()
        assert not working.slices
    assert working.seen == ["a0", "b0"]


class Sharing(Working):
    """Works that share the slices."""

    def __init__(self) -> None:
        super().__init__()
        self.results: list[Any] = []

    def steps(self, name: str, steps: int, step_ms: float = 0.0) -> Steps[str]:
        yield from self.work(name, steps, step_ms)
        return name

    def put(self, name: str, steps: int) -> Work:
        work = Work(self.steps(name, steps), self.results.append)
        self.slices.put(work)
        return work


def test_works_take_turns_with_each_other_and_with_the_line() -> None:
    sharing = Sharing()
    sharing.slices.add(sharing.work("line", 2, 0.0))
    sharing.put("a", 3)
    sharing.put("b", 1)
    sharing.time.advance()
    assert sharing.seen == ["line0", "a0", "b0", "line1", "a1", "a2"]
    assert sharing.results == ["b", "a"]


@pytest.mark.parametrize("steps, is_all", [(2, True), (3, False)])
def test_what_is_done_soon_is_done_at_once(steps: int, is_all: bool) -> None:
    sharing = Sharing()
    work = Work(sharing.steps("a", steps, AT_ONCE_MS / 2 - 0.01), sharing.results.append)
    assert sharing.slices.begin(work) == is_all
    assert work.result == ("a" if is_all else None)
    assert sharing.results == []
    sharing.time.advance()
    assert sharing.results == ([] if is_all else ["a"])


def test_a_work_that_is_cancelled_has_no_further_step() -> None:
    sharing = Sharing()
    work = sharing.put("a", 100)
    sharing.put("b", 1)
    work.cancel()
    work.cancel()
    sharing.time.advance()
    assert sharing.seen == ["b0"]
    assert sharing.results == ["b"]


def test_what_a_work_raises_is_its_result(caplog: pytest.LogCaptureFixture) -> None:
    fault = RuntimeError("a fault")

    def fails() -> Steps[None]:
        yield
        raise fault

    def is_told(result: object) -> None:
        sharing.results.append(result)
        raise ValueError("another one")

    sharing = Sharing()
    sharing.slices.put(Work(fails(), is_told))
    sharing.put("b", 3)
    sharing.time.advance()
    assert sharing.results == [fault, "b"]
    assert "the callback of a long work failed" in caplog.text
    with pytest.raises(RuntimeError, match="a fault"):
        sharing.slices.begin(Work(fails(), is_told))

"""Long works: a slice at a time, one after the other."""

from collections.abc import Iterator

import pytest

from gateway.coordinator.slices import SLICE_MS, Slices
from gateway.tests.manual import ManualTime


class Working:
    """Works whose every step takes time."""

    def __init__(self) -> None:
        self.time = ManualTime()
        self.slices = Slices(self.time.clock, self.time.scheduler)
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
    assert "a long work is given up" in caplog.text

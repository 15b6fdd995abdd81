"""Work on files goes on in the order in which it came, one after another, whatever goes wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest.mock import Mock

import pytest

from gateway.replication.file_work import FileWork
from gateway.scheduler import StoppedError
from protocol.records.compression import finish


class Runs:
    """Something that a thread does."""

    def __init__(self, did: list[str], name: str, error: Exception | None = None) -> None:
        self._did, self._name, self._error = did, name, error

    def run(self) -> None:
        self._did.append(f"run {self._name}")
        if self._error is not None:
            raise self._error


class Slices:
    """A scheduler whose threads run when it is told."""

    def __init__(self) -> None:
        self.is_over = False
        self.waiting: list[tuple[Any, Callable[[Any], None]]] = []

    def in_slices(self, work: Any, done: Callable[[Any], None]) -> None:
        self.waiting.append((work, done))

    def run_one(self, *, stopped: bool = False) -> None:
        work, done = self.waiting.pop(0)
        try:
            done(StoppedError() if stopped else finish(work))
        except ValueError as error:
            done(error)


class Desk:
    """Works that note what becomes of them."""

    def __init__(self, scheduler: Slices | None) -> None:
        self.did: list[str] = []
        self.works = FileWork()
        self.works.go_on_in_threads(scheduler)  # type: ignore[arg-type]

    def add(self, name: str, count: int = 1, *, error: Exception | None = None, is_next: bool = False) -> None:
        def begin() -> list[Runs]:
            self.did.append(f"begin {name}")
            return [Runs(self.did, name, error) for _ in range(count)]

        self.works.add(begin, lambda: self.did.append(f"end {name}"), is_next=is_next)


def test_without_threads_all_is_done_at_once() -> None:
    desk = Desk(None)
    desk.add("a", 2)
    desk.add("b", 0)
    assert desk.did == ["begin a", "run a", "run a", "end a", "begin b", "end b"]
    assert len(desk.works) == 0


def test_one_is_begun_when_the_one_before_has_ended() -> None:
    threads = Slices()
    desk = Desk(threads)
    for name in "abc":
        desk.add(name)
    desk.add("first", is_next=True)
    assert desk.did == ["begin a"]
    assert len(desk.works) == 4
    while threads.waiting:
        assert len(threads.waiting) == 1
        threads.run_one()
    assert desk.did == [f"{what} {name}" for name in ("a", "first", "b", "c") for what in ("begin", "run", "end")]


def test_what_ends_adds_to_what_waits() -> None:
    threads = Slices()
    desk = Desk(threads)
    desk.works.add(lambda: [Runs(desk.did, "a")], lambda: desk.add("of a", is_next=True))
    desk.add("b")
    while threads.waiting:
        threads.run_one()
    assert desk.did == ["run a", *(f"{what} {name}" for name in ("of a", "b") for what in ("begin", "run", "end"))]


def test_a_fault_keeps_nobody_waiting(caplog: pytest.LogCaptureFixture) -> None:
    threads = Slices()
    desk = Desk(threads)

    def fail() -> list[Runs]:
        raise ValueError("a fault of ours")

    desk.works.add(fail, lambda: None)
    desk.works.add(list, fail)  # type: ignore[arg-type]
    desk.add("a", 2, error=ValueError("another one"))
    desk.add("b")
    while threads.waiting:
        threads.run_one()
    assert desk.did == ["begin a", "run a", "end a", "begin b", "run b", "end b"]
    assert caplog.text.count("ValueError: a fault of ours") == 2
    assert "another one" in caplog.text


def test_where_no_thread_can_be_had_the_next_one_has_its_turn(caplog: pytest.LogCaptureFixture) -> None:
    threads = Slices()
    desk = Desk(threads)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(threads, "in_slices", Mock(side_effect=RuntimeError("can't start new thread")))
        desk.add("a")
    desk.add("b")
    threads.run_one()
    assert desk.did == ["begin a", "end a", "begin b", "run b", "end b"]
    assert "can't start new thread" in caplog.text


def test_when_the_broker_stops_nothing_more_is_run_and_all_is_ended(caplog: pytest.LogCaptureFixture) -> None:
    threads = Slices()
    desk = Desk(threads)
    for name in "ab":
        desk.add(name)
    threads.is_over = True
    threads.run_one(stopped=True)
    assert desk.did == ["begin a", "end a", "begin b", "end b"]
    assert not caplog.text

"""Work on files is begun in the order in which it came, and goes on in each directory whatever goes wrong elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from unittest.mock import Mock

import pytest

from headgate.gateway.replication.partition_file_tasks import FileTask, PartitionFileTasks
from headgate.gateway.runtime.scheduler import StoppedError
from headgate.gateway.runtime.tasks import run
from headgate.gateway.runtime.tests.fake_scheduler import ManualTime


class Runs:
    """Something that a thread does in a directory, named by the first letter."""

    def __init__(self, did: list[str], name: str, error: Exception | None = None) -> None:
        self._did, self.name, self._error = did, name, error
        self.directory = name[0]

    def run(self) -> None:
        self._did.append(f"run {self.name}")
        if self._error is not None:
            raise self._error


class Desk:
    """Works that note what becomes of them."""

    def __init__(self, time: ManualTime, *, in_threads: bool = True) -> None:
        self.did: list[str] = []
        self.works = PartitionFileTasks(time.scheduler)
        if in_threads:
            self.works.go_on_in_threads()

    def await_end(self, *works: FileTask, name: str, told: list[str], within_ms: float = 1.0) -> None:
        run(self.works.ended(works, within_ms), lambda _: told.append(name))

    def add(self, *names: str, error: Exception | None = None) -> FileTask:
        def begin() -> list[Runs]:
            self.did.append(f"begin {','.join(names)}")
            return [Runs(self.did, name, error) for name in names]

        return self.works.add(begin, self.end)

    def end(self, part: Sequence[Runs]) -> None:
        self.did.append(f"end {','.join(one.name for one in part)}")


def test_without_threads_all_is_done_at_once() -> None:
    desk = Desk(ManualTime(), in_threads=False)
    desk.add("a1", "b1", "a2")
    desk.add()
    assert desk.did == ["begin a1,b1,a2", "run a1", "run a2", "end a1,a2", "run b1", "end b1", "begin "]


def test_one_directory_does_one_thing_after_another() -> None:
    time = ManualTime()
    threads, desk = time.scheduler.hold_slices(), Desk(time)
    for name in ("a1", "a2", "a3"):
        desk.add(name)
    assert desk.did == ["begin a1"], "the others after what else the loop has to do"
    time.advance()
    assert desk.did == ["begin a1", "begin a2", "begin a3"]
    desk.did.clear()
    while threads.waiting:
        assert len(threads.waiting) == 1
        threads.run_one()
    assert desk.did == [f"{what} {name}" for name in ("a1", "a2", "a3") for what in ("run", "end")]


def test_a_directory_that_hangs_holds_up_no_other() -> None:
    time, told = ManualTime(), list[str]()
    threads, desk = time.scheduler.hold_slices(), Desk(time)
    desk.await_end(desk.add("a1", "b1", "a2"), name="both", told=told)
    desk.await_end(desk.add("b2"), name="last", told=told)
    time.advance()
    assert len(threads.waiting) == 2
    desk.did.clear()
    threads.run_one(number=1)
    threads.run_one(number=1)
    assert desk.did == ["run b1", "end b1", "run b2", "end b2"]
    assert told == ["last"]
    threads.run_one()
    assert desk.did[4:] == ["run a1", "run a2", "end a1,a2"]
    assert told == ["last", "both"], "when all its parts are there"
    assert not threads.waiting


def test_what_ends_adds_to_what_waits() -> None:
    time = ManualTime()
    threads, desk = time.scheduler.hold_slices(), Desk(time)
    desk.works.add(lambda: [Runs(desk.did, "a1")], lambda _: desk.add("a of a1"))
    desk.add("a2")
    time.advance()
    while threads.waiting:
        threads.run_one()
    ran = [one for one in desk.did if one.startswith("run")]
    assert ran == ["run a1", "run a2", "run a of a1"]


def test_what_was_begun_already_comes_before_what_was_not() -> None:
    time = ManualTime()
    threads, desk = time.scheduler.hold_slices(), Desk(time)
    for name in ("a1", "a2"):
        desk.add(name)
    desk.works.add_begun([Runs(desk.did, "a3")], desk.end)
    time.advance()
    while threads.waiting:
        threads.run_one()
    assert [one for one in desk.did if one.startswith("run")] == ["run a1", "run a3", "run a2"]


def test_a_fault_keeps_nobody_waiting(caplog: pytest.LogCaptureFixture) -> None:
    time, told = ManualTime(), list[str]()
    threads, desk = time.scheduler.hold_slices(), Desk(time)

    def fail(_: object = None) -> list[Runs]:
        raise ValueError("a fault of ours")

    works = [
        desk.works.add(fail, lambda _: None),
        desk.works.add(lambda: [Runs(desk.did, "a0")], fail),
        desk.add("a1", "a2", error=ValueError("another one")),
        desk.add("a3"),
    ]
    desk.await_end(*works, name="all", told=told)
    time.advance()
    while threads.waiting:
        threads.run_one()
    expected = ["begin a1,a2", "begin a3", "run a0", "run a1", "end a1,a2", "run a3", "end a3"]
    assert (desk.did, told) == (expected, ["all"])
    assert caplog.text.count("ValueError: a fault of ours") == 2
    assert "another one" in caplog.text


def test_where_no_thread_can_be_had_the_next_one_has_its_turn(caplog: pytest.LogCaptureFixture) -> None:
    time = ManualTime()
    threads, desk = time.scheduler.hold_slices(), Desk(time)
    time.scheduler.slices = Mock(side_effect=RuntimeError("can't start new thread"))
    desk.add("a1")
    time.scheduler.slices = threads
    desk.add("a2")
    time.advance()
    threads.run_one()
    assert desk.did == ["begin a1", "end a1", "begin a2", "run a2", "end a2"]
    assert "can't start new thread" in caplog.text


def test_when_the_broker_stops_nothing_more_is_run_and_all_is_ended(caplog: pytest.LogCaptureFixture) -> None:
    time = ManualTime()
    threads, desk = time.scheduler.hold_slices(), Desk(time)
    for name in ("a1", "a2"):
        desk.add(name)
    time.advance()
    for name in ("a3", "a4"):
        desk.add(name)
    time.scheduler.is_over = True
    threads.run_one(StoppedError())
    begun = [f"begin {name}" for name in ("a1", "a2", "a3")]
    assert desk.did == [*begun, "end a1", "end a2", "end a3", "begin a4", "end a4"]
    assert not caplog.text


def test_what_takes_too_long_is_told_once_and_before() -> None:
    time, told = ManualTime(), list[str]()
    threads, desk = time.scheduler.hold_slices(), Desk(time)
    desk.await_end(desk.add("a1"), name="told", told=told, within_ms=5_000)
    time.advance(4_999)
    assert not told
    time.advance(1)
    assert told == ["told"]
    threads.run_all()
    assert told == ["told"]


def test_what_ends_soon_is_told_then_and_its_timer_is_gone() -> None:
    time, told = ManualTime(), list[str]()
    threads, desk = time.scheduler.hold_slices(), Desk(time)
    desk.await_end(desk.add("a1"), name="told", told=told, within_ms=5_000)
    threads.run_all()
    assert told == ["told"]
    time.advance(5_000)
    assert told == ["told"]

"""The purgatory: every parked reply is made exactly once, by a change or by its deadline."""

from typing import Any

import pytest

from headgate.gateway.runtime.purgatory import Purgatory, Waiting, WaitList
from headgate.gateway.runtime.tests.fake_scheduler import ManualTime


@pytest.fixture
def time() -> ManualTime:
    return ManualTime()


@pytest.fixture
def purgatory(time: ManualTime) -> Purgatory:
    return Purgatory(time.clock, time.scheduler)


class Bucket:
    """Something to wait for: a reply comes once `level` reaches what is wanted."""

    def __init__(self) -> None:
        self.level = 0
        self.changed = WaitList()
        self.attempts = 0

    def wait_for(self, level: int, deadline_ms: float = 500.0) -> Waiting:
        def attempt(_: WaitList) -> Any:
            self.attempts += 1
            return ("full", self.level) if self.level >= level else None

        return Waiting([self.changed], deadline_ms, attempt, lambda: ("late", self.level))


def test_a_change_completes_it_once(time: ManualTime, purgatory: Purgatory) -> None:
    bucket = Bucket()
    replies: list[Any] = []
    purgatory.park(bucket.wait_for(2), replies.append)
    for _ in range(3):
        bucket.level += 1
        purgatory.touch(bucket.changed)
        time.advance()
    time.advance(1_000)
    assert replies == [("full", 2)]
    assert len(purgatory) == 0
    assert not bucket.changed.waiters


def test_the_changes_of_one_turn_are_one_attempt(time: ManualTime, purgatory: Purgatory) -> None:
    bucket = Bucket()
    replies: list[Any] = []
    purgatory.park(bucket.wait_for(1_000), replies.append)
    for _ in range(100):
        bucket.level += 1
        purgatory.touch(bucket.changed)
    time.advance()
    assert bucket.attempts == 1


def test_the_deadline_answers_with_what_there_is(time: ManualTime, purgatory: Purgatory) -> None:
    bucket = Bucket()
    replies: list[Any] = []
    bucket.level = 1
    purgatory.park(bucket.wait_for(2, deadline_ms=500.0), replies.append)
    time.advance(499)
    assert replies == []
    time.advance(1)
    assert replies == [("late", 1)]
    assert not bucket.changed.waiters


def test_what_is_abandoned_is_never_answered(time: ManualTime, purgatory: Purgatory) -> None:
    bucket = Bucket()
    replies: list[Any] = []
    waiting = bucket.wait_for(1)
    purgatory.park(waiting, replies.append)
    bucket.level = 1
    purgatory.touch(bucket.changed)
    purgatory.abandon(waiting)
    time.advance(1_000)
    assert replies == []


def test_a_failure_is_handed_over_and_stops_nobody_else(time: ManualTime, purgatory: Purgatory) -> None:
    bucket = Bucket()
    replies: list[Any] = []

    def broken(_: WaitList) -> Any:
        raise ValueError("no reply can be made")

    purgatory.park(Waiting([bucket.changed], 500.0, broken, lambda: None), replies.append)
    purgatory.park(bucket.wait_for(0), replies.append)
    purgatory.touch(bucket.changed)
    time.advance()
    assert isinstance(replies[0], ValueError)
    assert replies[1] == ("full", 0)


def test_shutdown_answers_everything(purgatory: Purgatory) -> None:
    bucket = Bucket()
    replies: list[Any] = []
    for level in range(5):
        purgatory.park(bucket.wait_for(level + 1), replies.append)
    purgatory.expire_all()
    assert replies == [("late", 0)] * 5
    assert len(purgatory) == 0


def test_one_may_go_on_waiting_for_something_else(time: ManualTime, purgatory: Purgatory) -> None:
    first, second = Bucket(), Bucket()
    replies: list[Any] = []
    waiting = first.wait_for(1, deadline_ms=100.0)

    def lead_on(_: WaitList) -> None:
        purgatory.continue_with(waiting, second.wait_for(1, deadline_ms=500.0))

    waiting.attempt = lead_on
    purgatory.park(waiting, replies.append)
    purgatory.touch(first.changed)
    time.advance()
    time.advance(400)
    assert (replies, len(purgatory), len(first.changed.waiters or ())) == ([], 1, 0)
    second.level = 1
    purgatory.touch(second.changed)
    time.advance()
    assert replies == [("full", 1)]
    assert len(purgatory) == 0


def test_what_leads_on_at_its_deadline_has_the_new_one(time: ManualTime, purgatory: Purgatory) -> None:
    first, second = Bucket(), Bucket()
    replies: list[Any] = []
    waiting = first.wait_for(1, deadline_ms=100.0)
    waiting.expire = lambda: purgatory.continue_with(waiting, second.wait_for(1, deadline_ms=500.0))
    purgatory.park(waiting, replies.append)
    time.advance(499)
    assert replies == []
    time.advance(1)
    assert replies == [("late", 0)]


def test_what_was_abandoned_leads_nowhere(time: ManualTime, purgatory: Purgatory) -> None:
    first, second = Bucket(), Bucket()
    waiting = first.wait_for(1)
    purgatory.park(waiting, lambda reply: None)
    purgatory.abandon(waiting)
    purgatory.continue_with(waiting, second.wait_for(1))
    assert len(purgatory) == 0
    assert not second.changed.waiters


class Marked:
    """A watch, and the list of those who wait for its mark."""

    def __init__(self) -> None:
        self.marks = 0
        self.changed = WaitList()

    def mark(self) -> WaitList:
        self.marks += 1
        return self.changed


def test_a_change_marks_a_watch_at_once_and_ends_it(time: ManualTime, purgatory: Purgatory) -> None:
    one, watch, tried = WaitList(), Marked(), list[WaitList]()
    one.watches += (watch,)
    purgatory.park(Waiting((watch.changed,), 1e9, tried.append, lambda: None), lambda _: None)
    purgatory.touch(one)
    purgatory.touch(one)
    assert (watch.marks, one.watches) == (1, ())
    time.advance()
    assert tried == [watch.changed]


@pytest.mark.parametrize("how", ["attempt", "expire"])
def test_a_reply_that_has_to_wait_again_waits_under_the_same_name(
    how: str, time: ManualTime, purgatory: Purgatory
) -> None:
    first, second, replies = WaitList(), WaitList(), list[str]()
    then = Waiting((second,), 1e9, lambda _: "done", lambda: "late")
    waiting = Waiting((first,), 5.0, lambda _: then, lambda: then)
    purgatory.park(waiting, replies.append)
    if how == "attempt":
        purgatory.touch(first)
    time.advance(6.0)
    assert (replies, len(purgatory)) == ([], 1)
    purgatory.touch(second)
    time.advance()
    assert (replies, len(purgatory)) == (["done"], 0)

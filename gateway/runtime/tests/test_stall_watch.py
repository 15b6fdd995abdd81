"""A loop that stands still, and the doubt after it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from headgate.gateway.runtime.stall_watch import StallWatch
from headgate.gateway.runtime.tasks import Tasks
from headgate.gateway.runtime.tests.fake_scheduler import ManualTime

LIMIT_MS = 1_000


class Watched:
    """A watched loop, whose turns a test makes."""

    def __init__(self) -> None:
        self.time = ManualTime()
        self.watch = StallWatch(Tasks(self.time.clock, self.time.scheduler))
        self.answers: list[Callable[[], None]] = []
        self.watch.begin(LIMIT_MS, self.answers.append)

    def stand_still(self, milliseconds: float) -> None:
        """Time passes, and no timer runs."""
        self.time.clock.elapsed_ms += milliseconds

    def turn(self) -> None:
        """What a driver does first in a turn."""
        if self.time.clock.monotonic_ms() >= self.watch.late_ms:
            self.watch.note_stall()


@pytest.fixture
def watched() -> Watched:
    return Watched()


def test_an_idle_loop_is_in_no_doubt(watched: Watched) -> None:
    for _ in range(100):
        watched.time.advance(LIMIT_MS / 2)
        watched.turn()
    assert watched.answers == []


def test_the_first_turn_after_a_stall_is_in_doubt(watched: Watched) -> None:
    watched.stand_still(LIMIT_MS - 1)
    watched.turn()
    assert not watched.watch.is_in_doubt
    watched.stand_still(1)
    watched.turn()
    assert watched.watch.is_in_doubt
    watched.answers[0]()
    assert not watched.watch.is_in_doubt


def test_a_timer_that_is_first_notices_the_stall(watched: Watched) -> None:
    watched.stand_still(LIMIT_MS)
    watched.time.advance(0)
    assert watched.watch.is_in_doubt


def test_the_doubt_ends_without_an_answer(watched: Watched) -> None:
    watched.stand_still(LIMIT_MS)
    watched.turn()
    for _ in range(9):
        watched.time.advance(LIMIT_MS / 10)
    assert watched.watch.is_in_doubt
    watched.time.advance(LIMIT_MS / 10)
    assert not watched.watch.is_in_doubt


def test_a_second_stall_asks_again(watched: Watched) -> None:
    """The answer to the first question may be older than the second stall."""
    watched.stand_still(LIMIT_MS)
    watched.turn()
    watched.stand_still(LIMIT_MS)
    watched.answers[0]()
    assert watched.watch.is_in_doubt
    assert len(watched.answers) == 2
    watched.answers[0]()
    assert watched.watch.is_in_doubt
    watched.answers[1]()
    assert not watched.watch.is_in_doubt


def test_a_broker_that_stops_is_in_no_doubt(watched: Watched) -> None:
    watched.stand_still(LIMIT_MS)
    watched.turn()
    watched.watch.end()
    assert not watched.watch.is_in_doubt
    watched.stand_still(10 * LIMIT_MS)
    watched.turn()
    assert not watched.watch.is_in_doubt

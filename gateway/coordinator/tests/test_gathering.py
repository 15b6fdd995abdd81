"""One response of many replies, some of which come later."""

from __future__ import annotations

from typing import Any

from headgate.gateway.coordinator.decision import NEVER
from headgate.gateway.coordinator.gathering import Gathering, value_of
from headgate.gateway.runtime.purgatory import Waiting, WaitList
from headgate.protocol.errors import ErrorCode, KafkaError


class Later:
    """A reply that a test gives when it likes."""

    def __init__(self) -> None:
        self.reply: Any = None
        self.list = WaitList()

    def waiting(self) -> Waiting:
        return Waiting([self.list], NEVER, lambda _: self.reply, self._expire)

    def _expire(self) -> Any:
        raise KafkaError(ErrorCode.NOT_COORDINATOR)


def refuse() -> Any:
    raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND)


def test_replies_that_are_there_make_the_response_at_once() -> None:
    error = value_of(refuse)
    assert isinstance(error, KafkaError)
    assert Gathering([1, error, value_of(lambda: 3)], tuple).result() == (1, error, 3)


def test_the_response_waits_for_the_last_reply() -> None:
    first, second = Later(), Later()
    waiting = Gathering([first.waiting(), 2, second.waiting()], list).result()
    assert set(waiting.lists) == {first.list, second.list}
    first.reply = 1
    assert waiting.attempt(first.list) is None
    second.reply = 3
    assert waiting.attempt(second.list) == [1, 2, 3]


def test_replies_that_come_early_are_taken() -> None:
    later = Later()
    gathering = Gathering([later.waiting()], list)
    later.reply = 1
    gathering.look()
    assert gathering.result() == [1]


def test_at_the_end_what_is_missing_is_an_error() -> None:
    later = Later()
    later.reply = 1
    waiting = Gathering([later.waiting(), Later().waiting()], list).result()
    assert waiting.attempt(later.list) is None
    one, error = waiting.expire()
    assert (one, error.code) == (1, ErrorCode.NOT_COORDINATOR)

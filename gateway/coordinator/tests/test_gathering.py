"""One response of many replies, some of which come later."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from headgate.gateway.coordinator.gathering import gather_replies
from headgate.gateway.runtime.tasks import Changes, Task, Tasks, WaitList
from headgate.gateway.runtime.tests.fake_scheduler import ManualTime
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.steps import FEW_ITEMS


class Shards:
    """Keys whose replies a test gives when it likes; "none" is refused, and numbers are answered at once."""

    def __init__(self) -> None:
        self.time = ManualTime()
        self.tasks = Tasks(self.time.clock, self.time.scheduler)
        self.replies: dict[str, Any] = {}
        self.changed = WaitList()
        self.asked: list[str] = []
        self.responses: list[Any] = []

    def ask(self, key: str) -> Any:
        self.asked.append(key)
        if key == "none":
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND)
        return int(key) if key.isdigit() else self._wait(key)

    def _wait(self, key: str) -> Task[Any]:
        changes = Changes([self.changed])
        while key not in self.replies:
            if (yield changes) is None:
                raise KafkaError(ErrorCode.NOT_COORDINATOR)
        return self.replies[key]

    def gather(self, keys: Sequence[str]) -> None:
        task: Any = gather_replies(keys, self.ask, list[Any])
        self.tasks.start(task, self.responses.append)

    def reply(self, key: str, reply: Any) -> None:
        self.replies[key] = reply
        self.tasks.touch(self.changed)
        self.time.advance()


@pytest.fixture
def shards() -> Shards:
    return Shards()


def test_replies_that_are_there_make_the_response_at_once(shards: Shards) -> None:
    response: Any = gather_replies(["1", "none", "3"], shards.ask, tuple)
    first, error, last = response
    assert (first, error.code, last) == (1, ErrorCode.GROUP_ID_NOT_FOUND, 3)


def test_the_response_waits_for_the_last_reply(shards: Shards) -> None:
    shards.gather(["a", "2", "b"])
    shards.reply("a", 1)
    assert not shards.responses
    shards.reply("b", 3)
    assert shards.responses == [[1, 2, 3]]


def test_a_missing_reply_is_an_error_at_a_stop(shards: Shards) -> None:
    shards.gather(["a", "b"])
    shards.reply("a", 1)
    shards.tasks.expire_all()
    ((reply, error),) = shards.responses
    assert (reply, error.code) == (1, ErrorCode.NOT_COORDINATOR)


def test_many_keys_are_asked_in_steps(shards: Shards) -> None:
    keys = [str(number) for number in range(FEW_ITEMS)] + ["late"]
    task: Any = gather_replies(keys, shards.ask, len)
    assert not shards.asked
    assert next(task) is None
    assert shards.asked == ["0"]
    shards.replies["late"] = 0
    shards.tasks.start(task, shards.responses.append)
    shards.time.advance()
    assert shards.responses == [len(keys)]


def test_a_client_that_leaves_ends_all_waits(shards: Shards) -> None:
    task: Any = gather_replies(["a", "b"], shards.ask, list[Any])
    running = shards.tasks.start(task, shards.responses.append)
    assert len(shards.tasks) == 2
    running.cancel()
    assert len(shards.tasks) == 0

"""The replies of many shards to one request."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headgate.gateway.coordinator.decision import NEVER
from headgate.gateway.runtime.purgatory import Waiting, WaitList
from headgate.protocol.errors import KafkaError, without_frames


class Gathering:
    """The replies to one request; some may still be missing. A failed key has a KafkaError as its reply."""

    def __init__(self, replies: list[Any], assemble: Callable[[list[Any]], Any]) -> None:
        self._replies = replies
        self._missing = 0
        self._assemble = assemble
        self._owners: dict[WaitList, list[int]] = {}
        for number, reply in enumerate(replies):
            if isinstance(reply, Waiting):
                self._missing += 1
                for wait_list in reply.lists:
                    self._owners.setdefault(wait_list, []).append(number)

    def look(self) -> None:
        """Take the replies that came while later keys were asked, before the request was parked."""
        for number, waiting in enumerate(self._replies):
            if isinstance(waiting, Waiting):
                self._attempt_one(number, waiting, next(iter(waiting.lists)))

    def result(self) -> Any:
        """The assembled response, or the `Waiting` for the last reply."""
        if self._missing:
            return Waiting(list(self._owners), NEVER, self._attempt, self._expire)
        return self._assemble(self._replies)

    def _attempt(self, touched: WaitList) -> Any:
        for number in self._owners[touched]:
            waiting = self._replies[number]
            if isinstance(waiting, Waiting):
                self._attempt_one(number, waiting, touched)
        return None if self._missing else self._assemble(self._replies)

    def _attempt_one(self, number: int, waiting: Waiting, touched: WaitList) -> None:
        self._take(number, value_of(lambda: waiting.attempt(touched)))

    def _expire(self) -> Any:
        for number, waiting in enumerate(self._replies):
            if isinstance(waiting, Waiting):
                self._take(number, value_of(waiting.expire))
        return self._assemble(self._replies)

    def _take(self, number: int, reply: Any) -> None:
        if reply is not None:
            self._replies[number] = reply
            self._missing -= 1


def value_of(make: Callable[[], Any]) -> Any:
    """The result of a call, or the KafkaError that the call raised."""
    try:
        return make()
    except KafkaError as error:
        return without_frames(error)

"""Requests to other brokers, each with its own answer, over the links of this broker."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, ClassVar, Final, NamedTuple

from headgate.gateway.coordinator.broker_requests import BrokerRequests, OtherBrokers
from headgate.gateway.runtime.tasks import Task, at_most
from headgate.protocol.errors import KafkaError
from headgate.protocol.schema import Message

ANSWER_MS: Final = 1_000.0
"""The longest wait for a broker. A survey does not wait for a broker that hangs: what it leads is not known then."""


class _Question(NamedTuple):
    request: Message
    deadline_ms: float
    resume: Callable[[Any], None]


class _OneByOne:
    """The `Gathering` of requests that are not gathered."""

    version: ClassVar[int | None] = None

    def __init__(self, monotonic_ms: Callable[[], float]) -> None:
        self._monotonic_ms = monotonic_ms

    def take(self, queue: deque[_Question]) -> tuple[Message, Sequence[_Question]] | None:
        """Take the next request whose answer a survey waits for."""
        while queue:
            question = queue.popleft()
            if self._monotonic_ms() < question.deadline_ms:
                return question.request, [question]
        return None

    def end(self, taken: Sequence[_Question], answer: Message | KafkaError) -> None:
        """Give the request its answer."""
        for question in taken:
            question.resume(answer)


class RequestsToLeaders:
    """Asks the leaders of partitions; `follow` is a listener of the metadata."""

    def __init__(self, brokers: OtherBrokers, name: str = "lag") -> None:
        """`name`: that of the links, in the client ids of this broker."""
        self._tasks = brokers.tasks
        self._requests = BrokerRequests(name, _OneByOne(brokers.tasks.monotonic_ms), brokers)
        self.follow = self._requests.follow

    def ask(self, leader: int, request: Message) -> Task[Any]:
        """The answer, or None if the leader cannot be asked, or has not answered in time."""
        deadline_ms = self._tasks.monotonic_ms() + ANSWER_MS

        def begin(resume: Callable[[Any], None]) -> None:
            self._requests.add(leader, _Question(request, deadline_ms, partial(_without_error, resume)))

        return (yield at_most(self._tasks.scheduler, ANSWER_MS, begin))


def _without_error(resume: Callable[[Any], None], answer: Message | KafkaError) -> None:
    resume(None if isinstance(answer, KafkaError) else answer)

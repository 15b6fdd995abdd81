"""Links to other brokers whose requests a test answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headgate.gateway.runtime.broker_links import LinkLost
from headgate.gateway.runtime.tasks import Ask
from headgate.protocol.schema import Message


class FakeLink:
    """One link. The test fails if a second request comes before the answer to the first."""

    def __init__(self, node_id: int) -> None:
        self.node_id = node_id
        self.is_closed = False
        self.asked: list[Any] = []
        self._resume: Callable[[Any], None] | None = None

    def ask(self, request: Message, version: int | None = None) -> Ask:
        def begin(resume: Callable[[Any], None]) -> None:
            assert self._resume is None, "another request is in flight"
            self.asked.append(request)
            self._resume = resume
            if self.is_closed:
                self.answer(LinkLost("closed"))

        return begin

    def versions(self) -> Ask:
        raise NotImplementedError

    def answer(self, answer: object) -> None:
        resume, self._resume = self._resume, None
        assert resume is not None
        resume(answer)

    def close(self) -> None:
        self.is_closed = True
        if self._resume is not None:
            self.answer(LinkLost("closed"))


class FakeLinks:
    """The links that were opened, the latest of each broker."""

    def __init__(self) -> None:
        self.opened: dict[int, FakeLink] = {}

    def open(self, node_id: int, host: str, port: int, client_id: str, *, timeout_ms: float) -> FakeLink:
        assert timeout_ms > 0
        self.opened[node_id] = FakeLink(node_id)
        return self.opened[node_id]

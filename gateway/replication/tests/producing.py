"""Produce requests put to a node, and their replies."""

from typing import Any

from headgate.gateway.runtime.tasks import Silent, is_task
from headgate.gateway.tests.builders import HandlerBroker, handler_of, start
from headgate.gateway.tests.requests import produce_request
from headgate.protocol.messages.produce import ProduceResponse
from headgate.protocol.records.batch import Record, build

TIMEOUT_MS = 60_000


def produce(
    node: HandlerBroker, *values: bytes, topic: str = "t", index: int = 0, acks: int = 1, **numbers: Any
) -> Any:
    """The outcome of the handler. The turn goes on: nothing is written yet."""
    records = [Record(timestamp=node.time.clock.now_ms(), value=value) for value in values or (b"x",)]
    request = produce_request(build(records, **numbers), topic, index, acks=acks, timeout_ms=TIMEOUT_MS)
    return handler_of(request, 9)(request, node.context(9))


def row(response: Any) -> tuple[int, int]:
    """The error code and the base offset of the only row."""
    assert isinstance(response, ProduceResponse)
    ((found,),) = [topic.partition_responses for topic in response.responses]
    return found.error_code, found.base_offset


DONE = "done"
"""In place of the reply to a request that needs none."""


class Reply:
    """The reply to a client, once there is one."""

    def __init__(self, node: HandlerBroker, outcome: Any) -> None:
        self.value: Any = None
        if is_task(outcome) or isinstance(outcome, Silent):
            start(node, outcome, self._take)
        else:
            self.value = outcome

    def _take(self, value: Any) -> None:
        assert self.value is None
        self.value = DONE if value is None else value

    @property
    def row(self) -> tuple[int, int] | None:
        """The error code and the base offset; None before the reply."""
        return None if self.value is None else row(self.value)

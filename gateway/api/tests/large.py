"""Large requests, put to the real dispatcher of a node whose clock moves whenever somebody looks at it."""

from __future__ import annotations

import struct
from typing import Any

from headgate.gateway.api.context import Client
from headgate.gateway.api.dispatch import Parked
from headgate.gateway.tests.builders import HandlerBroker
from headgate.protocol import registry
from headgate.protocol.compiler import read, write
from headgate.protocol.header import RequestHeader, read_response_header, write_request_header
from headgate.protocol.messages.list_transactions import ListTransactionsRequest
from headgate.protocol.schema import Message

LOOK_MS = 0.5
"""So long a look at the clock takes: a slice has two steps."""


def frame(request: Message, version: int, correlation_id: int = 77) -> memoryview:
    """A request as it is received, without its size."""
    out = bytearray()
    write_request_header(out, RequestHeader(request.api_key, version, correlation_id, "me"))
    write(request, version, out, [])
    return memoryview(out)


class Asked:
    """One request of one client: its reply, once there is one."""

    def __init__(self, loop: Loop, request: Message, version: int, correlation_id: int) -> None:
        self._loop = loop
        self._request = request
        self._version = version
        self._correlation_id = correlation_id
        self.replies: list[Any] = []
        self.parked: Parked | None = None
        received = frame(request, version, correlation_id)
        outcome = loop.dispatcher.dispatch(received, Client("127.0.0.1", 1, "127.0.0.1", 9092), self.replies.append)
        received[:] = b"\xdd" * len(received)  # the buffer is the driver's again
        if isinstance(outcome, Parked):
            self.parked = outcome
        else:
            self.replies.append(outcome)

    def finish(self) -> int:
        """Wait for the reply; how many turns that took."""
        turns = 0
        while not self.replies:
            self._loop.turn()
            turns += 1
        return turns

    @property
    def response(self) -> Any:
        """The response that has come."""
        (reply,) = self.replies
        assert isinstance(reply, list), reply
        data = memoryview(b"".join(reply))
        (size,) = struct.unpack_from(">i", data)
        assert size == len(data) - 4
        correlation_id, position = read_response_header(data[4:], self._request.api_key, self._version)
        assert correlation_id == self._correlation_id
        found, end = read(registry.response_class(self._request.api_key), self._version, data[4:], position)
        assert end == size
        return found


class Loop:
    """A dispatcher, and the turns of its loop."""

    def __init__(self, node: HandlerBroker) -> None:
        self.node = node
        self.dispatcher = node.parts.dispatcher
        self._count = 0
        clock = node.time.clock

        def look() -> float:
            clock.elapsed_ms += LOOK_MS
            return clock.elapsed_ms

        clock.monotonic_ms = look  # type: ignore[method-assign]

    def ask(self, request: Message, version: int) -> Asked:
        """Put a request to it."""
        self._count += 1
        return Asked(self, request, version, self._count)

    def turn(self) -> None:
        """One turn: what is due is done, steps for a millisecond."""
        self.node.time.advance()
        self.node.services.batcher.write_all()

    def ask_a_bystander(self) -> None:
        """A small request is answered at once, whatever else is under way."""
        asked = self.ask(ListTransactionsRequest(), 0)
        assert asked.response.error_code == 0

"""One client's connection, sans-IO: bytes in -> requests -> replies out, strictly in order.

A driver (`streams.py`) owns the socket. It gives what it received to `receive`, sends what stands in `outgoing`, and
asks `wants_data` before it reads again. The connection never calls back into a driver except through `wake`, when
something changed from elsewhere: a parked reply is ready, or there is room again in the memory budget.

One request is worked on at a time, as in Apache Kafka: while one is parked, or while replies wait to be sent, later
requests stay unread or in `_pending`. So what a client can make us hold is one receive, one frame within the budget,
and a bounded piece of output.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable

from gateway.context import Client, CloseConnection
from gateway.dispatch import Chunk, Dispatcher, Parked, Reply
from gateway.memory import MemoryBudget
from protocol.errors import MalformedRequest
from protocol.frame import FrameReader

logger = logging.getLogger("headgate.connection")

# Replies queued beyond this are sent before the next request is looked at.
MAX_OUTGOING_BYTES = 1 << 20
# While a request is parked, this much of what follows it is taken in; then the socket is left alone.
MAX_PENDING_BYTES = 1 << 18


class Connection:
    """The state of one client: what was received, the request being answered, what is to be sent."""

    def __init__(
        self,
        client: Client,
        dispatcher: Dispatcher,
        max_frame_bytes: int,
        memory: MemoryBudget,
        complain: Callable[[Client, str], None],
    ) -> None:
        """`complain(client, reason)` is told why a client's fault ends the connection."""
        self.client = client
        self._complain = complain
        self.outgoing: deque[Chunk] = deque()
        self.closing = False  # nothing more is read or answered; what is in `outgoing` is still sent
        self.wake: Callable[[], None] = _nobody
        self.active_ms = 0.0  # when bytes last came in; kept by the driver's owner for the idle sweep
        self.incomplete_since_ms: float | None = None  # since when part of a frame has been held
        self._dispatcher = dispatcher
        self._frames = FrameReader(max_frame_bytes)
        self._memory = memory
        self._reserved = 0
        self._starved = False
        self._pending: deque[memoryview] = deque()
        self._pending_bytes = 0
        self._outgoing_bytes = 0
        self._parked: Parked | None = None

    @property
    def parked(self) -> bool:
        """A request waits for something else; its reply comes with a `wake`."""
        return self._parked is not None

    @property
    def wants_data(self) -> bool:
        """Whether the driver should read from the socket now."""
        return not (self.closing or self._starved or self._pending_bytes > MAX_PENDING_BYTES)

    def receive(self, data: memoryview, now_ms: float) -> None:
        """Take bytes from the socket. `data` must be writable; afterwards it is the driver's again."""
        self.active_ms = now_ms
        try:
            frames = self._frames.feed(data)
        except MalformedRequest as error:
            self.close(str(error))
            return
        for frame in frames:
            self._pending.append(frame)
            self._pending_bytes += len(frame)
        self._hold_incomplete(now_ms)
        self.proceed()
        self._own(len(frames))

    def end_of_stream(self) -> None:
        """The client sends nothing more. In the middle of a request that is a fault worth a line."""
        held = self._frames.held_bytes
        if held and not self.closing:
            whole = f" of {self._frames.incomplete_size + 4}" if self._frames.incomplete_size else ""
            self.close(f"it hung up in the middle of a request, after {held}{whole} bytes")

    def proceed(self) -> None:
        """Answer what is pending, as far as order and the bound on output allow."""
        while self._pending and self._parked is None and not self.closing and self._outgoing_bytes < MAX_OUTGOING_BYTES:
            frame = self._pending.popleft()
            self._pending_bytes -= len(frame)
            self._answer(frame)

    def take(self) -> Chunk:
        """The next piece to send. A piece of a file is released by whoever took it."""
        chunk = self.outgoing.popleft()
        self._outgoing_bytes -= len(chunk)
        return chunk

    def close(self, reason: str | None = None) -> None:
        """Answer nothing more; the driver sends what is queued and hangs up. `reason`: the client's fault, logged."""
        if self.closing:
            return
        self.closing = True
        if reason is not None:
            self._complain(self.client, reason)
        self._pending.clear()
        self._pending_bytes = 0
        if self._parked is not None:
            self._parked.abandon()
            self._parked = None

    def finish(self) -> None:
        """The socket is gone: let go of everything that is held, now and not when the garbage collector comes by."""
        self.close()
        self.wake = _nobody
        self._frames.forget()
        self._release_memory()
        self._memory.forget(self._granted)
        while self.outgoing:
            chunk = self.take()
            if not isinstance(chunk, bytes | bytearray | memoryview):
                chunk.release()

    def _answer(self, frame: memoryview) -> None:
        try:
            outcome = self._dispatcher.dispatch(frame, self.client, self._complete)
        except (MalformedRequest, CloseConnection) as error:
            self.close(str(error))
            return
        if isinstance(outcome, Parked):
            self._parked = outcome
        else:
            self._queue(outcome)

    def _complete(self, reply: Reply | Exception) -> None:
        self._parked = None
        if isinstance(reply, Exception):
            logger.error("the reply to %s could not be made", self.client, exc_info=reply)
            self.close()
        else:
            self._queue(reply)
        self.wake()

    def _queue(self, reply: Reply) -> None:
        for chunk in reply:
            self.outgoing.append(chunk)
            self._outgoing_bytes += len(chunk)

    def _own(self, received: int) -> None:
        """Copy what is left of the last frames received: the buffer that they are in belongs to the driver."""
        for index in range(max(len(self._pending) - received, 0), len(self._pending)):
            self._pending[index] = memoryview(bytearray(self._pending[index]))

    def _hold_incomplete(self, now_ms: float) -> None:
        """Reserve the whole size of the frame of which a part is here; reading stops until it can be."""
        size = self._frames.incomplete_size
        if size == 0:
            self._release_memory()
            self.incomplete_since_ms = None
        elif self._reserved != size:
            self._release_memory()
            self.incomplete_since_ms = now_ms
            if self._memory.reserve(size, self._granted):
                self._reserved = size
            else:
                self._starved = True

    def _granted(self, size: int) -> None:
        self._starved = False
        self._reserved = size
        self.wake()

    def _release_memory(self) -> None:
        if self._reserved:
            self._memory.release(self._reserved)
            self._reserved = 0


def _nobody() -> None:
    """There is no driver to be woken."""

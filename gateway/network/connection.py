"""One client's connection, sans-IO: bytes in -> requests -> replies out, strictly in order.

A driver (`sockets.py`, `streams.py`) owns the socket. The driver passes received bytes to `receive`, sends the pieces
in `outgoing`, and asks `wants_data` before each read. The connection calls the driver in two cases only. `wake`:
something changed elsewhere, such as a parked reply that is ready, or memory that is free again. `is_late`: after each
request that another one follows, since a request of 50 bytes may cost milliseconds.

As in Apache Kafka, one request is processed at a time: while a request is parked, or replies wait to be sent, later
requests stay unread or in `_pending`. So the memory of one client is bounded: one receive, one frame within the budget,
and a bounded amount of output.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from enum import Enum, auto
from typing import TYPE_CHECKING, Protocol

from headgate.gateway.api.context import Client, CloseConnection
from headgate.gateway.api.dispatch import Dispatcher, Done, Parked, Piece, Reply
from headgate.gateway.network.admission.unauthenticated import UnauthenticatedConnection
from headgate.gateway.network.protocol_detection import detect
from headgate.gateway.runtime.memory_budget import SMALL_BYTES, MemoryBudget
from headgate.gateway.runtime.scheduler import Scheduler
from headgate.protocol.errors import MalformedRequest
from headgate.protocol.frame import FrameReader, InvalidFrameSize

if TYPE_CHECKING:
    from headgate.gateway.request_log.request_trace import ConnectionTrace

logger = logging.getLogger("headgate.connection")

# With more bytes of queued replies, the driver sends before the next request is processed.
MAX_OUTGOING_BYTES = 1 << 20
# The memory of a frame beside its bytes; without this figure, empty frames behind a parked request would count nothing.
FRAME_OVERHEAD_BYTES = 200
# A parked request of up to this size is not counted: every fetch is that small.
FREE_PARKED_BYTES = 1 << 12
# While a request is parked, this many bytes behind the request are received; then the socket is not read.
MAX_PENDING_BYTES = 1 << 18
# A request gets a receive buffer of its own once this much has arrived and more than `LARGE_REST_BYTES` are missing.
LARGE_BEGINNING_BYTES = 1 << 14
LARGE_REST_BYTES = 1 << 16


class Dispatching(Protocol):
    """Answers frames, as `Dispatcher.dispatch` does."""

    def dispatch(self, frame: memoryview, client: Client, resume: Done, /) -> Reply | Parked: ...


class Closing(Enum):
    """How the driver closes the connection, once the pieces in `outgoing` are sent."""

    AT_ONCE = auto()
    LINGERING = auto()
    """The client gets time to read the last reply before the close."""


class Connection:
    """The state of one client: the received bytes, the request in progress, the replies to be sent.

    Many connections may be idle; hence the slots, and lists where an empty deque would take 640 bytes.
    """

    __slots__ = (
        "_batcher",
        "_dispatcher",
        "_frames",
        "_held_before",
        "_memory",
        "_muted",
        "_parked",
        "_parked_bytes",
        "_pending",
        "_pending_bytes",
        "_report_fault",
        "_reserved",
        "_taken_bytes",
        "active_ms",
        "bytes_out",
        "client",
        "closing",
        "ended",
        "incomplete_since_ms",
        "is_late",
        "login",
        "opened_ms",
        "outgoing",
        "starved",
        "trace",
        "unauthenticated",
        "wake",
    )

    def __init__(
        self,
        client: Client,
        dispatcher: Dispatcher,
        max_frame_bytes: int,
        memory: MemoryBudget,
        report_fault: Callable[[Client, str], None],
    ) -> None:
        """`report_fault(client, reason)` reports the client's fault that ends the connection."""
        self.client = client
        self._report_fault = report_fault
        self.outgoing: list[Piece] = []
        self.closing: Closing | None = None  # set: nothing more is read or answered
        self.ended = False  # the client has closed its sending side
        self.wake: Callable[[], None] = _nobody
        self.is_late: Callable[[], bool] = _never  # whether the turn is over; pending requests wait for the next
        self.opened_ms = 0.0  # when the connection was accepted; the server sets it
        self.bytes_out = 0  # of all replies, without TLS's own
        self.active_ms = 0.0  # when bytes last arrived; the idle sweep reads it, the driver updates it
        self.incomplete_since_ms: float | None = None  # since when an incomplete frame has not grown
        self.starved = False  # reads wait for memory
        self.trace: ConnectionTrace | None = None  # of its requests, while the request log is on
        self.login: Dispatching | None = None  # what the client has to log in by
        self.unauthenticated: UnauthenticatedConnection | None = None
        self._batcher = dispatcher.batcher
        self._dispatcher: Dispatching = dispatcher
        self._frames = FrameReader(max_frame_bytes)
        self._memory = memory
        self._reserved = 0
        self._held_before = 0
        self._pending: list[memoryview] = []
        self._pending_bytes = 0
        self._taken_bytes = 0  # those of `bytes_out` that the driver has taken
        self._parked: Parked | None = None
        self._parked_bytes = 0
        self._muted: Parked | None = None  # stands in for a parked request while the client is throttled

    @property
    def needs_login(self) -> bool:
        """Whether the client has not logged in yet, as its listener asks for."""
        return self.login is not None

    @property
    def bytes_in(self) -> int:
        """The received bytes, without TLS's own."""
        return self._frames.received_bytes

    @property
    def is_throttled(self) -> bool:
        """Whether a quota, or a refused login, has paused the connection."""
        return self._muted is not None

    @property
    def parked(self) -> bool:
        """Whether a request waits for an event; a `wake` announces the reply."""
        return self._parked is not self._muted

    @property
    def waits_silently(self) -> bool:
        """The parked request needs no reply; the client may close and still expect that this and later requests run."""
        return self._parked is not None and self._parked.is_silent

    @property
    def is_answered(self) -> bool:
        """Whether the client has closed its sending side and every complete request has a reply, sent or queued."""
        return self.ended and not self.parked and not self._pending

    @property
    def awaits_broker(self) -> bool:
        """Whether the client waits for the broker: for a reply, or for the next read."""
        return self._parked is not None or self.starved or self.has_more

    @property
    def is_settled(self) -> bool:
        """Whether no batched write is open, for any connection."""
        return not self._batcher.is_open

    @property
    def has_more(self) -> bool:
        """Whether `proceed` would answer a request."""
        return bool(self._pending) and self._may_answer

    @property
    def _may_answer(self) -> bool:
        """Whether the order of replies and the limit on output allow the next reply."""
        return self._parked is None and not self.closing and self.bytes_out - self._taken_bytes < MAX_OUTGOING_BYTES

    @property
    def wants_data(self) -> bool:
        """Whether the driver should read from the socket now."""
        return not (self.closing or self.ended or self.starved or self._pending_bytes > MAX_PENDING_BYTES)

    @property
    def max_frame_bytes(self) -> int:
        """The limit on a frame."""
        return self._frames.max_size

    def use(self, dispatcher: Dispatching, max_frame_bytes: int) -> None:
        """Have `dispatcher` answer the frames from the next one on, with another limit on their size."""
        self._dispatcher, self._frames.max_size = dispatcher, max_frame_bytes

    def receive(self, data: memoryview, now_ms: float) -> None:
        """Process bytes from the socket. `data` must be writable; after the call the driver may reuse its buffer."""
        self.active_ms = now_ms
        if self._parked is None and not (self._pending or self.closing):
            frame = self._frames.take_whole(data)
            if frame is not None:
                self._answer(frame)
                if self._reserved or self._parked_bytes:
                    self._account()
                return
        fault: InvalidFrameSize | None = None
        try:
            frames = self._frames.feed(data)
        except InvalidFrameSize as error:
            frames, fault = error.frames, error
        self._take_frames(frames, now_ms)
        if fault is not None:
            self._end_with(fault)

    def _end_with(self, fault: InvalidFrameSize) -> None:
        """Close the connection over an invalid frame. A known other protocol gets an answer in that protocol."""
        detected = detect(fault.size) if fault.is_first else None
        if detected is None:
            self.close(str(fault))
            return
        self._queue([detected.answer])
        self.close(detected.reason, Closing.LINGERING)

    def room(self) -> memoryview | None:
        """Return the buffer for the rest of a large request, which saves a copy. None: the driver calls `receive`.

        The buffer is never larger than its reservation.
        """
        frames = self._frames
        held = frames.held_bytes
        if held < LARGE_BEGINNING_BYTES or frames.incomplete_size - held <= LARGE_REST_BYTES:
            return None
        return frames.get_buffer(frames.incomplete_size if held > SMALL_BYTES else SMALL_BYTES)

    def received(self, count: int, now_ms: float) -> None:
        """Process `count` bytes that the driver put into `room`."""
        self.active_ms = now_ms
        self._take_frames(self._frames.buffer_updated(count), now_ms)

    def resume_reading(self, now_ms: float) -> None:
        """The driver reads again: an incomplete request gets its full time to grow."""
        if self.incomplete_since_ms is not None:
            self.incomplete_since_ms, self._held_before = now_ms, self._frames.held_bytes

    def end_of_stream(self) -> None:
        """The client has closed its sending side, and still gets its replies. An end within a request is logged.

        Such an end closes the connection at once, unless an earlier request still has to be answered.
        """
        self.ended = True
        held = self._frames.held_bytes
        if held and not self.closing:
            whole = f" of {self._frames.incomplete_size + 4}" if self._frames.incomplete_size else ""
            reason = f"the client disconnected in the middle of a request, after {held}{whole} bytes"
            if self.is_answered:
                self.close(reason)
                return
            self._report_fault(self.client, reason)
            self._frames.discard()
            self.incomplete_since_ms = None
            self._account()

    def proceed(self) -> None:
        """Answer pending requests: always the first, and more as order, output and the turn allow."""
        if self._pending or self._reserved or self.starved:
            self._answer_pending()
            self._account()

    def release_answered(self) -> None:
        """Replies were sent: release the memory that their requests had reserved."""
        if self._reserved or self.starved:
            self._account()
        if self.trace is not None:
            self.trace.sent()

    def take(self) -> Piece:
        """Return the next piece to send. The caller releases a piece of a file."""
        if self._batcher.is_open:
            self._batcher.write_all()
        piece = self.outgoing.pop(0)
        if self.outgoing:
            self._taken_bytes += len(piece)
        else:  # a failed write may have changed the length of the queued replies
            self._taken_bytes = self.bytes_out
        return piece

    def settle(self) -> None:
        """Commit the batched writes, before any reply to them is sent."""
        self._batcher.write_all()

    def close(self, reason: str | None = None, closing: Closing = Closing.AT_ONCE) -> None:
        """Answer nothing more; the driver sends the queue, then closes. `reason`: the client's fault, for the log."""
        if self.closing:
            return
        self.closing = closing
        if reason is not None:
            self.report(reason)
        self._pending.clear()
        self._pending_bytes = 0
        if self._parked is not None:
            self._parked.abandon()
            self._parked = None
            self._parked_bytes = 0
        if self._muted is not None:
            self._muted.abandon()
            self._muted = None

    def authenticated(self) -> None:
        """The client is known."""
        self.login = None
        if self.unauthenticated is not None:
            self.unauthenticated.end()
            self.unauthenticated = None

    def report(self, reason: str) -> None:
        """Report the client's fault for the log, ahead of the close."""
        self._report_fault(self.client, reason)

    def mute(self, scheduler: Scheduler, throttle_ms: int) -> None:
        """Answer no new request for `throttle_ms`. Queued replies are sent; a parked request continues (KIP-219)."""
        if self.closing:
            return
        if self.trace is not None:
            self.trace.throttled(throttle_ms)
        if self._muted is not None:
            self._muted.abandon()
        is_parked = self.parked
        self._muted = Parked(scheduler.call_after(throttle_ms, self._unmute).cancel)
        if not is_parked:
            self._parked = self._muted

    def _unmute(self) -> None:
        if self._parked is self._muted:
            self._parked = None
        self._muted = None
        self.wake()

    def finish(self) -> None:
        """The socket is closed: release all resources now, without waiting for the garbage collector."""
        self.close()
        self.authenticated()
        if self.trace is not None:
            self.trace.close()
        try:
            self.settle()  # no later step of this connection would write
        except Exception as error:  # the resources are released in any case
            logger.error("writing failed at the end of %s", self.client, exc_info=error)
        self.wake, self.client.connection = _nobody, None
        self._frames.discard()
        self._memory.forget(self._granted)  # before the release below, which would grant it
        self._release_memory()
        while self.outgoing:
            piece = self.outgoing.pop(0)
            if not isinstance(piece, bytes | bytearray | memoryview):
                piece.release()

    def _take_frames(self, frames: list[memoryview], now_ms: float) -> None:
        """Answer frames in place, in the driver's buffer; copy the frames that have to wait."""
        answered = 0
        if not self._pending:
            for frame in frames:
                if not self._may_answer or (answered and self.is_late()):
                    break
                self._answer(frame)
                answered += 1
        if answered < len(frames) and not self.closing:
            for frame in frames[answered:]:
                self._pending.append(memoryview(bytearray(frame)))
                self._pending_bytes += len(frame) + FRAME_OVERHEAD_BYTES
            if self.trace is not None:
                self.trace.note_pending(len(frames) - answered, now_ms)
        if self._pending and not answered:
            self._answer_pending()
        held = self._frames.held_bytes
        if held or self.incomplete_since_ms is not None:
            self._note_progress(now_ms, held, bool(frames))
        if held or self._reserved or self._pending_bytes or self._parked_bytes:
            self._account()

    def _answer(self, frame: memoryview) -> None:
        try:
            outcome = self._dispatcher.dispatch(frame, self.client, self._complete)
        except (MalformedRequest, CloseConnection) as error:
            self.close(str(error))
            return
        if isinstance(outcome, list):
            self.outgoing += outcome  # `_queue`, without the call
            for piece in outcome:
                self.bytes_out += len(piece)
        else:
            self._parked = outcome
            self._parked_bytes = len(frame) if len(frame) > FREE_PARKED_BYTES else 0

    def _complete(self, reply: Reply | Exception) -> None:
        self._parked = self._muted
        self._parked_bytes = 0
        if isinstance(reply, CloseConnection):
            self.close(str(reply))
        elif isinstance(reply, Exception):
            logger.error("the reply to %s could not be made", self.client, exc_info=reply)
            self.close()
        else:
            self._queue(reply)
            if not reply:  # without a reply no send follows that would account for the memory
                self._account()
        self.wake()

    def _queue(self, reply: Reply) -> None:
        self.outgoing += reply
        for piece in reply:
            self.bytes_out += len(piece)

    def _note_progress(self, now_ms: float, held: int, has_frames: bool) -> None:
        """Record since when an incomplete frame has not grown; growth means at least `SMALL_BYTES`."""
        if self.trace is not None:
            self.trace.note_progress(now_ms, held, has_requests=has_frames)
        if not held:
            self.incomplete_since_ms = None
        elif has_frames or self.incomplete_since_ms is None or held - self._held_before >= SMALL_BYTES:
            self.incomplete_since_ms, self._held_before = now_ms, held

    def _account(self) -> None:
        """Reserve memory for the unanswered requests: pending, parked, and partly received.

        A large request counts with its whole size only after `SMALL_BYTES` of it: a mere claim must not block others.
        """
        wanted = self._pending_bytes + self._parked_bytes
        if self._frames.incomplete_size:
            whole, held = self._frames.incomplete_size, self._frames.held_bytes
            wanted += whole if held > SMALL_BYTES else min(whole, SMALL_BYTES)
        missing = wanted - self._reserved
        if missing <= 0 and self.starved:  # the awaited memory is no longer needed
            self._memory.forget(self._granted)
            self.starved = False
        if missing < 0:
            self._reserved = wanted
            self._memory.release(-missing)
        elif missing > 0 and not self.starved:
            if self._memory.reserve(missing, self._granted):
                self._reserved = wanted
            else:
                self.starved = True
                if self.trace is not None:
                    self.trace.starve()

    def _answer_pending(self) -> None:
        answered = 0
        while answered < len(self._pending) and self._may_answer and not (answered and self.is_late()):
            frame = self._pending[answered]
            answered += 1
            self._pending_bytes -= len(frame) + FRAME_OVERHEAD_BYTES
            if self.trace is not None:
                self.trace.next_pending()
            self._answer(frame)
        del self._pending[:answered]

    def _granted(self, size: int) -> None:
        self.starved = False
        if self.trace is not None:
            self.trace.granted()
        self._reserved += size
        self.wake()

    def _release_memory(self) -> None:
        if self._reserved:
            self._memory.release(self._reserved)
            self._reserved = 0


def _never() -> bool:
    """No other connection waits for a turn."""
    return False


def _nobody() -> None:
    """There is no driver to wake."""

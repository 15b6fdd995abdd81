"""One client's connection, sans-IO: bytes in -> requests -> replies out, strictly in order.

A driver (`sockets.py`, `streams.py`) owns the socket. It gives what it received to `receive`, sends what stands in
`outgoing`, and asks `wants_data` before it reads again. The connection never calls back into a driver except through
`wake`, when something changed from elsewhere: a parked reply is ready, or there is room again in the memory budget; and
`is_late`, after each request behind which another one is pending: a request of 50 bytes may cost milliseconds.

One request is worked on at a time, as in Apache Kafka: while one is parked, or while replies wait to be sent, later
requests stay unread or in `_pending`. So what a client can make us hold is one receive, one frame within the budget,
and a bounded piece of output.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from headgate.gateway.api.context import Client, CloseConnection
from headgate.gateway.api.dispatch import Dispatcher, Parked, Piece, Reply
from headgate.gateway.network.memory_budget import SMALL_BYTES, MemoryBudget
from headgate.gateway.network.protocol_detection import detect
from headgate.gateway.runtime.scheduler import Scheduler
from headgate.protocol.errors import MalformedRequest
from headgate.protocol.frame import FrameReader, InvalidFrameSize

logger = logging.getLogger("headgate.connection")

# Replies queued beyond this are sent before the next request is looked at.
MAX_OUTGOING_BYTES = 1 << 20
# What a frame takes beside its bytes; without it, empty frames behind a parked request would count nothing.
FRAME_OVERHEAD_BYTES = 200
# A request of up to this size may be parked for free: that is every fetch.
FREE_PARKED_BYTES = 1 << 12
# While a request is parked, this much of what follows it is taken in; then the socket is left alone.
MAX_PENDING_BYTES = 1 << 18
# Once so much of a request has come, and more than `LARGE_REST_BYTES` have not, it is received into its own buffer.
LARGE_BEGINNING_BYTES = 1 << 14
LARGE_REST_BYTES = 1 << 16


class Connection:
    """The state of one client: what was received, the request being answered, what is to be sent.

    There may be many that do nothing: slots, and lists where an empty deque would take 640 bytes.
    """

    __slots__ = (
        "_appends",
        "_complain",
        "_dispatcher",
        "_frames",
        "_held_before",
        "_memory",
        "_muted",
        "_outgoing_bytes",
        "_parked",
        "_parked_bytes",
        "_pending",
        "_pending_bytes",
        "_reserved",
        "active_ms",
        "client",
        "closing",
        "ended",
        "incomplete_since_ms",
        "is_late",
        "lingers",
        "outgoing",
        "starved",
        "wake",
    )

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
        self.outgoing: list[Piece] = []
        self.closing = False  # nothing more is read or answered; what is in `outgoing` is still sent
        self.ended = False  # the client sends nothing more
        self.lingers = False  # let the client read the end before it is hung up on
        self.wake: Callable[[], None] = _nobody
        self.is_late: Callable[[], bool] = _never  # whether the turn is over: pending requests are for the next one
        self.active_ms = 0.0  # when bytes last came in; kept by the driver's owner for the idle sweep
        self.incomplete_since_ms: float | None = None  # since when part of a frame has been held without coming on
        self.starved = False  # reading has to wait for memory
        self._appends = dispatcher.appends
        self._dispatcher = dispatcher
        self._frames = FrameReader(max_frame_bytes)
        self._memory = memory
        self._reserved = 0
        self._held_before = 0
        self._pending: list[memoryview] = []
        self._pending_bytes = 0
        self._outgoing_bytes = 0
        self._parked: Parked | None = None
        self._parked_bytes = 0
        self._muted: Parked | None = None  # in the place of a parked request as long as the client has to pause

    @property
    def parked(self) -> bool:
        """A request waits for something else; its reply comes with a `wake`."""
        return self._parked is not self._muted

    @property
    def waits_silently(self) -> bool:
        """The parked request needs no reply: the client may close, and still expects it and what follows to be done."""
        return self._parked is not None and self._parked.is_silent

    @property
    def is_answered(self) -> bool:
        """The client sends nothing more, and each request that came whole has its answer, sent or in `outgoing`."""
        return self.ended and not self.parked and not self._pending

    @property
    def is_owed(self) -> bool:
        """The client waits for the broker: for an answer, or to be read from again."""
        return self._parked is not None or self.starved or self.has_more

    @property
    def is_settled(self) -> bool:
        """Whether nothing is left to be written, by whatever connection."""
        return not self._appends.is_open

    @property
    def has_more(self) -> bool:
        """Whether there are requests that `proceed` would answer."""
        return bool(self._pending) and self._may_answer

    @property
    def _may_answer(self) -> bool:
        """Whether order and the bound on output allow the next answer."""
        return self._parked is None and not self.closing and self._outgoing_bytes < MAX_OUTGOING_BYTES

    @property
    def wants_data(self) -> bool:
        """Whether the driver should read from the socket now."""
        return not (self.closing or self.ended or self.starved or self._pending_bytes > MAX_PENDING_BYTES)

    def receive(self, data: memoryview, now_ms: float) -> None:
        """Take bytes from the socket. `data` must be writable; afterwards it is the driver's again."""
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
        """Close over what is no frame. Who began with another protocol is told so in that."""
        stranger = detect(fault.size) if fault.is_first else None
        if stranger is None:
            self.close(str(fault))
            return
        self._queue([stranger.answer])
        self.lingers = True
        self.close(stranger.reason)

    def room(self) -> memoryview | None:
        """Where the rest of a large request is to be received, without a copy; None: `receive` takes what comes.

        Its buffer is never larger than what is reserved for it.
        """
        frames = self._frames
        held = frames.held_bytes
        if held < LARGE_BEGINNING_BYTES or frames.incomplete_size - held <= LARGE_REST_BYTES:
            return None
        return frames.get_buffer(frames.incomplete_size if held > SMALL_BYTES else SMALL_BYTES)

    def received(self, count: int, now_ms: float) -> None:
        """Take `count` bytes that were put into `room`."""
        self.active_ms = now_ms
        self._take_frames(self._frames.buffer_updated(count), now_ms)

    def resume_reading(self, now_ms: float) -> None:
        """The driver reads again: an incomplete request has its full time to come on."""
        if self.incomplete_since_ms is not None:
            self.incomplete_since_ms, self._held_before = now_ms, self._frames.held_bytes

    def end_of_stream(self) -> None:
        """The client sends nothing more; it still gets what it is owed. To end within a request is a fault, and logged.

        That ends the connection at once, unless an earlier request still has to be answered.
        """
        self.ended = True
        held = self._frames.held_bytes
        if held and not self.closing:
            whole = f" of {self._frames.incomplete_size + 4}" if self._frames.incomplete_size else ""
            reason = f"it hung up in the middle of a request, after {held}{whole} bytes"
            if self.is_answered:
                self.close(reason)
                return
            self._complain(self.client, reason)
            self._frames.discard()
            self.incomplete_since_ms = None
            self._account()

    def proceed(self) -> None:
        """Answer what is pending: the first request, and more as far as order, output and the turn allow."""
        if self._pending or self._reserved or self.starved:
            self._answer_pending()
            self._account()

    def release_answered(self) -> None:
        """Replies were sent: give back the memory that their requests had reserved."""
        if self._reserved or self.starved:
            self._account()

    def take(self) -> Piece:
        """The next piece to send. A piece of a file is released by whoever took it."""
        if self._appends.is_open:
            self._appends.commit()
        piece = self.outgoing.pop(0)
        # A write that failed may have changed the length of what is queued.
        self._outgoing_bytes = self._outgoing_bytes - len(piece) if self.outgoing else 0
        return piece

    def settle(self) -> None:
        """Write what was left to be written together, before anything that was answered is sent."""
        self._appends.commit()

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
            self._parked_bytes = 0
        if self._muted is not None:
            self._muted.abandon()
            self._muted = None

    def mute(self, scheduler: Scheduler, throttle_ms: int) -> None:
        """Answer nothing more for so long; the answers until now are sent, and a parked request goes on (KIP-219)."""
        if self.closing:
            return
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
        """The socket is gone: let go of everything that is held, now and not when the garbage collector comes by."""
        self.close()
        try:
            self.settle()  # nobody else may come to it
        except Exception as error:  # what is held is let go all the same
            logger.error("writing failed at the end of %s", self.client, exc_info=error)
        self.wake = _nobody
        self._frames.discard()
        self._memory.forget(self._granted)  # before the release, which would grant it
        self._release_memory()
        while self.outgoing:
            piece = self.outgoing.pop(0)
            if not isinstance(piece, bytes | bytearray | memoryview):
                piece.release()

    def _take_frames(self, frames: list[memoryview], now_ms: float) -> None:
        """Answer frames where they lie, in the driver's buffer; copy those that have to wait."""
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
            self._queue(outcome)
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
            if not reply:  # nothing will be sent, after which it would be done
                self._account()
        self.wake()

    def _queue(self, reply: Reply) -> None:
        self.outgoing += reply
        for piece in reply:
            self._outgoing_bytes += len(piece)

    def _note_progress(self, now_ms: float, held: int, has_frames: bool) -> None:
        """Keep the moment since which an incomplete frame has not come on, by `SMALL_BYTES` at least."""
        if not held:
            self.incomplete_since_ms = None
        elif has_frames or self.incomplete_since_ms is None or held - self._held_before >= SMALL_BYTES:
            self.incomplete_since_ms, self._held_before = now_ms, held

    def _account(self) -> None:
        """Reserve what unanswered requests take: those pending, a parked one, and the one of which a part is here.

        Of a large one its whole size, but once `SMALL_BYTES` have come: a claim alone must not keep others waiting.
        """
        wanted = self._pending_bytes + self._parked_bytes
        if self._frames.incomplete_size:
            whole, held = self._frames.incomplete_size, self._frames.held_bytes
            wanted += whole if held > SMALL_BYTES else min(whole, SMALL_BYTES)
        missing = wanted - self._reserved
        if missing <= 0 and self.starved:  # what it waited for was answered meanwhile
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

    def _answer_pending(self) -> None:
        answered = 0
        while answered < len(self._pending) and self._may_answer and not (answered and self.is_late()):
            frame = self._pending[answered]
            answered += 1
            self._pending_bytes -= len(frame) + FRAME_OVERHEAD_BYTES
            self._answer(frame)
        del self._pending[:answered]

    def _granted(self, size: int) -> None:
        self.starved = False
        self._reserved += size
        self.wake()

    def _release_memory(self) -> None:
        if self._reserved:
            self._memory.release(self._reserved)
            self._reserved = 0


def _never() -> bool:
    """Nobody else waits for a turn."""
    return False


def _nobody() -> None:
    """There is no driver to be woken."""

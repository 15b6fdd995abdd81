"""One socket of an engine: receives requests into its connection, and sends replies and pieces of files.

`sockets.py` has the rules, and the turns in which the engine calls a driver.
"""

from __future__ import annotations

import select
import socket
from collections.abc import Callable
from contextlib import suppress
from enum import Enum, auto
from typing import Protocol

from headgate.gateway.network.connection import Closing, Connection
from headgate.gateway.network.epoll import HANGUP, READING, WRITING, Poller
from headgate.gateway.runtime.clock import Clock
from headgate.gateway.runtime.scheduler import Scheduler, Timer
from headgate.protocol.compiler import Splice

RECEIVE_BYTES = 1 << 16
SOCKET_TURN_BYTES = 1 << 18
LINGER_MS = 1_000.0
# A half-closed client has this long to take its replies; each part that the client takes starts the time again.
HALF_CLOSED_MS = 30_000.0
# Up to this size, a read and one send cost less than a send, a probe and a sendfile. The second limit is for all small
# pieces of a run, if more bytes follow, which would need a send of their own.
SMALL_PIECE_BYTES = 1 << 14
SMALL_PIECES_BYTES = 1 << 16
# Up to this many buffers go into one sendmsg without a join.
BUFFERS_AT_ONCE = 64
# The page cache is probed, and filled by a thread, in portions of this size.
PROBED_BYTES = 1 << 20

_DATA = select.EPOLLIN
_GONE = select.EPOLLERR | select.EPOLLHUP
BYTES = (bytes, bytearray, memoryview)
MSG_MORE = int(socket.MSG_MORE)  # a plain int: the enumeration would be converted at each send

Sendfile = Callable[[int, int, int, int], int]
ReadInto = Callable[[int, list[memoryview], int], int]
"""(descriptor, buffers, position) -> the number of bytes that were read."""
MakeSocket = Callable[[int, int], socket.socket]
"""(family, type) -> a new socket."""


class Phase(Enum):
    """The life of a driver."""

    OPEN = auto()
    DRAINING = auto()
    """The driver answers the received requests, then closes the connection."""
    LINGERING = auto()
    """The client has time to read the last reply."""
    CLOSED = auto()


OPEN, DRAINING, LINGERING, CLOSED = Phase


class Replies(Protocol):
    """The peer of a socket, as far as the engine knows it."""

    @property
    def has_more(self) -> bool:
        """Whether received requests wait until the replies to earlier ones are sent."""


class EngineSocket(Protocol):
    """What an engine drives: the socket of a client, or of a link to another broker."""

    phase: Phase
    queued: int | None
    """Events that wait in the engine's queue; 0: the driver was marked."""

    @property
    def connection(self) -> Replies: ...
    @property
    def socket(self) -> socket.socket: ...
    @property
    def peer(self) -> object:
        """The other end, for log lines."""

    def serve(self, events: int) -> None: ...
    def advance(self) -> None: ...
    def release(self) -> None: ...


class Engine(Protocol):
    """The engine of a driver."""

    clock: Clock
    brokers: dict[EngineSocket, None]
    gone: Callable[[SocketDriver], None]
    make_socket: MakeSocket
    now_ms: float
    poller: Poller
    read_into: ReadInto
    scheduler: Scheduler
    scratch: memoryview
    sendfile: Sendfile
    served: list[EngineSocket]

    def add(self, driver: EngineSocket, interest: int) -> None: ...
    def detach(self, driver: EngineSocket) -> bool: ...
    def forget(self, driver: EngineSocket) -> bool: ...
    def is_late(self) -> bool: ...
    def mark(self, driver: EngineSocket) -> None: ...
    def remove(self, driver: EngineSocket) -> None: ...


class SocketDriver:
    """One socket and its connection. All methods run inside a turn of the engine."""

    __slots__ = (
        "_deadline",
        "_engine",
        "_half_closed",
        "_interest",
        "_is_warming",
        "_piece",
        "_piece_sent",
        "_piece_warm",
        "_unsent",
        "connection",
        "phase",
        "queued",
        "socket",
    )
    receives_all = True
    """Whether a receive that leaves room in its buffer has taken everything."""

    def __init__(self, engine: Engine, sock: socket.socket, connection: Connection) -> None:
        self.connection = connection
        self.socket = sock
        self._engine = engine
        self._interest = READING
        self._unsent: memoryview | None = None
        self._piece: Splice | None = None
        self._piece_sent = 0
        self._piece_warm = 0  # the end of the part that is known to be in the page cache
        self._is_warming = False
        self.phase = OPEN
        self._half_closed = False
        self._deadline: Timer | None = None  # for the replies to a half-closed client
        self.queued: int | None = None
        connection.wake = self._wake
        connection.is_late = engine.is_late

    def _wake(self) -> None:
        self._engine.mark(self)

    @property
    def is_reading(self) -> bool:
        return bool(self._interest & _DATA)

    @property
    def awaits_broker(self) -> bool:
        """Whether the client waits for the broker. False while the broker waits for the client to take data."""
        return self._is_warming or (not self._interest & select.EPOLLOUT and self.connection.awaits_broker)

    @property
    def peer(self) -> object:
        return self.connection.client

    def drain(self) -> None:
        """Answer the received requests, then close the connection; with nothing to answer, close at once."""
        if self.phase is OPEN:
            self.phase = DRAINING
        self._engine.mark(self)

    def abort(self) -> None:
        """Close the connection now."""
        self._engine.remove(self)

    def release(self) -> None:
        """The socket is closed: release all resources. A piece that a thread still reads is released after the read."""
        self.phase = CLOSED
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        if self._piece is not None and not self._is_warming:
            self._piece.release()
            self._piece = None
        self.connection.finish()
        self._engine.gone(self)

    def put_first(self) -> None:
        """Serve this connection before those of clients: its other end is a broker."""
        self._engine.brokers[self] = None

    def serve(self, events: int) -> None:
        """Process poll events; 0 means that the driver was marked. `advance` sends the replies."""
        if events == _DATA and self.phase is not LINGERING:
            self._engine.served.append(self)
            self._receive()
        elif events & _GONE:
            self.abort()
        elif self.phase is LINGERING:
            self._discard()
        else:
            engine, connection = self._engine, self.connection
            engine.served.append(self)
            if not events:
                connection.active_ms = engine.now_ms  # the awaited event has happened
            elif events & HANGUP:
                self._half_closed = True
            if events & _DATA and connection.wants_data:
                self._receive()
            elif connection.has_more and not self._is_blocked:
                connection.proceed()

    @property
    def _is_blocked(self) -> bool:
        """Whether unsent output precedes the next reply: the socket was full, or a thread reads a file."""
        return self._unsent is not None or self._piece is not None

    def _receive(self) -> None:
        """Receive within the limits of a turn, until there are replies."""
        engine, connection = self._engine, self.connection
        left = SOCKET_TURN_BYTES
        while left > 0:
            room = connection.room() if connection.incomplete_since_ms is not None else None
            buffer = engine.scratch if room is None else room[:left]
            try:
                count = self.socket.recv_into(buffer)
            except BlockingIOError:
                return
            if not count:
                connection.end_of_stream()
                self._half_closed = True
                return  # `advance` closes the connection once every request is answered
            if room is None:
                connection.receive(buffer[:count], engine.now_ms)
            else:
                connection.received(count, engine.now_ms)
            if connection.outgoing or (self.receives_all and count < len(buffer)):
                return
            if not connection.wants_data or engine.is_late():
                return
            left -= count

    def advance(self) -> None:
        """Send the queue, then answer the requests that the queue delayed, while the turn lasts."""
        connection = self.connection
        while connection.outgoing or self._unsent is not None or self._piece is not None:
            connection.active_ms = self._engine.now_ms
            if self._is_warming or not self._send():
                self._watch(HANGUP if self._is_warming else WRITING)
                return
            connection.release_answered()
            has_more = connection.has_more
            if not has_more or self._engine.is_late():
                break
            connection.proceed()
        else:
            has_more = connection.has_more
        if has_more:
            self._engine.mark(self)
        elif (
            connection.closing
            or (connection.ended and connection.is_answered)
            or (self.phase is DRAINING and not connection.parked)
        ):
            self._close_gracefully()
            return
        self._watch(READING if connection.wants_data else HANGUP)

    def _check_deadline(self) -> None:
        """The half-closed client's time is over: close, unless there was progress or a silent request still runs."""
        engine, connection = self._engine, self.connection
        now_ms, until_ms = engine.clock.monotonic_ms(), connection.active_ms + HALF_CLOSED_MS
        if connection.waits_silently:  # such a request needs no reply, only to be run
            until_ms = now_ms + HALF_CLOSED_MS
        if until_ms <= now_ms:
            self.abort()
        else:
            self._deadline = engine.scheduler.call_at(until_ms, self._check_deadline)

    def _close_gracefully(self) -> None:
        """Close; but a client with a last reply first gets time to read the reply.

        A close with unread data resets the connection, and the client loses the last bytes sent.
        """
        if self.connection.closing is not Closing.LINGERING:
            self.abort()
        elif self.phase is not LINGERING:
            self.phase = LINGERING
            with suppress(OSError):  # the client may have disconnected already
                self.socket.shutdown(socket.SHUT_WR)
            self._watch(READING)
            self._engine.scheduler.call_after(LINGER_MS, self.abort)

    def _discard(self) -> None:
        try:
            if not self.socket.recv_into(self._engine.scratch):
                self.abort()
        except BlockingIOError:
            pass

    def _watch(self, interest: int) -> None:
        if self._half_closed:
            interest &= ~HANGUP
            if self._deadline is None:
                self._deadline = self._engine.scheduler.call_after(HALF_CLOSED_MS, self._check_deadline)
        if interest != self._interest:
            if interest & _DATA:
                self.connection.resume_reading(self._engine.now_ms)
            self._interest = interest
            self._engine.poller.modify(self.socket.fileno(), interest)

    def _send(self) -> bool:
        """Send runs of bytes, each in one call, and pieces of files, in order. False if the socket takes no more."""
        while True:
            if self._unsent is not None:
                if not self._send_bytes(self._unsent):
                    return False
            elif self._piece is None and not self._send_run():
                return False
            if self._piece is not None and not self._send_piece(self._piece):
                return False
            if not self.connection.outgoing:
                return True

    def _send_bytes(self, data: bytes | bytearray | memoryview) -> bool:
        """Send `data`. If the socket takes only a part, keep the rest in `_unsent` and return False."""
        # MSG_MORE: the kernel joins these bytes in one segment with the piece of a file that follows.
        flags = 0 if self._piece is None else MSG_MORE
        try:
            sent = self.socket.send(data, flags)
        except BlockingIOError:
            sent = 0
        if sent == len(data):
            self._unsent = None
            return True
        self._unsent = memoryview(data)[sent:]
        return False

    def _send_run(self) -> bool:
        """Send everything before the next large piece of a file in one call; that piece becomes `_piece`."""
        connection = self.connection
        if len(connection.outgoing) == 1 and isinstance(connection.outgoing[0], BYTES):
            return self._send_bytes(connection.take())  # type: ignore[arg-type]  # most replies need no join
        run: list[bytes | bytearray | memoryview] = []
        size = read = 0
        while connection.outgoing:
            chunk = connection.take()
            length = len(chunk)
            if not isinstance(chunk, BYTES):
                read += length
                is_small = read <= (SMALL_PIECES_BYTES if connection.outgoing else SMALL_PIECE_BYTES)
                data = chunk.read_cached(0, length) if is_small else None
                if data is None:
                    self._piece = chunk
                    self._piece_sent = self._piece_warm = 0
                    break
                chunk.release()
                chunk = data
            run.append(chunk)
            size += length
        return not run or self._send_together(run, size)

    def _send_together(self, run: list[bytes | bytearray | memoryview], size: int) -> bool:
        if not 1 < len(run) <= BUFFERS_AT_ONCE:
            return self._send_bytes(run[0] if len(run) == 1 else b"".join(run))
        try:
            sent = self.socket.sendmsg(run, (), 0 if self._piece is None else MSG_MORE)
        except BlockingIOError:
            sent = 0
        if sent == size:
            return True
        self._unsent = memoryview(b"".join(run))[sent:]
        return False

    def _send_piece(self, piece: Splice) -> bool:
        out, sent, size = self.socket.fileno(), self._piece_sent, len(piece)
        while sent < size:
            if sent == self._piece_warm and not self._find_warm(piece, min(PROBED_BYTES, size - sent)):
                return False
            try:
                count = self._engine.sendfile(out, piece.fileno, piece.position + sent, self._piece_warm - sent)
            except BlockingIOError:
                return False
            if not count:
                raise EOFError(f"a segment file ends {size - sent} bytes before the end of the piece to be sent")
            sent += count
            self._piece_sent = sent
        self._piece = None
        piece.release()
        return True

    def _find_warm(self, piece: Splice, length: int) -> bool:
        """Whether the next part of `piece` is in the page cache; if not, start a thread that reads the part."""
        start = self._piece_sent
        if piece.is_cached(start, length):
            self._piece_warm = start + length
            return True
        self._is_warming = True

        def done(result: object) -> None:  # after a failed read the send fails too
            self._is_warming = False
            self._piece_warm = start + length
            if self.phase is CLOSED:
                piece.release()
            else:
                self._engine.mark(self)

        reads = self._engine.scheduler.reads(piece.disk)
        reads.in_thread(lambda: piece.warm(start, length), done, lambda: self.phase is not CLOSED)
        return False

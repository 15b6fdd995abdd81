"""The connection driver over trio streams: one task for each connection, any stream (TCP, TLS, memory).

The task reads while the connection wants data, and sends what the connection queued. The task also reads while a
request is parked, so that a reset is noticed at once; this read has its own cancel scope, and `wake` cancels the scope
when the reply is ready. A client that closed only its sending side still gets its replies, for `HALF_CLOSED_S`. A
thread reads pieces of files that are not in the page cache, so that the event loop never waits for the disk.

A step is the work between two waits of the task. A step answers requests for `TURN_MS`; then the task sends the
replies, or lets other tasks run. Each step ends with one write of all that it staged (see
`gateway.replication.write_batcher`).
"""

from __future__ import annotations

import math
import os
import socket
from collections.abc import Awaitable, Callable
from enum import Enum, auto
from typing import Protocol, TypeVar

import trio

from headgate.gateway.network.connection import Closing, Connection
from headgate.gateway.runtime.clock import Clock
from headgate.gateway.runtime.log_output import SERVING_FAILED, LimitedLog
from headgate.gateway.runtime.stall_watch import StallWatch
from headgate.gateway.runtime.workers import MAX_THREADS_PER_EXECUTOR
from headgate.protocol.compiler import Splice

RECEIVE_BYTES = 1 << 16
# The kernel cannot send some pieces of files by itself (TLS); they are read and sent in portions of this size.
READ_BYTES = 1 << 18
# The page cache is probed, and filled by a thread, in portions of this size.
PROBED_BYTES = 1 << 20

TURN_MS = 1.0
LINGER_S = 1.0
# A half-closed client has this long to take its replies; each part that the client takes starts the time again.
HALF_CLOSED_S = 30.0

T = TypeVar("T")


class InThread(Protocol):
    """Runs a function in a worker thread."""

    def __call__(self, work: Callable[[], T], disk: str, /) -> Awaitable[T]: ...


_readers: trio.lowlevel.RunVar[dict[str, trio.CapacityLimiter]] = trio.lowlevel.RunVar("readers of a disk")


async def read_in_thread(work: Callable[[], T], disk: str) -> T:
    """Run `work` in one of the few threads for this disk (`Splice.disk`)."""
    limiters = _readers.get({})
    _readers.set(limiters)
    limiter = limiters.get(disk)
    if limiter is None:
        limiter = limiters[disk] = trio.CapacityLimiter(MAX_THREADS_PER_EXECUTOR)
    return await trio.to_thread.run_sync(work, limiter=limiter)


class _Activity(Enum):
    """The state of the task of a connection."""

    READING = auto()
    SERVING = auto()
    """The task has read, and works on the data."""
    SENDING = auto()
    WARMING = auto()
    """A thread reads the data to be sent next."""
    PAUSED = auto()
    """The task waits for something other than data, or has done so since the last read."""


_READING, _SERVING, _SENDING, _WARMING, _PAUSED = _Activity


class StreamDriver:
    """Moves bytes between one stream and one connection until either ends."""

    def __init__(
        self,
        stream: trio.abc.Stream,
        connection: Connection,
        clock: Clock,
        log: LimitedLog,
        in_thread: InThread = read_in_thread,
        stall_watch: StallWatch | None = None,
    ) -> None:
        self.connection = connection
        self.scope = trio.CancelScope()
        self._stream = stream
        self._clock = clock
        self._in_thread = in_thread
        self._stall_watch = stall_watch
        self._log = log
        self._waiting: trio.CancelScope | None = None
        self._draining = False
        self._activity = _SERVING
        self._end_ms = 0.0  # end of the present step
        connection.wake = self.wake
        connection.is_late = self._is_late

    @property
    def is_reading(self) -> bool:
        """Whether the task waits for data."""
        return self._activity is _READING

    @property
    def awaits_broker(self) -> bool:
        """Whether the client waits for the broker. False while the broker waits for the client to take data."""
        return self._activity is _WARMING or (self._activity is not _SENDING and self.connection.awaits_broker)

    def _is_late(self) -> bool:
        return self._clock.monotonic_ms() >= self._end_ms

    def _begin_step(self) -> float:
        """Return the present time in milliseconds."""
        now_ms = self._clock.monotonic_ms()
        if self._stall_watch is not None and now_ms >= self._stall_watch.late_ms:
            self._stall_watch.note_stall()
        self._end_ms = now_ms + TURN_MS
        return now_ms

    def wake(self) -> None:
        """The connection has something to send, or wants data again."""
        if self._waiting is not None:
            self._waiting.cancel()

    def drain(self) -> None:
        """Answer the received requests, then close the connection. With nothing to answer, close at once."""
        self._draining = True
        connection, is_sending = self.connection, self._activity in (_SENDING, _WARMING)
        if not (connection.parked or connection.has_more or connection.outgoing or is_sending):
            self.scope.cancel()

    def abort(self) -> None:
        """Close the connection now."""
        self.scope.cancel()

    async def run(self) -> None:
        """Serve until the client, the connection or `scope` ends the service; always close the stream."""
        try:
            with self.scope:
                await self._serve()
        except (trio.BrokenResourceError, trio.ClosedResourceError, ConnectionError):
            pass  # the client closed the connection, as clients may
        except Exception as error:  # noqa: BLE001  our fault in one connection must not end the others
            self._log.error("serving", SERVING_FAILED, self.connection.client, exc_info=error)
        finally:
            self.connection.finish()
            await trio.aclose_forcefully(self._stream)

    async def _serve(self) -> None:
        connection = self.connection
        while True:
            connection.settle()
            self._limit_end()
            if connection.outgoing:
                await self._send()
                connection.active_ms = self._begin_step()
                connection.release_answered()
                connection.proceed()
            elif connection.has_more:  # the step's time was over, or the parked request needs no reply
                await trio.lowlevel.checkpoint()
                self._begin_step()
                connection.proceed()
            elif connection.closing or (self._draining and not connection.parked) or connection.is_answered:
                if connection.closing is Closing.LINGERING:
                    await self._linger()
                return
            else:
                await self._receive()

    def _limit_end(self) -> None:
        """Limit how long a half-closed client has to take its replies. A request that needs no reply has no limit."""
        connection = self.connection
        if connection.ended:
            is_silent = connection.waits_silently
            self.scope.deadline = math.inf if is_silent else trio.current_time() + HALF_CLOSED_S

    async def _linger(self) -> None:
        """Let the client read the last reply: a close with unread data would reset the connection and lose it."""
        if isinstance(self._stream, trio.abc.HalfCloseableStream):
            await self._stream.send_eof()
            with trio.move_on_after(LINGER_S):
                while await self._stream.receive_some(RECEIVE_BYTES):
                    pass

    async def _receive(self) -> None:
        """Read once. A `wake` ends the read early, without data."""
        data: bytes | bytearray | None = None
        connection = self.connection
        was_paused = self._activity is _PAUSED
        self._activity = _READING if connection.wants_data else _PAUSED
        if was_paused and self.is_reading:
            connection.resume_reading(self._clock.monotonic_ms())
        assert connection.is_settled, "what is staged would wait as long as this client"
        with trio.CancelScope() as self._waiting:
            if self.is_reading:
                data = await self._stream.receive_some(RECEIVE_BYTES)
            else:
                await trio.sleep_forever()
        self._waiting = None
        if self.is_reading:
            self._activity = _SERVING
        now_ms = self._begin_step()
        if data:
            connection.receive(memoryview(bytearray(data)), now_ms)
        elif data is not None:
            connection.end_of_stream()

    async def _send(self) -> None:
        """Send the whole queue; join runs of bytes, and let the kernel send pieces of files where possible."""
        self._activity = _SENDING
        gathered: list[bytes | bytearray | memoryview] = []
        while self.connection.outgoing:
            chunk = self.connection.take()
            if isinstance(chunk, bytes | bytearray | memoryview):
                gathered.append(chunk)
                continue
            try:
                await self._send_bytes(gathered, more=True)
                gathered = []
                await self._send_file(chunk)
            finally:
                chunk.release()
            self._limit_end()
        await self._send_bytes(gathered, more=False)
        self._activity = _PAUSED

    async def _send_bytes(self, chunks: list[bytes | bytearray | memoryview], more: bool) -> None:
        if not chunks:
            return
        data = chunks[0] if len(chunks) == 1 else b"".join(chunks)
        if more and isinstance(self._stream, trio.SocketStream):
            # MSG_MORE: the kernel joins these bytes in one segment with the piece of a file that follows.
            sent = await self._stream.socket.send(data, socket.MSG_MORE)
            data = memoryview(data)[sent:]
        if data:
            await self._stream.send_all(data)

    async def _send_file(self, piece: Splice) -> None:
        if isinstance(self._stream, trio.SocketStream):
            for start in range(0, len(piece), PROBED_BYTES):
                await self._send_probed(self._stream.socket, piece, start, min(PROBED_BYTES, len(piece) - start))
            return
        for start in range(0, len(piece), READ_BYTES):
            await self._stream.send_all(await self._read(piece, start, min(READ_BYTES, len(piece) - start)))

    async def _send_probed(self, sock: trio.socket.SocketType, piece: Splice, start: int, length: int) -> None:
        if not piece.is_cached(start, length):
            await self._by_thread(lambda: piece.warm(start, length), piece.disk)
        await _sendfile(sock, piece, start, length)
        self._limit_end()

    async def _read(self, piece: Splice, start: int, length: int) -> bytes | bytearray:
        self._limit_end()
        data = piece.read_cached(start, length)
        return await self._by_thread(lambda: piece.read(start, length), piece.disk) if data is None else data

    async def _by_thread(self, work: Callable[[], T], disk: str) -> T:
        self._activity = _WARMING
        try:
            return await self._in_thread(work, disk)
        finally:
            self._activity = _SENDING


async def _sendfile(sock: trio.socket.SocketType, piece: Splice, start: int, length: int) -> None:
    position, left = piece.position + start, length
    while left:
        try:
            sent = os.sendfile(sock.fileno(), piece.fileno, position, left)
        except BlockingIOError:
            await trio.lowlevel.wait_writable(sock)
            continue
        if sent == 0:
            missing = len(piece) - (position - piece.position)
            raise EOFError(f"a segment file ends {missing} bytes before the end of the piece that was to be sent")
        position += sent
        left -= sent

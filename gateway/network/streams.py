"""The driver of connections over trio streams: one task each, any stream (TCP, TLS, memory).

The task reads while the connection wants data, and sends what it queued. While a request is parked it goes on reading,
so that a reset is noticed at once; the read stands in a cancel scope of its own, which `wake` cancels when the reply is
there. A client that only sends nothing more still gets what it is owed, for `HALF_CLOSED_S`. Pieces of files that are
not in the page cache are read by a thread, so that the loop never waits for the disk.

A step is what the task does between two waits. It answers requests for `TURN_MS`; then it sends what is answered, or
lets other tasks have their turn. Each step ends with one commit of what it left to be written together (see
`gateway.replication.write_batcher`).
"""

from __future__ import annotations

import math
import os
import socket
from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

import trio

from headgate.gateway.network.connection import Connection
from headgate.gateway.runtime.clock import Clock
from headgate.gateway.runtime.log_output import SERVING_FAILED, LimitedLog
from headgate.gateway.runtime.workers import MOST_OF_DISK
from headgate.protocol.compiler import Splice

RECEIVE_BYTES = 1 << 16
# Pieces of a file that the kernel cannot send by itself are read and sent in portions of this size.
READ_BYTES = 1 << 18
# This much of a piece is probed, and brought into the page cache, at a time.
PROBED_BYTES = 1 << 20

TURN_MS = 1.0
LINGER_S = 1.0
# For so long a client that sends nothing more is owed an answer; it has as long again with each part that it takes.
HALF_CLOSED_S = 30.0

T = TypeVar("T")


class InThread(Protocol):
    """Runs a function in a worker thread."""

    def __call__(self, work: Callable[[], T], disk: str, /) -> Awaitable[T]: ...


_readers: trio.lowlevel.RunVar[dict[str, trio.CapacityLimiter]] = trio.lowlevel.RunVar("readers of a disk")


async def read_in_thread(work: Callable[[], T], disk: str) -> T:
    """Run it in one of the few threads that wait for this disk (`Splice.disk`)."""
    limiters = _readers.get({})
    _readers.set(limiters)
    limiter = limiters.get(disk)
    if limiter is None:
        limiter = limiters[disk] = trio.CapacityLimiter(MOST_OF_DISK)
    return await trio.to_thread.run_sync(work, limiter=limiter)


class StreamDriver:
    """Moves bytes between one stream and one connection until either ends."""

    def __init__(
        self,
        stream: trio.abc.Stream,
        connection: Connection,
        clock: Clock,
        log: LimitedLog,
        in_thread: InThread = read_in_thread,
    ) -> None:
        self.connection = connection
        self.scope = trio.CancelScope()
        self._stream = stream
        self._clock = clock
        self._in_thread = in_thread
        self._log = log
        self._waiting: trio.CancelScope | None = None
        self._draining = False
        self._is_sending = False
        self._is_warming = False  # a thread reads what is to be sent next
        self._was_paused = False  # since the last read something else was waited for
        self._end_ms = 0.0  # of the present step
        self.is_reading = False
        connection.wake = self.wake
        connection.is_late = self._is_late

    @property
    def is_owed(self) -> bool:
        """Whether the client waits for the broker, and not the broker for the client to take what it is sent."""
        return self._is_warming or (not self._is_sending and self.connection.is_owed)

    def _is_late(self) -> bool:
        return self._clock.monotonic_ms() >= self._end_ms

    def _begin_step(self) -> float:
        """Returns the time, in milliseconds."""
        now_ms = self._clock.monotonic_ms()
        self._end_ms = now_ms + TURN_MS
        return now_ms

    def wake(self) -> None:
        """The connection has something to send, or wants data again."""
        if self._waiting is not None:
            self._waiting.cancel()

    def drain(self) -> None:
        """Answer what was received, then hang up. At once, if there is nothing to answer."""
        self._draining = True
        connection = self.connection
        if not (connection.parked or connection.has_more or connection.outgoing or self._is_sending):
            self.scope.cancel()

    def abort(self) -> None:
        """Hang up now."""
        self.scope.cancel()

    async def run(self) -> None:
        """Serve until the client, the connection or `scope` ends it; always closes the stream."""
        try:
            with self.scope:
                await self._serve()
        except (trio.BrokenResourceError, trio.ClosedResourceError, ConnectionError):
            pass  # the client is gone, which is its right
        except Exception as error:  # noqa: BLE001  a fault of ours must not end the others
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
                self._is_sending = True
                await self._send()
                self._is_sending = False
                connection.active_ms = self._begin_step()
                connection.proceed()
            elif connection.has_more:  # the step took its time; or what was parked is owed no reply
                await trio.lowlevel.checkpoint()
                self._begin_step()
                connection.proceed()
            elif connection.closing or (self._draining and not connection.parked) or connection.is_answered:
                if connection.lingers:
                    await self._linger()
                return
            else:
                await self._receive()

    def _limit_end(self) -> None:
        """Bound the wait for what a client is owed that sends nothing more. What needs no answer is not given up."""
        connection = self.connection
        if connection.ended:
            is_silent = connection.waits_silently
            self.scope.deadline = math.inf if is_silent else trio.current_time() + HALF_CLOSED_S

    async def _linger(self) -> None:
        """Let the client read what it was told in farewell: closing at once, with data unread, would take it back."""
        if isinstance(self._stream, trio.abc.HalfCloseableStream):
            await self._stream.send_eof()
            with trio.move_on_after(LINGER_S):
                while await self._stream.receive_some(RECEIVE_BYTES):
                    pass

    async def _receive(self) -> None:
        """Read once. Returns early, with nothing read, when woken."""
        data: bytes | bytearray | None = None
        connection = self.connection
        self.is_reading = connection.wants_data
        if self.is_reading and self._was_paused:
            connection.resume_reading(self._clock.monotonic_ms())
        self._was_paused = not self.is_reading
        assert connection.is_settled, "what is staged would wait as long as this client"
        with trio.CancelScope() as self._waiting:
            if self.is_reading:
                data = await self._stream.receive_some(RECEIVE_BYTES)
            else:
                await trio.sleep_forever()
        self._waiting = None
        self.is_reading = False
        now_ms = self._begin_step()
        if data:
            connection.receive(memoryview(bytearray(data)), now_ms)
        elif data is not None:
            connection.end_of_stream()

    async def _send(self) -> None:
        """Send all that is queued; runs of bytes go out together, pieces of files by the kernel where it can."""
        self._was_paused = True
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

    async def _send_bytes(self, chunks: list[bytes | bytearray | memoryview], more: bool) -> None:
        if not chunks:
            return
        data = chunks[0] if len(chunks) == 1 else b"".join(chunks)
        if more and isinstance(self._stream, trio.SocketStream):
            # MSG_MORE: the kernel puts these bytes into one segment with the piece of a file that follows.
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
        self._is_warming = True
        try:
            return await self._in_thread(work, disk)
        finally:
            self._is_warming = False


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

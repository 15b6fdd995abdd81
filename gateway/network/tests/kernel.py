"""Sockets and epoll without a system: a test decides how much is received, how much room there is, and what is cached.

`Kernel` is the poller of a `SocketEngine`, and makes what the engine takes for sockets. The same sockets carry trio
streams, for the other driver. Everything happens at once or when a test says so; nothing takes time. A driver that
spins fails: the kernel counts how often in a row it is polled without anything having been done.
"""

from __future__ import annotations

import errno
import math
import os
import select
import socket
from collections import Counter, deque
from collections.abc import Callable
from typing import Any

import trio
import trio.testing

ROOM_BYTES = 1 << 16
SPINNING = 200  # polls in a row that found something, after which nobody did anything
IOV_MAX = 1024  # buffers that Linux takes in one call


class Kernel:
    """A poller and the sockets that it knows."""

    def __init__(self) -> None:
        self.sockets: dict[int, FakeSocket | FakeListener] = {}
        self.files: dict[int, bytes] = {}
        self.calls: Counter[str] = Counter()
        self.received: list[int] = []  # the sizes of what was received
        self.interest: dict[int, int] = {}
        self.sendfile_hook: Callable[[int, int, int], None] = lambda file, position, length: None
        self.may_wait = False
        self.waits: list[float] = []  # for how long each poll would have waited; no time passes
        self.opened: list[FakeSocket] = []
        """What `make_socket` made, in order."""
        self.refusals: deque[int] = deque()
        """Error numbers for the next sockets that connect; 0 leaves one without an answer."""
        self._next = 1_000_000  # beyond what the system gives
        self._idle_polls = 0
        self._changed = trio.Event()
        self._is_woken = False

    def descriptor(self) -> int:
        self._next += 1
        return self._next

    def changed(self) -> None:
        """Something was done, or has come: whoever waits looks again."""
        self._idle_polls = 0
        self._changed.set()
        self._changed = trio.Event()

    async def until_changed(self) -> None:
        await self._changed.wait()

    def events(self, descriptor: int) -> int:
        return self.sockets[descriptor].events() & (self.interest[descriptor] | select.EPOLLERR | select.EPOLLHUP)

    def make_socket(self, family: int = 0, kind: int = 0) -> Any:
        """A socket of the broker that is about to connect."""
        sock = FakeSocket(self)
        self.opened.append(sock)
        return sock

    # What a poller has

    def register(self, descriptor: int, events: int) -> None:
        assert descriptor not in self.interest, "registered twice"
        self.calls["register"] += 1
        self.interest[descriptor] = events
        self.changed()

    def modify(self, descriptor: int, events: int) -> None:
        assert self.interest[descriptor] != events, "an interest is changed at edges only"
        self.calls["modify"] += 1
        self.interest[descriptor] = events
        self.changed()

    def unregister(self, descriptor: int) -> None:
        del self.interest[descriptor]

    def poll(self, timeout_s: float, most: int) -> list[tuple[int, int]]:
        assert timeout_s == 0 or self.may_wait, "only `ready` may wait"
        self.waits.append(timeout_s)
        self.calls["poll"] += 1
        self._is_woken = False
        found = [(descriptor, self.events(descriptor)) for descriptor in self.interest]
        found = [(descriptor, events) for descriptor, events in found if events][:most]
        self._idle_polls += bool(found)
        assert self._idle_polls < SPINNING, f"it spins on {found}"
        return found

    async def ready(self) -> None:
        while not self._is_woken and not any(self.events(descriptor) for descriptor in self.interest):
            await self._changed.wait()
        await trio.lowlevel.checkpoint()

    def wake(self) -> None:
        self.calls["wake"] += 1
        self._is_woken = True
        self.changed()

    def close(self) -> None:
        assert not self.interest, "closed with sockets in it"

    def sendfile(self, out: int, file: int, position: int, length: int) -> int:
        self.calls["sendfile"] += 1
        self.sendfile_hook(file, position, length)
        sock = self.sockets[out]
        assert isinstance(sock, FakeSocket)
        data = self.files.get(file)
        data = os.pread(file, length, position) if data is None else data[position : position + length]
        return sock.send(data) if data else 0


class FakeSocket:
    """The broker's end of a connection; `client` methods are the other end's.

    `portion` is the most that one receive gives, `room` the most that may be sent before the client reads.
    """

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.portion = 1 << 30
        self.room = ROOM_BYTES
        self.is_closed = False
        self.is_shut = False  # the client has been told that nothing more comes
        self.was_reset_by_us = False  # closed with unread data: the client may lose what was sent last
        self._fileno = kernel.descriptor()
        self.incoming = bytearray()
        self.outgoing = bytearray()
        self._is_half_closed = False
        self._is_reset = False
        self._refusal: int | None = None  # an error number; 0: no answer came so far
        self.address: Any = None
        self.connected_at = math.nan
        self.local_address: Any = ("127.0.0.1", self._fileno)
        kernel.sockets[self._fileno] = self

    def events(self) -> int:
        if self._refusal is not None:
            return select.EPOLLOUT | select.EPOLLERR | select.EPOLLHUP if self._refusal else 0
        events = select.EPOLLIN if self.incoming or self._is_half_closed or self._is_reset else 0
        if len(self.outgoing) < self.room:
            events |= select.EPOLLOUT
        if self._is_half_closed or self._is_reset:
            events |= select.EPOLLRDHUP
        if self._is_reset:
            events |= select.EPOLLERR | select.EPOLLHUP
        return events

    # What an engine does with a socket

    def fileno(self) -> int:
        return -1 if self.is_closed else self._fileno

    def setblocking(self, flag: bool) -> None:
        assert not flag

    def setsockopt(self, *_: Any) -> None:
        pass

    def getsockopt(self, *_: Any) -> int:
        return self._refusal or 0

    def connect(self, address: Any) -> None:
        self.address, self.connected_at = address, trio.current_time()
        self._refusal = self.kernel.refusals.popleft() if self.kernel.refusals else None
        self.kernel.changed()
        raise BlockingIOError

    @property
    def is_connecting(self) -> bool:
        """Whether nothing has answered the connection so far."""
        return self._refusal == 0

    def getsockname(self) -> Any:
        return self.local_address

    def getpeername(self) -> Any:
        return self.address

    def recv_into(self, buffer: memoryview | bytearray) -> int:
        self.kernel.calls["recv"] += 1
        self._check()
        count = min(len(buffer), len(self.incoming), self.portion)
        if not count:
            if self._is_half_closed:
                return 0
            raise BlockingIOError
        memoryview(buffer)[:count] = self.incoming[:count]
        del self.incoming[:count]
        self.kernel.received.append(count)
        self.kernel.changed()
        return count

    def send(self, data: bytes | bytearray | memoryview, flags: int = 0) -> int:
        self.kernel.calls["send"] += 1
        self._check()
        assert not self.is_shut
        count = min(len(data), self.room - len(self.outgoing))
        if count <= 0 < len(data):
            raise BlockingIOError
        self.outgoing += memoryview(data)[:count]
        self.kernel.changed()
        return count

    def sendmsg(self, buffers: list[bytes | bytearray | memoryview], ancillary: tuple[()], flags: int) -> int:
        assert len(buffers) <= IOV_MAX, "the system takes no more of them at once"
        return self.send(b"".join(buffers), flags)

    def shutdown(self, how: int) -> None:
        assert how == socket.SHUT_WR
        self.is_shut = True

    def close(self) -> None:
        assert self._fileno not in self.kernel.interest, "closed while it is registered"
        self.was_reset_by_us = bool(self.incoming)
        self.is_closed = True
        self.kernel.changed()

    def _check(self) -> None:
        assert not self.is_closed
        if self._is_reset:
            raise ConnectionResetError(errno.ECONNRESET, "Connection reset by peer")

    # What the client does

    def client_sends(self, data: bytes) -> None:
        assert not self._is_half_closed
        self.incoming += data
        self.kernel.changed()

    def client_takes(self, most: int) -> bytes:
        taken = bytes(self.outgoing[:most])
        del self.outgoing[:most]
        if taken:
            self.kernel.changed()
        return taken

    def client_half_closes(self) -> None:
        self._is_half_closed = True
        self.kernel.changed()

    def client_resets(self) -> None:
        self._is_reset = True
        self.incoming.clear()
        self.kernel.changed()


class FakeListener:
    """A listening socket; `failures` are raised by accept before it accepts."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.failures: deque[OSError] = deque()
        self._fileno = kernel.descriptor()
        self._waiting: deque[FakeSocket] = deque()
        kernel.sockets[self._fileno] = self

    def events(self) -> int:
        return select.EPOLLIN if self._waiting else 0

    def connect(self) -> FakeSocket:
        sock = FakeSocket(self.kernel)
        self._waiting.append(sock)
        self.kernel.changed()
        return sock

    def fileno(self) -> int:
        return self._fileno

    def setblocking(self, flag: bool) -> None:
        assert not flag

    def accept(self) -> tuple[FakeSocket, Any]:
        self.kernel.calls["accept"] += 1
        self.kernel.changed()
        if self.failures:
            raise self.failures.popleft()
        if not self._waiting:
            raise BlockingIOError
        return self._waiting.popleft(), None

    def close(self) -> None:
        self._fileno = -1


class FakeStream(trio.abc.HalfCloseableStream):
    """A trio stream over a `FakeSocket`."""

    def __init__(self, sock: FakeSocket) -> None:
        self._socket = sock

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        await trio.lowlevel.checkpoint()
        buffer = bytearray(max_bytes or 1 << 16)
        while True:
            try:
                return bytes(buffer[: self._socket.recv_into(buffer)])
            except BlockingIOError:
                await self._socket.kernel.until_changed()
            except ConnectionResetError as error:
                raise trio.BrokenResourceError from error

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        await trio.lowlevel.checkpoint()
        left = memoryview(data)
        while left:
            try:
                left = left[self._socket.send(left) :]
            except BlockingIOError:
                await self._socket.kernel.until_changed()
            except ConnectionResetError as error:
                raise trio.BrokenResourceError from error

    async def wait_send_all_might_not_block(self) -> None:
        await trio.lowlevel.checkpoint()

    async def send_eof(self) -> None:
        await trio.lowlevel.checkpoint()
        self._socket.shutdown(socket.SHUT_WR)

    async def aclose(self) -> None:
        if not self._socket.is_closed:
            self._socket.close()
        await trio.lowlevel.checkpoint()


def end_of(sock: FakeSocket | None) -> socket.socket:
    """The socket as the type that the engine names."""
    return sock  # type: ignore[return-value]

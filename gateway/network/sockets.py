"""The driver of plain TCP connections on Linux: one trio task and one epoll object for all sockets of a listener.

A task and a stream for each connection cost more than most requests do. Here one task waits until the epoll object
itself is readable, serves what is ready in a bounded turn, then lets other tasks have theirs. Its rules:

- Level-triggered; interest changes at edges only. A socket is not read while its connection wants no data or output is
  pending, or it would spin.
- A client that sends nothing more (EPOLLRDHUP, or a receive of nothing) still gets the answer to each request that it
  sent whole, for `HALF_CLOSED_MS`. Its socket is not asked about that again: a level-triggered poll would never end.
  A reset (EPOLLHUP, EPOLLERR, always told) ends the connection at once.
- One receive buffer for all connections: a connection copies what it keeps beyond the call. The rest of a large request
  is received into the buffer that it will have.
- A round first takes what the sockets have brought, then writes what that left to be written together (see
  `gateway.replication.write_batcher`), then sends the answers: all of one receive in one send, pieces of files by the
  kernel. It ends with one more such write, whatever has staged since: nothing staged outlives a round.
- A turn is fair by time. The clock is read between the requests of one client, as a request of 50 bytes may cost
  milliseconds: after a millisecond of the turn the others come. It is read between sockets, too: the last round of a
  turn begins within a millisecond and serves sockets for one more, as 64 small writes, made as one, take 1.5 ms. Who
  was not served yet keeps the place in the queue, before all who were; pending requests queue up behind new ones of
  others. What is answered is still sent, for a millisecond more.
- In a turn each socket is read for at most 256 KiB. Who waited for what a round did is answered in the next. When all
  is served, a turn waits a millisecond for more, unless somebody else could have something to do: to go to sleep and be
  woken through trio costs more than a request.
- A `wake` from elsewhere only marks the connection and wakes this task: sockets are touched by their engine alone.
- A fault in one connection closes that one.
- Without free descriptors the listener pauses for 100 ms at a time, and clients wait in its backlog: the first
  descriptor that comes free serves one of them. To accept and close them at once, with a descriptor kept in reserve,
  would make each come back at once, and again, for as long as it lasts. Who wants to refuse sets `max.connections`.
"""

from __future__ import annotations

import errno
import os
import select
import socket
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

import trio

from headgate.gateway.network.connection import Connection
from headgate.gateway.replication.write_batcher import WriteBatcher
from headgate.gateway.runtime.clock import Clock
from headgate.gateway.runtime.log_output import SERVING_FAILED, LimitedLog
from headgate.gateway.runtime.scheduler import Scheduler, Timer
from headgate.protocol.compiler import Splice

AVAILABLE = hasattr(select, "epoll") and hasattr(os, "eventfd") and hasattr(os, "sendfile")

RECEIVE_BYTES = 1 << 16
SOCKET_TURN_BYTES = 1 << 18
TURN_MS = 1.0
# For so long a turn waits for the next event, instead of going to sleep through trio, which takes as long as a request.
PATIENCE_MS = 1.0
EVENTS_AT_ONCE = 64
ACCEPT_AT_ONCE = 64
PAUSE_MS = 100.0
LINGER_MS = 1_000.0
# For so long a client that sends nothing more is owed an answer; it has as long again with each part that it takes.
HALF_CLOSED_MS = 30_000.0
# Up to this size a read and one send cost less than a send, a probe and a sendfile; where more bytes follow, which
# would be sent by themselves, up to that size in all.
SMALL_PIECE_BYTES = 1 << 14
SMALL_PIECES_BYTES = 1 << 16
# As many buffers go into one send without being joined.
BUFFERS_AT_ONCE = 64
# This much of a piece is probed, and brought into the page cache, at a time.
PROBED_BYTES = 1 << 20
CANNOT_ACCEPT = "cannot accept connections: %s; they wait, and it is tried again every %d ms"
NO_DESCRIPTORS = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)

# What is asked of the poller: data; room for more output; or, of a socket that is not read now, only its end.
READING = select.EPOLLIN | select.EPOLLRDHUP
WRITING = select.EPOLLOUT | select.EPOLLRDHUP
HANGING_UP = select.EPOLLRDHUP
_DATA = select.EPOLLIN
_GONE = select.EPOLLERR | select.EPOLLHUP
BYTES = (bytes, bytearray, memoryview)
MSG_MORE = int(socket.MSG_MORE)  # of an enumeration, it would be made a number for each send

Admit = Callable[["SocketEngine", socket.socket], "SocketDriver | None"]
Sendfile = Callable[[int, int, int, int], int]


class Poller(Protocol):
    """What an engine asks of a level-triggered epoll: interest and `poll` are as `select.epoll` has them."""

    def register(self, descriptor: int, events: int) -> None: ...
    def modify(self, descriptor: int, events: int) -> None: ...
    def unregister(self, descriptor: int) -> None: ...
    def poll(self, timeout_s: float, most: int) -> list[tuple[int, int]]: ...

    async def ready(self) -> None:
        """Wait until `poll` would return something, or `wake` was called."""

    def wake(self) -> None:
        """End the present `ready`. `poll` may then return a descriptor that nobody registered."""

    def close(self) -> None: ...


class Epoll:
    """The system's epoll object, awaited through trio's."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._alarm = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        # Edge-triggered: told once for each write, so that it never has to be read.
        self._epoll.register(self._alarm, select.EPOLLIN | select.EPOLLET)
        self.register = self._epoll.register
        self.modify = self._epoll.modify
        self.unregister = self._epoll.unregister
        self.poll = self._epoll.poll
        self._fileno = self._epoll.fileno()

    async def ready(self) -> None:
        await trio.lowlevel.wait_readable(self._fileno)

    def wake(self) -> None:
        os.eventfd_write(self._alarm, 1)

    def close(self) -> None:
        trio.lowlevel.notify_closing(self._fileno)
        self._epoll.close()
        os.close(self._alarm)


class SocketDriver:
    """One socket and its connection. Everything here runs inside a turn of the engine."""

    __slots__ = (
        "_deadline",
        "_draining",
        "_engine",
        "_half_closed",
        "_interest",
        "_is_lingering",
        "_is_warming",
        "_piece",
        "_piece_sent",
        "_piece_warm",
        "_unsent",
        "connection",
        "is_closed",
        "queued",
        "socket",
    )

    def __init__(self, engine: SocketEngine, sock: socket.socket, connection: Connection) -> None:
        self.connection = connection
        self.socket = sock
        self._engine = engine
        self._interest = READING
        self._unsent: memoryview | None = None
        self._piece: Splice | None = None
        self._piece_sent = 0
        self._piece_warm = 0  # up to where it was found, or brought, into the page cache
        self._is_warming = False
        self.is_closed = False
        self._is_lingering = False
        self._draining = False
        self._half_closed = False
        self._deadline: Timer | None = None  # of the answers to a half-closed client
        self.queued: int | None = None  # the events that wait for their turn in the engine's queue; 0 if it was marked
        connection.wake = self._wake
        connection.is_late = engine.is_late

    def _wake(self) -> None:
        self._engine.mark(self)

    @property
    def is_reading(self) -> bool:
        """Whether what the client sends is read now."""
        return bool(self._interest & _DATA)

    @property
    def is_owed(self) -> bool:
        """Whether the client waits for the broker, and not the broker for the client to take what it is sent."""
        return self._is_warming or (not self._interest & select.EPOLLOUT and self.connection.is_owed)

    def drain(self) -> None:
        """Answer what was received, then hang up: at once, if there is nothing to answer."""
        self._draining = True
        self._engine.mark(self)

    def abort(self) -> None:
        """Hang up now."""
        self._engine.remove(self)

    def release(self) -> None:
        """The socket is closed: let go of everything. A piece that a thread reads is given back when that is done."""
        self.is_closed = True
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        if self._piece is not None and not self._is_warming:
            self._piece.release()
            self._piece = None
        self.connection.finish()

    def serve(self, events: int) -> None:
        """What the poller told of this socket; 0 if it was marked. What it is answered is sent by `advance`."""
        if events == _DATA and not self._is_lingering:
            self._engine.served.append(self)
            self._receive()
        elif events & _GONE:
            self.abort()
        elif self._is_lingering:
            self._discard()
        else:
            engine, connection = self._engine, self.connection
            engine.served.append(self)
            if not events:
                connection.active_ms = engine.now_ms  # something that it waited for has happened
            elif events & HANGING_UP:
                self._half_closed = True
            if events & _DATA and connection.wants_data:
                self._receive()
            elif connection.has_more and not self._is_blocked:
                connection.proceed()

    @property
    def _is_blocked(self) -> bool:
        """Whether output stands before what is answered next: the socket was full, or a thread reads."""
        return self._unsent is not None or self._piece is not None

    def _receive(self) -> None:
        """Read what is there, within the bounds of a turn, up to the first answers."""
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
                return  # `advance` hangs up, once everything is answered
            if room is None:
                connection.receive(buffer[:count], engine.now_ms)
            else:
                connection.received(count, engine.now_ms)
            if count < len(buffer) or connection.outgoing or not connection.wants_data or engine.is_late():
                return
            left -= count

    def advance(self) -> None:
        """Send what is queued, and answer what that held back while the turn lasts."""
        connection = self.connection
        has_more = connection.has_more
        while connection.outgoing or self._unsent is not None or self._piece is not None:
            connection.active_ms = self._engine.now_ms
            if self._is_warming or not self._send():
                self._watch(HANGING_UP if self._is_warming else WRITING)
                return
            connection.release_answered()
            has_more = connection.has_more
            if not has_more or self._engine.is_late():
                break
            connection.proceed()
        if has_more:
            self._engine.mark(self)
        elif (
            connection.closing
            or (connection.ended and connection.is_answered)
            or (self._draining and not connection.parked)
        ):
            self._hang_up()
            return
        self._watch(READING if connection.wants_data else HANGING_UP)

    def _give_up(self) -> None:
        """The client sends nothing more, and has waited for long enough."""
        engine, connection = self._engine, self.connection
        now_ms, until_ms = engine.clock.monotonic_ms(), connection.active_ms + HALF_CLOSED_MS
        if connection.waits_silently:  # it needs no answer, only that all is done
            until_ms = now_ms + HALF_CLOSED_MS
        if until_ms <= now_ms:
            self.abort()
        else:
            self._deadline = engine.scheduler.call_at(until_ms, self._give_up)

    def _hang_up(self) -> None:
        """Close; but where the client was told something in farewell, let it read that first.

        To close a socket with unread data resets it, and what was sent last is lost to the client.
        """
        if not self.connection.lingers:
            self.abort()
        elif not self._is_lingering:
            self._is_lingering = True
            with suppress(OSError):  # the client may be gone already
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
            interest &= ~HANGING_UP
            if self._deadline is None:
                self._deadline = self._engine.scheduler.call_after(HALF_CLOSED_MS, self._give_up)
        if interest != self._interest:
            if interest & _DATA:
                self.connection.resume_reading(self._engine.now_ms)
            self._interest = interest
            self._engine.poller.modify(self.socket.fileno(), interest)

    def _send(self) -> bool:
        """Send runs of bytes, each as one, and pieces of files in turn. False if the socket takes no more."""
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
        """What the socket does not take of it becomes `_unsent`; then False."""
        # MSG_MORE: the kernel puts these bytes into one segment with the piece of a file that follows.
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
        """Send together what there is up to the next piece of a file that is not small, and take that piece too."""
        connection = self.connection
        if len(connection.outgoing) == 1 and isinstance(connection.outgoing[0], BYTES):
            return self._send_bytes(connection.take())  # type: ignore[arg-type]  # most answers: nothing to be joined
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
        """Whether what comes next of a piece can be sent without waiting for the disk; if not, a thread reads it."""
        start = self._piece_sent
        if piece.is_cached(start, length):
            self._piece_warm = start + length
            return True
        self._is_warming = True

        def done(result: object) -> None:  # if it failed, the sending will fail too
            self._is_warming = False
            self._piece_warm = start + length
            if self.is_closed:
                piece.release()
            else:
                self._engine.mark(self)

        reads = self._engine.scheduler.reads(piece.disk)
        reads.in_thread(lambda: piece.warm(start, length), done, lambda: not self.is_closed)
        return False


class SocketEngine:
    """Serves all connections of one listening socket.

    `admit(engine, socket)` makes the driver of a client, or returns None to refuse it; `gone(driver)` hears of its end.
    """

    def __init__(
        self,
        listener: socket.socket,
        admit: Admit,
        gone: Callable[[SocketDriver], None],
        clock: Clock,
        scheduler: Scheduler,
        log: LimitedLog,
        appends: WriteBatcher,
        poller: Poller | None = None,
        sendfile: Sendfile | None = None,
        is_alone: Callable[[], bool] = lambda: False,
    ) -> None:
        """`is_alone()`: whether all connections of the process are this engine's: nobody else waits for a turn."""
        self.scratch = memoryview(bytearray(RECEIVE_BYTES))
        self.poller: Poller = poller or Epoll()
        self.sendfile: Sendfile = sendfile or os.sendfile
        self.now_ms = 0.0  # when the present round began
        self.turn_at_most_ms = TURN_MS
        self._end_ms = self._last_round_end_ms = 0.0
        self._listener = listener
        self._admit = admit
        self._gone = gone
        self._is_alone = is_alone
        self.clock = clock
        self._monotonic_ms = clock.monotonic_ms  # it is called between any two requests
        self._log = log
        self._appends = appends
        self.scheduler = scheduler
        self._drivers: dict[int, SocketDriver] = {}
        self._marked: dict[SocketDriver, None] = {}  # to be queued behind what the next poll brings
        self._queue: deque[SocketDriver] = deque()  # to be served; what they wait for stands in `queued`
        self.served: list[SocketDriver] = []  # in this round: what they are answered is still to be sent
        self._is_accepting = False
        self._asleep = False
        listener.setblocking(False)
        self._accept_again()

    def __len__(self) -> int:
        """How many connections it serves."""
        return len(self._drivers)

    def is_late(self) -> bool:
        """Whether one client has had enough of the present turn: what is left of its requests is for the next one."""
        return self._monotonic_ms() >= self._end_ms

    def mark(self, driver: SocketDriver) -> None:
        """A connection has something to do. It is looked at in the next turn."""
        self._marked[driver] = None
        if self._asleep:
            self._asleep = False
            self.poller.wake()

    def stop_accepting(self) -> None:
        """Refuse new connections; those that are open stay."""
        if self._is_accepting:
            self._is_accepting = False
            self.poller.unregister(self._listener.fileno())
        self._listener.close()

    async def run(self) -> None:
        """Serve until cancelled."""
        try:
            more = False
            while True:
                if more or self._marked or self._queue:
                    await trio.lowlevel.checkpoint()
                else:
                    assert not self._appends.is_open, "what is staged would wait for the next event"
                    self._asleep = True
                    await self.poller.ready()
                    self._asleep = False
                more = self._turn()
        finally:
            self._close()

    def remove(self, driver: SocketDriver) -> None:
        """Close a socket and forget it."""
        descriptor = driver.socket.fileno()
        if self._drivers.pop(descriptor, None) is None:
            return
        self._marked.pop(driver, None)
        self.poller.unregister(descriptor)
        driver.socket.close()
        driver.release()
        self._gone(driver)

    def _turn(self) -> bool:
        """Serve what is ready, for a millisecond or two; whether there may be more."""
        self.now_ms = self.clock.monotonic_ms()
        self._end_ms = self.now_ms + self.turn_at_most_ms
        self._last_round_end_ms = self._end_ms + self.turn_at_most_ms
        wait_s = 0.0
        self.scheduler.is_attended = True
        try:
            while True:
                if not self._round(wait_s):
                    return False
                self.now_ms = self.clock.monotonic_ms()
                if self.now_ms >= self._end_ms:
                    return True
                wait_s = self._patience_s()
        finally:
            self.scheduler.is_attended = False

    def _patience_s(self) -> float:
        """How long to wait here for the next event: not at all, if anybody else could have something to do."""
        if self._marked or self._queue or not self._is_alone() or self.scheduler.idle_ms() <= PATIENCE_MS:
            return 0.0
        return PATIENCE_MS / 1000.0

    def _round(self, wait_s: float) -> bool:
        """Serve every socket that is ready once, as far as the turn goes; False if there was nothing to do."""
        events = self.poller.poll(wait_s, EVENTS_AT_ONCE)
        drivers, queue, monotonic_ms, end_ms = self._drivers, self._queue, self._monotonic_ms, self._last_round_end_ms
        is_behind, is_over = bool(queue), False  # who waits already comes first
        for descriptor, event in events:
            driver = drivers.get(descriptor)
            if driver is None:
                if self._is_accepting and descriptor == self._listener.fileno():
                    self._accept()
            elif not is_behind:
                try:
                    driver.serve(event)
                except Exception as error:  # noqa: BLE001  a fault of ours must not end the others
                    self._fail(driver, error)
                is_behind = is_over = monotonic_ms() >= end_ms
            elif driver.queued is None:
                driver.queued = event
                queue.append(driver)
            else:  # it waits already, and keeps its place
                driver.queued |= event
        if self._marked:
            self._queue_marked()
        if queue and not is_over:
            self._serve()
        if self.served:
            if self._appends.is_open:
                self._settle()
            self._answer()
        self.scheduler.run_soon()
        if self._appends.is_open:
            self._settle()
        return bool(events or self._marked or self._queue)

    def _queue_marked(self) -> None:
        for driver in self._marked:
            if driver.queued is None:
                driver.queued = 0
                self._queue.append(driver)
        self._marked.clear()

    def _serve(self) -> None:
        """Serve who is queued up, one at least, until the turn is over."""
        queue = self._queue
        while queue:
            driver = queue.popleft()
            events, driver.queued = driver.queued, None
            if driver.is_closed or events is None:
                continue
            if not events and self.served and driver.connection.has_more:  # the others' answers leave first
                driver.queued = 0
                queue.appendleft(driver)
                return
            try:
                driver.serve(events)
            except Exception as error:  # noqa: BLE001  a fault of ours must not end the others
                self._fail(driver, error)
            if self._monotonic_ms() >= self._last_round_end_ms:
                return

    def _answer(self) -> None:
        """Send what those who were served are answered. After a millisecond the rest comes first in the next."""
        served, self.served = self.served, []
        left, monotonic_ms = len(served), self._monotonic_ms
        end_ms = monotonic_ms() + TURN_MS if left > 1 else 0.0
        for driver in served:
            left -= 1
            if driver.is_closed:
                continue
            try:
                driver.advance()
            except Exception as error:  # noqa: BLE001  a fault of ours must not end the others
                self._fail(driver, error)
            if left and monotonic_ms() >= end_ms:
                for unsent in reversed(served[-left:]):
                    if unsent.queued is None:
                        unsent.queued = 0
                        self._queue.appendleft(unsent)
                return

    def _settle(self) -> None:
        """Write what was left to be written together."""
        try:
            self._appends.commit()
        except Exception as error:  # noqa: BLE001
            self._log.error("writing", "writing failed; who may have waited for it is hung up on", exc_info=error)
            for driver in list(self._drivers.values()):
                if driver.connection.outgoing:
                    self.remove(driver)

    def _fail(self, driver: SocketDriver, error: Exception) -> None:
        if not isinstance(error, ConnectionError):
            self._log.error("serving", SERVING_FAILED, driver.connection.client, exc_info=error)
        self.remove(driver)

    def _accept(self) -> None:
        for _ in range(ACCEPT_AT_ONCE):
            try:
                sock, _ = self._listener.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno in NO_DESCRIPTORS:
                    self._pause(error)
                    return
                continue  # the client was gone before it was accepted
            try:
                self._add(sock)
            except OSError as error:
                self._log.error("cannot serve", "a connection cannot be served: %s", error)
                self._drop(sock)
            if self.is_late():
                return

    def _drop(self, sock: socket.socket) -> None:
        driver = self._drivers.pop(sock.fileno(), None)
        sock.close()
        if driver is not None:
            driver.release()
            self._gone(driver)

    def _add(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        driver = self._admit(self, sock)
        if driver is None:
            sock.close()
            return
        self._drivers[sock.fileno()] = driver
        self.poller.register(sock.fileno(), READING)

    def _pause(self, error: OSError) -> None:
        self._log.error("cannot accept", CANNOT_ACCEPT, error.strerror, PAUSE_MS)
        self._is_accepting = False
        self.poller.unregister(self._listener.fileno())
        self.scheduler.call_after(PAUSE_MS, self._accept_again)

    def _accept_again(self) -> None:
        if not self._is_accepting and self._listener.fileno() >= 0:
            self._is_accepting = True
            self.poller.register(self._listener.fileno(), select.EPOLLIN)

    def _close(self) -> None:
        self.stop_accepting()
        for driver in list(self._drivers.values()):
            self.remove(driver)
        self.poller.close()

"""The driver of plain TCP connections on Linux: one trio task and one epoll object for all sockets of a listener.

A task and a stream for each connection cost more than most requests do. Here one task waits until the epoll object
itself is readable, serves the ready sockets in a bounded turn, then lets other tasks run. The rules:

- Polling is level-triggered; interest changes at edges only. A socket is not polled for reads while its connection
  wants no data or output is pending; otherwise the engine would spin.
- A half-closed client (EPOLLRDHUP, or an empty receive) still gets the reply to each complete request, for
  `HALF_CLOSED_MS`. EPOLLRDHUP is not polled again for that socket: a level-triggered poll would report it for ever.
  A reset (EPOLLHUP, EPOLLERR, always reported) ends the connection at once.
- All connections share one receive buffer: a connection copies the bytes that it needs after the call. The rest of a
  large request is received directly into the request's final buffer.
- A round first receives from the sockets, then commits the batched writes (see `gateway.replication.write_batcher`),
  then sends the replies: all replies to one receive in one send, pieces of files by the kernel. The round ends with a
  second commit for everything staged since: no staged write outlives a round.
- A turn is fair by time. The clock is read between the requests of one client, as a request of 50 bytes may cost
  milliseconds: after the first millisecond of the turn, other clients follow. The clock is also read between sockets:
  the last round of a turn begins within a millisecond and serves sockets for one more, as 64 small writes, batched into
  one, take 1.5 ms. An unserved socket keeps its place in the queue, before all served ones; pending requests queue
  behind new requests of other clients. Sends continue for one more millisecond.
- In a turn each socket is read for at most 256 KiB. A request that waited for an event of this round is answered in the
  next round. When all sockets are served, a turn waits a millisecond for more events, unless another task could have
  work: to sleep and wake up through trio costs more than a request. A turn that follows one whose time was over, and
  after which the other tasks ran, begins with such a wait.
- A `wake` from elsewhere only marks the connection and wakes this task: only the engine touches its sockets.
- A fault in one connection closes only that connection.
- Without free descriptors the listener pauses for 100 ms at a time, and clients wait in the backlog: the first free
  descriptor serves one of them. The alternative, to accept and close them at once with a reserved descriptor, would
  make every client reconnect at once, again and again. To refuse clients, an operator sets `max.connections`.
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
# A turn waits this long for the next event; to sleep through trio instead would take as long as a request.
POLL_WAIT_MS = 1.0
EVENTS_AT_ONCE = 64
ACCEPT_AT_ONCE = 64
PAUSE_MS = 100.0
LINGER_MS = 1_000.0
# A half-closed client has this long to take its replies; each part that the client takes starts the time anew.
HALF_CLOSED_MS = 30_000.0
# Up to this size, a read and one send cost less than a send, a probe and a sendfile. The second limit is for all small
# pieces of a run, if more bytes follow, which would need a send of their own.
SMALL_PIECE_BYTES = 1 << 14
SMALL_PIECES_BYTES = 1 << 16
# Up to this many buffers go into one sendmsg without a join.
BUFFERS_AT_ONCE = 64
# The page cache is probed, and filled by a thread, in portions of this size.
PROBED_BYTES = 1 << 20
CANNOT_ACCEPT = "cannot accept connections: %s; they wait, and it is tried again every %d ms"
NO_DESCRIPTORS = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)

# Poll for data; for room for more output; or only for the end of a socket that is not read now.
READING = select.EPOLLIN | select.EPOLLRDHUP
WRITING = select.EPOLLOUT | select.EPOLLRDHUP
HANGUP = select.EPOLLRDHUP
_DATA = select.EPOLLIN
_GONE = select.EPOLLERR | select.EPOLLHUP
BYTES = (bytes, bytearray, memoryview)
MSG_MORE = int(socket.MSG_MORE)  # a plain int: the enumeration would be converted at each send

Admit = Callable[["SocketEngine", socket.socket], "SocketDriver | None"]
Sendfile = Callable[[int, int, int, int], int]


class Poller(Protocol):
    """The engine's interface to a level-triggered epoll; interest and `poll` are those of `select.epoll`."""

    def register(self, descriptor: int, events: int) -> None: ...
    def modify(self, descriptor: int, events: int) -> None: ...
    def unregister(self, descriptor: int) -> None: ...
    def poll(self, timeout_s: float, most: int) -> list[tuple[int, int]]: ...

    async def ready(self) -> None:
        """Wait until `poll` would return an event, or until `wake`."""

    def wake(self) -> None:
        """End the present `ready`. `poll` may then return an unregistered descriptor."""

    def close(self) -> None: ...


class Epoll:
    """The system's epoll object; trio waits for it."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._alarm = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        # Edge-triggered: reported once for each write, so that the eventfd never has to be read.
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
    """One socket and its connection. All methods run inside a turn of the engine."""

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
        self._piece_warm = 0  # the end of the part that is known to be in the page cache
        self._is_warming = False
        self.is_closed = False
        self._is_lingering = False
        self._draining = False
        self._half_closed = False
        self._deadline: Timer | None = None  # for the replies to a half-closed client
        self.queued: int | None = None  # events that wait in the engine's queue; 0: the driver was marked
        connection.wake = self._wake
        connection.is_late = engine.is_late

    def _wake(self) -> None:
        self._engine.mark(self)

    @property
    def is_reading(self) -> bool:
        """Whether the engine reads from this socket now."""
        return bool(self._interest & _DATA)

    @property
    def awaits_broker(self) -> bool:
        """Whether the client waits for the broker. False while the broker waits for the client to take data."""
        return self._is_warming or (not self._interest & select.EPOLLOUT and self.connection.awaits_broker)

    def drain(self) -> None:
        """Answer the received requests, then close the connection; with nothing to answer, close at once."""
        self._draining = True
        self._engine.mark(self)

    def abort(self) -> None:
        """Close the connection now."""
        self._engine.remove(self)

    def release(self) -> None:
        """The socket is closed: release all resources. A piece that a thread still reads is released after the read."""
        self.is_closed = True
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        if self._piece is not None and not self._is_warming:
            self._piece.release()
            self._piece = None
        self.connection.finish()

    def serve(self, events: int) -> None:
        """Process poll events; 0 means that the driver was marked. `advance` sends the replies."""
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
            if count < len(buffer) or connection.outgoing or not connection.wants_data or engine.is_late():
                return
            left -= count

    def advance(self) -> None:
        """Send the queue, then answer the requests that the queue delayed, while the turn lasts."""
        connection = self.connection
        has_more = connection.has_more
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
        if has_more:
            self._engine.mark(self)
        elif (
            connection.closing
            or (connection.ended and connection.is_answered)
            or (self._draining and not connection.parked)
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
        if not self.connection.lingers:
            self.abort()
        elif not self._is_lingering:
            self._is_lingering = True
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
            if self.is_closed:
                piece.release()
            else:
                self._engine.mark(self)

        reads = self._engine.scheduler.reads(piece.disk)
        reads.in_thread(lambda: piece.warm(start, length), done, lambda: not self.is_closed)
        return False


class SocketEngine:
    """Serves all connections of one listening socket.

    `admit(engine, socket)` makes a client's driver, or returns None to refuse the client. `gone(driver)` is called when
    the driver is closed.
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
        """`is_alone()`: whether this engine has all connections of the process; then no other engine needs a turn."""
        self.scratch = memoryview(bytearray(RECEIVE_BYTES))
        self.poller: Poller = poller or Epoll()
        self.sendfile: Sendfile = sendfile or os.sendfile
        self.now_ms = 0.0  # start of the present round
        self.max_turn_ms = TURN_MS
        self._end_ms = self._last_round_end_ms = 0.0
        self._listener = listener
        self._admit = admit
        self._gone = gone
        self._is_alone = is_alone
        self.clock = clock
        self._monotonic_ms = clock.monotonic_ms  # called between any two requests
        self._log = log
        self._appends = appends
        self.scheduler = scheduler
        self._drivers: dict[int, SocketDriver] = {}
        self._marked: dict[SocketDriver, None] = {}  # queued behind the events of the next poll
        self._queue: deque[SocketDriver] = deque()  # to be served; their events are in `queued`
        self.served: list[SocketDriver] = []  # in this round; their replies are not sent yet
        self._is_accepting = False
        self._asleep = False
        listener.setblocking(False)
        self._accept_again()

    def __len__(self) -> int:
        """The number of connections."""
        return len(self._drivers)

    def is_late(self) -> bool:
        """Whether the present turn is over for one client; its remaining requests wait for the next turn."""
        return self._monotonic_ms() >= self._end_ms

    def mark(self, driver: SocketDriver) -> None:
        """Note that a connection has work. The next turn serves it."""
        self._marked[driver] = None
        if self._asleep:
            self._asleep = False
            self.poller.wake()

    def stop_accepting(self) -> None:
        """Refuse new connections; open ones stay."""
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
                more = self._turn(more)
        finally:
            self._close()

    def remove(self, driver: SocketDriver) -> None:
        """Close a socket and forget its driver."""
        descriptor = driver.socket.fileno()
        if self._drivers.pop(descriptor, None) is None:
            return
        self._marked.pop(driver, None)
        self.poller.unregister(descriptor)
        driver.socket.close()
        driver.release()
        self._gone(driver)

    def _turn(self, follows: bool) -> bool:
        """Serve ready sockets for a millisecond or two. True if there may be more.

        `follows`: the last turn ended by its time. Then this turn too waits for the next event before the task sleeps.
        """
        self.now_ms = self.clock.monotonic_ms()
        self._end_ms = self.now_ms + self.max_turn_ms
        self._last_round_end_ms = self._end_ms + self.max_turn_ms
        wait_s = self._poll_wait_s() if follows else 0.0
        self.scheduler.is_attended = True
        try:
            while True:
                if not self._round(wait_s):
                    return False
                self.now_ms = self.clock.monotonic_ms()
                if self.now_ms >= self._end_ms:
                    return True
                wait_s = self._poll_wait_s()
        finally:
            self.scheduler.is_attended = False

    def _poll_wait_s(self) -> float:
        """How long to wait here for the next event, in seconds: 0 if any other task could have work."""
        if self._marked or self._queue or not self._is_alone() or self.scheduler.idle_ms() <= POLL_WAIT_MS:
            return 0.0
        return POLL_WAIT_MS / 1000.0

    def _round(self, wait_s: float) -> bool:
        """Serve every ready socket once, within the turn. False if there was no work."""
        events = self.poller.poll(wait_s, EVENTS_AT_ONCE)
        drivers, queue, monotonic_ms, end_ms = self._drivers, self._queue, self._monotonic_ms, self._last_round_end_ms
        is_behind, is_over = bool(queue), False  # waiting drivers come first
        for descriptor, event in events:
            driver = drivers.get(descriptor)
            if driver is None:
                if self._is_accepting and descriptor == self._listener.fileno():
                    self._accept()
            elif not is_behind:
                try:
                    driver.serve(event)
                except Exception as error:  # noqa: BLE001  our fault in one connection must not end the others
                    self._fail(driver, error)
                is_behind = is_over = monotonic_ms() >= end_ms
            elif driver.queued is None:
                driver.queued = event
                queue.append(driver)
            else:  # the driver waits already, and keeps its place
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
        """Serve queued drivers, at least one, until the turn is over."""
        queue = self._queue
        while queue:
            driver = queue.popleft()
            events, driver.queued = driver.queued, None
            if driver.is_closed or events is None:
                continue
            if not events and self.served and driver.connection.has_more:  # replies to others are sent first
                driver.queued = 0
                queue.appendleft(driver)
                return
            try:
                driver.serve(events)
            except Exception as error:  # noqa: BLE001  our fault in one connection must not end the others
                self._fail(driver, error)
            if self._monotonic_ms() >= self._last_round_end_ms:
                return

    def _answer(self) -> None:
        """Send the replies of the served connections. After a millisecond, the rest are first in the next round."""
        served, self.served = self.served, []
        left, monotonic_ms = len(served), self._monotonic_ms
        end_ms = monotonic_ms() + TURN_MS if left > 1 else 0.0
        for driver in served:
            left -= 1
            if driver.is_closed:
                continue
            try:
                driver.advance()
            except Exception as error:  # noqa: BLE001  our fault in one connection must not end the others
                self._fail(driver, error)
            if left and monotonic_ms() >= end_ms:
                for unsent in reversed(served[-left:]):
                    if unsent.queued is None:
                        unsent.queued = 0
                        self._queue.appendleft(unsent)
                return

    def _settle(self) -> None:
        """Commit the batched writes."""
        try:
            self._appends.commit()
        except Exception as error:  # noqa: BLE001
            self._log.error("writing", "a batched write failed; clients with unsent replies are closed", exc_info=error)
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
                continue  # the client disconnected before the accept
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

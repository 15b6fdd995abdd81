"""The driver of plain TCP connections on Linux: one trio task and one epoll object for the whole process.

A task and a stream for each connection cost more than most requests do. Here one task waits until the epoll object
itself is readable, serves the ready sockets of all listeners and links in a bounded turn, then lets other tasks run.
The rules:

- Polling is level-triggered; interest changes at edges only. A socket is not polled for reads while its connection
  wants no data or output is pending; otherwise the engine would spin.
- A half-closed client (EPOLLRDHUP, or an empty receive) still gets the reply to each complete request, for
  `HALF_CLOSED_MS`. EPOLLRDHUP is not polled again for that socket: a level-triggered poll would report it for ever.
  A reset (EPOLLHUP, EPOLLERR, always reported) ends the connection at once.
- All connections share one receive buffer: a connection copies the bytes that it needs after the call. The rest of a
  large request is received directly into the request's final buffer.
- A round first receives from the sockets, then writes what is staged (see `gateway.replication.write_batcher`),
  then sends the replies: all replies to one receive in one send, pieces of files by the kernel. The round ends with a
  second write of everything staged since: no staged write outlives a round.
- A turn is fair by time. The clock is read between the requests of one client, as a request of 50 bytes may cost
  milliseconds: after the first millisecond of the turn, other clients follow. The clock is also read between sockets:
  the last round of a turn begins within a millisecond and serves sockets for one more, as 64 small writes, batched into
  one, take 1.5 ms. An unserved socket keeps its place in the queue, before all served ones; pending requests queue
  behind new requests of other clients. Sends continue for one more millisecond.
- Connections with other brokers come first: in a round their sockets are served, and what they wait for is sent,
  before any client is served, as all acks=all appends of a partition wait for them. Then at least one client has its
  turn.
- In a turn each socket is read for at most 256 KiB. A request that waited for an event of this round is answered in the
  next round. When all sockets are served, a turn waits a millisecond for more events, unless another task could have
  work: to sleep and wake up through trio costs more than a request. A turn that follows one whose time was over, and
  after which the other tasks ran, begins with such a wait.
- A `wake` from elsewhere only marks the connection and wakes this task: only the engine touches its sockets.
- A fault in one connection closes only that connection.
- Without free descriptors a listener pauses for 100 ms at a time, and clients wait in the backlog: the first free
  descriptor serves one of them. The alternative, to accept and close them at once with a reserved descriptor, would
  make every client reconnect at once, again and again. To refuse clients, an operator sets `max.connections`. A
  listener beyond its rate of new connections pauses likewise.
"""

from __future__ import annotations

import errno
import os
import select
import socket
from collections import deque
from collections.abc import Callable
from functools import partial

import trio

from headgate.gateway.network.epoll import READING, Epoll, Poller
from headgate.gateway.network.socket_driver import (
    CLOSED,
    RECEIVE_BYTES,
    EngineSocket,
    MakeSocket,
    ReadInto,
    Sendfile,
    SocketDriver,
)
from headgate.gateway.replication.write_batcher import WriteBatcher
from headgate.gateway.runtime.clock import Clock
from headgate.gateway.runtime.log_output import SERVING_FAILED, LimitedLog
from headgate.gateway.runtime.scheduler import Scheduler
from headgate.gateway.runtime.stall_watch import StallWatch
from headgate.gateway.runtime.tasks import Tasks

AVAILABLE = hasattr(select, "epoll") and hasattr(os, "eventfd") and hasattr(os, "sendfile")

TURN_MS = 1.0
# A turn waits this long for the next event; to sleep through trio instead would take as long as a request.
POLL_WAIT_MS = 1.0
EVENTS_AT_ONCE = 64
ACCEPT_AT_ONCE = 64
PAUSE_MS = 100.0
CANNOT_ACCEPT = "cannot accept connections: %s; they wait, and it is tried again every %d ms"
NO_DESCRIPTORS = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)

Admit = Callable[["SocketEngine", socket.socket], EngineSocket | None]


class _Listening:
    """A listening socket. `admit(engine, socket)` makes a client's driver, or returns None to refuse the client.

    `record()` accounts for an accepted connection, and returns for how many ms no other one is accepted.
    """

    __slots__ = ("admit", "is_accepting", "record", "socket")

    def __init__(self, listener: socket.socket, admit: Admit, record: Callable[[], float]) -> None:
        self.socket = listener
        self.admit = admit
        self.record = record
        self.is_accepting = False


class SocketEngine:
    """Serves all connections of the listening sockets that `listen` adds, and the links.

    `gone(driver)` is called when the connection of a client is closed.
    """

    def __init__(
        self,
        gone: Callable[[SocketDriver], None],
        clock: Clock,
        scheduler: Scheduler,
        log: LimitedLog,
        batcher: WriteBatcher,
        poller: Poller | None = None,
        sendfile: Sendfile | None = None,
        make_socket: MakeSocket = socket.socket,
        read_into: ReadInto = os.preadv,
        stall_watch: StallWatch | None = None,
    ) -> None:
        self.scratch = memoryview(bytearray(RECEIVE_BYTES))
        self.poller: Poller = poller or Epoll()
        self.sendfile: Sendfile = sendfile or os.sendfile
        self.make_socket = make_socket
        self.read_into = read_into
        self.now_ms = 0.0  # start of the present round
        self.max_turn_ms = TURN_MS
        self._end_ms = self._last_round_end_ms = 0.0
        self.stream_count = 0
        """The number of connections that other tasks serve. Each needs turns of the loop: then no turn waits."""
        self._listeners: dict[int, _Listening] = {}
        self.gone = gone
        self.clock = clock
        self._monotonic_ms = clock.monotonic_ms  # called between any two requests
        self._stall_watch = stall_watch or StallWatch(Tasks(clock, scheduler))
        self._log = log
        self._batcher = batcher
        self.scheduler = scheduler
        self.brokers: dict[EngineSocket, None] = {}
        """The sockets whose other ends are brokers."""
        self._drivers: dict[int, EngineSocket] = {}
        self._marked: dict[EngineSocket, None] = {}  # queued behind the events of the next poll
        self._queue: deque[EngineSocket] = deque()  # to be served; their events are in `queued`
        self.served: list[EngineSocket] = []  # in this round; their replies are not sent yet
        self._asleep = False

    def listen(self, listener: socket.socket, admit: Admit, record: Callable[[], float] = lambda: 0.0) -> None:
        """Accept the clients of a listening socket."""
        listener.setblocking(False)
        listening = self._listeners[listener.fileno()] = _Listening(listener, admit, record)
        self._accept_again(listening)

    def is_late(self) -> bool:
        """Whether the present turn is over for one client; its remaining requests wait for the next turn."""
        return self._monotonic_ms() >= self._end_ms

    def mark(self, driver: EngineSocket) -> None:
        """Note that a connection has work. The next turn serves it."""
        self._marked[driver] = None
        if self._asleep:
            self._asleep = False
            self.poller.wake()

    def stop_accepting(self) -> None:
        """Refuse new connections; open ones stay."""
        for descriptor, listening in self._listeners.items():
            if listening.is_accepting:
                listening.is_accepting = False
                self.poller.unregister(descriptor)
            listening.socket.close()

    async def run(self) -> None:
        """Serve until cancelled."""
        try:
            more = False
            while True:
                if more or self._marked or self._queue:
                    await trio.lowlevel.checkpoint()
                else:
                    assert not self._batcher.is_open, "what is staged would wait for the next event"
                    self._asleep = True
                    await self.poller.ready()
                    self._asleep = False
                more = self._turn(more)
        finally:
            self._close()

    def add(self, driver: EngineSocket, interest: int) -> None:
        """Poll a socket for its driver."""
        descriptor = driver.socket.fileno()
        self._drivers[descriptor] = driver
        self.poller.register(descriptor, interest)

    def remove(self, driver: EngineSocket) -> None:
        """Close a socket, forget its driver, and have the driver release all resources."""
        if self.forget(driver):
            driver.release()

    def forget(self, driver: EngineSocket) -> bool:
        """Close a socket and forget its driver. False if that was done before."""
        is_known = self.detach(driver)
        if is_known:
            self.brokers.pop(driver, None)
            driver.socket.close()
        return is_known

    def detach(self, driver: EngineSocket) -> bool:
        """Poll a socket no more; it stays open. False if its driver is not known."""
        descriptor = driver.socket.fileno()
        if self._drivers.pop(descriptor, None) is None:
            return False
        self._marked.pop(driver, None)
        self.poller.unregister(descriptor)
        return True

    def _turn(self, follows: bool) -> bool:
        """Serve ready sockets for a millisecond or two. True if there may be more.

        `follows`: the last turn ended by its time. Then this turn too waits for the next event before the task sleeps.
        """
        self.now_ms = self.clock.monotonic_ms()
        if self.now_ms >= self._stall_watch.late_ms:
            self._stall_watch.note_stall()
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
        if self._marked or self._queue or self.stream_count or self.scheduler.idle_ms() <= POLL_WAIT_MS:
            return 0.0
        return POLL_WAIT_MS / 1000.0

    def _round(self, wait_s: float) -> bool:
        """Serve every ready socket once, within the turn. False if there was no work."""
        events = found = self.poller.poll(wait_s, EVENTS_AT_ONCE)
        if wait_s and self._monotonic_ms() >= self._stall_watch.late_ms:
            self._stall_watch.note_stall()
        if self.brokers:
            events = self._serve_brokers(found)
        drivers, queue, monotonic_ms, end_ms = self._drivers, self._queue, self._monotonic_ms, self._last_round_end_ms
        is_behind, is_over = bool(queue), False  # waiting drivers come first
        for descriptor, event in events:
            driver = drivers.get(descriptor)
            if driver is None:
                listening = self._listeners.get(descriptor)
                if listening is not None and listening.is_accepting:
                    self._accept(listening)
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
            if self._batcher.is_open:
                self._settle()
            self._answer()
        self.scheduler.run_soon()
        if self._batcher.is_open:
            self._settle()
        return bool(found or self._marked or self._queue)

    def _serve_brokers(self, events: list[tuple[int, int]]) -> list[tuple[int, int]]:
        """Serve the ready sockets of brokers, and send what these brokers wait for. Returns the other events."""
        others = []
        for event in events:
            driver = self._drivers.get(event[0])
            if driver is None or driver not in self.brokers:
                others.append(event)
            else:
                self._serve_broker(driver, event[1])
        if self.served:
            self.scheduler.run_soon()  # answers reach the tasks of this broker, which may send the next request
        if self._marked:
            for driver in [driver for driver in self.brokers if driver in self._marked]:
                self._serve_broker(driver, 0)
        if self.served:
            if self._batcher.is_open:
                self._settle()
            self._answer()
        return others

    def _serve_broker(self, driver: EngineSocket, events: int) -> None:
        self._marked.pop(driver, None)
        events |= driver.queued or 0
        driver.queued = None
        if driver.phase is CLOSED:  # by the task of another connection
            return
        try:
            driver.serve(events)
        except Exception as error:  # noqa: BLE001  our fault in one connection must not end the others
            self._fail(driver, error)

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
            if driver.phase is CLOSED or events is None:
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
            if driver.phase is CLOSED:
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
            self._batcher.write_all()
        except Exception as error:  # noqa: BLE001
            self._log.error("writing", "a batched write failed; clients with unsent replies are closed", exc_info=error)
            for driver in list(self._drivers.values()):
                if isinstance(driver, SocketDriver) and driver.connection.outgoing:
                    self.remove(driver)

    def _fail(self, driver: EngineSocket, error: Exception) -> None:
        if not isinstance(error, ConnectionError):
            self._log.error("serving", SERVING_FAILED, driver.peer, exc_info=error)
        self.remove(driver)

    def _accept(self, listening: _Listening) -> None:
        for _ in range(ACCEPT_AT_ONCE):
            try:
                sock, _ = listening.socket.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno in NO_DESCRIPTORS:
                    self._log.error("cannot accept", CANNOT_ACCEPT, error.strerror, PAUSE_MS)
                    self._pause(listening, PAUSE_MS)
                    return
                continue  # the client disconnected before the accept
            try:
                self._add(sock, listening.admit)
            except OSError as error:
                self._log.error("cannot serve", "a connection cannot be served: %s", error)
                self.drop(sock)
            throttle_ms = listening.record()
            if throttle_ms:
                self._pause(listening, throttle_ms)
                return
            if self.is_late():
                return

    def drop(self, sock: socket.socket) -> None:
        """Close a socket that cannot be served, and release its driver."""
        driver = self._drivers.pop(sock.fileno(), None)
        sock.close()
        if driver is not None:
            driver.release()

    def _add(self, sock: socket.socket, admit: Admit) -> None:
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        driver = admit(self, sock)
        if driver is None:
            sock.close()
            return
        self.add(driver, READING)

    def _pause(self, listening: _Listening, pause_ms: float) -> None:
        listening.is_accepting = False
        self.poller.unregister(listening.socket.fileno())
        self.scheduler.call_after(pause_ms, partial(self._accept_again, listening))

    def _accept_again(self, listening: _Listening) -> None:
        if not listening.is_accepting and listening.socket.fileno() >= 0:
            listening.is_accepting = True
            self.poller.register(listening.socket.fileno(), select.EPOLLIN)

    def _close(self) -> None:
        self.stop_accepting()
        for driver in list(self._drivers.values()):
            self.remove(driver)
        self.poller.close()

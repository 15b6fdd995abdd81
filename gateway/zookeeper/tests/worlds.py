"""Two worlds for one scenario: the model, and a real ZooKeeper with the real client. See `test_scenarios.py`."""

from __future__ import annotations

import heapq
import itertools
import os
import signal
import socket
import struct
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, Final

from compat_tests.harness.zookeeper import ZooKeeper
from headgate.gateway.zookeeper.client import ZooKeeperClient
from headgate.gateway.zookeeper.session import Create, Session, SessionEvent
from headgate.gateway.zookeeper.tests.model import Fault, ModelSession, ZooKeeperModel
from headgate.gateway.zookeeper.tests.proxy import HOST, Proxy

WITHIN_S: Final = 30
SESSION_TIMEOUT_MS: Final = 30_000
"""Longer than a busy machine keeps a client from its server: a session ends only where a scenario ends it."""
SOON_MS: Final = 4_000
"""The timeout of a session whose server hangs: the client leaves the server after two thirds of it."""
_numbers = itertools.count(1)


class Observed:
    """A session of a scenario, with its events so far."""

    def __init__(self) -> None:
        self.session: Session
        self.events: list[SessionEvent] = []
        self.is_cut_off = False

    def take_events(self) -> list[SessionEvent]:
        taken, self.events[:] = list(self.events), []
        return taken


class World(ABC):
    """Where a scenario happens. Paths of sessions are below a node that no other test has."""

    root = ""

    @abstractmethod
    def until(self, condition: Callable[[], bool]) -> None:
        """Go on until the condition holds; fail if it never does."""

    @abstractmethod
    def new(self, chroot: str, timeout_ms: int = SESSION_TIMEOUT_MS) -> Observed:
        """A session that was not started."""

    @abstractmethod
    def lose_requests(self, observed: Observed, *faults: Fault | None) -> None:
        """What happens to the next requests; the client connects again after that."""

    @abstractmethod
    def cut_off(self, observed: Observed) -> None:
        """Cut the connection; the client finds no server until `reconnect`."""

    @abstractmethod
    def reconnect(self, observed: Observed) -> None:
        """Let the client connect again."""

    @abstractmethod
    def expire(self, session: Session) -> None:
        """Have the server end a session."""

    @abstractmethod
    def stop_server(self) -> None:
        """Kill the server."""

    @abstractmethod
    def start_server(self) -> None:
        """Start the server that was killed or frozen, and let the clients connect again."""

    @abstractmethod
    def freeze_server(self) -> None:
        """The server hangs; `time_out` follows."""

    @abstractmethod
    def time_out(self) -> None:
        """Let the clients notice that the server hangs."""

    @abstractmethod
    def close(self) -> None: ...

    def connected(self, chroot: str = "", timeout_ms: int = SESSION_TIMEOUT_MS) -> Observed:
        """A session that is connected."""
        observed = self.new(self.root + chroot, timeout_ms)
        observed.session.start()
        self.until(lambda: observed.session.is_connected)
        return observed

    def ask(self, request: Callable[..., None], *arguments: Any) -> Any:
        """Send a request and wait for its result."""
        results: list[Any] = []
        request(*arguments, results.append)
        self.until(lambda: bool(results))
        return results[0]

    def settle(self, *sessions: Observed) -> None:
        """Have everything arrive that was sent so far: what did not come by then does not come."""
        for observed in sessions:
            assert self.ask(observed.session.sync, "/") is None

    def make_root(self) -> None:
        """Sessions see only what is below a node of their own."""
        root = f"/test-{next(_numbers)}"
        first = self.connected()
        assert self.ask(first.session.create, Create(root)) == root
        self.ask(first.session.close)
        self.root = root


class ModelWorld(World):
    """The model, in the order of causes."""

    def __init__(self) -> None:
        self.keeper = ZooKeeperModel()
        self.make_root()

    def until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            assert self.keeper.step(), "nothing is on its way, and the condition does not hold"

    def new(self, chroot: str, timeout_ms: int = SESSION_TIMEOUT_MS) -> Observed:
        observed = Observed()
        observed.session = self.keeper.session(observed.events.append, chroot)
        return observed

    def lose_requests(self, observed: Observed, *faults: Fault | None) -> None:
        _model(observed.session).faults.extend(faults)

    def cut_off(self, observed: Observed) -> None:
        self.keeper.cut(_model(observed.session))

    def reconnect(self, observed: Observed) -> None:
        self.keeper.connect(_model(observed.session))

    def expire(self, session: Session) -> None:
        self.keeper.expire(session.session_id)
        self.keeper.connect(_model(session))

    def stop_server(self) -> None:
        self.keeper.stop()

    def start_server(self) -> None:
        self.keeper.start()

    def freeze_server(self) -> None:
        self.keeper.freeze()

    def time_out(self) -> None:
        self.keeper.time_out()

    def close(self) -> None:
        self.keeper.run()


def _model(session: Session) -> ModelSession:
    assert isinstance(session, ModelSession)
    return session


class Loop:
    """An event loop on the thread of a test: what a `ZooKeeperClient` needs of a scheduler."""

    def __init__(self) -> None:
        self._soon: deque[Callable[[], None]] = deque()
        self._from_threads: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._timers: list[tuple[float, int, _Timer]] = []

    def call_soon(self, callback: Callable[[], None]) -> None:
        self._soon.append(callback)

    def call_from_thread(self, callback: Callable[[], None]) -> None:
        self._from_threads.put(callback)

    def call_after(self, delay_ms: float, callback: Callable[[], None]) -> _Timer:
        timer = _Timer(callback)
        heapq.heappush(self._timers, (time.monotonic() + delay_ms / 1000, next(_numbers), timer))
        return timer

    def until(self, condition: Callable[[], bool]) -> None:
        deadline_s = time.monotonic() + WITHIN_S
        while not condition():
            if self._soon:
                self._soon.popleft()()
                continue
            now_s = time.monotonic()
            assert now_s < deadline_s, f"the condition does not hold after {WITHIN_S} s"
            if self._timers and self._timers[0][0] <= now_s:
                heapq.heappop(self._timers)[2].run()
                continue
            next_s = min([deadline_s, *(entry[0] for entry in self._timers[:1])])
            with suppress(Empty):
                self._from_threads.get(timeout=max(next_s - now_s, 0.001))()


class _Timer:
    def __init__(self, callback: Callable[[], None]) -> None:
        self._callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        self._callback = None

    def run(self) -> None:
        if self._callback is not None:
            self._callback()


class RealWorld(World):
    """A real server, one for several tests; each session has a proxy of its own."""

    def __init__(self, server: ZooKeeper) -> None:
        self.server = server
        self.loop = Loop()
        self._proxies: dict[Session, Proxy] = {}
        self.make_root()

    def until(self, condition: Callable[[], bool]) -> None:
        self.loop.until(condition)

    def new(self, chroot: str, timeout_ms: int = SESSION_TIMEOUT_MS) -> Observed:
        observed, proxy = Observed(), Proxy(self.server.port)
        connect = f"{HOST}:{proxy.port}{chroot}"
        observed.session = ZooKeeperClient(connect, timeout_ms, self.loop, observed.events.append)
        self._proxies[observed.session] = proxy
        return observed

    def lose_requests(self, observed: Observed, *faults: Fault | None) -> None:
        self._proxies[observed.session].faults.extend(faults)

    def cut_off(self, observed: Observed) -> None:
        proxy = self._proxies[observed.session]
        proxy.is_open = False
        proxy.cut()
        self.until(lambda: observed.events[-1:] == [SessionEvent.SUSPENDED])

    def reconnect(self, observed: Observed) -> None:
        self._proxies[observed.session].is_open = True

    def expire(self, session: Session) -> None:
        """A second connection of the same session closes it: what ZooKeeper's own tests do."""
        kazoo = _client(session)._kazoo
        session_id, password = kazoo._session_id, kazoo._session_passwd
        with socket.create_connection((HOST, self.server.port), timeout=WITHIN_S) as connection:
            connect = struct.pack(">iqiqi", 0, 0, SESSION_TIMEOUT_MS, session_id, len(password)) + password + b"\0"
            close = struct.pack(">ii", 1, -11)
            for frame in (connect, close):
                connection.sendall(struct.pack(">i", len(frame)) + frame)
                assert connection.recv(1000)

    def stop_server(self) -> None:
        self.server.stop()
        self.until(lambda: not any(session.is_connected for session in self._proxies))

    def start_server(self) -> None:
        if self.server.process is None:
            self.server.start()
        else:
            self.server.process.send_signal(signal.SIGCONT)

    def freeze_server(self) -> None:
        assert self.server.process is not None
        self.server.process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self.server.process.pid, os.WSTOPPED)  # until then its threads go on

    def time_out(self) -> None:
        self.until(lambda: not any(session.is_connected for session in self._proxies))

    def close(self) -> None:
        """End the connections first: it is quicker than to wait for the server."""
        self.start_server()
        for session, proxy in self._proxies.items():
            client = _client(session)
            if client._closed is None:
                proxy.is_open = True
                self.ask(client.close)
            proxy.close()


def _client(session: Session) -> ZooKeeperClient:
    assert isinstance(session, ZooKeeperClient)
    return session

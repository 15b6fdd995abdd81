"""What only the client does: kazoo's callbacks, the bound on requests, connections that fail."""

from __future__ import annotations

import logging
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
import trio
from kazoo import exceptions
from kazoo.protocol.states import EventType, KazooState, KeeperState, WatchedEvent, ZnodeStat

from compat_tests.harness import toolchain
from compat_tests.harness.zookeeper import ZooKeeper
from headgate.gateway.runtime.scheduler import Scheduler, TrioClock
from headgate.gateway.runtime.tests.fake_scheduler import ManualTime
from headgate.gateway.zookeeper import client as client_module
from headgate.gateway.zookeeper.client import CLOSE_WITHIN_MS, MOST_A_TURN, RESTART_AFTER_MS, ZooKeeperClient
from headgate.gateway.zookeeper.kazoo_handler import InlineHandler
from headgate.gateway.zookeeper.session import Create, KeeperError, NodeData, SessionEvent
from headgate.gateway.zookeeper.tests.proxy import HOST, Proxy
from headgate.gateway.zookeeper.tests.worlds import SESSION_TIMEOUT_MS, Loop

STILL_TIMEOUT_MS = 1_000
CONNECTED, SUSPENDED = SessionEvent.CONNECTED, SessionEvent.SUSPENDED


class Answer:
    """kazoo's asynchronous result, as far as it is used."""

    def __init__(self) -> None:
        self.value: Any = None
        self.exception: BaseException | None = None
        self._link: Callable[[Answer], None]

    def rawlink(self, link: Callable[[Answer], None]) -> None:
        self._link = link

    def set(self, value: Any = None, exception: BaseException | None = None) -> None:
        self.value, self.exception = value, exception
        self._link(self)


class FakeKazoo:
    """kazoo's client, which answers when a test says so."""

    made: list[FakeKazoo]

    def __init__(self, hosts: str, *, handler: Any, **_: Any) -> None:
        self.handler = handler
        self.client_id: tuple[int, bytes] | None = None
        self.client_state = KeeperState.CONNECTING
        self.asked: list[tuple[str, Any, Answer]] = []
        self.starts = 0
        self.stopping = threading.Event()
        self.may_stop = threading.Event()
        self.made.append(self)

    @property
    def connected(self) -> bool:
        return bool(self.client_state == KeeperState.CONNECTED)

    def add_listener(self, listener: Callable[[str], None]) -> None:
        self.tell = listener

    def start_async(self) -> None:
        self.starts += 1

    def connect(self, session_id: int) -> None:
        self.client_id, self.client_state = (session_id, b""), KeeperState.CONNECTED
        self.tell(KazooState.CONNECTED)

    def get_async(self, path: str, watch: Any = None) -> Answer:
        answer = Answer()
        self.asked.append((path, watch, answer))
        return answer

    def stop(self) -> None:
        self.stopping.set()
        self.may_stop.wait(30)
        self.client_state = KeeperState.CLOSED

    def close(self) -> None:
        pass


STAT = ZnodeStat(*[0] * 11)
READ = (b"data", STAT)


class Faked:
    """A client on a fake kazoo and without a loop."""

    def __init__(self, outstanding: int = 3) -> None:
        self.time = ManualTime()
        self.events: list[SessionEvent] = []
        self.client = ZooKeeperClient("zk:1", 1000, self.time.scheduler, self.events.append, outstanding)
        self.results: list[tuple[int, Any]] = []

    @property
    def kazoo(self) -> FakeKazoo:
        return FakeKazoo.made[-1]

    def connect(self, session_id: int = 1) -> None:
        self.kazoo.connect(session_id)
        self.time.advance()

    def ask(self, count: int) -> None:
        for number in range(count):
            self.client.get(f"/{number}", partial(self._note, number))

    def _note(self, number: int, result: Any) -> None:
        self.results.append((number, result))


@pytest.fixture
def faked(monkeypatch: pytest.MonkeyPatch) -> Faked:
    monkeypatch.setattr(client_module, "KazooClient", FakeKazoo)
    monkeypatch.setattr(FakeKazoo, "made", [], raising=False)
    made = Faked()
    made.client.start()
    return made


def test_what_kazoo_has_at_once_is_bounded_and_the_rest_waits_in_order(faked: Faked) -> None:
    faked.connect()
    faked.ask(10)
    assert [path for path, *_ in faked.kazoo.asked] == ["/0", "/1", "/2"]
    faked.kazoo.asked[0][2].set(READ)
    assert faked.results == []  # the answer is on its way to the loop
    faked.time.advance()
    assert [number for number, _ in faked.results] == [0]
    assert [path for path, *_ in faked.kazoo.asked] == ["/0", "/1", "/2", "/3"]
    for _, _, answer in faked.kazoo.asked[1:]:
        answer.set(READ)
    faked.time.advance()
    assert [path for path, *_ in faked.kazoo.asked] == [f"/{number}" for number in range(7)]


def test_a_request_that_kazoo_forgets_is_answered_once(faked: Faked) -> None:
    faked.connect()
    faked.ask(5)
    faked.kazoo.asked[0][2].set(exception=exceptions.ConnectionLoss())
    faked.kazoo.tell(KazooState.SUSPENDED)
    faked.time.advance()
    errors = [KeeperError.CONNECTION_LOSS] * 3 + [KeeperError.NOT_CONNECTED] * 2
    assert faked.results == list(enumerate(errors))
    assert faked.events == [CONNECTED, SUSPENDED]
    faked.kazoo.asked[1][2].set(READ)
    faked.time.advance()
    assert len(faked.results) == 5


@pytest.mark.parametrize("was_connected", [False, True])
def test_kazoo_is_made_anew_after_an_error_of_its_own(faked: Faked, was_connected: bool) -> None:
    """Its thread is gone then: without a new one the broker would never hear of ZooKeeper again."""
    old, before = faked.kazoo, [CONNECTED, SessionEvent.EXPIRED] if was_connected else []
    if was_connected:
        faked.connect()
        faked.ask(1)
        old.client_state = KeeperState.CLOSED
        old.tell(KazooState.LOST)
        faked.time.advance()
        assert faked.results == [(0, KeeperError.CONNECTION_LOSS)]
    old.handler.ended()
    faked.time.advance()
    assert faked.events == before
    assert len(FakeKazoo.made) == 2
    assert faked.kazoo.starts == 0
    faked.time.advance(RESTART_AFTER_MS)
    assert faked.kazoo.starts == 1
    old.tell(KazooState.SUSPENDED)  # of no interest any more
    faked.connect(2)
    assert faked.events == [*before, CONNECTED]
    assert faked.client.session_id == 2


def test_nothing_is_sent_in_the_moment_before_the_loop_hears_of_the_end(faked: Faked) -> None:
    """Kazoo would send it with the next connection, long after its failure was told."""
    faked.connect()
    faked.kazoo.client_state = KeeperState.CONNECTING
    faked.kazoo.tell(KazooState.SUSPENDED)
    faked.ask(1)
    faked.time.advance()
    assert faked.kazoo.asked == []
    assert faked.results == [(0, KeeperError.NOT_CONNECTED)]
    assert faked.events == [CONNECTED, SUSPENDED]


def test_an_expired_session_keeps_its_kazoo(faked: Faked) -> None:
    faked.connect(1)
    faked.kazoo.tell(KazooState.SUSPENDED)
    faked.kazoo.client_state = KeeperState.EXPIRED_SESSION
    faked.kazoo.tell(KazooState.LOST)
    faked.connect(2)
    assert faked.events == [CONNECTED, SUSPENDED, SessionEvent.EXPIRED, CONNECTED]
    assert len(FakeKazoo.made) == 1


def test_a_close_does_not_wait_for_a_server_that_hangs(faked: Faked) -> None:
    faked.connect()
    faked.ask(5)
    closed: list[bool] = []
    faked.client.close(closed.append)
    faked.time.advance()
    assert faked.results == [(3, KeeperError.NOT_CONNECTED), (4, KeeperError.NOT_CONNECTED)]
    assert faked.kazoo.stopping.wait(30)
    faked.time.advance(CLOSE_WITHIN_MS - 1)
    assert closed == []
    faked.time.advance(1)
    assert closed == [False]
    assert sorted(number for number, _ in faked.results) == [0, 1, 2, 3, 4]
    faked.kazoo.asked[0][2].set(READ)
    faked.kazoo.tell(KazooState.LOST)
    faked.kazoo.may_stop.set()
    faked.time.advance(CLOSE_WITHIN_MS)
    assert closed == [False]
    assert len(faked.results) == 5
    assert faked.events == [CONNECTED]


def test_a_close_without_a_connection_waits_for_nothing(faked: Faked) -> None:
    closed: list[bool] = []
    faked.client.close(closed.append)
    faked.time.advance()
    faked.kazoo.may_stop.set()
    assert closed == [False]


@pytest.mark.usefixtures("faked")
def test_the_loop_takes_a_number_of_answers_and_serves_others() -> None:
    many = Faked(MOST_A_TURN + 1)
    many.client.start()
    many.connect()
    many.ask(MOST_A_TURN + 1)
    turns: list[Callable[[], None]] = []
    many.time.scheduler.call_from_thread = turns.append  # type: ignore[assignment, method-assign]
    for _, _, answer in many.kazoo.asked:
        answer.set(READ)
    assert len(turns) == 1  # the loop is woken once
    turns.pop()()
    assert [number for number, _ in many.results] == list(range(MOST_A_TURN))
    turns.pop()()
    assert [number for number, _ in many.results] == list(range(MOST_A_TURN + 1))
    assert turns == []


def test_an_answer_that_fails_does_not_stop_the_next(faked: Faked, caplog: pytest.LogCaptureFixture) -> None:
    faked.connect()
    faked.client.get("/a", lambda _: 1 // 0)  # type: ignore[arg-type]
    faked.ask(1)
    for _, _, answer in faked.kazoo.asked:
        answer.set(READ)
    faked.time.advance()
    assert [number for number, _ in faked.results] == [0]
    assert "ZeroDivisionError" in caplog.text


def test_the_end_of_the_connection_is_no_event_of_a_watch(faked: Faked) -> None:
    faked.connect()
    seen: list[str] = []
    faked.client.get("/a", lambda _: None, seen.append)
    watch = faked.kazoo.asked[0][1]
    watch(WatchedEvent(EventType.NONE, KeeperState.CONNECTING, None))
    faked.time.advance()
    assert seen == []
    watch(WatchedEvent(EventType.CHANGED, KeeperState.CONNECTED, "/a"))
    faked.time.advance()
    assert seen == ["/a"]


@pytest.mark.parametrize(
    "error, expected",
    [
        (exceptions.OperationTimeoutError(), KeeperError.CONNECTION_LOSS),
        (exceptions.ConnectionClosedError(), KeeperError.CONNECTION_LOSS),
        (exceptions.SessionExpiredError(), KeeperError.SESSION_EXPIRED),
        (exceptions.NoAuthError(), KeeperError.NO_AUTH),
        (exceptions.MarshallingError(), KeeperError.OTHER),
    ],
    ids=repr,
)
def test_errors_are_values(faked: Faked, caplog: Any, error: BaseException, expected: KeeperError) -> None:
    faked.connect()
    faked.ask(1)
    faked.kazoo.asked[0][2].set(exception=error)
    faked.time.advance()
    assert faked.results == [(0, expected)]
    assert ("MarshallingError" in caplog.text) == (expected is KeeperError.OTHER)


@pytest.mark.parametrize("connect", ["", ":2181", "zk:port", "a,,b"])
def test_what_is_no_address_is_refused(connect: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        ZooKeeperClient(connect, 1000, ManualTime().scheduler, lambda _: None)


@pytest.mark.sockets
@pytest.mark.slow
def test_kazoo_is_imported_with_the_client_alone() -> None:
    program = (
        "import sys, headgate.gateway.app.cli, headgate.gateway.app.broker, headgate.gateway.zookeeper.session;"
        " sys.exit('kazoo' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_the_end_of_the_thread_is_told_and_its_error_logged(caplog: pytest.LogCaptureFixture) -> None:
    ended = threading.Event()
    InlineHandler(ended.set, lambda _: None).spawn(lambda one: one // 0, 1)
    assert ended.wait(30)
    assert "ZeroDivisionError" in caplog.text


def test_a_heartbeat_needs_a_sign_of_the_loop(faked: Faked) -> None:
    may_beat = faked.kazoo.handler.may_beat
    assert [may_beat(), may_beat()] == [True, True], "before the loop runs"
    faked.client.follow_loop()
    assert [may_beat(), may_beat()] == [True, False]
    faked.time.advance()
    assert [may_beat(), may_beat()] == [True, False]


@pytest.mark.sockets
def test_kazoo_sends_no_heartbeat_while_the_loop_stands(faked: Faked) -> None:
    """It waits on, until there is data or a sign of the loop."""
    signs = [False, False, True]
    handler = faked.kazoo.handler
    handler.may_beat = lambda: signs.pop(0)
    readers = [socket.socketpair(), socket.socketpair()]
    waited = [pair[0] for pair in readers]
    assert handler.select(waited, [], [], 0.01)[0] == []
    assert signs == []
    assert handler.select(waited[:1], [], [], 0.01)[0] == [], "a wait for the rest of an answer"
    signs.append(False)
    readers[0][1].sendall(b"x")
    assert handler.select(waited, [], [], 0.01)[0] == [waited[0]]
    for pair in readers:
        for one in pair:
            one.close()


# Real servers


@pytest.fixture(scope="module")
def server() -> Iterator[ZooKeeper]:
    toolchain.jars("zookeeper")
    with ZooKeeper(tick_ms=100) as running:
        yield running


@pytest.fixture
def loop() -> Loop:
    return Loop()


def close(loop: Loop, client: ZooKeeperClient) -> bool:
    closed: list[bool] = []
    client.close(closed.append)
    loop.until(lambda: bool(closed))
    return closed[0]


@pytest.mark.sockets
@pytest.mark.slow
def test_another_server_of_the_list_is_found(server: ZooKeeper, loop: Loop) -> None:
    down, up = Proxy(server.port), Proxy(server.port)
    down.is_open = False
    events: list[SessionEvent] = []
    connect = f"{HOST}:{down.port},{HOST}:{up.port}/chroot"
    client = ZooKeeperClient(connect, SESSION_TIMEOUT_MS, loop, events.append)
    client.start()
    loop.until(lambda: client.is_connected)
    down.is_open, up.is_open = True, False
    up.cut()
    loop.until(lambda: events == [CONNECTED, SUSPENDED, SessionEvent.RECONNECTED])
    assert close(loop, client) is True
    up.close()
    down.close()


@pytest.mark.sockets
@pytest.mark.slow
@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\0\0\0\x05\xff\xff\xff\xff\xff"])
def test_a_server_that_is_no_zookeeper_is_asked_again(server: ZooKeeper, loop: Loop, answer: bytes) -> None:
    """And once ZooKeeper is there, it is found."""
    accepted = threading.Event()
    listener = socket.create_server((HOST, 0))

    def serve() -> None:
        for _ in range(2):
            connection, _ = listener.accept()
            connection.recv(1000)
            connection.sendall(answer)
            connection.close()
        accepted.set()

    threading.Thread(target=serve, daemon=True).start()
    events: list[SessionEvent] = []
    proxy = Proxy(server.port)
    proxy.is_open = False
    connect = f"{HOST}:{listener.getsockname()[1]},{HOST}:{proxy.port}"
    client = ZooKeeperClient(connect, SESSION_TIMEOUT_MS, loop, events.append)
    client.start()
    assert accepted.wait(30)
    assert events == []
    listener.close()
    proxy.is_open = True
    loop.until(lambda: client.is_connected)
    assert events == [CONNECTED]
    close(loop, client)
    proxy.close()


@pytest.mark.sockets
@pytest.mark.slow
def test_the_session_of_a_loop_that_stands_still_ends(server: ZooKeeper, loop: Loop) -> None:
    """The thread of kazoo runs on; another client sees the end, and the loop learns it when it runs again."""
    events: list[SessionEvent] = []
    still, other = Loop(), ZooKeeperClient(server.connect, SESSION_TIMEOUT_MS, loop, lambda _: None)
    client = ZooKeeperClient(server.connect, STILL_TIMEOUT_MS, still, events.append)
    for each in (client, other):
        each.start()
    still.until(lambda: client.is_connected)
    client.follow_loop()
    created, gone = list[Any](), list[str]()
    client.create(Create("/still", is_ephemeral=True), created.append)
    began = time.monotonic()
    still.until(lambda: bool(created) and time.monotonic() > began + 2 * STILL_TIMEOUT_MS / 1000)
    assert events == [CONNECTED], "a loop that runs keeps its session"
    loop.until(lambda: other.is_connected)
    other.exists("/still", lambda _: None, gone.append)
    loop.until(lambda: bool(gone))
    still.until(lambda: events == [CONNECTED, SUSPENDED, SessionEvent.EXPIRED, CONNECTED])
    assert [close(one_loop, each) for one_loop, each in ((still, client), (loop, other))] == [True, True]


@pytest.mark.sockets
@pytest.mark.slow
def test_on_trio(server: ZooKeeper) -> None:
    """The loop of the broker: 2,000 requests, more than the bound, and their answers in order."""
    results: list[Any] = []
    threads: set[int] = set()

    async def main() -> bool:
        scheduler = Scheduler(TrioClock())
        connected, answered, closed = trio.Event(), trio.Event(), trio.Event()
        ended: list[bool] = []

        def note(result: Any) -> None:
            threads.add(threading.get_ident())
            results.append(result)
            if len(results) == 2001:
                answered.set()

        def end(is_clean: bool) -> None:
            ended.append(is_clean)
            closed.set()

        client = ZooKeeperClient(server.connect, SESSION_TIMEOUT_MS, scheduler, lambda _: connected.set())
        async with trio.open_nursery() as nursery:
            await nursery.start(scheduler.run)
            with trio.fail_after(60):
                client.start()
                await connected.wait()
                client.create(Create("/trio", is_ephemeral=True), note)
                for number in range(1000):
                    client.set("/trio", b"%d" % number, number, note)
                    client.get("/trio", note)
                await answered.wait()
                client.close(end)
                await closed.wait()
            nursery.cancel_scope.cancel()
        return ended[0]

    assert trio.run(main)
    assert threads == {threading.get_ident()}
    assert all(isinstance(result, NodeData) for result in results[2::2])
    assert [result.data for result in results[2::2]] == [b"%d" % number for number in range(1000)]


@pytest.mark.sockets
@pytest.mark.slow
def test_one_line_says_that_the_connection_is_lost(
    server: ZooKeeper, loop: Loop, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    proxy = Proxy(server.port)
    events: list[SessionEvent] = []
    connect = f"{HOST}:{proxy.port}"
    client = ZooKeeperClient(connect, SESSION_TIMEOUT_MS, loop, events.append)
    client.start()
    loop.until(lambda: client.is_connected)
    proxy.cut()
    loop.until(lambda: len(events) == 3)
    close(loop, client)
    proxy.close()
    session = f"session 0x{caplog.records[0].args[2]:x}" if isinstance(caplog.records[0].args, tuple) else ""
    assert [record.getMessage() for record in caplog.records] == [
        f"connected to ZooKeeper at {connect}, {session}",
        f"lost the connection to ZooKeeper at {connect}; connecting again",
        f"reconnected to ZooKeeper at {connect}, {session}",
    ]

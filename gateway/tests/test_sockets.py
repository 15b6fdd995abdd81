"""The socket engine on real sockets: what `test_streams.py` asks of the other driver, and its own rules."""

import errno
import os
import socket
import struct
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from gateway import sockets
from gateway.clock import SystemClock
from gateway.connection import Connection
from gateway.context import Client
from gateway.memory import MemoryBudget
from gateway.scheduler import Scheduler
from gateway.sockets import SocketDriver, SocketEngine
from gateway.tests.test_connection import ScriptedDispatcher, framed

pytestmark = [
    pytest.mark.sockets,
    pytest.mark.skipif(not sockets.AVAILABLE, reason="there is no epoll, eventfd or sendfile on this platform"),
]


class FilePiece:
    """A piece of a real file."""

    def __init__(self, path: Path, size: int) -> None:
        path.write_bytes(os.urandom(size))
        self._file = path.open("rb")
        self.fileno = self._file.fileno()
        self.position = 100
        self.released = False

    def __len__(self) -> int:
        return os.fstat(self.fileno).st_size - self.position

    def read(self, start: int = 0, length: int | None = None) -> bytes:
        return os.pread(self.fileno, len(self) if length is None else length, self.position + start)

    def release(self) -> None:
        assert not self.released, "released twice"
        self.released = True

    def close(self) -> None:
        self._file.close()


class Served:
    """An engine, what it dispatches to, and ways to connect."""

    def __init__(self) -> None:
        self.dispatcher = ScriptedDispatcher()
        self.drivers: list[SocketDriver] = []
        self.gone = 0
        self.refuses = False
        self._streams: list[trio.SocketStream] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._address = self._listener.getsockname()
        clock = SystemClock()
        self.scheduler = Scheduler(clock)
        self.engine = SocketEngine(self._listener, self._admit, self._forget, clock, self.scheduler)

    def _admit(self, engine: SocketEngine, sock: socket.socket) -> SocketDriver | None:
        if self.refuses:
            return None
        client = Client("127.0.0.1", 40_000, "127.0.0.1", 9092)
        connection = Connection(
            client,
            self.dispatcher,  # type: ignore[arg-type]
            1_000,
            MemoryBudget(100_000),
            self.dispatcher.complain,
        )
        driver = SocketDriver(engine, sock, connection)
        self.drivers.append(driver)
        return driver

    def _forget(self, driver: SocketDriver) -> None:
        self.gone += 1

    async def connect(self) -> trio.SocketStream:
        stream = await trio.open_tcp_stream(*self._address)
        self._streams.append(stream)
        return stream

    async def close(self) -> None:
        """Close the clients' ends."""
        for stream in self._streams:
            await trio.aclose_forcefully(stream)

    async def read(self, stream: trio.SocketStream, size: int) -> bytes:
        data = b""
        while len(data) < size:
            portion = await stream.receive_some(size - len(data))
            assert portion, f"the stream ended after {len(data)} of {size} bytes"
            data += bytes(portion)
        return data

    async def until(self, condition: Callable[[], bool]) -> None:
        while not condition():  # noqa: ASYNC110  what is waited for happens in the engine, which tells nobody
            await trio.sleep(0.001)


def run(scenario: Callable[[Served], Awaitable[None]]) -> Served:
    """Run an engine beside `scenario`."""

    async def main() -> Served:
        served = Served()
        with trio.fail_after(20):
            async with trio.open_nursery() as nursery:
                await nursery.start(served.scheduler.run)
                nursery.start_soon(served.engine.run)
                try:
                    await scenario(served)
                finally:
                    await served.close()
                nursery.cancel_scope.cancel()
        return served

    return trio.run(main)


async def is_closed(stream: trio.SocketStream) -> bool:
    try:
        return await stream.receive_some(10) == b""
    except trio.BrokenResourceError:
        return True


@pytest.fixture
def pieces(tmp_path: Path) -> Iterator[Callable[[int], FilePiece]]:
    made: list[FilePiece] = []

    def make(size: int) -> FilePiece:
        made.append(FilePiece(tmp_path / f"segment{len(made)}", size))
        return made[-1]

    yield make
    for piece in made:
        piece.close()


@pytest.mark.parametrize("portion", [1, 3, 7, 1_000])
def test_requests_are_answered_whatever_the_portions(portion: int) -> None:
    async def scenario(served: Served) -> None:
        stream = await served.connect()
        data = framed(b"one", b"two", b"three")
        for start in range(0, len(data), portion):
            await stream.send_all(data[start : start + portion])
        assert await served.read(stream, 11) == b"onetwothree"

    run(scenario)


def test_many_connections_are_served_side_by_side() -> None:
    async def scenario(served: Served) -> None:
        streams = [await served.connect() for _ in range(100)]
        for round_number in range(3):
            for number, stream in enumerate(streams):
                await stream.send_all(framed(b"%3d.%d" % (number, round_number)))
            for number, stream in enumerate(streams):
                assert await served.read(stream, 5) == b"%3d.%d" % (number, round_number)

    run(scenario)


def test_a_parked_reply_is_sent_when_it_is_ready() -> None:
    async def scenario(served: Served) -> None:
        stream = await served.connect()
        await stream.send_all(framed(b"park", b"after"))
        await served.until(lambda: bool(served.dispatcher.parked))
        served.dispatcher.parked[0]([b"ready"])
        assert await served.read(stream, 10) == b"readyafter"

    run(scenario)


def test_what_waits_behind_a_parked_request_is_not_overwritten_by_others() -> None:
    async def scenario(served: Served) -> None:
        stream, other = await served.connect(), await served.connect()
        await stream.send_all(framed(b"park", b"mine"))
        await served.until(lambda: bool(served.dispatcher.parked))
        await other.send_all(framed(b"XXXX", b"XXXX", b"XXXX"))
        assert await served.read(other, 12) == b"X" * 12
        served.dispatcher.parked[0]([b"ready"])
        assert await served.read(stream, 9) == b"readymine"

    run(scenario)


@pytest.mark.parametrize("half", [False, True])
def test_a_client_that_hangs_up_while_parked_is_noticed(half: bool) -> None:
    async def scenario(served: Served) -> None:
        stream = await served.connect()
        await stream.send_all(framed(b"park"))
        await served.until(lambda: bool(served.dispatcher.parked))
        if half:
            await stream.send_eof()
        else:
            await stream.aclose()
        await served.until(lambda: served.gone == 1)
        assert served.dispatcher.abandoned == 1

    run(scenario)


def test_a_client_that_sends_too_much_while_parked_is_left_alone_and_still_noticed() -> None:
    async def scenario(served: Served) -> None:
        stream = await served.connect()
        await stream.send_all(framed(b"park"))
        await served.until(lambda: bool(served.dispatcher.parked))
        with trio.move_on_after(0.3):
            while True:
                await stream.send_all(framed(bytes(900)) * 100)
        assert not served.drivers[0].connection.wants_data
        spent = os.times()
        await trio.sleep(0.2)
        now = os.times()
        assert now.user + now.system - spent.user - spent.system < 0.1, "it spins on what it does not read"
        stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # a FIN would wait for its data
        await stream.aclose()
        await served.until(lambda: served.gone == 1)

    run(scenario)


def test_pieces_of_files_reach_a_slow_reader_whole(pieces: Callable[[int], FilePiece]) -> None:
    first, second = pieces(3_000_000), pieces(500_000)

    async def scenario(served: Served) -> None:
        stream = await served.connect()
        await stream.send_all(framed(b"park", b"next"))
        await served.until(lambda: bool(served.dispatcher.parked))
        served.dispatcher.parked[0]([b"head", first, b"middle", second, b"tail"])
        await trio.sleep(0.05)
        data = await served.read(stream, 18 + len(first) + len(second))
        assert data == b"head" + first.read() + b"middle" + second.read() + b"tail" + b"next"

    run(scenario)
    assert (first.released, second.released) == (True, True)


def test_who_sends_nothing_more_still_gets_what_it_asked_for(pieces: Callable[[int], FilePiece]) -> None:
    piece = pieces(5_000_000)

    async def scenario(served: Served) -> None:
        stream = await served.connect()
        await stream.send_all(framed(b"park"))
        await served.until(lambda: bool(served.dispatcher.parked))
        served.dispatcher.parked[0]([piece])
        await served.until(lambda: not served.drivers[0].connection.parked)
        await stream.send_eof()
        spent = os.times()
        await trio.sleep(0.2)
        now = os.times()
        assert now.user + now.system - spent.user - spent.system < 0.1, "it spins while the client does not read"
        assert await served.read(stream, len(piece)) == piece.read()
        assert await is_closed(stream)

    run(scenario)


def test_what_was_not_sent_is_given_back(pieces: Callable[[int], FilePiece]) -> None:
    made = [pieces(10_000_000), pieces(1_000)]

    async def scenario(served: Served) -> None:
        stream = await served.connect()
        await stream.send_all(framed(b"park"))
        await served.until(lambda: bool(served.dispatcher.parked))
        served.dispatcher.parked[0]([b"head", *made])
        await served.read(stream, 1_000)
        await stream.aclose()
        await served.until(lambda: served.gone == 1)

    run(scenario)
    assert [piece.released for piece in made] == [True, True]


def test_a_fault_of_the_client_ends_after_what_was_answered() -> None:
    async def scenario(served: Served) -> None:
        stream = await served.connect()
        await stream.send_all(framed(b"one", b"bad", b"two"))
        assert await served.read(stream, 3) == b"one"
        assert await is_closed(stream)
        assert served.dispatcher.complaints == ["127.0.0.1:40000: it is bad"]

    run(scenario)


def test_hanging_up_within_a_request_is_told() -> None:
    async def scenario(served: Served) -> None:
        stream = await served.connect()
        await stream.send_all(framed(b"half of it")[:7])
        await stream.aclose()
        await served.until(lambda: served.gone == 1)
        (complaint,) = served.dispatcher.complaints
        assert "7 of 14 bytes" in complaint

    run(scenario)


def test_a_fault_in_one_connection_stays_there(caplog: pytest.LogCaptureFixture) -> None:
    def fail(*_: Any) -> None:
        raise ZeroDivisionError("ours")

    async def scenario(served: Served) -> None:
        stream, other = await served.connect(), await served.connect()
        dispatch, served.dispatcher.dispatch = served.dispatcher.dispatch, fail  # type: ignore[assignment,method-assign]
        await stream.send_all(framed(b"x"))
        assert await is_closed(stream)
        served.dispatcher.dispatch = dispatch  # type: ignore[method-assign]
        await other.send_all(framed(b"fine"))
        assert await served.read(other, 4) == b"fine"

    run(scenario)
    assert "only this connection is closed" in caplog.text


def test_draining_answers_what_was_received_then_hangs_up() -> None:
    async def scenario(served: Served) -> None:
        idle, parked = await served.connect(), await served.connect()
        await parked.send_all(framed(b"park", b"after"))
        await served.until(lambda: bool(served.dispatcher.parked) and len(served.drivers) == 2)
        for driver in served.drivers:
            driver.drain()
        assert await is_closed(idle)
        served.dispatcher.parked[0]([b"ready"])
        assert await served.read(parked, 10) == b"readyafter"
        assert await is_closed(parked)

    run(scenario)


def test_who_is_refused_is_hung_up_on() -> None:
    async def scenario(served: Served) -> None:
        served.refuses = True
        assert await is_closed(await served.connect())
        served.refuses = False
        stream = await served.connect()
        await stream.send_all(framed(b"welcome"))
        assert await served.read(stream, 7) == b"welcome"

    run(scenario)


class ExhaustedListener:
    """A listening socket that has no descriptor to give, a few times."""

    def __init__(self, listener: socket.socket, failures: int) -> None:
        self._listener = listener
        self._failures = failures

    def accept(self) -> Any:
        if self._failures:
            self._failures -= 1
            raise OSError(errno.EMFILE, "Too many open files")
        return self._listener.accept()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._listener, name)


def test_without_free_descriptors_the_listener_pauses_and_comes_back(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(served: Served) -> None:
        served.engine._listener = ExhaustedListener(served.engine._listener, 2)  # type: ignore[assignment]
        start = trio.current_time()
        stream = await served.connect()
        await stream.send_all(framed(b"patient"))
        assert await served.read(stream, 7) == b"patient"
        assert 0.2 <= trio.current_time() - start < 5

    run(scenario)
    assert caplog.text.count("cannot accept connections: Too many open files") == 2


def test_after_stop_accepting_nobody_connects_and_the_others_stay() -> None:
    async def scenario(served: Served) -> None:
        stream = await served.connect()
        await served.until(lambda: len(served.drivers) == 1)
        served.engine.stop_accepting()
        with pytest.raises(OSError, match="all attempts to connect"):
            await served.connect()
        await stream.send_all(framed(b"here"))
        assert await served.read(stream, 4) == b"here"

    run(scenario)

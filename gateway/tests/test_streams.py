"""The stream driver over memory streams: bytes in every portion, a slow reader, hang-ups, wakes."""

import struct
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio
import trio.testing

from gateway.connection import Connection
from gateway.context import Client
from gateway.memory import MemoryBudget
from gateway.scheduler import TrioClock
from gateway.streams import StreamDriver
from gateway.tests.test_connection import ScriptedDispatcher, framed


class Piece:
    """A piece of a file, read in portions."""

    fileno, position = -1, 0

    def __init__(self, size: int) -> None:
        self._data = bytes(range(256)) * (size // 256)
        self.released = False

    def __len__(self) -> int:
        return len(self._data)

    def read(self, start: int = 0, length: int | None = None) -> bytes:
        return self._data[start : len(self._data) if length is None else start + length]

    def release(self) -> None:
        self.released = True


class Driven:
    """A driver under test and the client's end of its stream."""

    def __init__(self, client: trio.abc.Stream, driver: StreamDriver, dispatcher: ScriptedDispatcher) -> None:
        self.client = client
        self.driver = driver
        self.dispatcher = dispatcher

    async def read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            portion = await self.client.receive_some(size - len(data))
            assert portion, f"the stream ended after {data!r}"
            data += bytes(portion)
        return data


def run(scenario: Callable[[Driven], Awaitable[None]]) -> Driven:
    """Run a driver beside `scenario`, and expect that the driver ends once the client's end is closed."""

    async def main() -> Driven:
        ours, theirs = trio.testing.memory_stream_pair()
        dispatcher = ScriptedDispatcher()
        client = Client("127.0.0.1", 40_000, "127.0.0.1", 9092)
        connection = Connection(client, dispatcher, 1_000, MemoryBudget(100_000), dispatcher.complain)  # type: ignore[arg-type]
        driven = Driven(ours, StreamDriver(theirs, connection, TrioClock()), dispatcher)
        with trio.fail_after(60):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(driven.driver.run)
                await scenario(driven)
                await ours.aclose()
        return driven

    return trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


@pytest.mark.parametrize("portion", [1, 3, 7, 1_000])
def test_requests_are_answered_whatever_the_portions(portion: int) -> None:
    async def scenario(driven: Driven) -> None:
        data = framed(b"one", b"two", b"three")
        for start in range(0, len(data), portion):
            await driven.client.send_all(data[start : start + portion])
        assert await driven.read(11) == b"onetwothree"

    run(scenario)


def test_a_parked_reply_is_sent_when_it_is_ready() -> None:
    async def scenario(driven: Driven) -> None:
        await driven.client.send_all(framed(b"park", b"after"))
        await trio.testing.wait_all_tasks_blocked()
        driven.dispatcher.parked[0]([b"ready"])
        assert await driven.read(10) == b"readyafter"

    run(scenario)


def test_a_client_that_hangs_up_while_parked_is_noticed() -> None:
    async def scenario(driven: Driven) -> None:
        await driven.client.send_all(framed(b"park"))
        await trio.testing.wait_all_tasks_blocked()

    assert run(scenario).dispatcher.abandoned == 1


def test_a_piece_of_a_file_is_sent_and_given_back() -> None:
    piece = Piece(1 << 20)

    async def scenario(driven: Driven) -> None:
        await driven.client.send_all(framed(b"park"))
        await trio.testing.wait_all_tasks_blocked()
        driven.dispatcher.parked[0]([b"head", piece, b"tail"])
        data = await driven.read(8 + len(piece))
        assert data == b"head" + piece.read() + b"tail"

    run(scenario)
    assert piece.released


def test_what_was_not_sent_is_given_back_too() -> None:
    pieces = [Piece(1 << 10), Piece(1 << 10)]

    async def scenario(driven: Driven) -> None:
        await driven.client.send_all(framed(b"park"))
        await trio.testing.wait_all_tasks_blocked()
        driven.driver.scope.cancel()
        driven.driver.connection.outgoing.extend(pieces)
        await trio.testing.wait_all_tasks_blocked()

    run(scenario)
    assert [piece.released for piece in pieces] == [True, True]


def test_a_fault_of_the_client_ends_after_what_was_answered() -> None:
    async def scenario(driven: Driven) -> None:
        await driven.client.send_all(framed(b"one", b"bad", b"two"))
        assert await driven.read(3) == b"one"
        assert await driven.client.receive_some(10) == b""

    assert run(scenario).dispatcher.complaints == ["127.0.0.1:40000: it is bad"]


def test_draining_answers_what_was_received_then_hangs_up() -> None:
    async def scenario(driven: Driven) -> None:
        await driven.client.send_all(framed(b"park", b"after"))
        await trio.testing.wait_all_tasks_blocked()
        driven.driver.drain()
        await trio.testing.wait_all_tasks_blocked()
        driven.dispatcher.parked[0]([b"ready"])
        assert await driven.read(10) == b"readyafter"
        assert await driven.client.receive_some(10) == b""

    run(scenario)


def test_draining_an_idle_connection_hangs_up_at_once() -> None:
    async def scenario(driven: Driven) -> None:
        await trio.testing.wait_all_tasks_blocked()
        driven.driver.drain()
        assert await driven.client.receive_some(10) == b""

    run(scenario)


def test_a_fault_in_one_connection_stays_there(caplog: pytest.LogCaptureFixture) -> None:
    def fail(*_: Any) -> None:
        raise ZeroDivisionError("ours")

    async def scenario(driven: Driven) -> None:
        driven.dispatcher.dispatch = fail  # type: ignore[assignment,method-assign]
        await driven.client.send_all(struct.pack(">i", 1) + b"x")
        assert await driven.client.receive_some(10) == b""

    run(scenario)
    assert "only this connection is closed" in caplog.text

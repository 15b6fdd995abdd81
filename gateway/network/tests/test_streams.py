"""What is special to the stream driver: streams that are no sockets. The rest is in `test_conformance.py`."""

import logging
import threading

import trio
import trio.testing

from headgate.gateway.api.context import Client
from headgate.gateway.network.connection import Connection
from headgate.gateway.network.streams import READ_BYTES, StreamDriver, read_in_thread
from headgate.gateway.network.tests.test_connection import ScriptedDispatcher, framed
from headgate.gateway.runtime.clock import SystemClock
from headgate.gateway.runtime.log_output import LimitedLog
from headgate.gateway.runtime.memory_budget import MemoryBudget
from headgate.gateway.runtime.scheduler import TrioClock
from headgate.gateway.runtime.workers import MAX_THREADS_PER_EXECUTOR

LOG = LimitedLog(logging.getLogger("headgate.test"), SystemClock())


class Piece:
    """A piece of a file that has no descriptor: it can only be read."""

    fileno, position, disk = -1, 0, ""

    def __init__(self, size: int) -> None:
        self.data = bytes(range(256)) * (size // 256)
        self.released = False
        self.longest = 0

    def __len__(self) -> int:
        return len(self.data)

    def read(self, start: int = 0, length: int | None = None) -> bytes:
        assert length is not None
        self.longest = max(self.longest, length)
        return self.data[start : start + length]

    def read_cached(self, start: int, length: int) -> bytes | None:
        return self.read(start, length)

    def is_cached(self, start: int, length: int) -> bool:
        return True

    def warm(self, start: int, length: int) -> None:
        raise AssertionError("it is in memory")

    def release(self) -> None:
        self.released = True


def test_a_piece_is_read_in_portions_for_a_stream_that_is_no_socket() -> None:
    piece, dispatcher = Piece(1 << 20), ScriptedDispatcher()

    async def main() -> None:
        ours, theirs = trio.testing.memory_stream_pair()
        client = Client("127.0.0.1", 40_000, "127.0.0.1", 9092)
        connection = Connection(client, dispatcher, 1_000, MemoryBudget(100_000), dispatcher.complain)  # type: ignore[arg-type]
        async with trio.open_nursery() as nursery:
            nursery.start_soon(StreamDriver(theirs, connection, TrioClock(), LOG).run)
            await ours.send_all(framed(b"park"))
            await trio.testing.wait_all_tasks_blocked()
            dispatcher.parked[0]([b"head", piece, b"tail"])
            data = b""
            while len(data) < 8 + len(piece):
                data += bytes(await ours.receive_some(1 << 20))
            assert data == b"head" + piece.data + b"tail"
            await ours.aclose()

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
    assert piece.released
    assert piece.longest == READ_BYTES


def test_a_cancelled_scope_ends_the_connection_and_releases_pieces() -> None:
    pieces, dispatcher = [Piece(1 << 10), Piece(1 << 10)], ScriptedDispatcher()

    async def main() -> None:
        ours, theirs = trio.testing.memory_stream_pair()
        client = Client("127.0.0.1", 40_000, "127.0.0.1", 9092)
        connection = Connection(client, dispatcher, 1_000, MemoryBudget(100_000), dispatcher.complain)  # type: ignore[arg-type]
        driver = StreamDriver(theirs, connection, TrioClock(), LOG)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(driver.run)
            await ours.send_all(framed(b"park"))
            await trio.testing.wait_all_tasks_blocked()
            driver.scope.cancel()
            connection.outgoing.extend(pieces)
            assert await ours.receive_some(10) == b""

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
    assert [piece.released for piece in pieces] == [True, True]
    assert dispatcher.abandoned == 1


def test_a_disk_that_hangs_keeps_few_threads() -> None:
    goes_on, done = threading.Event(), list[str]()

    async def read(disk: str) -> None:
        await read_in_thread(lambda: goes_on.wait(10) if disk == "hangs" else None, disk)
        done.append(disk)

    async def main() -> None:
        others = trio.to_thread.current_default_thread_limiter()
        async with trio.open_nursery() as nursery:
            for _ in range(MAX_THREADS_PER_EXECUTOR + int(others.total_tokens)):
                nursery.start_soon(read, "hangs")
            await trio.testing.wait_all_tasks_blocked()
            await read("other")
            assert (done, others.borrowed_tokens) == (["other"], 0)
            goes_on.set()

    trio.run(main)
    assert done.count("hangs") > MAX_THREADS_PER_EXECUTOR

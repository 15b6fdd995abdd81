"""One socket of an engine, on a scripted poller: its interest in events, what it receives, and what it sends."""

import select
from typing import Any
from unittest import mock

import pytest
import trio
import trio.testing

from headgate.gateway.network import sockets
from headgate.gateway.network.connection import MAX_PENDING_BYTES
from headgate.gateway.network.epoll import READING
from headgate.gateway.network.socket_driver import RECEIVE_BYTES, SOCKET_TURN_BYTES
from headgate.gateway.network.tests.conformance import Piece, SimulatedClient, SimulatedEngine, run
from headgate.gateway.network.tests.test_connection import framed
from headgate.gateway.runtime.scheduler import Timer

pytestmark = pytest.mark.skipif(not sockets.AVAILABLE, reason="there is no epoll, eventfd or sendfile on this platform")


def interest(served: SimulatedEngine, client: object) -> int:
    assert isinstance(client, SimulatedClient)
    return served.kernel.interest[client.socket.fileno()]


def test_the_interest_of_a_busy_connection_never_changes() -> None:
    async def scenario(served: SimulatedEngine) -> None:
        client = await served.connect()
        for _ in range(50):
            await client.send(framed(b"one", b"two"))
            assert await client.read(6) == b"onetwo"
        for _ in range(50):
            await client.send(framed(b"park"))
            served.dispatcher.parked.pop()([b"ready"])
            assert await client.read(5) == b"ready"
        assert served.kernel.calls["register"] == 2, "the listener and the client"
        assert served.kernel.calls["modify"] == 0

    run(SimulatedEngine, scenario)


def test_a_closed_socket_is_not_polled_while_silent_requests_go_on() -> None:
    async def scenario(served: SimulatedEngine) -> None:
        client = await served.connect()
        await client.send(framed(b"silent"))
        await client.close()
        assert interest(served, client) == 0
        served.dispatcher.parked[0]([])
        await served.until(lambda: served.gone == 1)

    run(SimulatedEngine, scenario)


def test_a_timer_of_a_half_closed_client_does_not_outlive_it() -> None:
    async def scenario(served: SimulatedEngine) -> None:
        client = await served.park()
        timers: list[Timer] = []
        call_at = served.scheduler.call_at

        def note(*arguments: Any) -> Timer:
            timers.append(call_at(*arguments))
            return timers[-1]

        with mock.patch.object(served.scheduler, "call_at", note):
            await client.send_eof()
        (timer,) = timers
        served.dispatcher.parked[0]([b"ready"])
        assert await client.read(5) == b"ready"
        await served.until(lambda: served.gone == 1)
        assert timer.callback is None

    run(SimulatedEngine, scenario)


def test_who_hangs_up_in_mid_turn_has_all_done_in_the_next() -> None:
    async def scenario(served: SimulatedEngine) -> None:
        served.engine.max_turn_ms = 0.0
        client = await served.connect()
        assert isinstance(client, SimulatedClient)
        client.socket.client_sends(framed(*[b"none"] * 200))
        await client.close()
        await served.until(lambda: served.gone == 1)

    assert run(SimulatedEngine, scenario).dispatcher.seen == [b"none"] * 200


def test_the_interest_follows_whether_the_socket_is_full() -> None:
    async def scenario(served: SimulatedEngine) -> None:
        served.room = 10_000
        client = await served.connect()
        await client.send(framed(bytes(60_000)))
        assert interest(served, client) == select.EPOLLOUT | select.EPOLLRDHUP
        assert served.kernel.calls["modify"] == 1
        for _ in range(5):
            await client.read(10_000)
            await trio.testing.wait_all_tasks_blocked()
        assert served.kernel.calls["modify"] == 2
        assert interest(served, client) == READING
        assert await client.read(10_000) == bytes(10_000)

    run(SimulatedEngine, scenario)


def test_a_muted_connection_is_not_polled_for_data_and_does_not_spin() -> None:
    async def scenario(served: SimulatedEngine) -> None:
        client, other = await served.park(), await served.connect()
        for _ in range(10):
            await client.send(framed(bytes(900)) * 100)
        assert interest(served, client) == select.EPOLLRDHUP
        assert served.kernel.calls["modify"] == 1
        polls = served.kernel.calls["poll"]
        await other.send(framed(b"x"))
        assert served.kernel.calls["poll"] - polls <= 3
        served.dispatcher.parked[0]([b"ready"])
        assert await client.read(5 + 1_000 * 900) == b"ready" + bytes(1_000 * 900)
        assert interest(served, client) == READING

    run(SimulatedEngine, scenario)


@pytest.mark.parametrize("way", ["reset", "late"])
def test_a_muted_parked_client_is_told_of_its_end_once(way: str) -> None:
    async def scenario(served: SimulatedEngine) -> None:
        client = await served.park()
        await client.send(framed(bytes(900)) * 1_000)
        assert interest(served, client) == select.EPOLLRDHUP
        assert served.kernel.calls["recv"] * RECEIVE_BYTES <= MAX_PENDING_BYTES + 2 * RECEIVE_BYTES
        await client.send_eof()
        assert interest(served, client) == 0
        polls = served.kernel.calls["poll"]
        await trio.sleep(20)
        assert served.kernel.calls["poll"] == polls
        assert served.gone == 0
        if way == "reset":
            await client.reset()
        else:
            await trio.sleep(10.1)
        assert served.gone == 1

    assert run(SimulatedEngine, scenario).dispatcher.abandoned == 1


@pytest.mark.parametrize("end", ["blocked", "reset"])
def test_no_round_ends_with_something_unwritten(end: str) -> None:
    """A piece that cannot be sent stands before the answer that promises it."""

    async def scenario(served: SimulatedEngine) -> None:
        piece = Piece(served, 500_000)
        served.dispatcher.answers[b"fetch"] = [piece]
        client = await served.park(b"fetch", b"stage")
        if end == "reset":

            def sendfile(*_: int) -> int:
                raise ConnectionResetError

            served.engine.sendfile = sendfile
        served.dispatcher.parked[0]([b"ready"])
        assert await client.receive(5) == b"ready"
        assert served.dispatcher.seen[-1] == b"stage"
        assert not served.dispatcher.batcher.is_open

    run(SimulatedEngine, scenario)


def test_a_muted_half_closed_connection_does_not_spin_during_a_send() -> None:
    async def scenario(served: SimulatedEngine) -> None:
        client, piece = await served.park(), Piece(served, 500_000)
        served.dispatcher.parked[0]([piece])
        await client.send_eof()
        assert interest(served, client) == select.EPOLLOUT
        polls = served.kernel.calls["poll"]
        await trio.sleep(10)
        assert served.kernel.calls["poll"] == polls
        assert await client.read(len(piece)) == piece.data

    run(SimulatedEngine, scenario)


def test_who_has_to_wait_for_memory_is_not_read_from_at_once() -> None:
    async def scenario(served: SimulatedEngine) -> None:
        served.memory.reserve(1 << 30, lambda size: None)
        client = await served.connect()
        await client.send(framed(bytes(3_000_000)))
        assert served.kernel.calls["recv"] == 1
        assert interest(served, client) == select.EPOLLRDHUP
        served.memory.release(1 << 30)
        assert await client.read(3_000_000) == bytes(3_000_000)

    run(SimulatedEngine, scenario)


def test_the_rest_of_a_large_request_is_received_where_it_belongs() -> None:
    async def scenario(served: SimulatedEngine) -> None:
        client = await served.connect()
        body = bytes(range(256)) * 3_000
        await client.send(framed(body, b"next"))
        assert await client.read(len(body) + 4) == body + b"next"
        beginning, *rest = served.kernel.received
        assert beginning == RECEIVE_BYTES
        assert max(rest) > RECEIVE_BYTES, "the rest came in portions of the small buffer"
        assert max(rest) <= SOCKET_TURN_BYTES

    run(SimulatedEngine, scenario)


def test_all_replies_of_one_receive_leave_in_one_send() -> None:
    async def scenario(served: SimulatedEngine) -> None:
        client = await served.connect()
        await client.send(framed(*[b"x"] * 100))
        assert await client.read(100) == b"x" * 100
        assert served.kernel.calls["send"] == 1

    run(SimulatedEngine, scenario)


@pytest.mark.parametrize(
    "sizes, calls",
    [
        ([62_000, 0], (1, 0)),  # the tail would be a segment of its own, and wake the client once more
        ([62_000], (2, 1)),  # one for the head, one by sendfile
        ([16_000], (1, 0)),
        ([70_000, 0], (3, 1)),
        ([30_000, 30_000, 30_000, 0], (3, 1)),  # so much is read in all
        ([10] * 100, (1, 0)),
    ],
)
def test_pieces_are_read_where_that_saves_a_send(sizes: list[int], calls: tuple[int, int]) -> None:
    """A reply has a head before each of these pieces; where there is 0, a tail that nothing follows."""

    async def scenario(served: SimulatedEngine) -> None:
        client = await served.park()
        pieces = [Piece(served, size) for size in sizes if size]
        reply = [chunk for piece in pieces for chunk in (b"head", piece)] + [b"tail"] * sizes.count(0)
        expected = b"".join(chunk.data if isinstance(chunk, Piece) else chunk for chunk in reply)
        assert isinstance(client, SimulatedClient)
        client.socket.room = len(expected)
        before = served.kernel.calls.copy()
        served.dispatcher.parked[0](reply)
        assert await client.read(len(expected)) == expected
        assert (served.kernel.calls["send"] - before["send"], served.kernel.calls["sendfile"]) == calls
        assert all(piece.released for piece in pieces)

    run(SimulatedEngine, scenario)


@pytest.mark.parametrize("room", [3, 4, 5, 8_000, 20_003, 20_004, 20_007])
def test_a_run_that_the_socket_takes_in_part_goes_on_where_it_stopped(room: int) -> None:
    async def scenario(served: SimulatedEngine) -> None:
        client, other, piece = await served.park(b"next"), await served.park(), Piece(served, 20_000)
        assert isinstance(client, SimulatedClient)
        client.socket.room = room
        served.dispatcher.parked[0]([b"head", piece, b"tail"])
        await trio.testing.wait_all_tasks_blocked()
        served.dispatcher.parked[1]([b"head", Piece(served, 15_000), b"tail"])
        await other.read(15_008)
        client.socket.room = 1 << 16
        assert await client.read(20_012) == b"head" + piece.data + b"tailnext"

    run(SimulatedEngine, scenario)

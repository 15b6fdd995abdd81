"""What both drivers of connections owe in time: to other clients, to one that half-closed, to one that is slow."""

from typing import Any

import pytest
import trio
import trio.testing

from headgate.gateway.network.connection import MAX_OUTGOING_BYTES
from headgate.gateway.network.tests.conformance import (
    HEAVY_MS,
    Piece,
    Served,
    Simulated,
    SimulatedClient,
    everywhere,
    run,
    simulated,
)
from headgate.gateway.network.tests.test_connection import framed

# What is left to be written together


@everywhere
@pytest.mark.parametrize(
    "before",
    [
        [],
        [b"x"] * 15,
        [b"x"] * 16,
        [b"x"] * 100,
        [b"big"],
        [b"big", b"x"],
        [b"big"] * 3,
        [b"none"] * 15,
        [b"hold"] * 20,
    ],
    ids=lambda before: f"{len(before)}-{before[0].decode() if before else 'nothing'}",
)
def test_no_request_waits_for_a_write_that_nobody_makes(kind: type[Served], before: list[bytes]) -> None:
    """Wherever in a round the last request is answered that leaves something to be written."""

    async def scenario(served: Served) -> None:
        if isinstance(served, Simulated):
            served.room = 1 << 24  # a large reply leaves in one send
        client = await served.connect()
        expected = sum({b"big": MAX_OUTGOING_BYTES, b"none": 0, b"hold": 4}.get(each, 1) for each in before)
        await client.send(framed(*before, b"hold"))
        data = await client.read(expected + 4)
        assert data.endswith(b"held")
        assert not served.dispatcher.batcher.is_open

    run(kind, scenario)


@simulated
@pytest.mark.parametrize("first", [b"park", b"silent"])
def test_what_waits_behind_a_parked_request_is_written_too(kind: type[Simulated], first: bytes) -> None:
    async def scenario(served: Simulated) -> None:
        client = await served.connect()
        await client.send(framed(first, b"hold", b"hold"))
        served.dispatcher.parked[0]([b"ready"] if first == b"park" else [])
        expected = b"readyheldheld" if first == b"park" else b"heldheld"
        assert await client.read(len(expected)) == expected

    run(kind, scenario)


@everywhere
def test_a_stall_is_noticed_before_requests_are_answered(kind: type[Served]) -> None:
    async def scenario(served: Served) -> None:
        client = await served.connect()
        watch, seen = served.dispatcher.stall_watch, list[int]()

        def confirm(_resume: object) -> None:
            seen.append(len(served.dispatcher.seen))
            watch.end()

        watch.begin(10, confirm)
        watch.late_ms = 0.0
        await client.send(framed(b"x"))
        assert await client.read(1) == b"x"
        assert seen == [0]

    run(kind, scenario)


# Turns


@simulated
def test_one_client_that_asks_much_leaves_turns_to_the_others(kind: type[Simulated]) -> None:
    async def scenario(served: Simulated) -> None:
        greedy, other = await served.connect(), await served.connect()
        assert isinstance(greedy, SimulatedClient)
        assert isinstance(other, SimulatedClient)
        greedy.socket.client_sends(framed(*[b"heavy"] * 100))
        for number in range(1, 4):
            while served.dispatcher.seen.count(b"heavy") < 10 * number:
                await trio.lowlevel.checkpoint()
            began_ms = served.costs.spent_ms
            other.socket.client_sends(framed(b"hello"))
            while not other.socket.client_takes(5):
                await trio.lowlevel.checkpoint()
            assert served.costs.spent_ms - began_ms <= 8 * HEAVY_MS, "trio runs ready tasks in any order"
        assert await greedy.read(500) == b"heavy" * 100

    run(kind, scenario)


@simulated
def test_many_cheap_requests_of_one_client_give_way_too(kind: type[Simulated]) -> None:
    async def scenario(served: Simulated) -> None:
        many, other = await served.connect(), await served.connect()
        dispatch = served.dispatcher.dispatch

        def costing(*arguments: Any) -> Any:
            served.costs.spent_ms += 0.01
            return dispatch(*arguments)

        served.dispatcher.dispatch = costing  # type: ignore[method-assign, assignment]
        assert isinstance(many, SimulatedClient)
        assert isinstance(other, SimulatedClient)
        many.socket.client_sends(framed(*[b"none"] * 5_000))
        while not served.dispatcher.seen:
            await trio.lowlevel.checkpoint()
        other.socket.client_sends(framed(b"hello"))
        await trio.testing.wait_all_tasks_blocked()
        assert served.dispatcher.seen.index(b"hello") <= 8 * 100, (
            "a turn of 1 ms, and a few more: trio runs ready tasks in any order"
        )

    run(kind, scenario)


# Half-closed


@everywhere
@pytest.mark.parametrize("behind", [0, 3, 20_000])  # most of the last stays in the socket until the answer is there
def test_a_half_closed_client_gets_what_it_waits_for(kind: type[Served], behind: int) -> None:
    async def scenario(served: Served) -> None:
        client = await served.connect()
        await client.send(framed(b"park", *[b"none"] * behind, b"park", b"last"))
        await served.until(lambda: served.dispatcher.parked)
        await client.send_eof()
        served.dispatcher.parked[0]([b"one"])
        await served.until(lambda: len(served.dispatcher.parked) == 2)
        assert served.gone == 0
        served.dispatcher.parked[1]([b"two"])
        assert await client.read(10) == b"onetwolast"
        assert await client.is_closed()
        await served.until(lambda: served.gone == 1)

    served = run(kind, scenario)
    assert served.dispatcher.seen == [b"park", *[b"none"] * behind, b"park", b"last"]
    assert (served.dispatcher.abandoned, served.dispatcher.complaints) == (0, [])


@simulated
def test_a_half_closed_client_is_owed_an_answer_for_30_s(kind: type[Simulated]) -> None:
    async def scenario(served: Simulated) -> None:
        client = await served.park(b"behind")
        await client.send_eof()
        await trio.sleep(29.9)
        assert served.gone == 0
        await trio.sleep(0.2)
        assert await client.is_closed()
        assert served.gone == 1

    assert run(kind, scenario).dispatcher.abandoned == 1


@simulated
def test_a_half_closed_client_that_reads_has_its_time(kind: type[Simulated]) -> None:
    async def scenario(served: Simulated) -> None:
        served.room = 100_000
        client, piece = await served.park(b"last"), Piece(served, 1_000_000)
        await client.send_eof()
        served.dispatcher.parked[0]([piece])
        data = b""
        while len(data) < 1_000_004:
            await trio.sleep(5)
            data += await client.receive(100_000)
        assert data == piece.data + b"last"
        assert await client.is_closed()

    run(kind, scenario)


@simulated
def test_a_half_closed_client_that_does_not_read_is_given_up(kind: type[Simulated]) -> None:
    async def scenario(served: Simulated) -> None:
        client, piece = await served.park(), Piece(served, 1_000_000)
        await client.send_eof()
        served.dispatcher.parked[0]([piece])
        await trio.sleep(31)
        assert served.gone == 1
        assert piece.released

    run(kind, scenario)


@simulated
def test_what_needs_no_answer_is_done_however_long_it_takes(kind: type[Simulated]) -> None:
    async def scenario(served: Simulated) -> None:
        client = await served.connect()
        await client.send(framed(b"silent", b"none", b"park"))
        await client.send_eof()
        await trio.sleep(200)
        served.dispatcher.parked[0]([])
        await trio.sleep(29)
        assert served.dispatcher.seen == [b"silent", b"none", b"park"]
        assert served.gone == 0, "an answer is owed since then"
        served.dispatcher.parked[1]([b"ready"])
        assert await client.read(5) == b"ready"
        assert await client.is_closed()

    run(kind, scenario)


# The time a client has


@simulated
def test_a_request_that_does_not_come_on_is_overdue_after_30_s(kind: type[Simulated]) -> None:
    async def scenario(served: Simulated) -> None:
        client = await served.connect()
        await client.send(framed(b"half of it")[:7])
        await trio.sleep(30)
        assert served.overdue() == [None]
        await trio.sleep(0.1)
        assert served.overdue() == ["a request did not grow for 30 s"]

    run(kind, scenario)


@simulated
@pytest.mark.parametrize("first", [b"park", b"silent"])
def test_bytes_in_the_socket_behind_a_parked_request_are_in_time(kind: type[Simulated], first: bytes) -> None:
    big = bytes(100_000)

    async def scenario(served: Simulated) -> None:
        served.portion, served.room = 65_536, 2_000_000
        client = await served.connect()
        await client.send(framed(first, *[big] * 10)[:-5])
        assert not served.drivers[0].connection.wants_data
        assert served.drivers[0].connection.incomplete_since_ms is not None
        await trio.sleep(40)
        assert served.overdue(max_idle_ms=35_000) == [None]
        served.dispatcher.parked[0]([b"ready"] if first == b"park" else [])
        await trio.sleep(29)
        assert served.overdue(max_idle_ms=35_000) == [None], "the 30 s begin when the broker reads again"
        await trio.sleep(2)
        assert served.overdue() == ["a request did not grow for 30 s"]
        await client.send(bytes(5))
        assert served.overdue() == [None]
        assert len(served.dispatcher.seen) == 11

    run(kind, scenario)


@simulated
def test_who_takes_a_reply_slowly_is_in_time_with_the_next_request(kind: type[Simulated]) -> None:
    async def scenario(served: Simulated) -> None:
        client, piece = await served.park(), Piece(served, 500_000)
        await client.send(framed(b"half of it")[:7])
        served.dispatcher.parked[0]([piece])
        await trio.sleep(40)
        assert served.overdue() == [None]
        assert await client.read(len(piece)) == piece.data
        await trio.sleep(29)
        assert served.overdue() == [None]
        await trio.sleep(2)
        assert served.overdue() == ["a request did not grow for 30 s"]

    run(kind, scenario)


@simulated
def test_who_waits_for_memory_is_in_time(kind: type[Simulated]) -> None:
    async def scenario(served: Simulated) -> None:
        client = await served.connect()
        served.memory.reserve(1 << 30, lambda size: None)
        await client.send(framed(bytes(1_500))[:1_000])
        await trio.sleep(40)
        assert served.overdue(max_idle_ms=35_000) == [None]
        served.memory.release(1 << 30)
        await trio.sleep(29)
        assert served.overdue() == [None]
        await trio.sleep(2)
        assert served.overdue() == ["a request did not grow for 30 s"], "it has memory, and does not come on"

    run(kind, scenario)


@simulated
def test_idle_is_who_is_owed_nothing(kind: type[Simulated]) -> None:
    async def scenario(served: Simulated) -> None:
        await served.connect()
        await served.park(b"behind")
        cold, deaf = await served.park(), await served.park(b"behind")
        pieces = [Piece(served, 50_000), Piece(served, 500_000)]
        pieces[0].cached = 0
        for answer, piece in zip(served.dispatcher.parked[1:], pieces, strict=True):
            answer([piece])
        await trio.sleep(100)
        idle = "idle for longer than connections.max.idle.ms=60000"
        assert served.overdue(max_idle_ms=60_000) == [idle, None, None, idle], "a client that does not read is idle too"
        served.dispatcher.parked[0]([b"ready"])
        await trio.sleep(59)
        assert served.overdue(max_idle_ms=60_000)[1] is None, "its time begins with the answer"
        served.threads.end_one()
        assert await cold.read(50_000) == pieces[0].data
        await deaf.reset()

    run(kind, scenario)

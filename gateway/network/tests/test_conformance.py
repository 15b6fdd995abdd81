"""Both drivers of connections do the same: one suite, over simulated sockets and over TCP."""

import struct
from typing import Any

import pytest
import trio
import trio.testing

from headgate.gateway.network.connection import MAX_PENDING_BYTES
from headgate.gateway.network.tests.conformance import (
    SIMULATED,
    TCP,
    Piece,
    Served,
    Simulated,
    SimulatedClient,
    TlsStreams,
    everywhere,
    run,
    simulated,
)
from headgate.gateway.network.tests.test_connection import framed
from headgate.gateway.runtime.workers import MAX_THREADS_PER_EXECUTOR

# Bytes in


@everywhere
@pytest.mark.parametrize("portion", [1, 3, 7, 1_000])
def test_requests_are_answered_whatever_the_portions_they_are_sent_in(kind: type[Served], portion: int) -> None:
    async def scenario(served: Served) -> None:
        client = await served.connect()
        data = framed(b"one", b"two", b"", b"three")
        for start in range(0, len(data), portion):
            await client.send(data[start : start + portion])
        assert await client.read(11) == b"onetwothree"

    assert run(kind, scenario).dispatcher.seen == [b"one", b"two", b"", b"three"]


@simulated
@pytest.mark.parametrize("portion", [1, 2, 5, 1_000])
def test_requests_in_any_portions_are_answered(kind: type[Simulated], portion: int) -> None:
    async def scenario(served: Simulated) -> None:
        served.portion = portion
        client = await served.connect()
        await client.send(framed(b"one", b"two", b"", b"three", bytes(500)))
        assert await client.read(511) == b"onetwothree" + bytes(500)

    run(kind, scenario)


@everywhere
def test_pipelined_requests_are_answered_in_order(kind: type[Served]) -> None:
    async def scenario(served: Served) -> None:
        client = await served.connect()
        await client.send(framed(*(b"%4d" % number for number in range(2_000))))
        assert await client.read(8_000) == b"".join(b"%4d" % number for number in range(2_000))

    run(kind, scenario)


@everywhere
def test_many_connections_are_served_side_by_side(kind: type[Served]) -> None:
    async def scenario(served: Served) -> None:
        clients = [await served.connect() for _ in range(30)]
        for round_number in range(3):
            for number, client in enumerate(clients):
                await client.send(framed(b"%3d.%d" % (number, round_number)))
            for number, client in enumerate(clients):
                assert await client.read(5) == b"%3d.%d" % (number, round_number)

    run(kind, scenario)


@everywhere
def test_a_big_frame_arrives_whole_among_small_ones(kind: type[Served]) -> None:
    big = bytes(range(256)) * 12_000

    async def scenario(served: Served) -> None:
        client = await served.connect()
        data = framed(b"one", big, b"two", big, b"three")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.send, data)
            assert await client.read(11 + 2 * len(big)) == b"one" + big + b"two" + big + b"three"

    run(kind, scenario)


@simulated
@pytest.mark.parametrize("cut", [0, 1, 3, 4, 5, 65_535, 65_536, 65_540, 200_000, 300_003, 300_004, 300_005])
def test_a_big_frame_may_be_cut_anywhere(kind: type[Simulated], cut: int) -> None:
    big = bytes(range(256)) * 1_200

    async def scenario(served: Simulated) -> None:
        served.portion = 100_000
        client = await served.connect()
        data = framed(big[:300_000], b"next", b"park", b"behind")
        await client.send(data[:cut])
        await client.send(data[cut:])
        assert await client.read(300_004) == big[:300_000] + b"next"
        served.dispatcher.parked[0]([b"ready"])
        assert await client.read(11) == b"readybehind"

    run(kind, scenario)


@everywhere
def test_bytes_behind_a_parked_request_are_not_overwritten_by_others(kind: type[Served]) -> None:
    async def scenario(served: Served) -> None:
        client, other = await served.park(b"mine"), await served.connect()
        await other.send(framed(b"XXXX", b"XXXX", b"XXXX"))
        assert await other.read(12) == b"X" * 12
        served.dispatcher.parked[0]([b"ready"])
        assert await client.read(9) == b"readymine"

    run(kind, scenario)


@everywhere
def test_who_has_to_wait_for_memory_goes_on_when_there_is_some(kind: type[Served]) -> None:
    async def scenario(served: Served) -> None:
        client = await served.connect()
        served.memory.reserve(1 << 30, lambda size: None)
        await client.send(framed(bytes(1_500))[:1_000])
        await served.until(lambda: served.drivers[0].connection.starved)
        await client.send(framed(bytes(1_500))[1_000:])
        served.memory.release(1 << 30)
        assert await client.read(1_500) == bytes(1_500)

    run(kind, scenario)


# Parked


@everywhere
def test_nothing_overtakes_a_parked_reply(kind: type[Served]) -> None:
    async def scenario(served: Served) -> None:
        client = await served.park(b"after")
        await client.send(framed(b"later"))
        assert served.dispatcher.seen == [b"park"]
        served.dispatcher.parked[0]([b"ready"])
        assert await client.read(15) == b"readyafterlater"

    run(kind, scenario)


@everywhere
def test_many_parked_replies_are_woken_at_once(kind: type[Served]) -> None:
    async def scenario(served: Served) -> None:
        clients = [await served.park() for _ in range(20)]
        for number, done in enumerate(served.dispatcher.parked):
            done([b"%2d" % number])
        assert [await client.read(2) for client in clients] == [b"%2d" % number for number in range(20)]

    run(kind, scenario)


@everywhere
def test_a_parked_client_that_is_reset_is_forgotten_at_once(kind: type[Served]) -> None:
    async def scenario(served: Served) -> None:
        client = await served.park(b"behind")
        await client.reset()
        await served.until(lambda: served.gone == 1)

    served = run(kind, scenario)
    assert served.dispatcher.abandoned == 1
    assert served.dispatcher.seen == [b"park"]


@everywhere
def test_what_follows_a_request_that_is_owed_no_reply_is_answered(kind: type[Served]) -> None:
    async def scenario(served: Served) -> None:
        client = await served.connect()
        await client.send(framed(b"silent", b"one"))
        await served.until(lambda: served.dispatcher.parked)
        served.dispatcher.parked[0]([])
        assert await client.read(3) == b"one"

    run(kind, scenario)


@everywhere
@pytest.mark.parametrize("way", ["close", "send_eof"])
@pytest.mark.parametrize("behind", [3, 20_000])  # all of it is taken in; most of it stays in the socket
def test_who_wants_no_reply_may_hang_up_and_means_all_that_he_sent(kind: type[Served], way: str, behind: int) -> None:
    async def scenario(served: Served) -> None:
        client = await served.connect()
        await client.send(framed(b"silent", *[b"none"] * behind, b"silent", b"none"))
        await served.until(lambda: served.dispatcher.parked)
        await getattr(client, way)()
        served.dispatcher.parked[0]([])
        await served.until(lambda: len(served.dispatcher.parked) == 2)
        assert served.gone == 0
        served.dispatcher.parked[1]([])
        await served.until(lambda: served.gone == 1)

    served = run(kind, scenario)
    assert served.dispatcher.seen == [b"silent", *[b"none"] * behind, b"silent", b"none"]
    assert (served.dispatcher.abandoned, served.dispatcher.complaints) == (0, [])


@everywhere
def test_an_answer_is_owed_behind_what_needs_none(kind: type[Served]) -> None:
    async def scenario(served: Served) -> None:
        client = await served.connect()
        await client.send(framed(b"silent", b"none", b"park", b"last"))
        await served.until(lambda: served.dispatcher.parked)
        await client.send_eof()
        served.dispatcher.parked[0]([])
        await served.until(lambda: len(served.dispatcher.parked) == 2)
        served.dispatcher.parked[1]([b"ready"])
        assert await client.read(9) == b"readylast"
        assert await client.is_closed()

    assert run(kind, scenario).dispatcher.abandoned == 0


@everywhere
def test_draining_does_what_follows_a_request_that_is_owed_no_reply(kind: type[Served]) -> None:
    async def scenario(served: Served) -> None:
        client = await served.connect()
        await client.send(framed(b"silent", b"one"))
        await served.until(lambda: served.dispatcher.parked)
        served.dispatcher.parked[0]([])
        served.drivers[0].drain()
        assert await client.read(3) == b"one"
        assert await client.is_closed()

    run(kind, scenario)


@simulated
def test_who_wants_no_reply_and_is_reset_is_forgotten(kind: type[Simulated]) -> None:
    async def scenario(served: Simulated) -> None:
        client = await served.connect()
        await client.send(framed(b"silent", b"none"))
        await client.reset()
        await served.until(lambda: served.gone == 1)

    assert run(kind, scenario).dispatcher.abandoned == 1


@simulated
def test_a_parked_client_that_sends_too_much_is_muted_and_noticed(kind: type[Simulated]) -> None:
    async def scenario(served: Simulated) -> None:
        client = await served.park()
        for _ in range(10):
            await client.send(framed(bytes(900)) * 100)
        connection = served.drivers[0].connection
        assert not connection.wants_data
        assert served.kernel.calls["recv"] * 65_536 < 3 * MAX_PENDING_BYTES, "it was read beyond the limit"
        await client.reset()
        if kind.__name__ == "SimulatedStreams":  # a stream says it only to who reads: the reply will fail
            served.dispatcher.parked[0]([b"ready"])
        await served.until(lambda: served.gone == 1)

    run(kind, scenario)


# Half-closed and reset


@everywhere
def test_who_says_its_last_word_gets_all_the_answers(kind: type[Served]) -> None:
    async def scenario(served: Served) -> None:
        client = await served.connect()
        await client.send(framed(b"one", b"two"))
        await client.send_eof()
        assert await client.read(6) == b"onetwo"
        assert await client.is_closed()

    assert run(kind, scenario).dispatcher.complaints == []


@everywhere
@pytest.mark.parametrize("way", ["close", "send_eof", "reset"])
def test_an_idle_client_that_goes_is_forgotten(kind: type[Served], way: str) -> None:
    async def scenario(served: Served) -> None:
        client, other = await served.connect(), await served.connect()
        await client.send(framed(b"one"))
        assert await client.read(3) == b"one"
        await getattr(client, way)()
        await served.until(lambda: served.gone == 1)
        await other.send(framed(b"still here"))
        assert await other.read(10) == b"still here"

    assert run(kind, scenario).dispatcher.complaints == []


@everywhere
def test_hanging_up_within_a_request_is_told(kind: type[Served]) -> None:
    async def scenario(served: Served) -> None:
        client = await served.connect()
        await client.send(framed(b"half of it")[:7])
        await client.close()
        await served.until(lambda: served.gone == 1)

    (complaint,) = run(kind, scenario).dispatcher.complaints
    assert "7 of 14 bytes" in complaint


@everywhere
def test_who_sends_nothing_more_still_gets_what_is_being_sent(kind: type[Served]) -> None:
    async def scenario(served: Served) -> None:
        client, piece = await served.park(), Piece(served, 5_000_000)
        served.dispatcher.parked[0]([piece])
        await served.until(lambda: not served.drivers[0].connection.outgoing)
        await client.send_eof()
        assert await client.read(len(piece)) == piece.data
        assert await client.is_closed()
        assert piece.released

    run(kind, scenario)


@everywhere
def test_a_reset_while_sending_gives_back_what_was_not_sent(kind: type[Served]) -> None:
    async def scenario(served: Served) -> None:
        client = await served.park()
        pieces = [Piece(served, 10_000_000), Piece(served, 1_000)]
        served.dispatcher.parked[0]([b"head", *pieces])
        assert (await client.read(1_000))[:4] == b"head"
        await client.reset()
        await served.until(lambda: served.gone == 1)
        assert [piece.released for piece in pieces] == [True, True]

    run(kind, scenario)


# Bytes out


@everywhere
def test_pieces_of_files_reach_a_slow_reader_whole(kind: type[Served]) -> None:
    async def scenario(served: Served) -> None:
        client = await served.park(b"next")
        first, second = Piece(served, 3_000_000), Piece(served, 500_000)
        served.dispatcher.parked[0]([b"head", first, b"middle", second, b"tail"])
        data = await client.read(18 + len(first) + len(second))
        assert data == b"head" + first.data + b"middle" + second.data + b"tail" + b"next"
        assert (first.released, second.released) == (True, True)

    run(kind, scenario)


@simulated
@pytest.mark.parametrize("room", [1, 2, 3, 7])
def test_replies_leave_whole_however_little_is_taken_at_a_time(kind: type[Simulated], room: int) -> None:
    async def scenario(served: Simulated) -> None:
        served.room = room
        client, piece = await served.park(b"one", b"two", b"three"), Piece(served, 50)
        served.dispatcher.parked[0]([b"head", piece, b"tail"])
        assert await client.read(8 + 50 + 11) == b"head" + piece.data + b"tail" + b"onetwothree"

    run(kind, scenario)


@simulated
def test_who_does_not_read_is_not_read_from(kind: type[Simulated]) -> None:
    async def scenario(served: Simulated) -> None:
        served.room = 10_000
        client = await served.connect()
        for _ in range(20):
            await client.send(framed(bytes(60_000)))
        assert len(served.dispatcher.seen) <= 2, "what cannot be answered is not looked at"
        assert await client.read(20 * 60_000) == bytes(20 * 60_000)

    run(kind, scenario)


# A slow disk


@simulated
@pytest.mark.parametrize("cached", [0, 1, 5_000, 2_999_999])
def test_others_are_served_while_a_thread_reads_what_is_not_cached(kind: type[Simulated], cached: int) -> None:
    async def scenario(served: Simulated) -> None:
        client, other, piece = await served.park(b"next"), await served.connect(), Piece(served, 3_000_000)
        piece.cached = cached
        expected = b"head" + piece.data + b"tail" + b"next"
        served.dispatcher.parked[0]([b"head", piece, b"tail"])
        data = b""
        while len(data) < len(expected):
            await other.send(framed(b"not disturbed"))
            assert await other.read(13) == b"not disturbed"
            portion = await client.receive(1 << 20)
            data += portion
            if not portion:
                assert not piece.released
                served.threads.end_one()
        assert data == expected
        assert piece.warmed
        assert max(length for _, length in piece.warmed) <= 1 << 20, "a thread reads a bounded part at a time"
        assert piece.released

    run(kind, scenario)


@pytest.mark.parametrize("kind", SIMULATED[1:])  # of streams the threads themselves are few: see `test_streams.py`
def test_pieces_on_a_disk_that_hangs_leave_threads_to_others(kind: type[Simulated]) -> None:
    async def scenario(served: Simulated) -> None:
        clients = [await served.park() for _ in range(MAX_THREADS_PER_EXECUTOR + 3)]
        pieces = [Piece(served, 100_000) for _ in clients]
        pieces[-1].disk = "/other"
        for piece, answer in zip(pieces, served.dispatcher.parked, strict=True):
            piece.cached = 0
            answer([piece])
        await trio.testing.wait_all_tasks_blocked()
        assert len(served.threads.waiting) == MAX_THREADS_PER_EXECUTOR + 1
        while served.threads.waiting:
            served.threads.end_one()
            await trio.testing.wait_all_tasks_blocked()
        assert [await client.read(100_000) for client in clients] == [piece.data for piece in pieces]

    run(kind, scenario)


@pytest.mark.parametrize("kind", SIMULATED[1:])
def test_pieces_for_those_who_hung_up_are_not_read(kind: type[Simulated]) -> None:
    async def scenario(served: Simulated) -> None:
        clients = [await served.park() for _ in range(MAX_THREADS_PER_EXECUTOR + 2)]
        pieces = [Piece(served, 100_000) for _ in clients]
        for piece, answer in zip(pieces, served.dispatcher.parked, strict=True):
            piece.cached = 0
            answer([piece])
        await trio.testing.wait_all_tasks_blocked()
        await clients[-2].reset()
        while served.threads.waiting:
            served.threads.end_one()
            await trio.testing.wait_all_tasks_blocked()
        assert [bool(piece.warmed) for piece in pieces] == [True] * MAX_THREADS_PER_EXECUTOR + [False, True]
        assert await clients[-1].read(100_000) == pieces[-1].data
        assert pieces[-2].released

    run(kind, scenario)


@simulated
def test_what_is_cached_needs_no_thread(kind: type[Simulated]) -> None:
    async def scenario(served: Simulated) -> None:
        client = await served.park()
        pieces = [Piece(served, size) for size in (10, 100, 20_000, 2_000_000)]
        expected = b"".join(piece.data for piece in pieces)
        served.dispatcher.parked[0](list(pieces))
        assert await client.read(len(expected)) == expected
        assert [piece.warmed for piece in pieces] == [[]] * 4

    run(kind, scenario)


@simulated
def test_a_small_piece_that_is_not_cached_waits_for_its_thread(kind: type[Simulated]) -> None:
    async def scenario(served: Simulated) -> None:
        client, piece = await served.park(b"next"), Piece(served, 100)
        piece.cached = 0
        served.dispatcher.parked[0]([b"head", piece])
        await trio.testing.wait_all_tasks_blocked()
        assert len(served.threads.waiting) == 1
        served.threads.end_one()
        assert await client.read(108) == b"head" + piece.data + b"next"

    run(kind, scenario)


@simulated
def test_a_client_that_half_closes_during_a_read_is_sent_the_rest(kind: type[Simulated]) -> None:
    async def scenario(served: Simulated) -> None:
        client, piece = await served.park(), Piece(served, 100_000)
        piece.cached = 0
        served.dispatcher.parked[0]([piece])
        await trio.testing.wait_all_tasks_blocked()
        await client.send_eof()
        assert len(served.threads.waiting) == 1, "one thread is enough"
        served.threads.end_one()
        assert await client.read(100_000) == piece.data
        assert await client.is_closed()

    run(kind, scenario)


@pytest.mark.parametrize("kind", TCP)
def test_over_a_real_socket_too_a_thread_brings_what_is_not_cached(kind: type[Served]) -> None:
    async def scenario(served: Served) -> None:
        client, piece = await served.park(b"next"), Piece(served, 3_000_000)
        piece.cached = 0
        served.dispatcher.parked[0]([b"head", piece, b"tail"])
        expected = b"head" + piece.data + b"tail" + b"next"
        assert await client.read(len(expected)) == expected
        assert len(piece.warmed) == (12 if kind is TlsStreams else 3), "portions of what is probed, or read"

    run(kind, scenario)


@simulated
@pytest.mark.parametrize("way", ["reset", "abort", "drain"])
def test_who_goes_while_a_thread_reads_leaves_the_piece_to_it(kind: type[Simulated], way: str) -> None:
    async def scenario(served: Simulated) -> None:
        client, piece, behind = await served.park(), Piece(served, 100_000), Piece(served, 100_000)
        piece.cached = 0
        served.dispatcher.parked[0]([piece, behind])
        await trio.testing.wait_all_tasks_blocked()
        assert not piece.released
        if way == "reset":
            await client.reset()
        else:
            getattr(served.drivers[0], way)()
        await trio.testing.wait_all_tasks_blocked()
        assert not piece.released
        served.threads.end_one()
        if way == "drain":
            assert await client.read(200_000) == piece.data + behind.data
            assert await client.is_closed()
        await served.until(lambda: served.gone == 1)
        assert (piece.released, behind.released) == (True, True)

    run(kind, scenario)


# Faults


@everywhere
def test_a_fault_of_the_client_ends_after_what_was_answered(kind: type[Served]) -> None:
    async def scenario(served: Served) -> None:
        client = await served.connect()
        await client.send(framed(b"one", b"bad", b"two"))
        assert await client.read(3) == b"one"
        assert await client.is_closed()

    assert run(kind, scenario).dispatcher.complaints == ["127.0.0.1:40000: it is bad"]


@everywhere
def test_a_fault_in_one_connection_stays_there(kind: type[Served], caplog: pytest.LogCaptureFixture) -> None:
    def fail(*_: Any) -> None:
        raise ZeroDivisionError("ours")

    async def scenario(served: Served) -> None:
        client, other = await served.connect(), await served.connect()
        dispatch, served.dispatcher.dispatch = served.dispatcher.dispatch, fail  # type: ignore[assignment,method-assign]
        await client.send(struct.pack(">i", 1) + b"x")
        assert await client.is_closed()
        served.dispatcher.dispatch = dispatch  # type: ignore[method-assign]
        await other.send(framed(b"fine"))
        assert await other.read(4) == b"fine"

    run(kind, scenario)
    assert "only this connection is closed" in caplog.text


@simulated
@pytest.mark.parametrize("portion", [1, 2, 4, 100])
def test_who_speaks_another_protocol_can_read_what_it_is_told(kind: type[Simulated], portion: int) -> None:
    hello = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"

    async def scenario(served: Simulated) -> None:
        client = await served.connect()
        assert isinstance(client, SimulatedClient)
        for start in range(0, len(hello), portion):
            client.socket.client_sends(hello[start : start + portion])
            for _ in range(10):
                await trio.lowlevel.checkpoint()
        assert (await client.receive(1_000)).startswith(b"HTTP/1.1 400 Bad Request\r\n")
        assert client.socket.is_shut
        await client.send(hello)
        assert not client.socket.is_closed, "who is told is not heard again"
        await client.send_eof()
        assert client.socket.is_closed
        assert not client.socket.was_reset_by_us

    (complaint,) = run(kind, scenario).dispatcher.complaints
    assert "HTTP" in complaint


@simulated
def test_a_stranger_that_does_not_leave_is_hung_up_on_after_a_second(kind: type[Simulated]) -> None:
    async def scenario(served: Simulated) -> None:
        client = await served.connect()
        await client.send(b"ruok")
        assert b"Kafka listener" in await client.receive(1_000)
        await client.send(b"more, which nobody reads")
        await trio.sleep(1.1)
        assert await client.is_closed()
        assert served.gone == 1

    run(kind, scenario)


# The end


@everywhere
def test_draining_answers_what_was_received_then_hangs_up(kind: type[Served]) -> None:
    async def scenario(served: Served) -> None:
        idle, parked = await served.connect(), await served.park(b"after")
        for driver in served.drivers:
            driver.drain()
        assert await idle.is_closed()
        served.dispatcher.parked[0]([b"ready"])
        assert await parked.read(10) == b"readyafter"
        assert await parked.is_closed()

    run(kind, scenario)


@everywhere
def test_draining_lets_what_is_being_sent_reach_a_slow_reader(kind: type[Served]) -> None:
    async def scenario(served: Served) -> None:
        client, piece = await served.park(b"after"), Piece(served, 5_000_000)
        served.dispatcher.parked[0]([b"head", piece])
        await served.until(lambda: not served.drivers[0].connection.parked)
        served.drivers[0].drain()
        assert await client.read(4 + len(piece) + 5) == b"head" + piece.data + b"after"
        assert await client.is_closed()

    run(kind, scenario)


@everywhere
@pytest.mark.parametrize("way", ["drain", "abort"])
def test_the_end_does_not_wait_for_half_a_request(kind: type[Served], way: str) -> None:
    async def scenario(served: Served) -> None:
        client = await served.connect()
        await client.send(framed(bytes(50_000))[:20_000])
        await served.until(lambda: served.memory.used_bytes)
        getattr(served.drivers[0], way)()
        assert await client.is_closed()
        await served.until(lambda: served.gone == 1)

    run(kind, scenario)


@everywhere
def test_hanging_up_on_a_parked_client_gives_everything_back(kind: type[Served]) -> None:
    async def scenario(served: Served) -> None:
        client = await served.park(bytes(50_000))
        served.drivers[0].connection.close("idle for longer than it may be")
        served.drivers[0].abort()
        assert await client.is_closed()
        await served.until(lambda: served.gone == 1)

    served = run(kind, scenario)
    assert served.dispatcher.abandoned == 1
    assert served.dispatcher.complaints == ["127.0.0.1:40000: idle for longer than it may be"]


@everywhere
def test_a_reply_that_comes_when_the_client_is_gone_harms_nobody(kind: type[Served]) -> None:
    async def scenario(served: Served) -> None:
        client, other = await served.park(), await served.connect()
        await client.reset()
        await served.until(lambda: served.gone == 1)
        connection = served.drivers[0].connection
        connection.wake()
        await other.send(framed(b"fine"))
        assert await other.read(4) == b"fine"

    run(kind, scenario)

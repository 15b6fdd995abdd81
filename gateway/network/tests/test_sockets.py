"""The engine's own rules, on a scripted poller; what it shares with the other driver is in `test_conformance.py`."""

import errno
import select
import time
from collections.abc import Callable
from typing import Any

import pytest
import trio
import trio.testing

from headgate.gateway.network import sockets
from headgate.gateway.network.connection import MAX_PENDING_BYTES
from headgate.gateway.network.sockets import POLL_WAIT_MS, RECEIVE_BYTES, SOCKET_TURN_BYTES, Epoll
from headgate.gateway.network.tests.conformance import Piece, SimulatedClient, SimulatedEngine, TcpEngine, run
from headgate.gateway.network.tests.kernel import FakeSocket
from headgate.gateway.network.tests.test_connection import framed

pytestmark = pytest.mark.skipif(not sockets.AVAILABLE, reason="there is no epoll, eventfd or sendfile on this platform")

READING = select.EPOLLIN | select.EPOLLRDHUP


def interest(served: SimulatedEngine, client: object) -> int:
    assert isinstance(client, SimulatedClient)
    return served.kernel.interest[client.socket.fileno()]


# Interest


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
        await client.send_eof()
        (timer,) = [entry[2] for entry in served.scheduler._timers]
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
        assert not served.dispatcher.appends.is_open

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


@pytest.mark.sockets
def test_the_systems_epoll_is_as_quiet_over_what_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    polls = 0

    async def scenario(served: TcpEngine) -> None:
        nonlocal polls
        client = await served.park()
        with trio.move_on_after(0.1):
            while True:
                await client.send(framed(bytes(900)) * 100)
        await served.until(lambda: not served.drivers[0].connection.wants_data)
        before = polls
        await trio.sleep(0.05)
        assert polls - before <= 2, "it spins on what it does not read"
        await client.reset()
        await served.until(lambda: served.gone == 1)

    class Counting(Epoll):
        def __init__(self) -> None:
            super().__init__()
            poll = self.poll

            def counted(timeout: float | None = None, maxevents: int = -1) -> list[tuple[int, int]]:
                nonlocal polls
                polls += 1
                return poll(timeout, maxevents)

            self.poll = counted

    monkeypatch.setattr(sockets, "Epoll", Counting)
    run(TcpEngine, scenario)
    assert polls


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


# Turns


def test_who_floods_gets_a_bounded_part_of_a_turn() -> None:
    async def scenario(served: SimulatedEngine) -> None:
        flood, other = await served.connect(), await served.connect()
        assert isinstance(flood, SimulatedClient)
        assert isinstance(other, SimulatedClient)
        flood.socket.client_sends(framed(bytes(1_000)) * 2_000)
        flood.socket.room = 1 << 30
        other.socket.client_sends(framed(b"hello"))
        served.engine.max_turn_ms = 0.0
        await trio.lowlevel.checkpoint()
        await other.read(5)
        seen = served.dispatcher.seen.index(b"hello")
        assert seen * 1_004 <= SOCKET_TURN_BYTES + RECEIVE_BYTES
        assert await flood.read(2_000_000) == bytes(2_000_000)

    run(SimulatedEngine, scenario)


def test_who_asks_much_at_once_is_answered_in_turns() -> None:
    async def scenario(served: SimulatedEngine) -> None:
        many, other = await served.connect(), await served.connect()
        assert isinstance(many, SimulatedClient)
        assert isinstance(other, SimulatedClient)
        served.engine.max_turn_ms = 0.0  # every turn is over at once
        many.socket.client_sends(framed(b"x") * 5_000 + framed(b"none") * 100 + framed(b"y"))
        other.socket.client_sends(framed(b"hello"))
        await other.read(5)
        assert served.dispatcher.seen.index(b"hello") <= 4
        assert await many.read(5_001) == b"x" * 5_000 + b"y"
        assert served.kernel.interest[many.socket.fileno()] == READING

    run(SimulatedEngine, scenario)


def test_who_asks_much_at_once_and_hangs_up_is_still_answered() -> None:
    async def scenario(served: SimulatedEngine) -> None:
        client = await served.connect()
        assert isinstance(client, SimulatedClient)
        served.engine.max_turn_ms = 0.0
        client.socket.client_sends(framed(b"x") * 500 + framed(b"bad") + framed(b"never"))
        assert await client.read(500) == b"x" * 500
        await served.until(lambda: served.gone == 1)
        assert served.dispatcher.seen[-1] == b"bad"

    run(SimulatedEngine, scenario)


def test_who_was_not_served_comes_before_who_was_and_replies_are_sent() -> None:
    async def scenario(served: SimulatedEngine) -> None:
        clients = [await served.connect() for _ in range(4)]
        sent: list[list[int]] = []
        heavy = served.dispatcher.when_heavy

        def note() -> None:
            sent.append([len(client.socket.outgoing) for client in clients])  # type: ignore[attr-defined]
            heavy()

        served.dispatcher.when_heavy = note
        for client, bodies in zip(clients, ([b"cheap"], [b"heavy"] * 3, [b"heavy"] * 2, [b"last"]), strict=True):
            assert isinstance(client, SimulatedClient)
            client.socket.client_sends(framed(*bodies))
        await trio.testing.wait_all_tasks_blocked()
        assert served.dispatcher.seen == [b"cheap", b"heavy", b"heavy", b"last", b"heavy", b"heavy", b"heavy"]
        assert sent[1] == [5, 5, 0, 0], "what was answered before the turn was over is sent at its end"
        assert sent[2] == [5, 5, 5, 4]

    run(SimulatedEngine, scenario)


def test_one_client_has_a_millisecond_of_a_turn_and_its_sockets_two() -> None:
    async def scenario(served: SimulatedEngine) -> None:
        clients = [await served.connect() for _ in range(4)]
        sent: list[int] = []

        def spend() -> None:
            served.costs.spent_ms += 0.6
            sent.append(sum(bool(client.socket.outgoing) for client in clients))  # type: ignore[attr-defined]

        served.dispatcher.when_heavy = spend
        numbers = iter(range(6))
        for client, count in zip(clients, (3, 1, 1, 1), strict=True):
            assert isinstance(client, SimulatedClient)
            client.socket.client_sends(framed(*(b"heavy" + bytes(next(numbers)) for _ in range(count))))
        await trio.testing.wait_all_tasks_blocked()
        assert [len(seen) - 5 for seen in served.dispatcher.seen] == [0, 1, 3, 4, 5, 2]
        assert sent == [0, 0, 0, 0, 3, 4], "the fourth client and the rest of the first are for the next turn"

    run(SimulatedEngine, scenario)


class Ticks:
    """A task that counts the turns of the loop."""

    count = 0

    async def run(self) -> None:
        while True:
            self.count += 1
            await trio.lowlevel.checkpoint()


def test_replies_that_take_long_to_send_leave_turns_to_others() -> None:
    ticks = Ticks()

    async def scenario(served: SimulatedEngine) -> None:
        clients = [await served.park() for _ in range(10)]
        send = FakeSocket.send

        def slowly(sock: FakeSocket, data: bytes, flags: int = 0) -> int:
            served.costs.spent_ms += 0.6
            return send(sock, data, flags)

        for client, answer in zip(clients, served.dispatcher.parked, strict=True):
            assert isinstance(client, SimulatedClient)
            client.socket.send = slowly.__get__(client.socket)  # type: ignore[method-assign]
            answer([b"ready"])
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ticks.run)
            while not all(client.socket.outgoing for client in clients):  # type: ignore[attr-defined]
                await trio.lowlevel.checkpoint()
            nursery.cancel_scope.cancel()
        assert ticks.count >= 4

    run(SimulatedEngine, scenario)


def test_nobody_starves_beside_those_who_ask_again_and_again() -> None:
    async def scenario(served: SimulatedEngine) -> None:
        greedy, *others = [await served.connect() for _ in range(4)]
        assert isinstance(greedy, SimulatedClient)
        greedy.socket.client_sends(framed(*[b"heavy"] * 10))
        taken = 0
        for _ in range(400):
            for other in others:
                assert isinstance(other, SimulatedClient)
                if not other.socket.incoming:
                    other.socket.client_takes(100)
                    other.socket.client_sends(framed(b"heavy"))
            await trio.lowlevel.checkpoint()
            taken += len(greedy.socket.client_takes(100))
        assert taken == 50

    run(SimulatedEngine, scenario)


def test_a_long_turn_lets_other_tasks_in_between() -> None:
    ticks = Ticks()

    async def scenario(served: SimulatedEngine) -> None:
        client = await served.connect()
        assert isinstance(client, SimulatedClient)
        client.socket.room = 1 << 30
        served.engine.max_turn_ms = 0.0  # every round of a turn is its last
        client.socket.client_sends(framed(bytes(1_000)) * 2_000)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ticks.run)
            while len(served.dispatcher.seen) < 2_000:
                await trio.lowlevel.checkpoint()
            nursery.cancel_scope.cancel()
        assert ticks.count >= 2_008_000 // SOCKET_TURN_BYTES

    run(SimulatedEngine, scenario)


def waits_after_a_request(alone: bool, prepare: Callable[[SimulatedEngine], None] = lambda _: None) -> list[float]:
    """For how long each poll of the turn waits that answers one request."""
    waits: list[float] = []

    async def scenario(served: SimulatedEngine) -> None:
        client = await served.connect()
        served.kernel.may_wait = alone
        prepare(served)
        served.kernel.waits.clear()
        await client.send(framed(b"hello"))
        assert await client.read(5) == b"hello"
        waits.extend(served.kernel.waits)

    run(SimulatedEngine, scenario)
    return waits


def test_an_engine_alone_waits_a_moment_for_the_next_request() -> None:
    assert waits_after_a_request(alone=True) == [0.0, POLL_WAIT_MS / 1000]


def test_a_turn_that_follows_one_without_time_left_waits_too() -> None:
    def prepare(served: SimulatedEngine) -> None:
        served.engine.max_turn_ms = 0.0

    assert waits_after_a_request(alone=True, prepare=prepare) == [0.0, POLL_WAIT_MS / 1000]
    assert set(waits_after_a_request(alone=False, prepare=prepare)) == {0.0}


def test_an_engine_beside_others_leaves_the_turn_to_them() -> None:
    assert set(waits_after_a_request(alone=False)) == {0.0}


def test_an_engine_does_not_wait_where_a_timer_is_due() -> None:
    def prepare(served: SimulatedEngine) -> None:
        served.scheduler.call_after(POLL_WAIT_MS / 2, lambda: None)

    assert set(waits_after_a_request(alone=True, prepare=prepare)) == {0.0}


def test_who_waited_for_what_a_round_did_is_answered_in_the_same_turn() -> None:
    async def scenario(served: SimulatedEngine) -> None:
        parked, other = await served.park(), await served.connect()
        reply = served.dispatcher.parked[0]
        dispatch = served.dispatcher.dispatch

        def and_wake(*arguments: Any) -> Any:
            served.scheduler.call_soon(lambda: reply([b"woken"]))
            return dispatch(*arguments)

        served.dispatcher.dispatch = and_wake  # type: ignore[method-assign, assignment]
        turns = served.engine._turn
        took: list[bool] = []
        served.engine._turn = lambda follows: took.append(True) or turns(follows)  # type: ignore[method-assign, func-returns-value]
        assert isinstance(other, SimulatedClient)
        other.socket.client_sends(framed(b"hello"))
        assert await other.read(5) == b"hello"
        assert await parked.read(5) == b"woken"
        assert len(took) == 1

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


def test_a_turn_with_a_thousand_wakes_wakes_the_poller_once() -> None:
    async def scenario(served: SimulatedEngine) -> None:
        clients = [await served.park() for _ in range(100)]
        woken = served.kernel.calls["wake"]
        for done in served.dispatcher.parked:
            done([b"x"])
        assert served.kernel.calls["wake"] - woken == 1
        assert [await client.read(1) for client in clients] == [b"x"] * 100

    run(SimulatedEngine, scenario)


# Accepting


def test_who_is_refused_is_hung_up_on() -> None:
    async def scenario(served: SimulatedEngine) -> None:
        served.refuses = True
        refused = served.listener.connect()
        await trio.testing.wait_all_tasks_blocked()
        assert refused.is_closed
        served.refuses = False
        client = await served.connect()
        await client.send(framed(b"welcome"))
        assert await client.read(7) == b"welcome"

    run(SimulatedEngine, scenario)


def test_a_listener_without_descriptors_pauses_while_clients_go_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario(served: SimulatedEngine) -> None:
        early = await served.connect()
        start = trio.current_time()
        served.listener.failures.extend([OSError(errno.EMFILE, "Too many open files")] * 2)
        late = SimulatedClient(served.listener.connect())
        await late.send(framed(b"blocking"))
        await early.send(framed(b"not disturbed"))
        assert await early.read(13) == b"not disturbed"
        assert trio.current_time() == start
        await trio.sleep(0.15)
        assert await late.receive(7) == b"", "there was no descriptor at the second try either"
        await trio.sleep(0.1)
        assert await late.read(8) == b"blocking"

    run(SimulatedEngine, scenario)
    assert caplog.text.count("cannot accept connections: Too many open files") == 2


def test_a_long_time_without_descriptors_is_told_in_few_lines(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(served: SimulatedEngine) -> None:
        served.listener.failures.extend([OSError(errno.EMFILE, "Too many open files")] * 150)
        client = SimulatedClient(served.listener.connect())
        await client.send(framed(b"blocking"))
        await trio.sleep(14.0)
        assert await client.receive(7) == b""
        await trio.sleep(2.0)
        assert await client.read(8) == b"blocking"

    run(SimulatedEngine, scenario)
    lines = [line for line in caplog.messages if line.startswith("cannot accept connections")]
    assert len(lines) == 2 * 5, "five in ten seconds"
    assert "cannot accept: 95 more of such lines were left out" in caplog.messages


def test_faults_that_a_client_can_repeat_are_told_in_few_lines(caplog: pytest.LogCaptureFixture) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError("ours")

    async def scenario(served: SimulatedEngine) -> None:
        served.dispatcher.dispatch = fail  # type: ignore[assignment,method-assign]
        for _ in range(100):
            client = await served.connect()
            await client.send(framed(b"x"))
            assert await client.is_closed()

    run(SimulatedEngine, scenario)
    assert caplog.text.count("ZeroDivisionError: ours") == 5


def test_a_client_gone_before_its_accept_does_not_stop_the_next() -> None:
    async def scenario(served: SimulatedEngine) -> None:
        served.listener.failures.append(OSError(errno.ECONNABORTED, "Software caused connection abort"))
        client = await served.connect()
        await client.send(framed(b"next"))
        assert await client.read(4) == b"next"

    run(SimulatedEngine, scenario)


@pytest.mark.sockets
def test_after_stop_accepting_nobody_connects_and_the_others_stay() -> None:
    async def scenario(served: TcpEngine) -> None:
        client = await served.connect()
        served.engine.stop_accepting()
        with pytest.raises(OSError, match="all attempts to connect"):
            await served.new_client()
        await client.send(framed(b"here"))
        assert await client.read(4) == b"here"

    run(TcpEngine, scenario)


@pytest.mark.sockets
def test_epoll_is_woken_from_elsewhere_once_for_each_wake() -> None:
    async def main() -> None:
        poller = Epoll()
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(poller.ready)
                await trio.testing.wait_all_tasks_blocked()
                poller.wake()
            assert len(poller.poll(0, 10)) == 1
            assert poller.poll(0, 10) == []
        finally:
            poller.close()

    start = time.monotonic()
    trio.run(main)
    assert time.monotonic() - start < 5

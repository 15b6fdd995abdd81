"""The engine's own rules, on a scripted poller; what it shares with the other driver is in `test_conformance.py`."""

import errno
from collections.abc import Callable
from typing import Any

import pytest
import trio
import trio.testing

from headgate.gateway.network import sockets
from headgate.gateway.network.epoll import READING
from headgate.gateway.network.socket_driver import RECEIVE_BYTES, SOCKET_TURN_BYTES
from headgate.gateway.network.sockets import POLL_WAIT_MS
from headgate.gateway.network.tests.conformance import SimulatedClient, SimulatedEngine, TcpEngine, run
from headgate.gateway.network.tests.kernel import FakeListener, FakeSocket
from headgate.gateway.network.tests.test_connection import framed

pytestmark = pytest.mark.skipif(not sockets.AVAILABLE, reason="there is no epoll, eventfd or sendfile on this platform")


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
        served.engine.stream_count = 0 if alone else 1
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


def test_one_engine_serves_the_clients_of_all_listeners() -> None:
    async def scenario(served: SimulatedEngine) -> None:
        served.engine.stream_count, served.kernel.may_wait = 0, True
        second: Any = FakeListener(served.kernel)
        served.engine.listen(second, served.admit)
        clients = [SimulatedClient(served.listener.connect()), SimulatedClient(second.connect())]
        for client in clients:
            await client.send(framed(b"hello"))
        assert [await client.read(5) for client in clients] == [b"hello"] * 2
        assert POLL_WAIT_MS / 1000 in served.kernel.waits, "the other listener's connections are in the same poll"
        served.engine.stop_accepting()
        assert served.listener.fileno() == second.fileno() == -1

    run(SimulatedEngine, scenario)


def test_a_listener_that_pauses_leaves_the_others_open() -> None:
    async def scenario(served: SimulatedEngine) -> None:
        second: Any = FakeListener(served.kernel)
        served.engine.listen(second, served.admit)
        served.listener.failures.append(OSError(errno.EMFILE, "Too many open files"))
        late, early = SimulatedClient(served.listener.connect()), SimulatedClient(second.connect())
        for client in (late, early):
            await client.send(framed(b"hello"))
        assert await early.read(5) == b"hello"
        assert await late.receive(5) == b""
        await trio.sleep(0.15)
        assert await late.read(5) == b"hello"

    run(SimulatedEngine, scenario)


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

"""The server over memory streams: limits, the sweep, and the stop."""

import errno
import ssl
import struct
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio
import trio.testing

from headgate.gateway.network import sockets
from headgate.gateway.network.admission.connection_quotas import Limits
from headgate.gateway.network.server import FRAME_DEADLINE_MS, Server, client_of, socket_of
from headgate.gateway.network.tests.test_connection import ScriptedDispatcher, framed
from headgate.gateway.runtime.scheduler import Scheduler, TrioClock
from headgate.gateway.security.quotas.quota_manager import QuotaManager
from headgate.gateway.security.quotas.rates import Windows
from headgate.gateway.tests.harness import MemoryListener
from headgate.protocol.security.quotas import QuotaEntity

LIMITS = Limits(
    max_frame_bytes=1_000,
    max_memory_bytes=10_000,
    max_connections=3,
    max_connections_per_ip=3,
    max_idle_ms=600_000,
    send_buffer_bytes=0,
    receive_buffer_bytes=0,
    max_descriptors=3,
)


class ExhaustedListener(MemoryListener):
    """It has no descriptor to give, a few times."""

    failures = 0

    async def accept(self) -> trio.abc.Stream:
        stream = await super().accept()
        if not self.failures:
            return stream
        self.failures -= 1
        self.return_to_backlog(stream)
        raise OSError(errno.EMFILE, "Too many open files")


class Served:
    """A running server, what it dispatches to, and a way to connect."""

    def __init__(self, server: Server, listener: ExhaustedListener, dispatcher: ScriptedDispatcher) -> None:
        self.server = server
        self.listener = listener
        self.connect = listener.connect
        self.dispatcher = dispatcher


def run(scenario: Callable[[Served], Awaitable[None]], **changed: int) -> None:
    """Run `scenario` beside a server; the clock jumps when nothing else can happen."""

    async def main() -> None:
        listener, dispatcher = ExhaustedListener(), ScriptedDispatcher()
        clock = TrioClock()
        server = Server(dispatcher, LIMITS._replace(**changed), clock, Scheduler(clock))  # type: ignore[arg-type]
        with trio.fail_after(10_000):
            async with trio.open_nursery() as nursery:
                await nursery.start(server.serve, [("PLAINTEXT", listener)])
                await scenario(Served(server, listener, dispatcher))
                await server.stop(grace_s=1.0)

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


async def echo(stream: trio.abc.Stream, text: bytes) -> None:
    await stream.send_all(framed(text))
    assert bytes(await stream.receive_some(100)) == text


async def is_closed(stream: trio.abc.Stream) -> bool:
    return bytes(await stream.receive_some(100)) == b""


@pytest.mark.parametrize("limit", ["max_connections", "max_connections_per_ip", "max_descriptors"])
def test_one_connection_too_many_is_refused_and_the_others_stay(limit: str) -> None:
    async def scenario(served: Served) -> None:
        first, second = served.connect(), served.connect()
        await echo(first, b"one")
        await echo(second, b"two")
        assert await is_closed(served.connect())
        await echo(first, b"still there")
        await second.aclose()
        await trio.testing.wait_all_tasks_blocked()
        await echo(served.connect(), b"room again")

    run(scenario, **{limit: 2})


def test_an_address_beyond_its_connection_rate_is_refused() -> None:
    async def scenario(served: Served) -> None:
        served.dispatcher.quotas = QuotaManager(Windows(3, 1_000))
        served.dispatcher.quotas.change({QuotaEntity.of({"ip": None}): {"connection_creation_rate": 1.0}})
        first, second = served.connect(), served.connect()
        await echo(first, b"one")
        await echo(second, b"two")
        assert await is_closed(served.connect())
        await echo(first, b"still there")
        await trio.sleep(3)
        await echo(served.connect(), b"later")

    run(scenario)


def test_an_idle_connection_is_closed_and_a_parked_one_is_not() -> None:
    async def scenario(served: Served) -> None:
        idle, parked = served.connect(), served.connect()
        await echo(idle, b"hello")
        await parked.send_all(framed(b"park"))
        await trio.sleep(60 + 6)
        assert await is_closed(idle)
        served.dispatcher.parked[0]([b"ready"])
        assert bytes(await parked.receive_some(100)) == b"ready"

    run(scenario, max_idle_ms=60_000)


def test_the_sweep_is_no_activity_of_a_client_that_waits() -> None:
    """From the last activity on a half-closed client is owed an answer for 30 s."""

    async def scenario(served: Served) -> None:
        parked = served.connect()
        await parked.send_all(framed(b"park"))
        await trio.testing.wait_all_tasks_blocked()
        (driver,) = served.server.drivers
        active_ms = driver.connection.active_ms
        await trio.sleep(66)
        assert driver.connection.active_ms == active_ms
        served.dispatcher.parked[0]([b"ready"])
        assert bytes(await parked.receive_some(100)) == b"ready"
        assert driver.connection.active_ms > active_ms + 66_000 - 1

    run(scenario, max_idle_ms=60_000)


def test_half_a_request_does_not_hold_memory_for_ever() -> None:
    async def scenario(served: Served) -> None:
        slow = served.connect()
        await slow.send_all(struct.pack(">i", 900))
        for _ in range(FRAME_DEADLINE_MS // 1_000 + 6):
            await trio.sleep(1)
            if served.server.drivers:
                await slow.send_all(b"x")
        assert not served.server.drivers

    run(scenario)


def test_a_stream_listener_without_descriptors_pauses_and_returns(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(served: Served) -> None:
        early = served.connect()
        await echo(early, b"hello")
        served.listener.failures = 3
        start = trio.current_time()
        late = served.connect()
        await echo(early, b"not disturbed")
        assert trio.current_time() == start
        await echo(late, b"blocking")
        assert trio.current_time() - start == pytest.approx(0.3)

    run(scenario)
    assert caplog.text.count("cannot accept connections: Too many open files") == 3


def test_what_was_left_out_of_the_log_is_told_when_it_is_over(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(served: Served) -> None:
        for _ in range(30):
            await served.connect().send_all(b"GET / HTTP/1.1\r\n\r\n")
            await trio.testing.wait_all_tasks_blocked()
        await trio.sleep(20)

    run(scenario, max_connections=100, max_connections_per_ip=100, max_descriptors=100)
    assert sum("HTTP" in line for line in caplog.messages) == 5
    assert "closed memory: 25 more of such lines were left out" in caplog.messages


def test_a_stop_closes_idle_connections_at_once() -> None:
    async def scenario(served: Served) -> None:
        stream = served.connect()
        await echo(stream, b"hello")
        start = trio.current_time()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(served.server.stop, 1.0)
            assert await is_closed(stream)
        assert trio.current_time() == start

    run(scenario)


def test_a_stop_waits_for_a_slow_reader_no_longer_than_its_grace() -> None:
    async def scenario(served: Served) -> None:
        stream = served.connect()
        await stream.send_all(framed(b"park"))
        await trio.testing.wait_all_tasks_blocked()
        start = trio.current_time()
        await served.server.stop(1.0)
        assert trio.current_time() - start == pytest.approx(1.0)

    run(scenario)


def test_after_a_stop_nobody_is_accepted() -> None:
    async def scenario(served: Served) -> None:
        await served.server.stop(1.0)
        stream: Any = served.connect()
        with trio.move_on_after(1) as scope:
            await stream.receive_some(1)
        assert scope.cancelled_caught

    run(scenario)


@pytest.mark.sockets
@pytest.mark.skipif(not sockets.AVAILABLE, reason="there is no epoll, eventfd or sendfile on this platform")
def test_all_tcp_listeners_have_one_engine_that_counts_streams() -> None:
    async def main() -> None:
        dispatcher: Any = ScriptedDispatcher()
        server, memory = Server(dispatcher, LIMITS, TrioClock(), Scheduler(TrioClock())), MemoryListener()
        tcp = [*await trio.open_tcp_listeners(0, host="127.0.0.1"), *await trio.open_tcp_listeners(0, host="127.0.0.1")]
        addresses = [listener.socket.getsockname() for listener in tcp]
        async with trio.open_nursery() as nursery:
            await nursery.start(server.serve, [("ONE", tcp[0]), ("TWO", tcp[1]), ("MEMORY", memory)])
            for address in addresses:
                async with await trio.open_tcp_stream(*address) as stream:
                    await echo(stream, b"hello")
            assert server.engine is not None
            assert server.engine.stream_count == 0
            async with memory.connect() as stream:
                await echo(stream, b"hello")
                assert server.engine.stream_count == 1
            await trio.testing.wait_all_tasks_blocked()
            assert server.engine.stream_count == 0
            await server.stop(grace_s=1.0)

    trio.run(main)


@pytest.mark.sockets
def test_a_client_of_tls_has_the_address_of_its_socket() -> None:
    async def main() -> None:
        (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
        async with listener, await trio.open_tcp_stream(*listener.socket.getsockname()) as client:
            accepted = await listener.accept()
            stream = trio.SSLStream(accepted, ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), server_side=True)
            over_two = trio.SSLStream(stream, ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), server_side=True)
            for one in (accepted, stream, over_two):
                found = client_of("SSL", socket_of(one))
                assert (found.remote_host, found.remote_port) == client.socket.getsockname()
                assert (found.local_host, found.local_port) == listener.socket.getsockname()
            await accepted.aclose()

    trio.run(main)


@pytest.mark.sockets
@pytest.mark.skipif(not sockets.AVAILABLE, reason="there is no epoll, eventfd or sendfile on this platform")
def test_a_broker_that_shows_itself_as_one_is_put_first() -> None:
    async def main() -> None:
        dispatcher: Any = ScriptedDispatcher()
        clock = TrioClock()
        server = Server(dispatcher, LIMITS, clock, Scheduler(clock))
        (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
        address = listener.socket.getsockname()
        async with trio.open_nursery() as nursery:
            await nursery.start(server.serve, [("PLAINTEXT", listener)])
            assert server.engine is not None
            async with await trio.open_tcp_stream(*address) as client, await trio.open_tcp_stream(*address) as broker:
                for stream in (client, broker):
                    await echo(stream, b"hello")
                _, driver = server.drivers
                driver.connection.client.note_broker()
                assert list(server.engine.brokers) == [driver]
                driver.connection.client.note_broker()
                await echo(broker, b"hello")
            await trio.testing.wait_all_tasks_blocked()
            assert not server.engine.brokers
            await server.stop(grace_s=1.0)

    trio.run(main)


def test_a_stream_in_memory_has_no_address() -> None:
    assert client_of("PLAINTEXT", socket_of(trio.testing.memory_stream_pair()[0])).remote_host == "memory"


def test_a_listener_beyond_its_rate_accepts_none_for_a_while() -> None:
    async def scenario(served: Served) -> None:
        first = [served.connect() for _ in range(11)]  # windows of 11 seconds, the last one not counted
        for stream in first:
            await echo(stream, b"one")
        late = served.connect()
        start_s = trio.current_time()
        await echo(late, b"late")
        assert 0.99 <= trio.current_time() - start_s <= 1.01
        await echo(first[0], b"still there")

    run(scenario, max_creation_rate=1, max_connections=100, max_connections_per_ip=100, max_descriptors=100)


def test_a_refused_address_is_closed_after_its_pause() -> None:
    async def scenario(served: Served) -> None:
        served.dispatcher.quotas = QuotaManager(Windows(2, 1_000))
        served.dispatcher.quotas.change({QuotaEntity.of({"ip": None}): {"connection_creation_rate": 1.0}})
        await echo(served.connect(), b"one")
        start_s = trio.current_time()
        assert await is_closed(served.connect())
        assert 0.99 <= trio.current_time() - start_s <= 1.01

    run(scenario)


def test_a_broker_gets_the_place_of_the_idlest_client(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        clients, brokers, dispatcher, clock = (
            ExhaustedListener(),
            ExhaustedListener(),
            ScriptedDispatcher(),
            TrioClock(),
        )
        limits = LIMITS._replace(max_connections=2, protected_listener="BROKERS")
        scheduler = Scheduler(clock)
        server = Server(dispatcher, limits, clock, scheduler)  # type: ignore[arg-type]
        async with trio.open_nursery() as nursery:
            await nursery.start(server.serve, [("CLIENTS", clients), ("BROKERS", brokers)])
            await nursery.start(scheduler.run)
            idle, busy = clients.connect(), clients.connect()
            await echo(idle, b"one")
            await trio.sleep(1)
            await echo(busy, b"two")
            assert await is_closed(clients.connect())
            broker = brokers.connect()
            await echo(broker, b"three")
            assert await is_closed(idle)
            await echo(busy, b"four")
            await server.stop(grace_s=1.0)
            nursery.cancel_scope.cancel()

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
    assert "max.connections are open, and a broker needs this one" in caplog.text

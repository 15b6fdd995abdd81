"""Connections of proxies over loopback, with both drivers: whose address counts, and what is refused."""

from __future__ import annotations

import socket
import struct
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio

from headgate.gateway.config.addresses import parse_networks
from headgate.gateway.network import sockets
from headgate.gateway.network.admission.connection_quotas import Limits
from headgate.gateway.network.admission.proxy_header import SIGNATURE
from headgate.gateway.network.server import Server
from headgate.gateway.network.tests.test_connection import ScriptedDispatcher, framed
from headgate.gateway.network.tls.tests.fake_listener import HOST, client_context, listener_tls
from headgate.gateway.runtime.clock import SystemClock
from headgate.gateway.runtime.scheduler import Scheduler

pytestmark = pytest.mark.sockets

LIMITS = Limits(1_000_000, 10_000_000, 1_000, 1_000, 0, 0, 0, 1_000, 30_000)
LINE = b"PROXY TCP4 192.0.2.7 198.51.100.1 40000 9093\r\n"
BLOCK = SIGNATURE + struct.pack(
    ">BBH4s4sHH3s", 0x21, 0x11, 15, socket.inet_aton("192.0.2.8"), socket.inet_aton("198.51.100.1"), 7, 9093, b"\4\0\0"
)
LOCAL = SIGNATURE + struct.pack(">BBH", 0x20, 0, 0)


class ProxiedServer:
    """A server with a plain and a TLS listener behind proxies, and one without."""

    def __init__(self, server: Server, ports: dict[str, int], dispatcher: ScriptedDispatcher) -> None:
        self.server = server
        self.ports = ports
        self.dispatcher = dispatcher
        self.streams: list[trio.SocketStream] = []

    async def connect(self, name: str, header: bytes = b"") -> trio.SocketStream:
        stream = await trio.open_tcp_stream("127.0.0.1", self.ports[name])
        self.streams.append(stream)
        if header:
            await stream.send_all(header)
        return stream

    @property
    def clients(self) -> list[str]:
        clients = (driver.connection.client for driver in self.server.drivers)
        return [f"{client.remote_host}:{client.remote_port} {client.local_host}" for client in clients]


@pytest.fixture(params=["engine", "streams"])
def run(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    if request.param == "streams":
        monkeypatch.setattr(sockets, "AVAILABLE", False)
    elif not sockets.AVAILABLE:
        pytest.skip("there is no epoll here")
    return run_beside_server


def run_beside_server(scenario: Callable[[ProxiedServer], Awaitable[None]], **changed: float) -> None:
    """Run a scenario beside a server; `changed` are limits."""

    async def main() -> None:
        clock, dispatcher = SystemClock(), ScriptedDispatcher()
        scheduler, untyped = Scheduler(clock), as_any(dispatcher)
        trusted = parse_networks(["127.0.0.0/8"])
        server = Server(
            untyped,
            LIMITS._replace(**changed),  # type: ignore[arg-type]
            clock,
            scheduler,
            tls={"SSL": listener_tls()},
            proxies={"PLAINTEXT": trusted, "SSL": trusted, "OTHERS": parse_networks(["192.0.2.0/24"])},
        )
        opened = [(name, (await trio.open_tcp_listeners(0, host="127.0.0.1"))[0]) for name in ("PLAINTEXT", "SSL")]
        opened.append(("OTHERS", (await trio.open_tcp_listeners(0, host="127.0.0.1"))[0]))
        ports = {name: listener.socket.getsockname()[1] for name, listener in opened}
        with trio.fail_after(60):
            async with trio.open_nursery() as nursery:
                await nursery.start(scheduler.run)
                await nursery.start(server.serve, opened)
                served = ProxiedServer(server, ports, dispatcher)
                try:
                    await scenario(served)
                    await server.stop(grace_s=0.1)
                finally:
                    for stream in served.streams:
                        await trio.aclose_forcefully(stream)
                nursery.cancel_scope.cancel()

    trio.run(main)


def as_any(value: object) -> Any:
    return value


async def echo(stream: trio.abc.Stream, text: bytes = b"hello") -> None:
    await stream.send_all(framed(text))
    assert bytes(await stream.receive_some(100)) == text


async def is_refused(stream: trio.abc.Stream) -> bool:
    try:
        return not await stream.receive_some(100)
    except trio.BrokenResourceError:
        return True


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if "connection" in record.getMessage()]


@pytest.mark.parametrize(
    "header, client",
    [(LINE, "192.0.2.7:40000 198.51.100.1"), (BLOCK, "192.0.2.8:7 198.51.100.1"), (LOCAL, "127.0.0.1")],
)
def test_the_client_in_the_header_counts(header: bytes, client: str, run: Callable[..., None]) -> None:
    async def scenario(served: ProxiedServer) -> None:
        whole = await served.connect("PLAINTEXT", header + framed(b"first"))
        assert bytes(await whole.receive_some(100)) == b"first"
        slow = await served.connect("PLAINTEXT")
        for byte in header:
            await slow.send_all(bytes((byte,)))
            await trio.lowlevel.checkpoint()
        await echo(slow)
        assert all(shown.startswith(client) for shown in served.clients)
        assert len(served.clients) == 2

    run(scenario)


def test_tls_begins_behind_the_header(run: Callable[..., None]) -> None:
    async def scenario(served: ProxiedServer) -> None:
        tcp = await served.connect("SSL", LINE)
        stream = trio.SSLStream(tcp, client_context(), server_hostname=HOST)
        await stream.do_handshake()
        await echo(stream)
        assert served.clients == ["192.0.2.7:40000 198.51.100.1"]

    run(scenario)


@pytest.mark.parametrize(
    "data, reason",
    [
        (framed(b"hello"), "the connection does not begin with a PROXY header"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "the connection does not begin with a PROXY header"),
        (b"PROXY " + b"x" * 200, "the PROXY header has more than 107 bytes"),
        (SIGNATURE + b"\x21\x11\xff\xff" + bytes(100), "the PROXY header announces 65535 bytes; the limit is 4096"),
    ],
)
def test_a_proxy_without_a_header_is_refused(
    data: bytes, reason: str, run: Callable[..., None], caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(served: ProxiedServer) -> None:
        for name in ("PLAINTEXT", "SSL"):
            assert await is_refused(await served.connect(name, data))
        await echo(await served.connect("PLAINTEXT", LINE))
        assert not any(b"x" in seen for seen in served.dispatcher.seen)

    run(scenario)
    assert all(reason in line for line in lines(caplog))
    assert len(lines(caplog)) == 2


@pytest.mark.parametrize("header", [LINE, BLOCK])
def test_a_header_from_elsewhere_is_refused_in_one_line(
    header: bytes, run: Callable[..., None], caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(served: ProxiedServer) -> None:
        assert await is_refused(await served.connect("OTHERS", header + framed(b"hello")))
        await echo(await served.connect("OTHERS"))

    run(scenario, max_frame_bytes=104_857_600)
    (line,) = lines(caplog)
    assert "it sent a PROXY header, and its address is not in headgate.proxy.trusted" in line


def test_a_slow_header_has_the_time_of_a_login(run: Callable[..., None], caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(served: ProxiedServer) -> None:
        silent, slow = await served.connect("SSL"), await served.connect("PLAINTEXT", LINE[:20])
        assert await is_refused(silent)
        assert await is_refused(slow)
        assert not served.server.drivers

    run(scenario, authentication_timeout_ms=100)
    assert len(lines(caplog)) == 2
    assert all("its PROXY header took longer than headgate.authentication.timeout.ms" in line for line in lines(caplog))


def test_a_check_of_health_is_no_fault(run: Callable[..., None], caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(served: ProxiedServer) -> None:
        await (await served.connect("PLAINTEXT")).aclose()
        cut = await served.connect("PLAINTEXT", LINE[:20])
        await cut.send_eof()
        assert await is_refused(cut)

    run(scenario)
    (line,) = lines(caplog)
    assert "the proxy disconnected in the middle of its PROXY header" in line


def test_limits_hold_for_the_client_in_the_header(run: Callable[..., None], caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(served: ProxiedServer) -> None:
        first = await served.connect("PLAINTEXT", LINE)
        await echo(first)
        assert await is_refused(await served.connect("PLAINTEXT", LINE))
        await echo(await served.connect("PLAINTEXT", BLOCK))
        await first.aclose()
        while len(served.server.drivers) > 1:  # noqa: ASYNC110  the engine closes in turns of its own
            await trio.sleep(0.001)
        await echo(await served.connect("PLAINTEXT", LINE))

    run(scenario, max_connections_per_ip=1)
    (line,) = lines(caplog)
    assert "refused a connection from 192.0.2.7:40000: max.connections.per.ip=1" in line


def test_connections_without_a_header_end_for_new_ones(
    run: Callable[..., None], caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(served: ProxiedServer) -> None:
        half_open = [await served.connect("PLAINTEXT", LINE[:10]) for _ in range(2)]
        await trio.sleep(1.1)
        await echo(await served.connect("PLAINTEXT", LINE))
        assert await is_refused(half_open[0])
        with trio.move_on_after(0.05) as waited:
            await half_open[1].receive_some(1)
        assert waited.cancelled_caught

    run(scenario, unauthenticated=2)
    assert any("it kept this broker waiting for 1 s" in line for line in lines(caplog))

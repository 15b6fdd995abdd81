"""TLS listeners over loopback: what begins the handshake, what ends it, and what the log says."""

from __future__ import annotations

import socket
import ssl
import struct
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import pytest
import trio

from headgate.gateway.network import sockets
from headgate.gateway.network.admission.connection_quotas import Limits
from headgate.gateway.network.server import Server
from headgate.gateway.network.tests.test_connection import ScriptedDispatcher, framed
from headgate.gateway.network.tls.tests.fake_listener import (
    HOST,
    client_context,
    listener_tls,
    listener_tls_of,
    new_context,
)
from headgate.gateway.network.tls.tls_socket import RECORD_BYTES
from headgate.gateway.runtime.clock import SystemClock
from headgate.gateway.runtime.scheduler import Scheduler
from headgate.gateway.security.tls.listener_tls import ListenerTls
from headgate.protocol.security.tls.tests.certificates import Authority

pytestmark = [pytest.mark.sockets, pytest.mark.skipif(not sockets.AVAILABLE, reason="there is no epoll here")]

LIMITS = Limits(1_000_000, 10_000_000, 1_000, 1_000, 0, 0, 0, 1_000, 30_000)
PLAIN_CLIENT = "the client does not begin with TLS, as this listener needs: set security.protocol={} in the client"


class SecureServer:
    """A server with one TLS listener, and its clients."""

    def __init__(self, server: Server, port: int, dispatcher: ScriptedDispatcher) -> None:
        self.server = server
        self.port = port
        self.dispatcher = dispatcher
        self._streams: list[trio.SocketStream] = []

    async def tcp(self) -> trio.SocketStream:
        stream = await trio.open_tcp_stream("127.0.0.1", self.port)
        self._streams.append(stream)
        return stream

    async def close(self) -> None:
        for stream in self._streams:
            await trio.aclose_forcefully(stream)

    async def tls(self, context: ssl.SSLContext | None = None) -> trio.SSLStream[trio.SocketStream]:
        stream = trio.SSLStream(await self.tcp(), context or client_context(), server_hostname=HOST)
        await stream.do_handshake()
        return stream

    async def until_gone(self, all_but: int = 0) -> None:
        while len(self.server.drivers) > all_but:  # noqa: ASYNC110  the engine closes in turns of its own
            await trio.sleep(0.001)

    @property
    def principals(self) -> list[str]:
        return [driver.connection.client.principal for driver in self.server.drivers]


def run(
    scenario: Callable[[SecureServer], Awaitable[None]], tls: ListenerTls | None = None, timeout_ms: float = 30_000
) -> None:
    """Run a scenario beside a server on loopback."""

    async def main() -> None:
        clock, dispatcher = SystemClock(), ScriptedDispatcher()
        scheduler, untyped = Scheduler(clock), cast_any(dispatcher)
        limits = LIMITS._replace(authentication_timeout_ms=timeout_ms)
        server = Server(untyped, limits, clock, scheduler, tls={"SSL": tls or listener_tls()})
        (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
        port = listener.socket.getsockname()[1]
        with trio.fail_after(30):
            async with trio.open_nursery() as nursery:
                await nursery.start(scheduler.run)
                await nursery.start(server.serve, [("SSL", listener)])
                served = SecureServer(server, port, dispatcher)
                try:
                    await scenario(served)
                    await server.stop(grace_s=0.1)
                finally:
                    await served.close()
                nursery.cancel_scope.cancel()

    trio.run(main)


def cast_any(value: object) -> Any:
    return value


async def echo(stream: trio.abc.Stream, text: bytes = b"hello") -> None:
    await stream.send_all(framed(text))
    assert bytes(await stream.receive_some(100)) == text


async def is_refused(stream: trio.abc.Stream) -> bool:
    """Whether the connection ends, perhaps after an alert."""
    try:
        while await stream.receive_some(100):
            pass
    except trio.BrokenResourceError:
        pass
    return True


def connect_blocking(port: int, context: ssl.SSLContext) -> None:
    """Do a handshake as most clients do: with an alert before the end. Raises ssl.SSLError."""
    with socket.create_connection(("127.0.0.1", port)) as tcp:
        context.wrap_socket(tcp, server_hostname=HOST).close()


def test_a_certificate_gives_the_principal(caplog: pytest.LogCaptureFixture) -> None:
    context = new_context(ssl.Purpose.CLIENT_AUTH, name="broker")
    context.verify_mode = ssl.CERT_OPTIONAL
    known = new_context(ssl.Purpose.SERVER_AUTH, name="client")

    async def scenario(served: SecureServer) -> None:
        with_certificate, without = await served.tls(known), await served.tls()
        await echo(with_certificate)
        await echo(without)
        assert served.principals[0].endswith(" bytes")
        assert served.principals[1] == "User:ANONYMOUS"
        stranger = await served.tls(new_context(ssl.Purpose.SERVER_AUTH, Authority("other"), "client"))
        assert await is_refused(stranger)
        await served.until_gone(all_but=2)

    run(scenario, listener_tls_of(context))
    (line,) = [record.getMessage() for record in caplog.records if "handshake failed" in record.getMessage()]
    assert "the certificate of the other end is refused: unable to get local issuer certificate" in line


def test_a_client_that_has_sent_requests_reads_the_alert() -> None:
    """TLS 1.3: the client may send before the broker has seen that there is no certificate."""
    context = new_context(ssl.Purpose.CLIENT_AUTH, name="broker")
    context.verify_mode = ssl.CERT_REQUIRED
    alerts: list[str | None] = []

    def ask(port: int) -> None:
        with socket.create_connection(("127.0.0.1", port)) as tcp:
            stream = client_context().wrap_socket(tcp, server_hostname=HOST)
            with stream:
                try:
                    for _ in range(20):
                        stream.sendall(framed(bytes(10_000)))
                    stream.recv(1)
                except ssl.SSLError as alert:
                    alerts.append(alert.reason)

    async def scenario(served: SecureServer) -> None:
        for _ in range(5):
            await trio.to_thread.run_sync(ask, served.port)
        await served.until_gone()

    run(scenario, listener_tls_of(context))
    assert alerts == ["TLSV13_ALERT_CERTIFICATE_REQUIRED"] * 5


def test_a_plain_client_reads_the_end_and_no_reset() -> None:
    async def scenario(served: SecureServer) -> None:
        stream = await served.tcp()
        await stream.send_all(framed(b"request"))
        assert await stream.receive_some(1) == b""
        await stream.aclose()
        await served.until_gone()

    run(scenario)


@pytest.mark.parametrize("protocol", ["SSL", "SASL_SSL"])
def test_a_plain_client_is_refused_with_a_line(caplog: pytest.LogCaptureFixture, protocol: str) -> None:
    async def scenario(served: SecureServer) -> None:
        plain = await served.tcp()
        await plain.send_all(framed(b"hello"))
        assert await is_refused(plain)

    run(scenario, listener_tls(security_protocol=protocol))
    assert PLAIN_CLIENT.format(protocol) in caplog.text


def test_one_port_may_serve_both_while_clients_move(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(served: SecureServer) -> None:
        plain, secure = await served.tcp(), await served.tls()
        for text in (b"one", b"two"):
            await echo(plain, text)
            await echo(secure, text)

    run(scenario, listener_tls(is_optional=True))
    assert not caplog.records


def test_a_client_that_trusts_another_authority_is_named(caplog: pytest.LogCaptureFixture) -> None:
    stranger = ssl.create_default_context(cadata=Authority("other").pem())

    async def scenario(served: SecureServer) -> None:
        with pytest.raises(ssl.SSLCertVerificationError):
            await trio.to_thread.run_sync(connect_blocking, served.port, stranger)
        await served.until_gone()

    run(scenario)
    assert "the client does not trust this broker's certificate: give the client the CA of it" in caplog.text


@pytest.mark.parametrize("size", [0, 1, 3, 200])
def test_a_handshake_has_its_time(size: int, caplog: pytest.LogCaptureFixture) -> None:
    hello = ssl.MemoryBIO()
    client = client_context().wrap_bio(ssl.MemoryBIO(), hello, server_hostname=HOST)
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    beginning = hello.read()[:size]

    async def scenario(served: SecureServer) -> None:
        half = await served.tcp()
        await half.send_all(beginning)
        assert await is_refused(half)
        await served.until_gone()

    run(scenario, timeout_ms=50)
    assert "its TLS handshake took longer than headgate.authentication.timeout.ms" in caplog.text


@pytest.mark.parametrize("garbage", [b"\x16", b"\x16\x03\x01\xff\xff" + b"x" * 200, b"\x16" * 3_000, b"GET / HTTP"])
def test_garbage_in_place_of_a_hello_harms_nobody(garbage: bytes) -> None:
    async def scenario(served: SecureServer) -> None:
        other, bad = await served.tls(), await served.tcp()
        await bad.send_all(garbage)
        await echo(other)
        if len(garbage) > 1:
            assert await is_refused(bad)
        await trio.aclose_forcefully(bad)
        await served.until_gone(all_but=1)
        await echo(other)

    run(scenario)


def test_a_damaged_record_ends_its_connection_alone(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(served: SecureServer) -> None:
        other, damaged = await served.tls(), await served.tls()
        await echo(damaged)
        await damaged.transport_stream.send_all(b"\x17\x03\x03\x00\x20" + bytes(32))
        assert await is_refused(damaged)
        await echo(other)

    run(scenario)
    assert "the TLS connection failed: " in caplog.text


def test_the_end_of_a_connection_is_told() -> None:
    """OpenSSL's clients report a connection without an end as an error."""

    async def scenario(served: SecureServer) -> None:
        stream = await served.tls()
        await echo(stream)
        (driver,) = served.server.drivers
        driver.abort()
        assert await stream.receive_some(100) == b""  # trio raises BrokenResourceError for a connection that was cut

    run(scenario)


class MemoryClient:
    """A client that decides what leaves together. `begin` sends its part of the handshake but for the end."""

    def __init__(self, tcp: trio.SocketStream) -> None:
        self.tcp = tcp
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = client_context().wrap_bio(self.incoming, self.outgoing, server_hostname=HOST)

    async def begin(self) -> None:
        with pytest.raises(ssl.SSLWantReadError):
            self.tls.do_handshake()
        await self.flush()
        while True:
            self.incoming.write(await self.tcp.receive_some(1 << 16))
            try:
                self.tls.do_handshake()
                return
            except ssl.SSLWantReadError:
                pass

    async def flush(self) -> None:
        await self.tcp.send_all(self.outgoing.read())

    async def read(self, size: int) -> bytes:
        received = b""
        while len(received) < size:
            self.incoming.write(await self.tcp.receive_some(1 << 16))
            with suppress(ssl.SSLWantReadError, ssl.SSLZeroReturnError):
                while self.incoming.pending:
                    received += self.tls.read(1 << 16)
        return received


def test_a_client_may_send_requests_with_the_end_of_its_handshake() -> None:
    async def scenario(served: SecureServer) -> None:
        client = MemoryClient(await served.tcp())
        await client.begin()
        for text in (b"one", b"two", b"x" * 40_000):
            client.tls.write(framed(text))
        await client.flush()
        expected = b"onetwo" + b"x" * 40_000
        assert await client.read(len(expected)) == expected

    run(scenario)


def test_the_end_behind_a_full_record_closes_the_connection() -> None:
    """OpenSSL has taken the end from the socket with the record: no poll reports the end."""

    async def scenario(served: SecureServer) -> None:
        client = MemoryClient(await served.tcp())
        await client.begin()
        await client.flush()
        body = bytes(RECORD_BYTES - 4)
        client.tls.write(framed(body))
        with pytest.raises(ssl.SSLWantReadError):
            client.tls.unwrap()
        await client.flush()
        with trio.fail_after(5):
            assert await client.read(len(body)) == body
            await served.until_gone()

    run(scenario)


def test_many_handshakes_leave_turns_to_others() -> None:
    async def scenario(served: SecureServer) -> None:
        async def connect() -> None:
            await echo(await served.tls())  # the client's end of the handshake is not yet the server's

        other = await served.tls()
        async with trio.open_nursery() as nursery:
            for _ in range(40):
                nursery.start_soon(connect)
            for _ in range(20):
                await echo(other)
        assert len(served.server.drivers) == 41

    run(scenario)


def test_a_broker_that_stops_ends_handshakes() -> None:
    async def scenario(served: SecureServer) -> None:
        half = await served.tcp()
        await half.send_all(b"\x16\x03\x01")
        while not served.server.drivers:  # noqa: ASYNC110  as in until_gone
            await trio.sleep(0.001)

    run(scenario)


def test_a_reset_within_the_handshake_is_no_fault(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(served: SecureServer) -> None:
        for beginning in (b"", b"\x16\x03\x01"):
            tcp = await served.tcp()
            await tcp.send_all(beginning)
            tcp.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            await trio.aclose_forcefully(tcp)
            await served.until_gone()

    run(scenario)
    assert not [record for record in caplog.records if record.levelname == "ERROR"]

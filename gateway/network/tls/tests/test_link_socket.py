"""Links over TLS, by both transports: what the log says of a refusal, and how often it is tried again."""

from __future__ import annotations

import os
import socket
import ssl
import threading
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import trio

from headgate.gateway.network.tests.conformance import Client, TcpClient
from headgate.gateway.network.tests.link_conformance import TLS, Tls, over_tls, run
from headgate.gateway.network.tests.test_links import fetched, records_of
from headgate.gateway.network.tls import link_failures, link_socket
from headgate.gateway.network.tls.tests.fake_listener import AUTHORITY, HOST, new_context
from headgate.gateway.runtime.broker_links import LinkLost
from headgate.protocol.client.tests.scripted_peer import respond
from headgate.protocol.messages.fetch import FetchRequest
from headgate.protocol.messages.metadata import MetadataResponse
from headgate.protocol.security.tls.tests.certificates import Authority

pytestmark = pytest.mark.sockets

UNKNOWN_CA = "its certificate is refused: unable to get local issuer certificate"


def strict_server() -> ssl.SSLContext:
    """A listener that asks for certificates."""
    context = new_context(ssl.Purpose.CLIENT_AUTH, name="broker")
    context.verify_mode = ssl.CERT_REQUIRED
    return context


def stranger(purpose: ssl.Purpose) -> ssl.SSLContext:
    """An end whose certificate is of another authority."""
    return new_context(purpose, Authority("other"), "stranger")


def elsewhere() -> ssl.SSLContext:
    """A listener whose certificate has the name of another host."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    with TemporaryDirectory() as directory:
        file = Path(directory) / "key-store.pem"
        file.write_text(AUTHORITY.issue("broker", hosts=("elsewhere.example",)).pem())
        context.load_cert_chain(file)
    return context


class Blocking(Tls):
    """The other broker is OpenSSL in a thread, which sends alerts: trio's streams send none."""

    def accepted(self, stream: trio.SocketStream) -> Client:
        sock = socket.socket(fileno=os.dup(stream.socket.fileno()))
        thread = threading.Thread(target=_shake_hands, args=(sock, self.server_context()))
        thread.start()
        return TcpClient(stream)


def _shake_hands(sock: socket.socket, context: ssl.SSLContext) -> None:
    """Do the handshake, and close once the other end has read everything."""
    sock.settimeout(30)
    with context.wrap_socket(sock, server_side=True, do_handshake_on_connect=False) as secure, suppress(OSError):
        try:
            secure.do_handshake()
        finally:
            plain = socket.socket(fileno=os.dup(secure.fileno()))
            with plain:
                plain.settimeout(30)
                plain.shutdown(socket.SHUT_WR)
                while plain.recv(1000):
                    pass


over_blocking = pytest.mark.parametrize(
    "kind", [type(f"Blocking{kind.__name__}", (Blocking, kind), {}) for kind in TLS]
)


async def lost(linked: Tls) -> str:
    """The reason why the next request is lost."""
    error = await linked.ask().result()
    assert isinstance(error, LinkLost)
    return str(error)


def lines_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if "cannot connect to broker" in record.getMessage()]


@over_blocking
@pytest.mark.parametrize(
    "server, client, reason",
    [
        (lambda: stranger(ssl.Purpose.CLIENT_AUTH), None, UNKNOWN_CA),
        (strict_server, None, "asks for a certificate (ssl.client.auth=required), and this broker has no key store"),
        (strict_server, lambda: stranger(ssl.Purpose.SERVER_AUTH), "it does not trust the certificate of this broker"),
    ],
    ids=["unknown-ca", "no-certificate", "untrusted-certificate"],
)
def test_a_refusal_is_one_line_with_the_cure(
    kind: Any, server: Any, client: Any, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(linked: Tls) -> None:
        linked.server_context = server
        linked.link_context = client or linked.link_context
        assert reason in await lost(linked)
        other = linked.links.open(2, *linked.address(), "broker-1-markers")
        linked.link = other
        assert reason in await lost(linked)

    run(kind, scenario)
    (line,) = lines_of(caplog)
    assert line.startswith("this broker cannot connect to broker 2 at 127.0.0.1:")
    assert reason in line


@over_blocking
def test_the_certificate_must_have_the_name_of_the_host(kind: Any, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(linked: Tls) -> None:
        linked.server_context = elsewhere
        assert "not valid for '127.0.0.1'" in await lost(linked)

    run(kind, scenario)
    (line,) = lines_of(caplog)
    assert "the certificate the host name of the advertised listener" in line


@over_tls
def test_a_link_with_the_name_of_a_host_checks_that_name(kind: Any) -> None:
    async def scenario(linked: Tls) -> None:
        linked.link = linked.links.open(2, HOST, linked.address()[1], "broker-1")
        await linked.connect()

    run(kind, scenario)


@over_tls
def test_an_answer_may_share_a_record_with_the_one_before(kind: Any) -> None:
    """The first one ends its buffer within the record: no poll reports what OpenSSL holds."""

    async def scenario(linked: Tls) -> None:
        peer = await linked.connect()
        asked = [linked.ask(FetchRequest(), timeout_ms=5_000), linked.ask(timeout_ms=5_000)]
        answers = fetched(bytes(200_000)), MetadataResponse(cluster_id="second")
        data = [respond(await peer.request(), lambda *_, answer=answer: answer) for answer in answers]
        await peer.client.send(b"".join(data))
        first, second = [await each.result() for each in asked]
        assert (len(records_of(first)), second.cluster_id) == (200_000, "second")

    run(kind, scenario)


class _PlainAnswer(Tls):
    """The other broker does not speak TLS."""

    def accepted(self, stream: trio.SocketStream) -> Client:
        return TcpClient(stream)


@pytest.mark.parametrize("kind", [type(f"Plain{kind.__name__}", (_PlainAnswer, kind), {}) for kind in TLS])
def test_a_broker_without_tls_is_named(kind: Any, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(linked: Tls) -> None:
        asked, peer = linked.ask(), await linked.accept()
        await peer.client.read(5)
        await peer.client.send(b"\x00\x00\x00\x08abcdefgh")
        assert "it does not speak TLS there" in str(await asked.result())

    run(kind, scenario)
    assert len(lines_of(caplog)) == 1


@pytest.mark.parametrize("kind", [type(f"Silent{kind.__name__}", (_PlainAnswer, kind), {}) for kind in TLS])
def test_a_handshake_without_an_answer_ends(kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link_failures, "HANDSHAKE_TIMEOUT_MS", 20.0)
    monkeypatch.setattr(link_socket, "HANDSHAKE_TIMEOUT_MS", 20.0)

    async def scenario(linked: Tls) -> None:
        asked, peer = linked.ask(), await linked.accept()
        assert "the TLS handshake did not end within" in str(await asked.result())
        await peer.client.read(5)

    run(kind, scenario)


@pytest.mark.parametrize("kind", [type(f"Closed{kind.__name__}", (_PlainAnswer, kind), {}) for kind in TLS])
def test_a_link_that_is_closed_during_its_handshake_is_closed(kind: Any) -> None:
    async def scenario(linked: Tls) -> None:
        asked, peer = linked.ask(), await linked.accept()
        await peer.client.read(5)
        linked.link.close()
        assert "this broker has closed the link" in str(await asked.result())
        with pytest.raises(AssertionError, match="the stream ended"):
            await peer.client.read(100_000)

    run(kind, scenario)

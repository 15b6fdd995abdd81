"""A connection to ZooKeeper over TLS, and the reasons of failures."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest

from headgate.gateway.network.tls.tests.fake_listener import new_context
from headgate.gateway.zookeeper.security.tls_connection import connect, has_decrypted, reason_of
from headgate.protocol.security.tls.tests.certificates import Authority

pytestmark = pytest.mark.sockets
CLIENT, SERVER = ssl.Purpose.SERVER_AUTH, ssl.Purpose.CLIENT_AUTH
LIMIT_S = 30.0


@contextmanager
def server(serve: Callable[[socket.socket], None]) -> Iterator[tuple[str, int]]:
    """The address of a server that serves one connection in a thread."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(LIMIT_S)

        def run() -> None:
            with suppress(OSError):
                accepted, _ = listening.accept()
                with accepted:
                    accepted.settimeout(LIMIT_S)
                    serve(accepted)

        thread = threading.Thread(target=run)
        thread.start()
        yield listening.getsockname()
        thread.join(LIMIT_S)


def tls(context: ssl.SSLContext, talk: Callable[[ssl.SSLSocket], None]) -> Callable[[socket.socket], None]:
    def serve(sock: socket.socket) -> None:
        with context.wrap_socket(sock, server_side=True) as secure:
            talk(secure)

    return serve


def test_decrypted_bytes_are_known() -> None:
    def talk(secure: ssl.SSLSocket) -> None:
        secure.sendall(b"hello")
        secure.recv(1)

    with server(tls(new_context(SERVER, name="broker"), talk)) as address:
        found = connect(address, "127.0.0.1", LIMIT_S, new_context(CLIENT), pytest.fail)
        with found:
            assert not has_decrypted(found)
            assert found.recv(1) == b"h"
            assert has_decrypted(found)
            assert found.recv(10) == b"ello"
            assert not has_decrypted(found)
            found.sendall(b"x")


@pytest.mark.parametrize(
    "context,host,reason",
    [
        (
            lambda: ssl.create_default_context(cadata=Authority("Other").pem()),
            "127.0.0.1",
            "its certificate is refused",
        ),
        (lambda: new_context(CLIENT), "elsewhere.example", "Hostname mismatch"),
    ],
)
def test_a_refused_certificate_is_named(context: Callable[[], ssl.SSLContext], host: str, reason: str) -> None:
    with server(tls(new_context(SERVER, name="broker"), lambda _: None)) as address:
        with pytest.raises(ssl.SSLError) as failed:
            connect(address, host, LIMIT_S, context(), pytest.fail)
        assert reason in reason_of(failed.value)
        assert "zookeeper.ssl.truststore.location" in reason_of(failed.value)


def test_a_port_without_tls_is_named() -> None:
    with server(lambda sock: sock.sendall(b"\0\0\0\x29" + sock.recv(1))) as address:
        with pytest.raises(ssl.SSLError) as failed:
            connect(address, "127.0.0.1", LIMIT_S, new_context(CLIENT), pytest.fail)
        assert "it does not speak TLS on this port (secureClientPort)" in reason_of(failed.value)


def test_a_refusal_after_the_handshake_is_reported() -> None:
    strict = new_context(SERVER, name="broker")
    strict.verify_mode = ssl.CERT_REQUIRED
    reasons: list[str] = []
    with server(tls(strict, lambda _: None)) as address:
        found = connect(address, "127.0.0.1", LIMIT_S, new_context(CLIENT), reasons.append)
        with found, pytest.raises(ssl.SSLError):
            found.recv(1)
    assert reasons == ["it asks for a certificate: set zookeeper.ssl.keystore.location"]


def test_other_errors_have_the_words_of_the_system() -> None:
    assert reason_of(ConnectionRefusedError(111, "Connection refused")) == "Connection refused"

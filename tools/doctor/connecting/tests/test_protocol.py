from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from headgate.tools.doctor.check_result import OK, WRONG
from headgate.tools.doctor.connecting.protocol import (
    PortProtocol,
    api_versions_request,
    check_protocol,
    classify,
    probe,
)

CORRELATION = api_versions_request()[8:12]


@pytest.mark.parametrize(
    "answer, spoken",
    [
        (struct.pack(">i", 16) + CORRELATION + bytes(12), PortProtocol.KAFKA),
        (struct.pack(">i", 16) + bytes(16), PortProtocol.OTHER),
        (struct.pack(">i", -1) + CORRELATION, PortProtocol.OTHER),
        (b"\x15\x03\x03\x00\x02\x02\x28", PortProtocol.TLS),
        (b"\x16\x03\x01", PortProtocol.TLS),
        (b"HTTP/1.1 400 Bad Request\r\n", PortProtocol.HTTP),
        (b"Zookeeper version: 3.9.3-x", PortProtocol.ZOOKEEPER),
        (b"srvr is not executed because it is not in the whitelist.", PortProtocol.ZOOKEEPER),
        (b"SSH-2.0-OpenSSH", PortProtocol.OTHER),
        (b"\0", PortProtocol.OTHER),
        (b"", PortProtocol.CLOSED),
        (None, PortProtocol.SILENT),
    ],
)
def test_the_first_bytes_tell_the_protocol(answer: bytes | None, spoken: PortProtocol) -> None:
    assert classify(answer) is spoken


@pytest.mark.parametrize("spoken", PortProtocol)
def test_every_protocol_but_the_wanted_one_has_a_cure(spoken: PortProtocol) -> None:
    for wants_tls in (False, True):
        row = check_protocol("b:1", spoken, b"\x1b[2Jx", wants_tls=wants_tls)
        wanted = PortProtocol.TLS if wants_tls else PortProtocol.KAFKA
        assert (row.state, bool(row.cure)) == ((OK, False) if spoken is wanted else (WRONG, True))
        assert "\x1b" not in row.found


@contextmanager
def server(answer: Callable[[bytes], bytes]) -> Iterator[int]:
    """A port that answers the first bytes of each connection, and hangs up."""

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                connection.sendall(answer(connection.recv(1 << 12)))

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)
    thread.join(10)


@pytest.mark.sockets
@pytest.mark.parametrize(
    "question, answer, spoken",
    [
        (b"srvr", b"Zookeeper version: 3.5", PortProtocol.ZOOKEEPER),
        (b"GET ", b"HTTP/1.0 200 OK\r\n", PortProtocol.HTTP),
        (b"\x16\x03", b"\x15\x03\x03\x00\x02\x02\x28", PortProtocol.TLS),
        (b"none", b"", PortProtocol.CLOSED),
    ],
)
def test_a_port_that_hangs_up_is_asked_in_other_languages(question: bytes, answer: bytes, spoken: PortProtocol) -> None:
    with server(lambda received: answer if received.startswith(question) else b"") as port:
        assert probe("127.0.0.1", port, 1.0) == (spoken, answer if spoken is not PortProtocol.TLS else b"")


@pytest.mark.sockets
def test_a_silent_port_is_left_after_its_time() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        assert probe("127.0.0.1", listener.getsockname()[1], 0.05)[0] is PortProtocol.SILENT

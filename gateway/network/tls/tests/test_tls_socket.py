"""TLS sockets wait and fail as plain ones do."""

from __future__ import annotations

import select
import socket
import ssl
from collections.abc import Iterator
from contextlib import suppress

import pytest

from headgate.gateway.network.tls.tests.fake_listener import HOST, client_context, listener_tls, wait_for_bytes
from headgate.gateway.network.tls.tls_socket import RECORD_BYTES, TlsError, TlsSocket, reason_of, wrap

pytestmark = pytest.mark.sockets
Pair = tuple[TlsSocket, TlsSocket]


@pytest.fixture
def pair(raw: tuple[socket.socket, socket.socket]) -> Iterator[Pair]:
    """(client, server), connected."""
    client = wrap(raw[0], client_context(), server_side=False, server_hostname=HOST)
    server = wrap(raw[1], listener_tls().context, server_side=True)
    for sock in (client, server, client, server):
        with suppress(ssl.SSLWantReadError):
            sock.do_handshake()
        wait_for(client, server)
    yield client, server
    client.close()
    server.close()


def wait_for(*socks: socket.socket) -> None:
    """Wait until loopback has delivered something to one of them."""
    select.select(socks, (), (), 0.2)


def test_nothing_to_read_blocks(pair: Pair) -> None:
    with pytest.raises(BlockingIOError):
        pair[1].recv_into(bytearray(10))


def test_bytes_arrive_and_the_end_is_told(pair: Pair) -> None:
    client, server = pair
    assert (client.send(b""), client.send(b"hello")) == (0, 5)
    buffer = bytearray(3)
    wait_for(server)
    assert (server.recv_into(buffer), server.holds_more) == (3, True)
    assert (server.recv_into(buffer), server.holds_more) == (2, False)
    client.close()
    wait_for(server)
    assert server.recv_into(buffer) == 0


def test_full_records_are_received_together(pair: Pair) -> None:
    client, server = pair
    sent, buffer = bytes(range(250)) * 160, memoryview(bytearray(1 << 16))
    client.send(sent)
    wait_for_bytes(server, len(sent))
    assert (server.recv_into(buffer), server.holds_more) == (len(sent), False)
    assert buffer[: len(sent)] == sent
    client.send(sent[:RECORD_BYTES])
    wait_for(server)
    assert (server.recv_into(buffer), server.holds_more) == (RECORD_BYTES, False)


def test_a_buffer_may_end_within_a_record(pair: Pair) -> None:
    client, server = pair
    client.send(bytes(40_000))
    wait_for_bytes(server, 40_000)
    received = [(server.recv_into(bytearray(size)), server.holds_more) for size in (20_000, 10, RECORD_BYTES, 7_232)]
    rest = 2 * RECORD_BYTES - 20_010
    assert received == [(20_000, True), (10, True), (rest, False), (7_232, False)]


def test_the_end_behind_a_full_record_is_held(pair: Pair) -> None:
    client, server = pair
    client.send(bytes(RECORD_BYTES))
    with suppress(ssl.SSLWantReadError):
        client.unwrap()
    wait_for(server)
    assert (server.recv_into(bytearray(1 << 16)), server.holds_more) == (RECORD_BYTES, True)
    assert (server.recv_into(bytearray(1 << 16)), server.holds_more) == (0, False)


def test_a_send_without_room_takes_nothing_until_it_takes_all(pair: Pair) -> None:
    client, server = pair
    data, received, buffer = bytes(range(256)) * 30_000, bytearray(), bytearray(1 << 16)
    with pytest.raises(BlockingIOError):
        server.send(data)
    sent = 0
    while len(received) < len(data):
        with suppress(BlockingIOError):
            received += buffer[: client.recv_into(buffer)]
        with suppress(BlockingIOError):
            sent = sent or server.send(bytearray(data))  # the same bytes, elsewhere in memory
    assert sent == len(data)
    assert bytes(received) == data


def test_a_damaged_record_is_an_error_of_the_other_end(pair: Pair) -> None:
    client, server = pair
    socket.socket.send(client, b"\x17\x03\x03\x00\x20" + bytes(32))
    wait_for(server)
    with pytest.raises(TlsError, match="the TLS connection failed: "):
        server.recv_into(bytearray(100))


def test_a_shut_connection_is_told_and_still_reads(pair: Pair) -> None:
    client, server = pair
    client.send(b"late")
    server.shutdown(socket.SHUT_WR)
    wait_for(client)
    assert client.recv_into(bytearray(10)) == 0


def test_reasons_are_words() -> None:
    error = ssl.SSLError(1, "[SSL: NO_SHARED_CIPHER] no shared cipher (_ssl.c:1006)")
    error.reason = "NO_SHARED_CIPHER"
    assert reason_of(error) == "no shared cipher"

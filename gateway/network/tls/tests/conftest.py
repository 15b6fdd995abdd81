"""Fixtures of tests of TLS sockets."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest


@pytest.fixture
def raw() -> Iterator[tuple[socket.socket, socket.socket]]:
    """(client, server), connected over loopback, not blocking, with room for 200 KB to the server."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 18)
        client = socket.create_connection(listener.getsockname())
        server, _ = listener.accept()
    for sock in (client, server):
        sock.setblocking(False)
    yield client, server
    for sock in (client, server):
        sock.close()

"""The server's settings: bounds that hypercorn keeps. tests/test_command.py starts it."""

import socket

from headgate.tools.console.server import HEAD_BYTES, ListeningSockets, ServerConfig


def test_the_sockets_are_those_that_are_given() -> None:
    here, there = socket.socketpair()
    with here, there:
        config = ServerConfig(ListeningSockets([here], [there]))
        sockets = config.create_sockets()
        assert (sockets.insecure_sockets, sockets.secure_sockets, sockets.quic_sockets) == ([here], [there], [])
        assert config.create_ssl_context() is None
        assert config.h11_max_incomplete_size == HEAD_BYTES
        assert not config.include_server_header

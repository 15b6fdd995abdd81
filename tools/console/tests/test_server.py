"""The server's settings: bounds that hypercorn keeps. tests/test_command.py starts it."""

from headgate.tools.console.server import GRACE_S, HEAD_BYTES, KEEP_ALIVE_S, ServerConfig


def test_hypercorn_has_the_bounds_of_the_console() -> None:
    config = ServerConfig()
    assert config.h11_max_incomplete_size == HEAD_BYTES
    assert (config.keep_alive_timeout, config.graceful_timeout) == (KEEP_ALIVE_S, GRACE_S)
    assert not config.include_server_header

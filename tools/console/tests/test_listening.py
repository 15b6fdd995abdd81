"""Addresses of the console."""

import socket

import pytest

from headgate.tools.console.listening import BadAddress, inherited, listen, parse


@pytest.mark.parametrize(
    "text, shown",
    [
        ("http://127.0.0.1:9080", "http://127.0.0.1:9080"),
        ("http://localhost/", "http://localhost:9080"),
        ("http://[::1]:0", "http://[::1]:0"),
        ("https://0.0.0.0:9443", "https://0.0.0.0:9443"),
    ],
)
def test_addresses(text: str, shown: str) -> None:
    assert str(parse(text)) == shown


@pytest.mark.parametrize(
    "text",
    ["", "127.0.0.1:9080", "ftp://localhost", "http://", "http://127.0.0.1:99999", "http://a:b@localhost", "http://[x"],
)
def test_others_are_refused(text: str) -> None:
    with pytest.raises(BadAddress, match="is not http://host:port or https://host:port"):
        parse(text)


def test_other_machines_need_tls() -> None:
    with pytest.raises(BadAddress, match="needs TLS"):
        parse("http://0.0.0.0:9080")


@pytest.mark.sockets
def test_an_address_in_use_is_named() -> None:
    with listen(parse("http://127.0.0.1:0")) as bound:
        port = bound.getsockname()[1]
        with pytest.raises(BadAddress, match=f"cannot listen at http://127.0.0.1:{port} .Address already in use"):
            listen(parse(f"http://127.0.0.1:{port}"))


def test_a_descriptor_that_is_no_socket_is_refused() -> None:
    with pytest.raises(BadAddress, match="is no socket"):
        inherited(1 << 20)
    here, there = socket.socketpair()
    with there, inherited(here.detach()) as taken:
        assert taken.family == socket.AF_UNIX

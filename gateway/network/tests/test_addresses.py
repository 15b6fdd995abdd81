"""The addresses of a broker: both families behind one socket, and nothing bound where one address is refused."""

from __future__ import annotations

import errno
import logging
import socket
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from headgate.gateway.config import BrokerConfig
from headgate.gateway.config.http.http_addresses import HttpAddress
from headgate.gateway.config.listeners import Listener
from headgate.gateway.network.addresses import AddressError, Addresses, bind

pytestmark = pytest.mark.sockets


def connects(family: int, host: str, port: int) -> bool:
    with closing(socket.socket(family)) as client:
        client.settimeout(60)
        return client.connect_ex((host, port)) == 0


def families(host: str) -> list[bool]:
    """Whether a client of IPv4, and one of IPv6, reaches a socket at this host."""
    [bound] = bind(host, 0)
    with closing(bound):
        bound.listen()
        port = bound.getsockname()[1]
        return [connects(socket.AF_INET, "127.0.0.1", port), connects(socket.AF_INET6, "::1", port)]


@pytest.fixture
def no_ipv6(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A kernel that was started with ipv6.disable=1."""
    real = socket.socket

    def without(family: int = -1, *arguments: Any) -> socket.socket:
        if family == socket.AF_INET6:
            raise OSError(errno.EAFNOSUPPORT, "Address family not supported by protocol")
        return real(family, *arguments)

    with monkeypatch.context() as patched:
        patched.setattr("socket.socket", without)
        yield


@pytest.mark.parametrize("host", ["", "::", "0:0:0:0:0:0:0:0", "::0"])
def test_every_address_is_that_of_both_families(host: str) -> None:
    """Kafka 4.1 and 3.9 accept IPv4 at `PLAINTEXT://[::]:9092` and at `PLAINTEXT://:9092`."""
    assert families(host) == [True, True]


@pytest.mark.parametrize("host, reached", [("0.0.0.0", [True, False]), ("::1", [False, True])])
def test_an_address_of_one_family_stays_so(host: str, reached: list[bool]) -> None:
    assert families(host) == reached


@pytest.mark.parametrize("host", ["", "::"])
def test_without_ipv6_every_address_is_one_of_ipv4(host: str, no_ipv6: None, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        [bound] = bind(host, 0)
    bound.close()
    assert bound.family == socket.AF_INET
    assert "this machine has no IPv6" in caplog.text


def test_without_ipv6_its_loopback_is_refused(no_ipv6: None) -> None:
    with pytest.raises(OSError, match="Address family not supported"):
        bind("::1", 0)


@pytest.mark.parametrize("loopback", ["::1", "2001:db8::1"])
def test_a_name_of_both_families_needs_no_ipv6(loopback: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel has no IPv6, or the machine has no such address (as with `disable_ipv6=1`)."""
    refused = errno.EAFNOSUPPORT if loopback == "::1" else errno.EADDRNOTAVAIL

    class WithoutIpv6(socket.socket):
        def bind(self, address: Any) -> None:
            if self.family == socket.AF_INET6:
                raise OSError(refused, "no IPv6")
            super().bind(address)

    found = [(socket.AF_INET6, (loopback, 0, 0, 0)), (socket.AF_INET, ("127.0.0.1", 0))]
    monkeypatch.setattr("socket.socket", WithoutIpv6)
    monkeypatch.setattr("socket.getaddrinfo", lambda *_, **__: [(one, 1, 6, "", address) for one, address in found])
    [only] = bind("localhost", 0)
    only.close()
    assert only.family == socket.AF_INET
    found.pop()
    with pytest.raises(OSError, match="no IPv6"):
        bind("localhost", 0)


def test_a_bound_address_refuses_clients_until_it_listens() -> None:
    addresses = Addresses([Listener("A", "127.0.0.1", 0)])
    addresses.bind()
    [(name, bound)] = addresses.sockets
    port = bound.getsockname()[1]
    assert (name, connects(socket.AF_INET, "127.0.0.1", port)) == ("A", False)
    addresses.bind()
    assert [other for _, other in addresses.sockets] == [bound], "once"
    bound.listen()
    assert connects(socket.AF_INET, "127.0.0.1", port)
    addresses.close()
    assert bound.fileno() == -1


@pytest.mark.parametrize("is_http", [False, True])
def test_nothing_stays_bound_where_one_address_is_in_use(*, is_http: bool) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        used = ("127.0.0.1", taken.getsockname()[1])
        first, http = Listener("A", "127.0.0.1", 0), HttpAddress("http", *used)
        addresses = Addresses([first], [http]) if is_http else Addresses([first, Listener("B", *used)])
        with pytest.raises(AddressError, match="in use") as refused:
            addresses.bind()
    assert (refused.value.errno, refused.value.setting) == (
        errno.EADDRINUSE,
        "headgate.http.listeners" if is_http else "listeners",
    )
    assert refused.value.address == (str(http) if is_http else f"127.0.0.1:{used[1]}")
    assert not addresses.sockets
    assert not addresses.http


def test_an_http_address_that_nobody_asked_for_may_be_in_use(caplog: pytest.LogCaptureFixture) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        http = HttpAddress("http", "127.0.0.1", taken.getsockname()[1])
        addresses = Addresses([Listener("A", "127.0.0.1", 0)], [http], needs_http=False)
        addresses.bind()
    assert len(addresses.sockets) == 1
    assert not addresses.http
    (line,) = caplog.messages
    assert line.startswith(f"cannot serve HTTP at {http} (Address already in use)")
    assert line.endswith("set headgate.http.listeners to another address, or to nothing")
    addresses.close()


@pytest.mark.parametrize("needs_http", [False, True])
def test_of_two_starts_the_second_to_listen_goes_without_http(
    caplog: pytest.LogCaptureFixture, *, needs_http: bool
) -> None:
    first = Addresses((), [HttpAddress("http", "127.0.0.1", 0)])
    first.bind()
    [(_, bound)] = first.http
    address = HttpAddress("http", "127.0.0.1", bound.getsockname()[1])
    second = Addresses((), [address], needs_http=needs_http)
    second.bind()
    assert len(first.listen_http(5)) == 1
    if needs_http:
        with pytest.raises(AddressError) as refused:
            second.listen_http(5)
        assert (refused.value.address, refused.value.errno) == (str(address), errno.EADDRINUSE)
    else:
        assert second.listen_http(5) == []
        assert f"cannot serve HTTP at {address} (Address already in use)" in caplog.text
    first.close()
    second.close()


def test_the_console_goes_without_its_default_address(caplog: pytest.LogCaptureFixture) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        config = BrokerConfig.load("listeners=PLAINTEXT://127.0.0.1:0\nheadgate.http.listeners=\n")
        page = HttpAddress("http", "127.0.0.1", taken.getsockname()[1])
        config.__dict__["headgate_console_listeners"] = (page,)
        addresses = Addresses.of(config)
        addresses.bind()
    assert len(addresses.sockets) == 1
    assert addresses.console is not None
    assert not addresses.console.http
    assert f"cannot serve HTTP at {page} (Address already in use): there is no console of this broker" in caplog.text
    addresses.close()


def test_a_console_that_is_asked_for_needs_its_address() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        page = f"http://127.0.0.1:{taken.getsockname()[1]}"
        config = BrokerConfig.load(f"listeners=PLAINTEXT://127.0.0.1:0\nheadgate.console.listeners={page}\n")
        addresses = Addresses.of(config)
        with pytest.raises(AddressError) as refused:
            addresses.bind()
    assert (refused.value.address, refused.value.setting) == (page, "headgate.console.listeners")
    assert not addresses.sockets


def test_a_name_that_cannot_be_one_is_an_error_of_the_system() -> None:
    with pytest.raises(OSError, match="is not the name of a host"):
        bind("a" * 64, 0)


def test_a_name_with_several_addresses_has_several_sockets(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [(socket.AF_INET, 0, 0, "", (f"127.0.0.{number}", 0)) for number in (1, 2)]
    monkeypatch.setattr("socket.getaddrinfo", lambda *_, **__: found)
    bound = bind("name", 0)
    assert [one.getsockname()[0] for one in bound] == ["127.0.0.1", "127.0.0.2"]
    for one in bound:
        one.close()

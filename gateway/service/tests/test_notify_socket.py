"""Notifications: to a path and to an abstract name, and to a service manager that takes none."""

import os
import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from headgate.gateway.service.notify_socket import NotifySocket

pytestmark = pytest.mark.sockets


@pytest.fixture(params=["path", "abstract"])
def manager(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, socket.socket]]:
    """The name of the socket, and the socket."""
    name = (
        str(tmp_path / "notify") if request.param == "path" else f"@headgate-test-{os.getpid()}-{os.urandom(4).hex()}"
    )
    with closing(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)) as bound:
        bound.bind("\0" + name[1:] if name.startswith("@") else name)
        bound.settimeout(60)
        yield name, bound


def test_one_datagram_has_all_lines(manager: tuple[str, socket.socket]) -> None:
    name, bound = manager
    environment = {"NOTIFY_SOCKET": name, "HOME": "/"}
    notify = NotifySocket.take(environment)
    assert notify is not None
    assert notify.send("READY=1", "STATUS=serving é")
    assert bound.recv(1 << 16) == "READY=1\nSTATUS=serving é".encode()
    assert environment == {"HOME": "/"}, "children have nothing to tell"
    notify.close()


@pytest.mark.parametrize("named", [None, "", "vsock:2:1234", "relative"])
def test_without_a_socket_of_this_kind_nothing_is_told(named: str | None) -> None:
    assert NotifySocket.take({} if named is None else {"NOTIFY_SOCKET": named}) is None


def test_a_manager_that_takes_nothing_holds_up_nobody(manager: tuple[str, socket.socket]) -> None:
    name, bound = manager
    notify = NotifySocket(name)
    sent = 0
    while notify.send("STATUS=" + "x" * 1000):
        sent += 1
        assert sent < 100_000, "the queue of the socket never fills"
    assert not notify.send("READY=1")
    bound.recv(1 << 16)
    assert notify.send("READY=1")
    bound.close()
    assert not notify.send("STOPPING=1")
    notify.close()

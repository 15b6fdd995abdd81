"""What a server of ZooKeeper tells of itself, and when all of them are behind a client."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from headgate.gateway.zookeeper import server_status
from headgate.gateway.zookeeper.server_status import LaggingServers, is_resolved, latest_zxid

ANSWER = (
    b"Zookeeper version: 3.9.3-c26634, built on 2024-10-17\nLatency min/avg/max: 0/0.0/0\nZxid: 0x1a00000003\nMode: x\n"
)
ADDRESSES = [("zk", 1), ("zk", 2)]


@contextmanager
def server(answer: bytes) -> Iterator[tuple[str, int]]:
    """Takes one connection, reads a command and answers in two parts."""

    def serve() -> None:
        connection, _ = listener.accept()
        with connection:
            assert connection.recv(4) == b"srvr"
            connection.sendall(answer[:7])
            connection.sendall(answer[7:])

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve)
        thread.start()
        yield listener.getsockname()
        thread.join()


@pytest.mark.sockets
@pytest.mark.parametrize(
    "answer, zxid",
    [
        (ANSWER, 0x1A00000003),
        (b"srvr is not executed because it is not in the whitelist.\n", None),
        (b"This ZooKeeper instance is not currently serving requests\n", None),
        (b"", None),
    ],
)
def test_the_latest_transaction_of_a_server(answer: bytes, zxid: int | None) -> None:
    with server(answer) as address:
        assert latest_zxid(address) == zxid


@pytest.mark.sockets
def test_no_server_tells_nothing() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = listener.getsockname()
    assert latest_zxid(address) is None


def test_names_without_an_address(monkeypatch: pytest.MonkeyPatch) -> None:
    def resolve(host: str, _port: int, **_: object) -> list[object]:
        if host == "nowhere.invalid":
            raise socket.gaierror(-2, "Name or service not known")
        return [host]

    monkeypatch.setattr("socket.getaddrinfo", resolve)
    assert [is_resolved(host, 2181) for host in ("zk", "nowhere.invalid")] == [True, False]


def attempts(monkeypatch: pytest.MonkeyPatch, servers: LaggingServers, *zxids: int | None, seen: int = 9) -> list[bool]:
    """Connections that open, to one server after the other; the answers of those that are asked."""
    answers = iter(zxids)
    monkeypatch.setattr(server_status, "latest_zxid", lambda _: next(answers))
    results: list[bool] = []
    while True:
        try:
            results.append(servers.opened(ADDRESSES[len(results) % 2], seen))
        except StopIteration:
            return results
        if len(results) == 12:
            return results


def test_every_server_is_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each may have refused the session, is then asked, and the event comes once."""
    assert attempts(monkeypatch, LaggingServers(2), 8, 8) == [False] * 3 + [True] + [False] * 8
    assert attempts(monkeypatch, LaggingServers(1), 0) == [False, True] + [False] * 10


def test_one_server_of_an_ensemble_may_lag_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not any(attempts(monkeypatch, LaggingServers(2), 8, 9, 8, None, 8, 10, 8, 9))


def test_a_session_that_was_accepted_begins_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    servers = LaggingServers(1)
    assert any(attempts(monkeypatch, servers, 8))
    servers.connected()
    assert attempts(monkeypatch, servers, 8)[:2] == [False, True]


def test_a_first_session_has_seen_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert attempts(monkeypatch, LaggingServers(1), seen=0) == [False] * 12

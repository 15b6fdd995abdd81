from __future__ import annotations

import socket
import threading

import pytest

from headgate.tools.doctor.check_result import NOTE, OK, WRONG
from headgate.tools.doctor.zookeeper.servers import ServerAnswer, ask_server, ask_servers, check_servers, parse_connect

ANSWER = """\
Zookeeper version: 3.9.3-c26634f34490bb0ea7a09cc51e05ede3b4e320ee, built on 2024-10-17 23:21 UTC
Latency min/avg/max: 0/0.3/12
Received: 10
Mode: {}
"""


@pytest.mark.parametrize(
    "connect, servers, chroot",
    [
        ("a", [("a", 2181)], ""),
        ("a:1,b/kafka", [("a", 1), ("b", 2181)], "/kafka"),
        ("a, [::1]:3/x/y/", [("a", 2181), ("::1", 3)], "/x/y"),
    ],
)
def test_servers_of_a_setting(connect: str, servers: list[tuple[str, int]], chroot: str) -> None:
    assert parse_connect(connect) == (servers, chroot)


@pytest.mark.parametrize(
    "answer, state, words",
    [
        (ServerAnswer("a:1", ANSWER.format("standalone"), 3), OK, "is 3.9.3, standalone, answers after 3 ms"),
        (ServerAnswer("a:1", ANSWER.format("leader"), 900), NOTE, "leader"),
        (ServerAnswer("a:1", "This ZooKeeper instance is not currently serving requests\n"), WRONG, "does not serve"),
        (ServerAnswer("a:1", "srvr is not executed because it is not in the whitelist.\n"), NOTE, "tells nothing"),
        (ServerAnswer("a:1", "HTTP/1.1 400 Bad Request"), WRONG, "does not answer as ZooKeeper does"),
        (ServerAnswer("a:1", error="nothing listens there", cure="start it"), WRONG, "nothing listens there"),
    ],
)
def test_one_server(answer: ServerAnswer, state: str, words: str) -> None:
    [row] = check_servers([answer])
    assert row.state == state
    assert words in row.found
    assert bool(row.cure) == (state != OK)


def test_an_ensemble() -> None:
    follower = ServerAnswer("a:1", ANSWER.format("follower"))
    alone = ServerAnswer("b:1", ANSWER.format("standalone"))
    lost = ServerAnswer("c:1", error="no", cure="x")
    assert list(check_servers([alone, alone]))[-1].found == "2 servers are standalone"
    assert list(check_servers([follower, lost, lost]))[-1].found == "1 of 3 servers serve: no quorum"
    assert [row.state for row in check_servers([follower, follower, lost])] == [OK, OK, WRONG]


@pytest.mark.sockets
def test_a_server_is_asked_by_srvr() -> None:
    received: list[bytes] = []

    def serve() -> None:
        listener.accept()[0].close()  # the attempt to connect
        connection, _ = listener.accept()
        with connection:
            received.append(connection.recv(10))
            connection.sendall(ANSWER.format("standalone").encode())

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        answer = ask_server("127.0.0.1", listener.getsockname()[1], 10.0)
        thread.join(10)
    assert (received, answer.error) == ([b"srvr"], "")
    assert "Mode: standalone" in answer.text


@pytest.mark.sockets
def test_a_server_that_is_down() -> None:
    answers = ask_servers("127.0.0.1:1/kafka", 1.0)
    assert not isinstance(answers, str)
    [answer] = answers
    assert (answer.error, answer.cure) == (
        "nothing listens there",
        "start ZooKeeper, or correct the port; `ss -ltn` on its host shows what listens",
    )


def test_a_setting_that_names_no_server() -> None:
    assert "names no server" in str(ask_servers("/kafka", 1.0))
    assert "no address of a server" in str(ask_servers("a:b:c", 1.0))

from __future__ import annotations

import errno
import socket
from pathlib import Path

import pytest

from headgate.tools.doctor.check_result import NOTE, OK, WRONG
from headgate.tools.doctor.connecting.name import (
    AddressAttempt,
    ResolvedName,
    attempt,
    check_attempts,
    check_name,
    is_loopback,
    resolve,
)

REFUSED = ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")


@pytest.mark.parametrize(
    "host, resolved, state, words",
    [
        ("b", ResolvedName(["10.0.0.1"], None, 0, False), OK, "b is 10.0.0.1"),
        ("10.0.0.1", ResolvedName(["10.0.0.1"], None, 0, False), OK, "10.0.0.1"),
        ("b", ResolvedName([], "Name or service not known", 0, False), WRONG, "b has no address here"),
        ("b", ResolvedName(["10.0.0.1"], None, 5.0, False), NOTE, "known after 5.0 s"),
        ("b", ResolvedName(["127.0.1.1"], None, 0, True), NOTE, "127.0.1.1 in /etc/hosts, this machine itself"),
        ("localhost", ResolvedName(["::1", "127.0.0.1"], None, 0, True), OK, "localhost is ::1, 127.0.0.1"),
    ],
)
def test_names(host: str, resolved: ResolvedName, state: str, words: str) -> None:
    row = check_name(host, resolved)
    assert row.state == state
    assert words in row.found
    assert bool(row.cure) == (state != OK)


@pytest.mark.parametrize(
    "attempts, state, words",
    [
        ([AddressAttempt("10.0.0.1", None, 0.002)], OK, "accepts after 2 ms"),
        ([AddressAttempt("10.0.0.1", None, 0.9)], NOTE, "accepts after 0.9 s"),
        ([AddressAttempt("10.0.0.1", REFUSED, 0)], WRONG, "nothing listens there"),
        ([AddressAttempt("10.0.0.1", TimeoutError("timed out"), 3.0)], WRONG, "no answer within 3 s"),
        ([AddressAttempt("10.0.0.1", OSError(errno.EHOSTUNREACH, "No route"), 0)], WRONG, "no way there"),
        ([AddressAttempt("10.0.0.1", OSError(errno.EIO, "odd"), 0)], WRONG, "odd"),
        (
            [AddressAttempt("::1", REFUSED, 0), AddressAttempt("127.0.0.1", None, 0)],
            NOTE,
            "127.0.0.1 accepts, ::1 nothing listens there",
        ),
    ],
)
def test_attempts(attempts: list[AddressAttempt], state: str, words: str) -> None:
    row = check_attempts("b:9092", attempts)
    assert (row.check, row.state) == ("connection", state)
    assert words in row.found


def test_names_of_a_hosts_file(tmp_path: Path) -> None:
    hosts = tmp_path / "hosts"
    hosts.write_text("127.0.0.1 localhost Other # not-me\n")
    assert resolve("127.0.0.1", hosts).addresses == ["127.0.0.1"]
    assert not resolve("127.0.0.1", hosts).in_hosts
    hosts.write_text("10.0.0.1 127.0.0.1\n")
    assert resolve("127.0.0.1", hosts).in_hosts
    assert resolve("127.0.0.1", tmp_path / "none").in_hosts is False


def test_a_label_that_is_too_long_is_a_problem_of_the_name() -> None:
    assert resolve("x" * 70).problem is not None


@pytest.mark.sockets
def test_each_address_is_tried() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        [one] = attempt(["127.0.0.1"], listener.getsockname()[1], 1.0)
        assert one.error is None
    assert isinstance(attempt(["127.0.0.1"], 1, 1.0)[0].error, ConnectionRefusedError)


def test_loopback_addresses() -> None:
    assert [is_loopback(host) for host in ("127.0.1.1", "::1", "LOCALHOST", "10.0.0.1", "b")] == [True] * 3 + [
        False
    ] * 2

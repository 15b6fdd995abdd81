"""A registration in ZooKeeper, as a scripted server answers."""

import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from headgate.tools.bench.measuring.registrations import Registrations

pytestmark = pytest.mark.sockets


def framed(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


def answer(error: int) -> bytes:
    """The answer to `exists`; the state of a node that is there is behind the error code."""
    return framed(struct.pack(">iqi", 1, 77, error) + (b"" if error else bytes(68)))


@contextmanager
def answers_to(answers: list[bytes]) -> Iterator[tuple[Registrations, socket.socket]]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(framed(bytes(37)) + b"".join(answers))  # the first one opens the session
        yield Registrations(ours), theirs


def test_a_broker_is_registered_until_its_node_is_gone() -> None:
    with answers_to([answer(0), answer(-101)]) as (registered, server):
        assert registered.has(2)
        assert not registered.has(2)
        sent = server.recv(4096)
    opening, asked = sent[4 : 4 + 44], sent[48:]
    assert struct.unpack_from(">iqi", opening) == (0, 0, 30_000)
    assert asked == framed(struct.pack(">iii", 1, 3, 14) + b"/brokers/ids/2\x00") * 2


def test_another_error_of_zookeeper_is_no_answer() -> None:
    with (
        answers_to([answer(-112)]) as (registered, _),
        pytest.raises(ConnectionError, match="ids/2 with error code -112"),
    ):
        registered.has(2)


def test_a_closed_connection_is_no_answer() -> None:
    with answers_to([]) as (registered, server):
        server.close()
        with pytest.raises(OSError, match=r"closed|reset|Broken"):
            registered.has(2)

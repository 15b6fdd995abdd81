"""A client of two brokers that are scripted: who acknowledged what, and after which errors."""

import math
import socket
import struct
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager

import pytest

from headgate.tools.bench.requests import frames
from headgate.tools.bench.requests.client import BenchError
from headgate.tools.bench.rows.cluster.acknowledgements import Acknowledgements, read_produced

pytestmark = pytest.mark.sockets

NOT_LEADER = 6
OLD, NEW = 1, 2


def produced(errors: Mapping[int, int]) -> bytes:
    """A Produce answer v7 for topic "led", from behind the correlation id on."""
    rows = b"".join(struct.pack(">ihqqq", number, error, 7, -1, 0) for number, error in errors.items())
    return struct.pack(">ih3si", 1, 3, b"led", len(errors)) + rows + bytes(4)


def test_a_produce_answer_is_read_by_partition() -> None:
    assert read_produced(produced({3: 0, 5: NOT_LEADER})) == [(3, 0), (5, NOT_LEADER)]


def metadata(leader: int, partitions: int) -> bytes:
    """A Metadata answer v1 that names one leader of all partitions of topic "led"."""
    broker = struct.pack(">ih1sih", OLD, 1, b"x", 1, -1)
    topic = struct.pack(">hh3sbi", 0, 3, b"led", 0, partitions)
    rows = b"".join(struct.pack(">hiiii", 0, number, leader, 0, 0) for number in range(partitions))
    return struct.pack(">i", 1) + broker + struct.pack(">ii", OLD, 1) + topic + rows


Answers = Callable[[int, bytes], bytes | None]
"""(API key, request from its correlation id on) -> the answer behind the correlation id; None closes the connection."""


@contextmanager
def broker(answers: Answers) -> Iterator[int]:
    """The port of a broker with these answers."""
    with socket.create_server(("127.0.0.1", 0)) as server, ExitStack() as stack:

        def serve() -> None:
            while True:
                try:
                    connection = stack.enter_context(server.accept()[0])
                except OSError:
                    return
                threading.Thread(target=answer_all, args=(connection, answers), daemon=True).start()

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield int(server.getsockname()[1])
        server.shutdown(socket.SHUT_RDWR)
        thread.join()


def answer_all(connection: socket.socket, answers: Answers) -> None:
    with connection, connection.makefile("rb") as stream:
        while size := stream.read(4):
            request = stream.read(struct.unpack(">i", size)[0])
            answer = answers(struct.unpack_from(">h", request)[0], request[4:])
            if answer is None:
                return
            connection.sendall(struct.pack(">i", len(answer) + 4) + request[4:8] + answer)


def test_a_partition_is_followed_to_its_next_leader() -> None:
    """The old leader refuses after its first answer; both brokers name the new one."""
    produces = iter([produced({0: 0, 1: 0}), produced({0: NOT_LEADER, 1: NOT_LEADER})])

    def old(key: int, _: bytes) -> bytes | None:
        return metadata(NEW, 2) if key == frames.METADATA else next(produces, None)

    def new(key: int, _: bytes) -> bytes | None:
        return metadata(NEW, 2) if key == frames.METADATA else produced({0: 0, 1: 0})

    with broker(old) as old_port, broker(new) as new_port:
        client = Acknowledgements("led", {0: OLD, 1: OLD}, {OLD: old_port, NEW: new_port}, 0.0)
        client.run(lambda: OLD not in client.acknowledged_by.values() and len(client.acknowledged_by) == 2, 10)
        client.close()
    assert client.acknowledged_by == {0: NEW, 1: NEW}
    assert sorted(client.moved_at) == [0, 1]
    assert 0 < client.longest_gap_seconds < 10


def test_a_partition_is_asked_for_once_without_an_interval() -> None:
    asked = []

    def only(key: int, request: bytes) -> bytes | None:
        asked.append(key)
        return metadata(OLD, 2) if key == frames.METADATA else produced({0: 0, 1: 0})

    with broker(only) as port:
        client = Acknowledgements("led", {0: None, 1: None}, {OLD: port}, math.inf)
        client.run(lambda: len(client.acknowledged_at) == 2, 10)
        client.run(iter([False, False, True]).__next__, 10)
        client.close()
    assert asked == [frames.METADATA, frames.PRODUCE]
    assert client.longest_gap_seconds == 0


def test_a_client_says_what_is_missing_at_its_deadline() -> None:
    client = Acknowledgements("led", {0: None, 1: None}, {}, math.inf)
    with pytest.raises(BenchError, match="led: 0 of 2 partitions acknowledged, 2 without a leader after 0 s"):
        client.run(lambda: False, 0.0)
    client.close()

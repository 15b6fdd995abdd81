"""A broker without free descriptors: its clients are served, others wait, and the log says it in few lines.

And one that would run out of them by itself: files of which pieces wait to be sent are open.
"""

from __future__ import annotations

import contextlib
import resource
import socket
import struct
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from compat_tests.harness.broker import TARGET, Broker, LimitedBroker, running
from compat_tests.harness.leaders import until_all_led
from compat_tests.harness.steady import Steady, create_topics, produce_request, record_batch
from compat_tests.harness.waiting import until
from compat_tests.harness.wire import (
    API_VERSIONS,
    FETCH,
    Reader,
    ask,
    connect,
    frame,
    receive_frame,
    request_header,
    string,
)

pytestmark = [
    pytest.mark.alone,
    pytest.mark.skipif(TARGET != "headgate", reason="Kafka opens files when it likes, and ends without them"),
]

SPARE = 10
CLIENTS = 40
ASKED_S = 2.0

LIMIT, PARTITIONS = 1024, 1500
# Half of the limit is for segments; connections and what else is open are few here
OPEN_AT_MOST = LIMIT * 3 // 4
UNREAD = 8
# More than is read at once and sent with the bytes around it
RECORD_BYTES = 20_000
EXCHANGES, EXCHANGE_LIMIT_S = 100, 2.0


@contextlib.contextmanager
def exhausted(broker: Broker) -> Iterator[list[socket.socket]]:
    """More clients than there are descriptors: the sockets of all of them."""
    _, hard = resource.prlimit(broker.pid, resource.RLIMIT_NOFILE)
    limit = broker.open_files() + SPARE
    resource.prlimit(broker.pid, resource.RLIMIT_NOFILE, (limit, hard))
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(connect(broker.bootstrap)) for _ in range(CLIENTS)]
        until(lambda: broker.open_files() == limit, "the broker to have no descriptor left")
        yield clients


def cannot_accept(broker: Broker) -> list[str]:
    return [line for line in broker.error_lines() if "cannot accept connections" in line]


def test_clients_are_served_while_others_wait_for_descriptors(tmp_path: Path) -> None:
    with running(tmp_path) as broker, connect(broker.bootstrap) as early:
        assert ask(early, API_VERSIONS, 0, b"")[:2] == b"\0\0"
        with exhausted(broker) as clients:
            asked, slowest, began = 0, 0.0, time.monotonic()
            while time.monotonic() - began < ASKED_S:
                before = time.monotonic()
                assert ask(early, API_VERSIONS, 0, b"")[:2] == b"\0\0"
                slowest = max(slowest, time.monotonic() - before)
                asked += 1
            assert asked > 100, f"only {asked} answers in {ASKED_S} s, the slowest after {slowest:.3f} s"
            assert 1 <= len(cannot_accept(broker)) <= 5, "it is tried twenty times in two seconds"
            late = clients[SPARE + 2]
            late.sendall(frame(request_header(API_VERSIONS, 0, 7)))
            for client in clients[:SPARE]:
                client.close()
            assert struct.unpack_from(">ih", receive_frame(late)) == (7, 0), "whoever waited is served"
        with connect(broker.bootstrap) as new:
            assert ask(new, API_VERSIONS, 0, b"")[:2] == b"\0\0"


@pytest.fixture(scope="module")
def limited(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """With a record in each partition of `wide`, and a topic `work`."""
    broker = LimitedBroker(tmp_path_factory.mktemp("limited"), LIMIT)
    try:
        broker.start()
        create_topics(broker.bootstrap, ["wide"], PARTITIONS)
        create_topics(broker.bootstrap, ["work"], 1)
        until_all_led(broker.bootstrap)
        with connect(broker.bootstrap, 60) as stream:
            stream.sendall(produce_request("wide", PARTITIONS, record_batch(bytes(RECORD_BYTES))))
            assert set(produce_errors(receive_frame(stream))) == {0}
        yield broker
    finally:
        broker.stop()


def produce_errors(answer: bytes) -> Iterator[int]:
    """Of each partition in the answer to `produce_request`."""
    reader = Reader(answer)
    reader.number("i"), reader.number("i"), reader.string()
    for _ in range(reader.number("i")):
        reader.number("i")
        yield reader.number("h")
        reader.number("q"), reader.number("q")


def fetch_of(partitions: Iterable[int]) -> bytes:
    """Fetch v11 of these partitions of `wide`, without a session, each from its only record; as a frame."""
    rows = [struct.pack(">iiqqi", partition, -1, 0, -1, 2 * RECORD_BYTES) for partition in partitions]
    head = struct.pack(">iiiibii", -1, 0, 1, 2 * RECORD_BYTES * PARTITIONS, 0, 0, -1)
    topics = struct.pack(">i", 1) + string("wide") + struct.pack(">i", len(rows)) + b"".join(rows)
    return frame(request_header(FETCH, 11) + head + topics + struct.pack(">i", 0) + string(""))


def partitions_with_records(answer: bytes) -> Iterator[int]:
    reader = Reader(answer)
    reader.number("i"), reader.number("i")
    assert reader.number("h") == 0
    reader.number("i")
    assert (reader.number("i"), reader.string()) == (1, "wide")
    for _ in range(reader.number("i")):
        partition, error = reader.number("i"), reader.number("h")
        assert error == 0, f"partition {partition} was answered with error {error}"
        reader.number("q"), reader.number("q"), reader.number("q")
        assert reader.number("i") <= 0
        reader.number("i")
        if size := max(reader.number("i"), 0):
            reader.skip(size)
            yield partition


def not_reading(broker: Broker) -> socket.socket:
    """A client that asks for everything, and takes next to nothing of it."""
    host, _, port = broker.bootstrap.rpartition(":")
    stream = socket.socket()
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    stream.settimeout(30)
    stream.connect((host, int(port)))
    stream.sendall(fetch_of(range(PARTITIONS)))
    # The answer has been made
    (size,) = struct.unpack(">i", stream.recv(4, socket.MSG_PEEK | socket.MSG_WAITALL))
    assert size > RECORD_BYTES, "an answer has the records of at least one partition"
    return stream


def test_pieces_that_wait_to_be_sent_leave_descriptors_to_others(limited: Broker) -> None:
    """Clients that ask for all partitions, and do not read: others connect, produce and fetch meanwhile."""
    with contextlib.ExitStack() as stack:
        for number in range(UNREAD):
            stack.enter_context(not_reading(limited))
            assert limited.open_files() <= OPEN_AT_MOST, f"with {number + 1} answers that nobody reads"
        for _ in range(2):
            with Steady(limited.bootstrap, "work") as steady:
                assert max(steady.window(EXCHANGES)) < EXCHANGE_LIMIT_S
        assert limited.open_files() <= OPEN_AT_MOST
        assert not [line for line in limited.error_lines() if "Too many open files" in line]
    until(lambda: limited.open_files() <= OPEN_AT_MOST - UNREAD, "the broker to let go of what it had for them")


def test_whoever_reads_gets_all_partitions_over_several_fetches(limited: Broker) -> None:
    """Beside one that does not: a fetch brings what there is room for, and at least one partition."""
    missing = dict.fromkeys(range(PARTITIONS))
    fetches = 0
    with not_reading(limited), connect(limited.bootstrap, 60) as stream:
        while missing:
            stream.sendall(fetch_of(missing))
            found = set(partitions_with_records(receive_frame(stream)))
            assert found, f"fetch {fetches} brought nothing, {len(missing)} partitions are missing"
            assert found <= missing.keys()
            missing = dict.fromkeys(partition for partition in missing if partition not in found)
            fetches += 1
            assert limited.open_files() <= OPEN_AT_MOST
    assert fetches > 1

"""A client that sends requests, says that it sends no more (a FIN), and reads its answers, as scripts and proxies do.

Apache Kafka answers what it has received and closes then. A reset is different: the client reads no more either.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from compat_tests.harness.broker import TARGET, Broker, running
from compat_tests.harness.epochs import end_with_epoch
from compat_tests.harness.steady import end_offset, produce_request, record_batch
from compat_tests.harness.topics import new_topic
from compat_tests.harness.waiting import until
from compat_tests.harness.wire import CREATE_TOPICS, ask, connect, frame, receive_frame, request_header, string
from compat_tests.network.pipelined import Request, commit, fetch, metadata, produce

WAIT_S = 1.0
LIMIT_S = 30.0
# After a FIN, in all
OWED_S = 30.0
SYNCED = {"headgate.flush": "commit"} if TARGET == "headgate" else {"flush.messages": "1"}
JOIN_GROUP, FIND_COORDINATOR = 11, 10
LONG_WAIT_MS, CLIENTS = 25_000, 50


@pytest.fixture
def served(broker: Broker, topic: Callable[..., str]) -> Callable[..., str]:
    """A new topic with each call, of which the leader serves requests."""

    def create(**configs: str) -> str:
        name = topic(1, **configs)
        until(lambda: end_with_epoch(broker.bootstrap, name).error == 0, f"{name} to be served")
        return name

    return create


def finish(stream: socket.socket, *requests: Request) -> float:
    """Send, shut down the sending side, read every answer and then the end; the seconds until the last answer."""
    stream.sendall(b"".join(frame(one.data) for one in requests))
    stream.shutdown(socket.SHUT_WR)
    began_s = time.monotonic()
    for number, request in enumerate(requests):
        try:
            answer = receive_frame(stream)
        except OSError as failure:
            raise AssertionError(f"no answer to request {number}, {request.name}: {failure}") from failure
        request.check(answer[4:])
    took_s = time.monotonic() - began_s
    assert stream.recv(1) == b"", "the broker says more than it was asked"
    return took_s


def create_topic(name: str) -> Request:
    """CreateTopics v2."""
    body = struct.pack(">i", 1) + string(name) + struct.pack(">ihii", 1, 1, 0, 0) + struct.pack(">ib", 20_000, 0)

    def check(answer: bytes) -> None:
        (error,) = struct.unpack_from(">h", answer, 4 + 4 + 2 + len(name))
        assert error == 0, f"CreateTopics was answered with error {error}"

    return Request("CreateTopics", request_header(CREATE_TOPICS, 2) + body, check)


def join_group(group: str) -> Request:
    """JoinGroup v1 of a group without members: the broker waits for others for `group.initial.rebalance.delay.ms`."""
    head = string(group) + struct.pack(">ii", 6_000, 6_000) + string("") + string("consumer")
    protocol = struct.pack(">i", 1) + string("range") + struct.pack(">i", 4) + b"data"

    def check(answer: bytes) -> None:
        error, generation = struct.unpack_from(">hi", answer)
        assert (error, generation) == (0, 1), f"JoinGroup was answered with error {error}"

    return Request("JoinGroup", request_header(JOIN_GROUP, 1) + head + protocol, check)


def coordinator(broker: Broker, group: str) -> None:
    def is_there() -> bool:
        with connect(broker.bootstrap, LIMIT_S) as stream:
            return struct.unpack_from(">h", ask(stream, FIND_COORDINATOR, 0, string(group))) == (0,)

    until(is_there, f"the coordinator of {group}")


def test_create_topics_is_answered(broker: Broker) -> None:
    with connect(broker.bootstrap, LIMIT_S) as stream:
        finish(stream, create_topic("made-by-a-client-that-sends-no-more"))


def test_a_produce_that_waits_for_the_disk_is_answered(broker: Broker, served: Callable[..., str]) -> None:
    name = served(**SYNCED)
    with connect(broker.bootstrap, LIMIT_S) as stream:
        finish(stream, produce(name, -1, 1_000, "Produce"))
    with connect(broker.bootstrap, LIMIT_S) as stream:
        assert end_offset(stream, name) == 1


def test_many_produces_are_answered_in_order(broker: Broker, served: Callable[..., str]) -> None:
    """More than a turn of the broker takes."""
    name = served(**SYNCED)
    with connect(broker.bootstrap, LIMIT_S) as stream:
        finish(stream, *[produce(name, -1, 1_000, "Produce")] * 100)
    with connect(broker.bootstrap, LIMIT_S) as stream:
        assert end_offset(stream, name) == 100


def test_a_fetch_that_waits_is_answered_at_its_time(broker: Broker, served: Callable[..., str]) -> None:
    name = served()
    with connect(broker.bootstrap, LIMIT_S) as stream:
        took_s = finish(stream, fetch(name, 0, 1, int(WAIT_S * 1000), "Fetch"))
    assert took_s > WAIT_S / 2, "it did not wait"


def test_a_fetch_that_waits_is_answered_with_what_comes(broker: Broker, served: Callable[..., str]) -> None:
    name = served()
    waiting = fetch(name, 0, 1, int(LIMIT_S * 1000), "Fetch")
    with connect(broker.bootstrap, LIMIT_S) as stream, connect(broker.bootstrap, LIMIT_S) as writer:
        stream.sendall(frame(waiting.data))
        stream.shutdown(socket.SHUT_WR)
        # An answer on another connection that came later: the FIN has been seen
        ask(writer, FIND_COORDINATOR, 0, string("any"))
        writer.sendall(produce_request(name, 1, record_batch(b"awaited")))
        receive_frame(writer)
        answer = receive_frame(stream)
        waiting.check(answer[4:])
        assert b"awaited" in answer
        assert stream.recv(1) == b""


def test_what_stands_behind_a_fetch_that_waits_is_answered(broker: Broker, served: Callable[..., str]) -> None:
    name, synced = served(), served(**SYNCED)
    requests = [fetch(name, 0, 1, int(WAIT_S * 1000), "Fetch"), produce(synced, -1, 10, "Produce")]
    with connect(broker.bootstrap, LIMIT_S) as stream:
        finish(stream, *requests, metadata([name], "Metadata"))


def test_join_group_and_offset_commit_are_answered(broker: Broker, served: Callable[..., str]) -> None:
    name = served()
    for group in ("half-closed-member", "half-closed-committer"):
        coordinator(broker, group)
    with connect(broker.bootstrap, LIMIT_S) as stream:
        finish(stream, join_group("half-closed-member"))
    with connect(broker.bootstrap, LIMIT_S) as stream:
        finish(stream, commit("half-closed-committer", name, 3))


def open_sockets(broker: Broker) -> int:
    """Sockets of the process, also those that listen."""
    number = 0
    for file in Path(f"/proc/{broker.pid}/fd").iterdir():
        # The broker may close a file between its listing and its reading
        with contextlib.suppress(FileNotFoundError):
            number += str(file.readlink()).startswith("socket:")
    return number


@pytest.mark.skipif(TARGET != "headgate", reason="Kafka opens and closes sockets of its own")
def test_after_a_reset_nothing_is_owed(tmp_path: Path) -> None:
    """Clients that wait for a fetch and reset their connections: the broker has closed theirs at once."""
    with running(tmp_path) as broker:
        before = open_sockets(broker)
        name = new_topic(broker.bootstrap, 1)
        until(lambda: open_sockets(broker) == before, "the broker to let go of the admin client")
        streams = [connect(broker.bootstrap, LIMIT_S) for _ in range(CLIENTS)]
        for stream in streams:
            stream.sendall(frame(fetch(name, 0, 1, LONG_WAIT_MS, "Fetch").data))
        until(lambda: open_sockets(broker) == before + CLIENTS, "the broker to have accepted all")
        for stream in streams:
            stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            stream.close()
        until(lambda: open_sockets(broker) <= before, "the broker to let go of them", LONG_WAIT_MS / 2000)


@pytest.mark.soak
@pytest.mark.skipif(TARGET != "headgate", reason="Kafka waits as long as the request says")
def test_an_answer_is_owed_for_half_a_minute(broker: Broker, served: Callable[..., str]) -> None:
    """Whoever sent a FIN may be gone: what it waits for is not kept for hours."""
    with connect(broker.bootstrap, 2 * OWED_S) as stream:
        stream.sendall(frame(fetch(served(), 0, 1, int(3 * OWED_S * 1000), "Fetch").data))
        stream.shutdown(socket.SHUT_WR)
        began_s = time.monotonic()
        assert stream.recv(1) == b""
        took_s = time.monotonic() - began_s
    assert OWED_S - 1 < took_s < OWED_S + 10, f"closed after {took_s:.1f} s"

"""Requests pipelined on one connection: each is answered in its time, whatever stands before or behind it.

`make test` sends 45 bursts of each policy with fixed seeds, `make soak` many more with new ones.
"""

from __future__ import annotations

import dataclasses
import random
import secrets
import socket
import struct
from collections import Counter
from collections.abc import Callable, Iterator

import pytest

from compat_tests.harness import wire
from compat_tests.harness.broker import TARGET, Broker, running
from compat_tests.harness.epochs import end_with_epoch
from compat_tests.harness.steady import produce_request, record_batch
from compat_tests.harness.topics import new_topic
from compat_tests.harness.waiting import until
from compat_tests.harness.wire import connect, receive_frame
from compat_tests.network.pipelined import MEGABYTE, Request, Topics, burst, exchange, fetch, kinds, produce

pytestmark = pytest.mark.alone

BURSTS, BURSTS_OF_SOAK = 45, 3_000
SMALL_BUFFER_BYTES = 4096
# Of the offsets of groups as well, where the whole broker waits for the disk
POLICIES: tuple[dict[str, str], ...] = (
    ({}, {"headgate.flush": "commit"}) if TARGET == "headgate" else ({}, {"log.flush.interval.messages": "1"})
)
SYNCED = {"headgate.flush": "commit"} if TARGET == "headgate" else {"flush.messages": "1"}
FIND_COORDINATOR = 10
LONG_WAIT_MS, PRODUCES, PRODUCED_BYTES = 40_000, 10, 100_000


@pytest.fixture(scope="module", params=POLICIES, ids=["topics", "broker"])
def policy_broker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """One where a topic waits for the disk, and one where everything does."""
    settings = {"offsets.topic.num.partitions": "1", **request.param}
    with running(tmp_path_factory.mktemp("pipelining"), settings) as broker:
        yield broker


@pytest.fixture(scope="module")
def topics(policy_broker: Broker) -> Topics:
    bootstrap = policy_broker.bootstrap
    # The records say that they are of 2023: after five minutes retention would look at them
    synced, plain, large, empty = (
        new_topic(bootstrap, 1, {"retention.ms": "-1", **configs}) for configs in (SYNCED, {}, {}, {})
    )
    with connect(bootstrap, 60) as stream:
        for _ in range(3):
            stream.sendall(produce_request(large, 1, record_batch(bytes(MEGABYTE - 1024))))
            receive_frame(stream)
        until(lambda: has_coordinator(stream, "pipelined"), "a coordinator")
    for one in (synced, plain, large, empty):
        until(lambda: end_with_epoch(bootstrap, one).error == 0, f"{one} to be served")  # noqa: B023
    return Topics(synced, plain, large, empty, "pipelined")


def has_coordinator(stream: socket.socket, group: str) -> bool:
    answer = wire.ask(stream, FIND_COORDINATOR, 0, wire.string(group))
    return struct.unpack_from(">h", answer) == (0,)


def connection(bootstrap: str, chance: random.Random) -> socket.socket:
    """One in four receives little at a time, so that large answers leave in pieces."""
    host, _, port = bootstrap.rpartition(":")
    stream = socket.socket()
    if chance.random() < 0.25:
        stream.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SMALL_BUFFER_BYTES)
    stream.settimeout(30)
    stream.connect((host, int(port)))
    return stream


def play(bootstrap: str, of: list[tuple[int, Request]], seed: int) -> None:
    """One burst; raises AssertionError with its seed where an answer is wrong or late."""
    chance = random.Random(seed)
    requests = burst(chance, of)
    with connection(bootstrap, chance) as stream:
        try:
            exchange(stream, requests)
        except AssertionError as failure:
            names = dict(Counter(one.name for one in requests))
            raise AssertionError(f"burst {seed} of {len(requests)} requests, {names}: {failure}") from failure


def test_every_request_of_a_burst_is_answered_in_its_time(policy_broker: Broker, topics: Topics) -> None:
    of = kinds(topics)
    failures = []
    for seed in range(BURSTS):
        try:
            play(policy_broker.bootstrap, of, seed)
        except AssertionError as failure:
            failures.append(str(failure))
    assert not failures, f"{len(failures)} of {BURSTS}: {failures[:5]}"


@pytest.mark.soak
def test_new_bursts_are_answered_in_their_time(policy_broker: Broker, topics: Topics) -> None:
    of, first = kinds(topics), secrets.randbits(32)
    for seed in range(first, first + BURSTS_OF_SOAK):
        play(policy_broker.bootstrap, of, seed)


@pytest.mark.soak
def test_requests_behind_a_long_wait_are_all_answered(broker: Broker, topic: Callable[..., str]) -> None:
    """A broker that does not read, because a fetch waits, must not hold it against the client that a request is cut."""
    name, empty = topic(), topic()
    for one in (name, empty):
        until(lambda: end_with_epoch(broker.bootstrap, one).error == 0, f"{one} to be served")  # noqa: B023
    wait = fetch(empty, 0, MEGABYTE, LONG_WAIT_MS, "the fetch")
    requests = [dataclasses.replace(wait, least_s=LONG_WAIT_MS / 1000 - 1)]
    requests += [produce(name, -1, PRODUCED_BYTES, "behind the fetch")] * PRODUCES
    with connect(broker.bootstrap, 30 + LONG_WAIT_MS / 1000) as stream:
        exchange(stream, requests)

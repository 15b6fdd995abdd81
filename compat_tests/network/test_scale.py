"""Ten thousand idle connections and ten thousand idle partitions: what each costs, and that others do not notice.

Figures are of the broker's process; what depends on the machine is compared with a second, empty broker in the same
run, in turns.
"""

from __future__ import annotations

import contextlib
import itertools
import resource
import select
import shutil
import socket
import statistics
import struct
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from compat_tests.harness.broker import TARGET, Broker, LimitedBroker, new_broker, running
from compat_tests.harness.leaders import until_all_led
from compat_tests.harness.steady import (
    FairClock,
    Steady,
    create_topics,
    fetch_request,
    p99,
    produce_request,
    read_fetched,
    record_batch,
)
from compat_tests.harness.waiting import until
from compat_tests.harness.wire import API_VERSIONS, METADATA, ask, connect, frame, receive_frame, request_header
from compat_tests.hostile.hostile_bytes import connect_from, is_closed_after

pytestmark = pytest.mark.alone

CONNECTIONS = PARTITIONS = 10_000
PARTITIONS_A_TOPIC = 10
TOPICS = [f"topic-{number}" for number in range(PARTITIONS // PARTITIONS_A_TOPIC)]
# What a login shell gives; the broker has to help itself to more
USUAL_LIMIT = 1024
FEW_DESCRIPTORS = 256
CONNECTION_BYTES = 2048
PARTITION_BYTES = 3000
START_LIMIT_S = 20.0
# More than a broker without any partition takes, on a machine that others use too
LISTEN_LIMIT_S = 2.0
MEMORY, ROOM_BYTES = Path("/dev/shm"), 1 << 30  # noqa: S108  the directory in it has a name of its own
WAITING, ROUNDS = 500, 20
WAKE_LIMIT_S = 0.25
# By default five seconds, which is longer than windows are looked at
OFTEN = {"replica.high.watermark.checkpoint.interval.ms": "1000"}


@contextlib.contextmanager
def descriptors(soft: int | None = None) -> Iterator[int]:
    """Let this process, and those it starts, open so many files, or as many as it may; how many that are."""
    before, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = hard if soft is None else min(soft, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    try:
        yield allowed
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (before, hard))


class Many(NamedTuple):
    """A broker with `PARTITIONS`, one record in each, and what it took to get there."""

    broker: Broker
    bytes_each: float
    created_s: float
    empty_start_s: float
    clean_start_s: float
    all_clean_s: float
    killed_start_s: float
    all_killed_s: float


@pytest.fixture(scope="module")
def roomy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A directory in memory, where there is room: a disk that others use too takes minutes for 60,000 new files."""
    if not MEMORY.is_dir() or shutil.disk_usage(MEMORY).free < ROOM_BYTES:
        yield tmp_path_factory.mktemp("many")
        return
    with tempfile.TemporaryDirectory(dir=MEMORY) as directory:
        yield Path(directory)


@pytest.fixture(scope="module")
def many(roomy: Path) -> Iterator[Many]:
    broker = new_broker(roomy, OFTEN)
    broker.stop_limit_s = 60.0
    with descriptors(USUAL_LIMIT):
        empty_s = broker.start()
    try:
        empty_bytes, began_s = broker.resident_bytes(), broker.cpu_seconds()
        fill(broker.bootstrap)
        created_s = broker.cpu_seconds() - began_s
        with descriptors(USUAL_LIMIT):
            clean_s = broker.restart()
            all_clean_s = clean_s + until_all_led(broker.bootstrap)
            bytes_each = (broker.resident_bytes() - empty_bytes) / PARTITIONS
            broker.kill()
            killed_s = broker.start()
            all_killed_s = killed_s + until_all_led(broker.bootstrap)
        yield Many(broker, bytes_each, created_s, empty_s, clean_s, all_clean_s, killed_s, all_killed_s)
    finally:
        broker.stop()


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker that has nothing else to do."""
    with running(tmp_path_factory.mktemp("alone"), OFTEN) as broker:
        yield broker


def fill(bootstrap: str) -> None:
    for first in range(0, len(TOPICS), 100):
        create_topics(bootstrap, TOPICS[first : first + 100], PARTITIONS_A_TOPIC)
    batch = record_batch(b"a record that was written once")
    with connect(bootstrap, 60) as stream:
        for topic in TOPICS:
            stream.sendall(produce_request(topic, PARTITIONS_A_TOPIC, batch))
            receive_frame(stream)


@contextlib.contextmanager
def idle_connections(broker: Broker, count: int) -> Iterator[None]:
    """Open so many, each of which asked what every client asks first; closed at the end of the block."""
    versions = frame(request_header(API_VERSIONS, 0, client_id="idle"))
    metadata = frame(request_header(METADATA, 1, client_id="idle") + struct.pack(">i", 0))
    with contextlib.ExitStack() as streams:
        for number in range(count):
            # From several addresses: one has no more than 28,000 ports to connect from
            stream = streams.enter_context(connect_from(broker.bootstrap, f"127.0.{number // 5000 + 1}.1"))
            stream.sendall(versions)
            receive_frame(stream)
            stream.sendall(metadata)
            receive_frame(stream)
        yield


def allowed_connections(descriptors: int) -> int:
    """As many as are wanted, or as the machine lets two processes have."""
    return min(CONNECTIONS, descriptors - 500)


def test_idle_connections(tmp_path: Path, figure: Callable[[str], None]) -> None:
    with descriptors(USUAL_LIMIT):
        broker = new_broker(tmp_path)
        broker.start()
    try:
        with descriptors() as allowed:
            count = allowed_connections(allowed)
            files, empty_bytes = broker.open_files(), broker.resident_bytes()
            with idle_connections(broker, count):
                assert broker.open_files() >= files + count
                each = (broker.resident_bytes() - empty_bytes) / count
            until(lambda: broker.open_files() <= files, "the broker to let go of all connections")
            left = (broker.resident_bytes() - empty_bytes) / count
            with idle_connections(broker, count):
                again = (broker.resident_bytes() - empty_bytes) / count
    finally:
        broker.stop()
    figure(f"{count} idle connections: {each:.0f} bytes each; {left:.0f} once closed, {again:.0f} the second time")
    assert again <= each * 1.2 + 200, "what a connection takes is not given back"
    assert each <= CONNECTION_BYTES or TARGET != "headgate"


@pytest.mark.skipif(TARGET != "headgate", reason="it runs out of descriptors, and takes its logs offline")
def test_a_storm_of_connections_leaves_descriptors_for_logs(tmp_path: Path) -> None:
    broker = LimitedBroker(tmp_path, FEW_DESCRIPTORS)
    broker.start()
    try:
        create_topics(broker.bootstrap, ["work"], FEW_DESCRIPTORS // 4)
        with contextlib.ExitStack() as streams:
            writer = streams.enter_context(connect(broker.bootstrap))
            ask(writer, METADATA, 1, struct.pack(">i", 0))
            storm = [streams.enter_context(connect(broker.bootstrap)) for _ in range(FEW_DESCRIPTORS)]
            assert is_closed_after(storm[-1], b"", then_finish=False), "it is refused, and not left to wait"
            writer.sendall(produce_request("work", FEW_DESCRIPTORS // 4, record_batch(b"to logs that were not open")))
            answer = receive_frame(writer)
            codes = {struct.unpack_from(">h", answer, 22 + 22 * row)[0] for row in range(FEW_DESCRIPTORS // 4)}
            assert codes == {0}
        until(lambda: is_served(broker), "the broker to take connections again")
    finally:
        broker.stop()
    lines = broker.error_lines()
    refused = [line for line in lines if "refused a connection" in line]
    assert 1 <= len(refused) <= 6
    assert "reserved for files; raise the limit on open files" in refused[0]
    assert any("raise the limit to" in line for line in lines), "it said so at its start"
    assert not [line for line in lines if "Too many open files" in line]


def is_served(broker: Broker) -> bool:
    with connect(broker.bootstrap) as stream:
        try:
            return bool(ask(stream, METADATA, 1, struct.pack(">i", 0)))
        except OSError:
            return False


def test_idle_partitions(many: Many, figure: Callable[[str], None]) -> None:
    figure(
        f"{PARTITIONS} partitions of a record each: {many.bytes_each:.0f} bytes each; made with"
        f" {many.created_s:.1f} s of CPU; ready after {many.clean_start_s:.1f} s, all of them after"
        f" {many.all_clean_s:.1f} s; when killed, {many.killed_start_s:.1f} s and {many.all_killed_s:.1f} s;"
        f" {many.empty_start_s:.1f} s without any"
    )
    with connect(many.broker.bootstrap) as stream:  # they are really there, after the kill too
        for topic in TOPICS[:: len(TOPICS) // 10]:
            stream.sendall(fetch_request(topic, 0))
            fetched = read_fetched(receive_frame(stream), topic)
            assert fetched.high_watermark == 1
            assert b"written once" in fetched.records
    assert many.bytes_each <= PARTITION_BYTES or TARGET != "headgate"
    assert max(many.all_clean_s, many.all_killed_s) <= START_LIMIT_S
    assert max(many.clean_start_s, many.killed_start_s) <= many.empty_start_s + LISTEN_LIMIT_S or TARGET != "headgate"


def test_a_working_client_beside_them(many: Many, alone: Broker, figure: Callable[[str], None]) -> None:
    """Windows of exchanges with the full broker and with the empty one, in turns."""
    create_topics(alone.bootstrap, ["work"], 1)
    create_topics(many.broker.bootstrap, ["work"], 1)
    with (
        descriptors() as allowed,
        idle_connections(many.broker, allowed_connections(allowed)),
        Steady(many.broker.bootstrap, "work") as beside,
        Steady(alone.bootstrap, "work") as free,
    ):
        clocks = [FairClock(broker).now_s for broker in (many.broker, alone)]
        pairs = [(beside.window(300, clocks[0]), free.window(300, clocks[1])) for _ in range(20)]
    median_s = [statistics.median(p99(windows[which]) for windows in pairs) for which in (0, 1)]
    worst_s = [max(itertools.chain.from_iterable(windows[which] for windows in pairs)) for which in (0, 1)]
    figure(
        f"a client beside {PARTITIONS} partitions and as many connections: p99 {median_s[0] * 1000:.2f} ms, slowest"
        f" {worst_s[0] * 1000:.0f} ms; alone {median_s[1] * 1000:.2f} ms, {worst_s[1] * 1000:.0f} ms"
    )
    assert median_s[0] <= 2 * median_s[1] + 0.001


def test_one_append_wakes_all_who_wait(alone: Broker, figure: Callable[[str], None]) -> None:
    """From the sending of the record until the last of them has it, and what that costs the broker."""
    create_topics(alone.bootstrap, ["wake"], 1)
    produce = produce_request("wake", 1, record_batch(b"wake up"))
    with contextlib.ExitStack() as streams:
        waiters = [streams.enter_context(connect(alone.bootstrap, 60)) for _ in range(WAITING)]
        writer = streams.enter_context(connect(alone.bootstrap, 60))
        began_s = alone.cpu_seconds()
        took_s = [wake(writer, waiters, produce, offset) for offset in range(ROUNDS)]
        cpu_s = (alone.cpu_seconds() - began_s) / ROUNDS / WAITING
    median_s = statistics.median(took_s)
    figure(
        f"{WAITING} waiting consumers: the last one has a record after {median_s * 1000:.1f} ms (median of {ROUNDS},"
        f" slowest {max(took_s) * 1000:.1f} ms); {cpu_s * 1e6:.0f} us of CPU for each, with its fetch"
    )
    assert median_s <= WAKE_LIMIT_S


def wake(writer: socket.socket, waiters: list[socket.socket], produce: bytes, offset: int) -> float:
    """Let all wait for the record at an offset, send it, and wait until all have it; the seconds of the latter."""
    fetch = fetch_request("wake", offset)
    for stream in waiters:
        stream.sendall(fetch)
    ask(writer, METADATA, 1, struct.pack(">i", 0))  # comes behind what they sent: then they wait, or nearly all
    missing = {stream.fileno(): stream for stream in waiters}
    with select.epoll() as poller:
        for descriptor in missing:
            poller.register(descriptor, select.EPOLLIN)
        began_s = time.perf_counter()
        writer.sendall(produce)
        while missing:
            for descriptor, _ in poller.poll(30):
                fetched = read_fetched(receive_frame(missing.pop(descriptor)), "wake")
                assert fetched.high_watermark == offset + 1
                assert b"wake up" in fetched.records
                poller.unregister(descriptor)
        took_s = time.perf_counter() - began_s
    receive_frame(writer)
    return took_s

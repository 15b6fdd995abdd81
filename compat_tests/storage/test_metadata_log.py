"""Topics that come and go leave nothing: neither a longer start, nor a metadata log that grows.

`make test` makes and deletes 2,000 topics, `make soak` 100,000.
"""

from __future__ import annotations

import statistics
import struct
from collections.abc import Sequence
from pathlib import Path

import pytest

from compat_tests.harness.broker import TARGET, Broker, running
from compat_tests.harness.leaders import leaders, until_all_led
from compat_tests.harness.steady import create_topics, end_offset, produce_request, record_batch
from compat_tests.harness.waiting import until
from compat_tests.harness.wire import CREATE_TOPICS, ask, connect, receive_frame, string

pytestmark = [
    pytest.mark.alone,
    pytest.mark.skipif(TARGET != "headgate", reason="it keeps 20 MB of its metadata log before a snapshot"),
]

DELETE_TOPICS = 20
AT_ONCE, ROUNDS, ROUNDS_OF_SOAK = 250, 8, 400
# What lives is a few hundred bytes; the broker may write a megabyte before it thinks of a snapshot
BOUND_BYTES = 3 << 20
# A broker that has just started has better things to do than to write one
SNAPSHOT_S = 45.0
STARTS, MORE_CPU_S = 3, 0.5
# Names and settings as long as they may be: a round writes more than half a megabyte
CONFIGS = {
    "retention.ms": "604800000",
    "segment.bytes": "1073741824",
    "max.message.bytes": "1048588",
    "min.insync.replicas": "1",
    "cleanup.policy": "compact,delete",
    "message.timestamp.type": "CreateTime",
}


def create_and_delete(broker: Broker, number: int) -> None:
    names = [f"{number:06d}-{one:06d}-" + "x" * 200 for one in range(AT_ONCE)]
    with connect(broker.bootstrap, 60) as stream:
        assert_created(ask(stream, CREATE_TOPICS, 2, creation(names)), names)
        body = struct.pack(">i", len(names)) + b"".join(map(string, names)) + struct.pack(">i", 60_000)
        answer = ask(stream, DELETE_TOPICS, 1, body)
    rows = [
        struct.unpack_from(">h", answer, 8 + row * (4 + len(names[0])) + 2 + len(names[0])) for row in range(AT_ONCE)
    ]
    assert set(rows) == {(0,)}


def creation(names: Sequence[str]) -> bytes:
    """CreateTopics v2: one partition each, and all of CONFIGS."""
    configs = struct.pack(">i", len(CONFIGS)) + b"".join(string(name) + string(one) for name, one in CONFIGS.items())
    topics = b"".join(string(name) + struct.pack(">ihi", 1, 1, 0) + configs for name in names)
    return struct.pack(">i", len(names)) + topics + struct.pack(">ib", 60_000, 0)


def assert_created(answer: bytes, names: Sequence[str]) -> None:
    """Look at what CreateTopics v2 says: an error and no message, of topics with names of one length."""
    size = 2 + len(names[0]) + 4
    rows = [struct.unpack_from(">hh", answer, 8 + row * size + size - 4) for row in range(len(names))]
    assert set(rows) == {(0, -1)}


def metadata_bytes(broker: Broker) -> int:
    """Of the files of the metadata log that are not about to go."""
    paths = (broker.data / "__headgate_metadata-0").iterdir()
    return sum(path.stat().st_size for path in paths if path.suffix != ".deleted")


def start_cpu_s(broker: Broker) -> float:
    """CPU time of the process until all is served, after a kill; the median of some starts."""
    taken = []
    for _ in range(STARTS):
        broker.kill()
        broker.start()
        until_all_led(broker.bootstrap)
        taken.append(broker.cpu_seconds())
    return statistics.median(taken)


def fill(broker: Broker) -> None:
    """A topic that stays, and a record in it."""
    create_topics(broker.bootstrap, ["stays"], 2)
    with connect(broker.bootstrap, 60) as stream:
        stream.sendall(produce_request("stays", 1, record_batch(b"kept")))
        receive_frame(stream)


def assert_only_what_stays(broker: Broker) -> None:
    assert set(leaders(broker.bootstrap)) == {("stays", 0), ("stays", 1)}
    with connect(broker.bootstrap, 60) as stream:
        assert end_offset(stream, "stays") == 1


def play(directory: Path, rounds: int) -> None:
    with running(directory / "used") as broker, running(directory / "fresh") as fresh:
        for one in (broker, fresh):
            fill(one)
        for number in range(rounds):
            create_and_delete(broker, number)
        fresh_s = start_cpu_s(fresh)
        until(lambda: metadata_bytes(broker) <= BOUND_BYTES, f"at most {BOUND_BYTES} bytes of metadata", SNAPSHOT_S)
        used_s = start_cpu_s(broker)
        assert_only_what_stays(broker)
    assert used_s < fresh_s + MORE_CPU_S, (
        f"a start took {used_s:.2f} s of CPU time, and a fresh broker's {fresh_s:.2f} s"
    )


def test_topics_made_and_deleted_leave_nothing(tmp_path: Path) -> None:
    play(tmp_path, ROUNDS)


@pytest.mark.soak
def test_a_hundred_thousand_topics_leave_nothing(tmp_path: Path) -> None:
    play(tmp_path, ROUNDS_OF_SOAK)

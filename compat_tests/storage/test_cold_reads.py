"""A consumer from the start of a topic that has left the memory, beside clients at the end of another.

The consumer is a process of its own and reads at a fixed pace. In turns the topic's pages are in memory, or are taken
out of it before it begins: the exchanges of a steady producer and consumer beside it are compared, and the disk is the
only difference. That the loop never waits for it is proved with a scripted disk in the broker's own tests; this shows
that nothing else of it disturbs who is at the end.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from compat_tests.harness.broker import TARGET, Broker, running
from compat_tests.harness.soak import SOAK
from compat_tests.harness.steady import (
    Steady,
    create_topics,
    fetch_request,
    p99,
    produce_request,
    read_fetched,
    record_batch,
)
from compat_tests.harness.wire import connect, receive_frame

pytestmark = [
    pytest.mark.alone,
    pytest.mark.skipif(TARGET != "headgate", reason="its heap and its page cache would have to be told apart"),
]

MEGABYTE = 1 << 20
TOPIC_MEGABYTES = 64
PACE_S = 0.02
TURNS = 4 if SOAK else 3
FLOOR_S = 0.020


def fill(broker: Broker, topic: str) -> None:
    """Batches of a megabyte, safe on the disk: only what is there can leave the memory."""
    request = produce_request(topic, 1, record_batch(os.urandom(MEGABYTE - 1024)))
    with connect(broker.bootstrap, 60) as stream:
        for _ in range(TOPIC_MEGABYTES):
            stream.sendall(request)
            receive_frame(stream)
    for path in broker.partition_directory(topic, 0).iterdir():
        with path.open("rb") as file:
            os.fdatasync(file.fileno())


def evict(broker: Broker, topic: str) -> None:
    for path in broker.partition_directory(topic, 0).iterdir():
        with path.open("rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def read_all(bootstrap: str, topic: str) -> None:
    """What the process does: a megabyte at a time, from the start to the end; prints how many bytes these were."""
    size = 0
    with connect(bootstrap, 60) as stream:
        for offset in range(TOPIC_MEGABYTES):
            stream.sendall(fetch_request(topic, offset))
            size += len(read_fetched(receive_frame(stream), topic).records)
            time.sleep(PACE_S)
    print(size)


def p99_beside_a_reader(broker: Broker, steady: Steady, topic: str) -> float:
    """Of the exchanges while a consumer reads the topic."""
    command = [sys.executable, "-m", "compat_tests.storage.test_cold_reads", broker.bootstrap, topic]
    taken: list[float] = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=Path(__file__).parents[2]) as process:
        while process.poll() is None:
            taken.append(steady.exchange())
            time.sleep(0.002)
        assert process.stdout is not None
        assert int(process.stdout.read()) > TOPIC_MEGABYTES * (MEGABYTE - 1024)
    return p99(taken)


@pytest.mark.slow
def test_who_reads_a_cold_topic_does_not_disturb_who_is_at_the_end(
    tmp_path: Path, figure: Callable[[str], None]
) -> None:
    with running(tmp_path) as broker:
        create_topics(broker.bootstrap, ["cold", "tail"], 1)
        fill(broker, "cold")
        warm, cold = [], []
        with Steady(broker.bootstrap, "tail") as steady:
            for _ in range(TURNS):
                warm.append(p99_beside_a_reader(broker, steady, "cold"))
                evict(broker, "cold")
                cold.append(p99_beside_a_reader(broker, steady, "cold"))
        before, after = statistics.median(warm), statistics.median(cold)
        figure(f"p99 at the end of a topic, beside a reader of another: {before * 1e3:.2f} ms from memory,")
        figure(f"p99 at the end of a topic, beside a reader of another: {after * 1e3:.2f} ms from the disk")
        assert after < 2 * before + FLOOR_S


if __name__ == "__main__":
    read_all(*sys.argv[1:3])

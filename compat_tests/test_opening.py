"""A broker that was killed with much to scan: it listens at once, and who has to do with other partitions is served.

The log is made longer behind the back of the dead broker, with batches as it would have written them.
"""

from __future__ import annotations

import statistics
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from compat_tests.broker import TARGET, Broker, running
from compat_tests.leaders import leaders, until_all_led
from compat_tests.steady import FairClock, Steady, create_topics, end_offset, produce_request, record_batch
from compat_tests.wire import connect, receive_frame

pytestmark = pytest.mark.skipif(TARGET != "headgate", reason="Kafka listens when all its logs are open")

BATCHES = 120_000
WINDOW = 200
# Of a start without anything to scan, on a machine that others use too
LISTEN_LIMIT_S = 3.0


def grow(log: Path, count: int) -> None:
    """Append so many batches of one record; offset and leader epoch are outside of their checksums."""
    batch = bytearray(record_batch(b"written before the broker was killed"))
    struct.pack_into(">i", batch, 12, 0)
    rest = bytes(batch[8:])
    with log.open("ab") as file:
        file.writelines(struct.pack(">q", offset) + rest for offset in range(1, count + 1))


def fill(broker: Broker) -> None:
    create_topics(broker.bootstrap, ["big", "work"], 1)
    with connect(broker.bootstrap) as stream:
        for topic in ("big", "work"):
            stream.sendall(produce_request(topic, 1, record_batch(b"the first")))
            receive_frame(stream)


def p99_ms(took_s: list[float]) -> float:
    return statistics.quantiles(took_s, n=100)[98] * 1000


def test_others_are_served_while_a_large_log_is_scanned(tmp_path: Path, figure: Callable[[str], None]) -> None:
    with running(tmp_path) as broker:
        fill(broker)
        broker.kill()
        grow(broker.partition_directory("big", 0) / f"{0:020d}.log", BATCHES)
        ready_s = broker.start()
        assert ready_s <= LISTEN_LIMIT_S
        assert leaders(broker.bootstrap) == {("big", 0): -1, ("work", 0): 0}
        beside: list[list[float]] = []
        with Steady(broker.bootstrap, "work") as steady:
            clock = FairClock(broker).now_s
            while leaders(broker.bootstrap)["big", 0] == -1:
                beside.append(steady.window(WINDOW, clock))
            after = [steady.window(WINDOW, clock) for _ in range(10)]
        until_all_led(broker.bootstrap)
        with connect(broker.bootstrap) as stream:
            assert end_offset(stream, "big") == BATCHES + 1
        lines = broker.error_lines()
    assert beside, "the log was open before the first exchange"
    medians = [statistics.median(map(p99_ms, windows)) for windows in (beside, after)]
    figure(
        f"{BATCHES} batches to scan: ready after {ready_s:.2f} s; a client of another partition meanwhile, in"
        f" {len(beside)} windows of {WINDOW}: p99 {medians[0]:.2f} ms; afterwards {medians[1]:.2f} ms"
    )
    assert any("opening 1 partitions while the broker serves" in line for line in lines)
    assert any("all 1 partitions are open after" in line for line in lines)
    assert medians[0] <= 2 * medians[1] + 2.0

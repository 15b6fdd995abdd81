"""A broker that was killed with much to scan: it listens at once, and who has to do with other partitions is served.

The log is made longer behind the back of the dead broker, with batches as it would have written them.
"""

from __future__ import annotations

import statistics
import struct
import time
from collections.abc import Callable
from pathlib import Path

import confluent_kafka
import pytest

from compat_tests.harness.broker import TARGET, Broker, running
from compat_tests.harness.leaders import leaders, until_all_led
from compat_tests.harness.steady import FairClock, Steady, create_topics, end_offset, p99, produce_request, record_batch
from compat_tests.harness.wire import connect, receive_frame

pytestmark = [
    pytest.mark.alone,
    pytest.mark.skipif(TARGET != "headgate", reason="Kafka listens when all its logs are open"),
]

BATCHES = 80_000
LARGE = ("big", "large")  # as many as there are threads by default
WINDOW = 200
# Of a start without anything to scan, on a machine that others use too
LISTEN_LIMIT_S = 3.0
STOP_LIMIT_S = 3.0


def grow(log: Path, count: int) -> None:
    """Append so many batches of one record; offset and leader epoch are outside of their checksums."""
    batch = bytearray(record_batch(b"written before the broker was killed"))
    struct.pack_into(">i", batch, 12, 0)
    rest = bytes(batch[8:])
    with log.open("ab") as file:
        file.writelines(struct.pack(">q", offset) + rest for offset in range(1, count + 1))


def fill(broker: Broker) -> None:
    create_topics(broker.bootstrap, ["big", "large", "work"], 1)
    with connect(broker.bootstrap) as stream:
        for topic in ("big", "large", "work"):
            stream.sendall(produce_request(topic, 1, record_batch(b"the first")))
            receive_frame(stream)


def killed_with_a_large_log(broker: Broker) -> None:
    fill(broker)
    broker.kill()
    for topic in LARGE:
        grow(broker.partition_directory(topic, 0) / f"{0:020d}.log", BATCHES)


def assert_whole(broker: Broker) -> None:
    with connect(broker.bootstrap) as stream:
        assert [end_offset(stream, topic) for topic in LARGE] == [BATCHES + 1] * 2


def test_others_are_served_while_a_large_log_is_scanned(tmp_path: Path, figure: Callable[[str], None]) -> None:
    with running(tmp_path) as broker:
        killed_with_a_large_log(broker)
        ready_s = broker.start()
        assert ready_s <= LISTEN_LIMIT_S
        assert leaders(broker.bootstrap) == {("big", 0): -1, ("large", 0): -1, ("work", 0): 0}
        beside: list[list[float]] = []
        with Steady(broker.bootstrap, "work") as steady:
            clock = FairClock(broker).now_s
            while -1 in leaders(broker.bootstrap).values():
                beside.append(steady.window(WINDOW, clock))
            after = [steady.window(WINDOW, clock) for _ in range(10)]
        until_all_led(broker.bootstrap)
        assert_whole(broker)
        lines = broker.error_lines()
    assert beside, "the log was open before the first exchange"
    medians = [statistics.median(map(p99, windows)) * 1000 for windows in (beside, after)]
    figure(
        f"two times {BATCHES} batches to scan: ready after {ready_s:.2f} s; a client of another partition meanwhile, in"
        f" {len(beside)} windows of {WINDOW}: p99 {medians[0]:.2f} ms; afterwards {medians[1]:.2f} ms"
    )
    assert any("opening 2 partitions while the broker serves" in line for line in lines)
    assert any("all 2 partitions are open after" in line for line in lines)
    assert medians[0] <= 2 * medians[1] + 2.0


def test_a_broker_that_is_stopped_and_killed_while_it_scans(tmp_path: Path, figure: Callable[[str], None]) -> None:
    with running(tmp_path) as broker:
        killed_with_a_large_log(broker)
        broker.start()
        assert leaders(broker.bootstrap)["big", 0] == -1
        began_s = time.monotonic()
        broker.stop()
        stopped_s = time.monotonic() - began_s
        assert not (broker.data / ".kafka_cleanshutdown").exists()
        broker.start()
        assert leaders(broker.bootstrap)["big", 0] == -1
        broker.kill()
        broker.start()
        until_all_led(broker.bootstrap)
        assert_whole(broker)
        broker.restart()
        assert -1 not in leaders(broker.bootstrap).values(), "it was left cleanly at last, and is open at once"
        assert_whole(broker)
    figure(f"in the middle of a scan a broker stops within {stopped_s:.2f} s")
    assert stopped_s <= STOP_LIMIT_S


def test_a_stock_client_waits_for_its_partition(tmp_path: Path) -> None:
    """A producer of librdkafka writes to the log that is scanned, a consumer reads on where its group was."""
    with running(tmp_path) as broker:
        fill(broker)
        settings = {"bootstrap.servers": broker.bootstrap, "group.id": "g", "auto.offset.reset": "earliest"}
        consumer = confluent_kafka.Consumer({**settings, "enable.auto.commit": False})
        consumer.assign([confluent_kafka.TopicPartition("big", 0, 0)])
        assert len(consumer.consume(1, 30)) == 1
        consumer.commit(offsets=[confluent_kafka.TopicPartition("big", 0, BATCHES)], asynchronous=False)
        consumer.close()
        broker.kill()
        grow(broker.partition_directory("big", 0) / f"{0:020d}.log", BATCHES)
        broker.start()
        assert leaders(broker.bootstrap)["big", 0] == -1
        producer = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap, "enable.idempotence": True})
        produced: list[int] = []

        def delivered(error: object, message: confluent_kafka.Message) -> None:
            assert error is None, error
            offset = message.offset()
            assert offset is not None
            produced.append(offset)

        producer.produce("big", b"sent while it was scanned", partition=0, on_delivery=delivered)
        assert producer.flush(60) == 0
        assert produced == [BATCHES + 1]
        consumer = confluent_kafka.Consumer(settings)
        consumer.subscribe(["big"])
        received = consumer.consume(2, 30)
        consumer.close()
        assert [message.offset() for message in received] == [BATCHES, BATCHES + 1]

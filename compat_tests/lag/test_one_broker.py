"""Three views of lag agree: groups that are busy, stalled, empty, out of range; and what the verdicts are."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from compat_tests.harness import toolchain
from compat_tests.harness.broker import TARGET, Broker, running
from compat_tests.harness.topics import create_topics, delete_before
from compat_tests.harness.waiting import until
from compat_tests.harness.writing import commit, send
from compat_tests.lag.views import (
    INTERVAL_MS,
    SETTINGS,
    assert_agree,
    by_command,
    by_endpoint,
    by_kafka,
    by_metrics,
    verdicts,
)

pytestmark = [
    pytest.mark.sockets,
    pytest.mark.skipif(TARGET != "headgate", reason="the endpoint is Headgate's own"),
]

TOPIC = "lagging"
PARTITIONS = 3
RECORDS = 300


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with running(tmp_path_factory.mktemp("lag"), SETTINGS) as broker:
        yield broker


class Busy:
    """A producer and a member of a group that reads all, and commits, until `stop`."""

    def __init__(self, broker: Broker, topic: str, group: str) -> None:
        self._is_over = threading.Event()
        self._threads = [
            threading.Thread(target=self._produce, args=(broker, topic)),
            threading.Thread(target=self._read, args=(broker, topic, group)),
        ]
        self.read = 0
        for thread in self._threads:
            thread.start()

    def _produce(self, broker: Broker, topic: str) -> None:
        producer = Producer({"bootstrap.servers": broker.bootstrap, "compression.type": "lz4", "linger.ms": 20})
        while not self._is_over.is_set():
            for _ in range(50):
                producer.produce(topic, b"v" * 100)
            producer.flush(10)
            time.sleep(0.02)

    def _read(self, broker: Broker, topic: str, group: str) -> None:
        settings = {"bootstrap.servers": broker.bootstrap, "group.id": group, "enable.auto.commit": False}
        consumer = Consumer({**settings, "auto.offset.reset": "earliest"})
        consumer.subscribe([topic])
        while not self._is_over.is_set():
            if consumer.consume(40, 0.05):
                self.read += 1
                consumer.commit(asynchronous=False)
        consumer.close()

    def stop(self) -> None:
        self._is_over.set()
        for thread in self._threads:
            thread.join()


def test_groups_at_rest(broker: Broker) -> None:
    """At the end, in the middle of a batch, at an empty partition, below the start and beyond the end."""
    toolchain.jars("broker")
    create_topics(broker.bootstrap, {TOPIC: {}}, PARTITIONS)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "compression.type": "zstd", "linger.ms": 100})
    for number in range(RECORDS):
        producer.produce(TOPIC, f"record {number}".encode() * 20, partition=number % 2)  # partition 2 stays empty
    producer.flush()
    half = RECORDS // 2
    commit(broker.bootstrap, "read", TOPIC, {0: half, 1: half, 2: 0})
    commit(broker.bootstrap, "behind", TOPIC, {0: 77, 1: 0, 2: 0})
    commit(broker.bootstrap, "beyond", TOPIC, {0: half + 50})
    commit(broker.bootstrap, "below", TOPIC, {1: 3})
    delete_before(broker.bootstrap, TOPIC, {1: 20})
    groups = ("read", "behind", "beyond", "below")
    place = "below", TOPIC, 1
    until(lambda: place in (rows := by_endpoint([broker])) and rows[place].status == "below the start", "the survey")
    kafka = by_kafka(broker, *groups)  # first: its JVM may have to start, and ages grow
    endpoint = {place: row for place, row in by_endpoint([broker]).items() if place[0] in groups}
    assert_agree(endpoint, by_command(broker, *groups), kafka)
    metrics = by_metrics(broker)
    assert {place: metrics[place] for place in endpoint} == {place: row.records for place, row in endpoint.items()}
    assert kafka["beyond", TOPIC, 0].records == -50
    assert endpoint["beyond", TOPIC, 0][2:5] == (0, 0.0, "beyond the end")
    assert endpoint["behind", TOPIC, 0].records == half - 77


def test_a_busy_group_with_a_member(broker: Broker) -> None:
    """While all moves, the tools' numbers are between those of the endpoint before and after; at rest they agree."""
    toolchain.jars("broker")
    topic, group = "busy", "busy-readers"
    create_topics(broker.bootstrap, {topic: {}}, 2)
    busy = Busy(broker, topic, group)
    try:
        until(lambda: busy.read >= 10 and len(by_endpoint([broker])) >= 2, "the first commits")
        time.sleep(2 * INTERVAL_MS / 1000)
        before = by_endpoint([broker])
        kafka, command = by_kafka(broker, group), by_command(broker, group)
        time.sleep(2 * INTERVAL_MS / 1000)
        after = by_endpoint([broker])
        assert len(kafka) == len(command) == 2
        for said in (kafka, command):
            for place, row in said.items():
                assert before[place].member == row.member == after[place].member is not None
                for early, now, late in list(
                    zip(before[place].numbers, row.numbers, after[place].numbers, strict=True)
                )[:2]:
                    assert (early or 0) <= (now or 0) <= (late or 0), place
        assert after[group, topic, 0].end > before[group, topic, 0].end  # type: ignore[operator]
        assert verdicts(broker)[group] in {"OK", "WARN"}
    finally:
        busy.stop()


class Committing:
    """Clients that commit offsets of one topic for several groups, without being their members."""

    def __init__(self, broker: Broker, topic: str) -> None:
        self._settings = {"bootstrap.servers": broker.bootstrap, "enable.auto.commit": False}
        self._topic = topic
        self._consumers: dict[str, Consumer] = {}

    def commit(self, group: str, offset: int) -> None:
        if group not in self._consumers:
            self._consumers[group] = Consumer({**self._settings, "group.id": group})
        self._consumers[group].commit(offsets=[TopicPartition(self._topic, 0, offset)], asynchronous=False)

    def close(self) -> None:
        for consumer in self._consumers.values():
            consumer.close()


def test_verdicts_on_real_commits(broker: Broker) -> None:
    """A group that commits one offset again and again, one that creeps, one that rests; and a live one."""
    topic = "judged"
    create_topics(broker.bootstrap, {topic: {}}, 1)
    send(broker.bootstrap, topic, [b"v"] * 200)
    commit(broker.bootstrap, "stopped", topic, {0: 5})
    expected = {"stalled": "STALL", "slow": "WARN", "quick": "OK", "stopped": "STOP", "rewound": "REWIND"}
    producer, clients = Producer({"bootstrap.servers": broker.bootstrap}), Committing(broker, topic)
    step = 0

    def is_judged() -> bool:
        nonlocal step
        step += 1
        for _ in range(5):
            producer.produce(topic, b"v")
        producer.flush(10)
        clients.commit("stalled", 7)
        clients.commit("slow", step)
        clients.commit("quick", min(150 + 7 * step, 200 + 5 * step))
        clients.commit("rewound", max(0, 150 - step))
        time.sleep(INTERVAL_MS / 1000)
        found = verdicts(broker)
        return {name: found.get(name) for name in expected} == expected

    try:
        until(is_judged, "the verdicts", timeout_s=60, step_s=0.01)
    finally:
        clients.close()

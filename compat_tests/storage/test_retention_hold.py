"""`headgate.retention.hold.groups`: retention waits for groups, and for nobody else."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from compat_tests.harness.broker import TARGET, Broker, running
from compat_tests.harness.topics import create_topics, new_topic, set_config
from compat_tests.harness.waiting import until
from compat_tests.harness.writing import commit

pytestmark = pytest.mark.skipif(TARGET != "headgate", reason="Apache Kafka has no such setting")

COUNT = 60
EXPIRED = {"retention.ms": "1", "segment.bytes": "1000", "file.delete.delay.ms": "100"}
SETTINGS = {"log.retention.check.interval.ms": "100", "offsets.topic.num.partitions": "1"}


@pytest.fixture(scope="module")
def busy_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """It looks for expired segments ten times a second."""
    with running(tmp_path_factory.mktemp("retention"), SETTINGS) as broker:
        yield broker


def produce(broker: Broker, topic: str) -> None:
    """Records of an old time, three to a segment."""
    producer = Producer({"bootstrap.servers": broker.bootstrap, "batch.num.messages": "1", "linger.ms": "0"})
    for _ in range(COUNT):
        producer.produce(topic, bytes(250), partition=0, timestamp=1_600_000_000_000)
    assert producer.flush(60) == 0


def bounds(broker: Broker, topic: str) -> tuple[int, int]:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "none"})
    try:
        found: tuple[int, int] = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=60)
        return found
    finally:
        consumer.close()


def test_retention_waits_for_a_group(busy_broker: Broker, tmp_path: Path) -> None:
    broker, held = busy_broker, f"held-{tmp_path.name}"
    group = f"g-{held}"
    create_topics(broker.bootstrap, {held: {**EXPIRED, "headgate.retention.hold.groups": group}})
    free = new_topic(broker.bootstrap, 1, EXPIRED)
    produce(broker, held)
    produce(broker, free)
    until(lambda: bounds(broker, free) == (COUNT, COUNT), "the retention of the topic that nobody holds")
    assert bounds(broker, held) == (0, COUNT), "nobody has read anything"

    commit(broker.bootstrap, group, held, {0: 30})
    until(lambda: bounds(broker, held)[0] > 26, "what is read to be deleted")
    broker.restart()
    commit(broker.bootstrap, f"{group}-other", held, {0: COUNT})
    assert 26 < bounds(broker, held)[0] <= 30, "another group counts for nothing"

    set_config(broker.bootstrap, held, "headgate.retention.hold.ms", "1000")
    until(lambda: bounds(broker, held) == (COUNT, COUNT), "the end of the hold")
    unread = [line for line in broker.error_lines() if "has not read them" in line]
    assert unread
    assert all(held in line for line in unread)

"""Stock clients of a topic whose records are there when the disk has them.

What a power cut would take is shown by `gateway/replication/tests/test_power_cuts.py`: here that clients notice nothing
but the time.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from compat_tests.harness.broker import TARGET, Broker

RECORDS = 200
LIMIT_S = 60
POLICY = {"headgate.flush": "commit"} if TARGET == "headgate" else {"flush.messages": "1"}


def read_all(bootstrap: str, topic: str, count: int) -> list[bytes]:
    """So many values, from the first on."""
    settings = {"bootstrap.servers": bootstrap, "group.id": "durability", "enable.auto.commit": False}
    consumer = Consumer(settings)
    consumer.assign([TopicPartition(topic, 0, 0)])
    values: list[bytes] = []
    deadline = time.monotonic() + LIMIT_S
    while len(values) < count and time.monotonic() < deadline:
        message = consumer.poll(1.0)
        if message is not None and message.error() is None:
            values.append(message.value() or b"")
    consumer.close()
    return values


def test_acknowledged_records_are_read_before_and_after_a_kill(
    broker: Broker, topic: Callable[..., str], figure: Callable[[str], None]
) -> None:
    name = topic(**POLICY)
    acknowledged: list[bytes] = []

    def told(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            raise KafkaException(error)
        acknowledged.append(message.value() or b"")

    producer = Producer({"bootstrap.servers": broker.bootstrap, "acks": "all", "linger.ms": 0})
    began_s = time.monotonic()
    for number in range(RECORDS):
        producer.produce(name, b"%d" % number, on_delivery=told)
        producer.poll(0)
    assert producer.flush(LIMIT_S) == 0
    figure(f"{RECORDS} records on the disk, acks=all, linger.ms=0: {time.monotonic() - began_s:.2f} s")
    expected = [b"%d" % number for number in range(RECORDS)]
    assert acknowledged == expected
    assert read_all(broker.bootstrap, name, RECORDS) == expected
    broker.kill()
    broker.start()
    assert read_all(broker.bootstrap, name, RECORDS) == expected

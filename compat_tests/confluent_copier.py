"""Copies a topic to another one in transactions, for ever; the same as Copier.java. See `copying.py`."""

from __future__ import annotations

import sys

from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition

PARTITIONS = 2
LIMIT_S = 30.0


def copy(bootstrap: str, source: str, target: str, timeout_ms: str) -> None:
    """Copy until something fails that needs a new producer."""
    consumer = Consumer({
        "bootstrap.servers": bootstrap,
        "group.id": source,
        "enable.auto.commit": False,
        "isolation.level": "read_committed",
        "reconnect.backoff.max.ms": 200,
        "log_level": 0,
    })  # fmt: skip
    producer = Producer({
        "bootstrap.servers": bootstrap,
        "transactional.id": source,
        "transaction.timeout.ms": int(timeout_ms),
        "reconnect.backoff.max.ms": 200,
        "linger.ms": 0,
        "log_level": 0,
    })  # fmt: skip
    try:
        producer.init_transactions(LIMIT_S)
        asked = [TopicPartition(source, index) for index in range(PARTITIONS)]
        found = consumer.committed(asked, LIMIT_S)
        consumer.assign([TopicPartition(source, one.partition, max(one.offset, 0)) for one in found])
        while True:
            messages = [one for one in consumer.consume(20, 0.2) if one.error() is None]
            if messages:
                commit(consumer, producer, messages, source, target)
    finally:
        consumer.close()


def commit(consumer: Consumer, producer: Producer, messages: list[Message], source: str, target: str) -> None:
    producer.begin_transaction()
    offsets: dict[int, int] = {}
    for message in messages:
        partition, offset = message.partition(), message.offset()
        assert partition is not None
        assert offset is not None
        producer.produce(target, value=message.value(), partition=partition)
        offsets[partition] = offset + 1
    positions = [TopicPartition(source, partition, offset) for partition, offset in offsets.items()]
    producer.send_offsets_to_transaction(positions, consumer.consumer_group_metadata(), LIMIT_S)
    producer.commit_transaction(LIMIT_S)
    sys.stdout.write(f"committed {len(messages)}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    while True:
        try:
            copy(*sys.argv[1:])
        except KafkaException as error:
            sys.stdout.write(f"anew {error.args[0].name()}\n")
            sys.stdout.flush()

"""Records sent, and offsets committed, by confluent-kafka; each call returns when the broker has answered."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import closing

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from compat_tests.harness.waiting import until

LIMIT_S = 60


def send(bootstrap: str, topic: str, values: Iterable[str | bytes], *, is_idempotent: bool = True) -> None:
    """All values, in order in each partition; each is acknowledged."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 1, "enable.idempotence": is_idempotent})
    failures: list[object] = []
    for value in values:
        producer.produce(topic, value, on_delivery=lambda error, _: failures.append(error) if error else None)
    assert producer.flush(LIMIT_S) == 0
    assert not failures


def commit(bootstrap: str, group: str, topic: str, offsets: Mapping[int, int]) -> None:
    """As a client that is not in the group; a new coordinator may still load."""
    wanted = [TopicPartition(topic, index, offset) for index, offset in offsets.items()]
    with closing(Consumer({"bootstrap.servers": bootstrap, "group.id": group})) as consumer:

        def is_committed() -> bool:
            try:
                consumer.commit(offsets=wanted, asynchronous=False)
            except KafkaException:
                return False
            return True

        until(is_committed, f"the coordinator of {group} to take a commit", LIMIT_S, 0.1)

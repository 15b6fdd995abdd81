"""confluent-kafka: librdkafka of today, in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)

from compat_tests.families.family import Family, FromOffset, FromTime, Gathered, Start, Tail
from compat_tests.harness.records import Headers, Received, Sent
from compat_tests.security.client_security import of_confluent

Delivered = Callable[[KafkaError | None, Message], None]


class Confluent(Family):
    name = "confluent-kafka"

    def check(self) -> None:
        """Imported above: these tests require it."""

    def produce(self, bootstrap: str, topic: str, records: Iterable[Sent], codec: str) -> None:
        settings = {
            "bootstrap.servers": bootstrap,
            "compression.type": codec,
            "enable.idempotence": True,
            "linger.ms": 5,
            **of_confluent(self.security),
        }
        producer = Producer({**settings, "reconnect.backoff.max.ms": 500, "log_level": 2})
        failures: list[KafkaError] = []

        def delivered(error: KafkaError | None, _: Message) -> None:
            if error is not None:
                failures.append(error)

        for record in records:
            send(producer, topic, record, delivered)
        left = producer.flush(60)
        assert not failures, failures[:3]
        assert left == 0, f"{left} records were not acknowledged"

    def consume(self, bootstrap: str, topic: str, start: Start, limits: Mapping[int, int]) -> list[Received]:
        consumer = new_consumer(bootstrap, of_confluent(self.security))
        gathered = Gathered(limits)
        try:
            # Else it takes half a second to find who leads the partitions
            consumer.list_topics(topic, timeout=60)
            consumer.assign(positions(consumer, topic, start, limits))
            while gathered.is_waiting():
                for message in consumer.consume(1000, 0.05):
                    if message.error():
                        raise KafkaException(message.error())
                    gathered.add(received(message))
        finally:
            consumer.close()
        return gathered.records

    def tail(self, bootstrap: str, topic: str) -> Tail:
        def run(tail: Tail) -> None:
            consumer = new_consumer(bootstrap, {"enable.partition.eof": True, **of_confluent(self.security)})
            consumer.assign([TopicPartition(topic, 0, OFFSET_END)])
            while not tail.is_closing.is_set():
                message = consumer.poll(0.2)
                if message is None:
                    continue
                if error := message.error():
                    assert error.code() == KafkaError._PARTITION_EOF, error  # noqa: SLF001  its documented name
                    tail.is_parked.set()
                else:
                    tail.arrived(message.value())
            consumer.close()

        return Tail(run)


def new_consumer(bootstrap: str, settings: Mapping[str, object] | None = None) -> Consumer:
    """A group.id it insists on; nothing is ever committed."""
    usual = {"bootstrap.servers": bootstrap, "group.id": "unused", "enable.auto.commit": False}
    return Consumer({**usual, "auto.offset.reset": "error", "log_level": 2, **(settings or {})})


def send(producer: Producer, topic: str, record: Sent, delivered: Delivered) -> None:
    """Hand one record over, waiting while the client's queue is full."""
    partition = -1 if record.partition is None else record.partition
    headers: list[tuple[str, str | bytes | None]] = list(record.headers)
    while True:
        try:
            producer.produce(
                topic,
                record.value,
                record.key,
                partition,
                on_delivery=delivered,
                timestamp=record.timestamp_ms or 0,
                headers=headers,
            )
            producer.poll(0)
            return
        except BufferError:
            producer.poll(0.1)


def positions(consumer: Consumer, topic: str, start: Start, limits: Mapping[int, int]) -> list[TopicPartition]:
    match start:
        case FromOffset(offsets):
            return [TopicPartition(topic, partition, offsets[partition]) for partition in limits]
        case FromTime(timestamp_ms):
            asked = [TopicPartition(topic, partition, timestamp_ms) for partition in limits]
            return list(consumer.offsets_for_times(asked, timeout=60))
    return [TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in limits]


def received(message: Message) -> Received:
    headers: Headers = tuple(message.headers() or ())  # type: ignore[arg-type]  # never text, as received
    partition, offset = message.partition(), message.offset()
    assert partition is not None
    assert offset is not None
    return Received(partition, offset, message.timestamp()[1], message.key(), message.value(), headers)

"""pykafka 2.8, which finds brokers and the members of a group in ZooKeeper. See `lines.py`.

`--zookeeper` is ZooKeeper's address; without it the brokers are asked.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import Any, Final

import pykafka
from pykafka.common import CompressionType, OffsetType

from compat_tests.harness.records import Received, Sent
from compat_tests.matrix.python.lines import STAY_S, Missing, Program, main

CODECS: Final = {"none": CompressionType.NONE, "gzip": CompressionType.GZIP, "snappy": CompressionType.SNAPPY}
WAIT_MS: Final = 200
# By default it passes over every message behind a gap
READING: Final = {
    "auto_offset_reset": OffsetType.EARLIEST,
    "consumer_timeout_ms": WAIT_MS,
    "fetch_wait_max_ms": WAIT_MS,
    "compacted_topic": True,
}


class Pykafka(Program):
    def topic(self) -> Any:
        zookeeper = self.options.zookeeper
        # It keeps topics by weak references, and connections only as long as the client
        self.client = pykafka.KafkaClient(
            hosts=self.options.bootstrap,
            zookeeper_hosts=zookeeper,
            broker_version=self.options.protocol,
            socket_timeout_ms=10_000,
        )
        return self.client.topics[self.options.topic]

    def produce(self, records: Iterable[Sent], codec: str) -> None:
        topic = self.topic()
        wanted: list[int] = []
        settings = {"compression": CODECS[codec], "required_acks": -1, "linger_ms": 5, "max_retries": 3}
        producer = topic.get_producer(
            partitioner=lambda partitions, _: next(one for one in partitions if one.id == wanted[-1]),
            delivery_reports=True,
            **settings,
        )
        count = 0
        for record in records:
            wanted.append(record.partition or 0)
            producer.produce(record.value, partition_key=record.key)
            count += 1
        for _ in range(count):
            _, error = producer.get_delivery_report(timeout=30)
            if error is not None:
                raise error
        producer.stop()

    def read(self, count: int) -> Iterable[Received]:
        consumer = self.topic().get_simple_consumer(**READING)
        yield from take(consumer, count)
        consumer.stop()

    def group(self, group: str, count: int) -> Iterable[Received]:
        zookeeper = self.options.zookeeper
        consumer = self.topic().get_balanced_consumer(group.encode(), zookeeper_connect=zookeeper, **READING)
        yield from take(consumer, count)
        consumer.commit_offsets()
        time.sleep(STAY_S)
        consumer.stop()


def take(consumer: Any, count: int) -> Iterator[Received]:
    missing = Missing(count)
    while missing:
        if (found := consumer.consume()) is not None:
            yield from missing.take([received(found)])


def received(message: Any) -> Received:
    return Received(message.partition_id, message.offset, -1, message.partition_key, message.value, ())


if __name__ == "__main__":
    main(Pykafka, "zookeeper")

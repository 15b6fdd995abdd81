"""kafka-python from 1.4 to today: `kafka` is whichever version comes first on the path. See `lines.py`.

It is told which protocol to speak as `api_version`, else it asks the broker, or tries what the broker bears.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Sequence
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_loader
from types import ModuleType
from typing import Any

from compat_tests.harness.records import Received, Sent
from compat_tests.matrix.python.lines import HEARTBEAT_MS, LIMIT_S, STAY_S, Missing, Program, Transaction, main

POLL_MS = 10_000


class OldFinders:
    """Finders without find_spec, which Python 3.12 left behind: the `six` inside old versions is one."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        for finder in sys.meta_path:
            find_module = None if hasattr(finder, "find_spec") else getattr(finder, "find_module", None)
            if find_module and (loader := find_module(name, path)):
                return spec_from_loader(name, loader)
        return None


class KafkaPython(Program):
    def common(self) -> dict[str, Any]:
        """Settings of producers and consumers."""
        protocol = self.options.protocol
        version = tuple(map(int, protocol.split("."))) if protocol else None
        return {"bootstrap_servers": self.options.bootstrap, "api_version": version}

    def produce(self, records: Iterable[Sent], codec: str) -> None:
        compression = None if codec == "none" else codec
        producer = kafka.KafkaProducer(**self.common(), compression_type=compression, linger_ms=5, acks="all")
        topic = self.options.topic
        # Headers are of its newer protocols alone: without any it is not asked for them
        futures = [
            producer.send(topic, one.value, one.key, list(one.headers) or None, one.partition, one.timestamp_ms)
            for one in records
        ]
        for future in futures:
            future.get(LIMIT_S)
        producer.close(LIMIT_S)

    def transact(self, name: str, group: str, transactions: Iterable[Transaction]) -> None:
        producer, topic = kafka.KafkaProducer(**self.common(), transactional_id=name), self.options.topic
        producer.init_transactions()
        for records, offset, end in transactions:
            producer.begin_transaction()
            futures = [
                producer.send(topic, one.value, one.key, list(one.headers) or None, one.partition, one.timestamp_ms)
                for one in records
            ]
            for future in futures:
                future.get(LIMIT_S)
            place = kafka.TopicPartition(topic, 0)
            producer.send_offsets_to_transaction({place: kafka.OffsetAndMetadata(offset, "", -1)}, group)
            (producer.commit_transaction if end == "commit" else producer.abort_transaction)()
        producer.close(LIMIT_S)

    def consumer(self, *topics: str, **settings: object) -> Any:
        usual = {"auto_offset_reset": "earliest", "enable_auto_commit": False}
        if self.options.isolation:
            usual["isolation_level"] = self.options.isolation
        return kafka.KafkaConsumer(*topics, **self.common(), **usual, **settings)

    def read(self, count: int) -> Iterable[Received]:
        consumer, topic = self.consumer(group_id=None), self.options.topic
        consumer.assign([kafka.TopicPartition(topic, one) for one in consumer.partitions_for_topic(topic)])
        yield from poll(consumer, count)
        consumer.close()

    def group(self, group: str, count: int) -> Iterable[Received]:
        consumer = self.consumer(self.options.topic, group_id=group, heartbeat_interval_ms=HEARTBEAT_MS)
        yield from poll(consumer, count)
        consumer.commit()
        time.sleep(STAY_S)
        consumer.close()


def poll(consumer: Any, count: int) -> Iterable[Received]:
    """As many as are wanted and no more: those that the consumer gave out are what it commits.

    A poll takes long enough for a member to join: kafka-python 3.0.12 loses an assignment that comes while a poll gives
    up waiting, against Apache Kafka too.
    """
    missing = Missing(count)
    while missing:
        for records in consumer.poll(POLL_MS, max_records=missing.count).values():
            yield from missing.take(map(received, records))


def received(record: Any) -> Received:
    timestamp_ms = -1 if record.timestamp is None else record.timestamp
    return Received(
        record.partition, record.offset, timestamp_ms, record.key, record.value, tuple(map(tuple, record.headers))
    )


if __name__ == "__main__":
    sys.meta_path.append(OldFinders)
    import kafka

    # As 0.8.1 it has its commits written into ZooKeeper, by the broker
    main(KafkaPython, "zookeeper")

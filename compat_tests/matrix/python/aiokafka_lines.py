"""aiokafka. See `lines.py`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from compat_tests.harness.records import Received, Sent
from compat_tests.matrix.python.lines import HEARTBEAT_MS, LIMIT_S, STAY_S, Missing, Program, Transaction, main


class Aiokafka(Program):
    def produce(self, records: Iterable[Sent], codec: str) -> None:
        asyncio.run(self.send(records, None if codec == "none" else codec))

    async def send(self, records: Iterable[Sent], codec: str | None) -> None:
        producer = AIOKafkaProducer(bootstrap_servers=self.options.bootstrap, compression_type=codec, acks="all")
        async with producer, asyncio.timeout(LIMIT_S):
            topic = self.options.topic
            sent = [
                await producer.send(topic, one.value, one.key, one.partition, one.timestamp_ms, list(one.headers))
                for one in records
            ]
            await asyncio.gather(*sent)

    def transact(self, name: str, group: str, transactions: Iterable[Transaction]) -> None:
        asyncio.run(self.send_transactions(name, group, transactions))

    async def send_transactions(self, name: str, group: str, transactions: Iterable[Transaction]) -> None:
        topic = self.options.topic
        producer = AIOKafkaProducer(bootstrap_servers=self.options.bootstrap, transactional_id=name)
        async with producer, asyncio.timeout(LIMIT_S):
            for records, offset, end in transactions:
                await producer.begin_transaction()
                sent = [
                    await producer.send(topic, one.value, one.key, one.partition, one.timestamp_ms, list(one.headers))
                    for one in records
                ]
                await asyncio.gather(*sent)
                await producer.send_offsets_to_transaction({TopicPartition(topic, 0): offset}, group)
                await (producer.commit_transaction if end == "commit" else producer.abort_transaction)()

    def read(self, count: int) -> Iterable[Received]:
        return asyncio.run(self.consume(count, None))

    def group(self, group: str, count: int) -> Iterable[Received]:
        return asyncio.run(self.consume(count, group))

    async def consume(self, count: int, group: str | None) -> list[Received]:
        """Without a group it gives itself all partitions."""
        consumer = AIOKafkaConsumer(
            self.options.topic,
            bootstrap_servers=self.options.bootstrap,
            group_id=group,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            heartbeat_interval_ms=HEARTBEAT_MS,
            isolation_level=self.options.isolation or "read_uncommitted",
        )
        async with consumer:
            found = [record async for record in poll(consumer, count)]
            if group is not None:
                await consumer.commit()
                await asyncio.sleep(STAY_S)
        return found


async def poll(consumer: AIOKafkaConsumer, count: int) -> AsyncIterator[Received]:
    """As many as are wanted and no more: those that the consumer gave out are what it commits."""
    missing = Missing(count)
    while missing:
        for records in (await consumer.getmany(timeout_ms=200, max_records=missing.count)).values():
            for record in missing.take(map(received, records)):
                yield record


def received(record: Any) -> Received:
    return Received(record.partition, record.offset, record.timestamp, record.key, record.value, tuple(record.headers))


if __name__ == "__main__":
    main(Aiokafka)

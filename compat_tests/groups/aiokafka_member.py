"""A member of a group: aiokafka. See `lines.py`."""

from __future__ import annotations

import asyncio

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from aiokafka.errors import KafkaError

from compat_tests.groups.lines import Lines

ASSIGNORS = {
    "range": RangePartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
    "sticky": StickyPartitionAssignor,
}


async def run() -> None:
    lines = Lines()
    options = lines.options
    consumer = AIOKafkaConsumer(
        options.topic,
        bootstrap_servers=options.bootstrap,
        group_id=options.group,
        group_instance_id=options.instance,
        partition_assignment_strategy=[ASSIGNORS[options.assignor]],
        session_timeout_ms=options.session_ms,
        heartbeat_interval_ms=500,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
    )
    await consumer.start()
    try:
        while not lines.is_closing.is_set():
            found = await consumer.getmany(timeout_ms=100, max_records=500)
            lines.owned(one.partition for one in consumer.assignment())
            for messages in found.values():
                for message in messages:
                    lines.record(message.partition, message.offset)
            if lines.is_to_commit():
                await commit(lines, consumer)
    finally:
        await consumer.stop()


async def commit(lines: Lines, consumer: AIOKafkaConsumer) -> None:
    topic = lines.options.topic
    try:
        if offsets := {TopicPartition(topic, number): offset for number, offset in lines.positions().items()}:
            await consumer.commit(offsets)
    except KafkaError as failure:
        lines.committed(repr(failure))
    else:
        lines.committed()


if __name__ == "__main__":
    asyncio.run(run())

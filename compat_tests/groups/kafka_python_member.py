"""A member of a group: kafka-python. See `lines.py`."""

from __future__ import annotations

from typing import Any

from kafka import KafkaConsumer, OffsetAndMetadata, TopicPartition
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.errors import KafkaError

from compat_tests.groups.lines import Lines

ASSIGNORS = {"range": RangePartitionAssignor, "cooperative-sticky": CooperativeStickyAssignor}


def main() -> None:
    lines = Lines()
    options = lines.options
    consumer = KafkaConsumer(
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
    while not lines.is_closing.is_set():
        found = consumer.poll(100, 500)
        lines.owned(one.partition for one in consumer.assignment())
        for messages in found.values():
            for message in messages:
                lines.record(message.partition, message.offset)
        if lines.is_to_commit():
            commit(lines, consumer)
    consumer.close()


def commit(lines: Lines, consumer: Any) -> None:
    topic = lines.options.topic
    offsets = {
        TopicPartition(topic, partition): OffsetAndMetadata(offset, "", -1)
        for partition, offset in lines.positions().items()
    }
    try:
        consumer.commit(offsets)
    except KafkaError as failure:
        lines.committed(repr(failure))
    else:
        lines.committed()


if __name__ == "__main__":
    main()

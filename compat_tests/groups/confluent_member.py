"""A member of a group: confluent-kafka. See `lines.py`."""

from __future__ import annotations

from confluent_kafka import Consumer, KafkaException, TopicPartition

from compat_tests.groups.lines import SERVER, Lines


def settings(lines: Lines) -> dict[str, str | int | bool]:
    options = lines.options
    found: dict[str, str | int | bool] = {
        "bootstrap.servers": options.bootstrap,
        "group.id": options.group,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "reconnect.backoff.max.ms": 500,
        "log_level": 2,
    }
    if options.assignor == SERVER:
        found["group.protocol"] = "consumer"
    else:
        found["partition.assignment.strategy"] = options.assignor
        found["session.timeout.ms"] = options.session_ms
        found["heartbeat.interval.ms"] = 500
    if options.instance:
        found["group.instance.id"] = options.instance
    return found


def main() -> None:
    lines = Lines()
    topic = lines.options.topic
    consumer = Consumer(settings(lines))
    consumer.subscribe([topic])
    while not lines.is_closing.is_set():
        messages = consumer.consume(500, 0.1)
        lines.owned(one.partition for one in consumer.assignment())
        for message in messages:
            if error := message.error():
                if not error.retriable():
                    raise KafkaException(error)
                continue
            partition, offset = message.partition(), message.offset()
            assert partition is not None
            assert offset is not None
            lines.record(partition, offset)
        if lines.is_to_commit():
            commit(lines, consumer, topic)
    consumer.close()


def commit(lines: Lines, consumer: Consumer, topic: str) -> None:
    offsets = [TopicPartition(topic, partition, offset) for partition, offset in lines.positions().items()]
    failures: list[object] = []
    try:
        if offsets:
            failures = [one.error for one in consumer.commit(offsets=offsets, asynchronous=False) or () if one.error]
    except KafkaException as failure:
        failures = [failure]
    lines.committed(failures or "")


if __name__ == "__main__":
    main()

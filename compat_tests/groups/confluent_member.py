"""A member of a group: confluent-kafka. See `lines.py`."""

from __future__ import annotations

from collections.abc import Mapping

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from compat_tests.groups.lines import SERVER, Lines

# The position of a partition is lost: the member stays for the others
REPORTED = (KafkaError._AUTO_OFFSET_RESET, KafkaError._LOG_TRUNCATION)  # noqa: SLF001  their documented names


def settings(lines: Lines) -> dict[str, str | int | bool]:
    options = lines.options
    found: dict[str, str | int | bool] = {
        "bootstrap.servers": options.bootstrap,
        "group.id": options.group,
        "socket.timeout.ms": 10_000,  # a broker that stands still keeps its connections
        # It has no "none"
        "auto.offset.reset": {"none": "error"}.get(options.reset, options.reset),
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
    epochs: dict[int, int] = {}
    while not lines.is_closing.is_set():
        messages = consumer.consume(500, 0.1)
        lines.owned(one.partition for one in consumer.assignment())
        for message in messages:
            if error := message.error():
                lines.failed(error.name())
                if error.code() not in REPORTED and not error.retriable():
                    raise KafkaException(error)
                continue
            partition, offset = message.partition(), message.offset()
            assert partition is not None
            assert offset is not None
            epochs[partition] = -1 if (epoch := message.leader_epoch()) is None else epoch
            lines.record(partition, offset)
        if lines.is_to_commit():
            commit(lines, consumer, topic, epochs)
    consumer.close()


def commit(lines: Lines, consumer: Consumer, topic: str, epochs: Mapping[int, int]) -> None:
    """With the epochs of the last records, as the client itself commits."""
    offsets = [
        TopicPartition(topic, partition, offset, leader_epoch=epochs[partition])
        for partition, offset in lines.positions().items()
    ]
    failures: list[object] = []
    try:
        if offsets:
            failures = [one.error for one in consumer.commit(offsets=offsets, asynchronous=False) or () if one.error]
    except KafkaException as failure:
        failures = [failure]
    lines.committed(failures or "")


if __name__ == "__main__":
    main()

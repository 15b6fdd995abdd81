"""Reads partitions by assignment with librdkafka, again and again from their start, for so many seconds.

    python -m headgate.tools.bench.rows.librdkafka_consumer ADDRESS TOPIC PARTITIONS SECONDS

One line of JSON: messages as `requests`, bytes of their values, seconds. Anything unexpected ends it with a sentence.
"""

import json
import sys
import time
from collections.abc import Sequence

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, TopicPartition

_AT_ONCE = 1_000
_WAIT_SECONDS = 0.05  # `consume` returns less than it was asked for only after this long: at the end of a round
_SILENCE_SECONDS = 15.0


class Round:
    """The messages of one time round: offsets follow each other in each partition, up to its end."""

    def __init__(self, partitions: int) -> None:
        self.next_offset = [0] * partitions
        self.ended = [False] * partitions
        self.messages = self.value_bytes = 0

    def take(self, partition: int, offset: int, length: int) -> None:
        if offset != self.next_offset[partition]:
            raise ValueError(f"partition {partition}: offset {offset}, {self.next_offset[partition]} was next")
        self.next_offset[partition] += 1
        self.messages += 1
        self.value_bytes += length

    def end(self, partition: int) -> None:
        self.ended[partition] = True


def read_round(consumer: Consumer, topic: str, partitions: int, deadline: float) -> Round:
    """To the end of every partition, or to the deadline once something has come, which takes half a second."""
    consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in range(partitions)])
    this = Round(partitions)
    heard = time.monotonic()
    while not all(this.ended) and (time.monotonic() < deadline or not this.messages):
        messages = consumer.consume(_AT_ONCE, timeout=_WAIT_SECONDS)
        if messages:
            heard = time.monotonic()
        elif time.monotonic() - heard > _SILENCE_SECONDS:
            raise TimeoutError(f"{topic}: nothing came for {_SILENCE_SECONDS:g} s")
        for message in messages:
            take(this, message)
    return this


def take(this: Round, message: Message) -> None:
    error, partition = message.error(), message.partition() or 0
    if error is None:
        this.take(partition, message.offset() or 0, len(message.value() or b""))
    elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001
        this.end(partition)
    else:
        raise KafkaException(error)


def main(arguments: Sequence[str]) -> None:
    address, topic, partitions, seconds = arguments
    settings = {"bootstrap.servers": address, "group.id": "bench", "enable.auto.commit": False}
    consumer = Consumer(settings | {"enable.partition.eof": True})
    started = time.monotonic()
    messages = value_bytes = 0
    while time.monotonic() < started + float(seconds):
        this = read_round(consumer, topic, int(partitions), started + float(seconds))
        messages += this.messages
        value_bytes += this.value_bytes
    result = {"requests": messages, "record_bytes": value_bytes, "seconds": time.monotonic() - started}
    consumer.close()
    print(json.dumps(result))


if __name__ == "__main__":
    main(sys.argv[1:])

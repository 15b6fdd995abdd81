"""Another writer on the same partitions, whose records are known too."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from confluent_kafka import KafkaError, Message, Producer

from compat_tests.harness.records import Received
from compat_tests.harness.waiting import until

PREFIX = b"noise "
QUIET = {"reconnect.backoff.max.ms": 500, "log_level": 2}


class Noise:
    """A thread that writes numbered records to partitions in turn, 2,000 a second in small batches, until left."""

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        self.producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 0, **QUIET})
        self.topic = topic
        self.partitions = partitions
        self.acknowledged: dict[tuple[int, int], bytes] = {}
        self.failures: list[KafkaError] = []
        self.is_ending = threading.Event()
        self.thread = threading.Thread(target=self.run, name="noise", daemon=True)

    def __enter__(self) -> Self:
        if self.partitions:
            self.thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.is_ending.set()
        if self.partitions:
            self.thread.join()
        self.producer.flush(60)
        assert error is not None or not self.failures, self.failures[:3]

    def run(self) -> None:
        for first in itertools.count(0, 10):
            for number in range(first, first + 10):
                value = b"%b%d" % (PREFIX, number)
                self.producer.produce(self.topic, value, partition=number % self.partitions, on_delivery=self.delivered)
            self.producer.poll(0)
            if self.is_ending.wait(0.005):
                break

    def delivered(self, error: KafkaError | None, message: Message) -> None:
        partition, offset, value = message.partition(), message.offset(), message.value()
        if error is not None:
            self.failures.append(error)
        elif partition is not None and offset is not None:
            self.acknowledged[partition, offset] = bytes(value or b"")

    def send(self, value: bytes) -> None:
        """One record, at once, to partition 0."""
        self.producer.produce(self.topic, value, partition=0, on_delivery=self.delivered)
        self.producer.poll(0)

    def wait_for(self, count: int) -> None:
        """Until so many more are acknowledged."""
        wanted = len(self.acknowledged) + count
        until(lambda: len(self.acknowledged) >= wanted, f"{count} records of the other writer")

    def is_own(self, record: Received) -> bool:
        return (record.value or b"").startswith(PREFIX)

    def assert_in(self, partition: int, records: Sequence[Received]) -> None:
        """In these records, which begin at offset 0, every acknowledged one is in its place, and all are in order."""
        for (where, offset), value in self.acknowledged.items():
            if where == partition and offset < len(records):
                assert records[offset].value == value, f"offset {offset} of partition {partition}"
        numbers = [int((record.value or b"")[len(PREFIX) :]) for record in records if self.is_own(record)]
        assert numbers, f"nothing of the other writer in partition {partition}"
        assert numbers == list(range(numbers[0], numbers[0] + self.partitions * len(numbers), self.partitions))

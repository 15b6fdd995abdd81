"""A load of idempotent producers, and what a broker acknowledged of it."""

from __future__ import annotations

import random
import threading
from array import array
from collections import defaultdict
from types import TracebackType
from typing import Self

from confluent_kafka import KafkaError, Message, Producer

from compat_tests.waiting import until

CODECS = ("none", "lz4", "zstd")
UNACKNOWLEDGED = -1


class Worker:
    """One producer in a thread of its own: to every partition numbered records, `name partition number`, as they go."""

    def __init__(self, bootstrap: str, topic: str, partitions: int, name: int) -> None:
        settings = {"bootstrap.servers": bootstrap, "compression.type": CODECS[name % len(CODECS)], "linger.ms": 2}
        settings |= {"enable.idempotence": True, "acks": "all", "delivery.timeout.ms": 120_000, "log_level": 2}
        settings |= {"reconnect.backoff.ms": 20, "reconnect.backoff.max.ms": 100, "retry.backoff.ms": 20}
        self.producer = Producer(settings)
        self.topic = topic
        self.name = name
        self.random = random.Random(name)
        # For each partition the offset at which each number was acknowledged
        self.offsets = [array("q") for _ in range(partitions)]
        self.acknowledged = 0
        self.failures: list[KafkaError] = []
        self.is_ending = threading.Event()
        self.thread = threading.Thread(target=self.run, name=f"producer {name}", daemon=True)

    def run(self) -> None:
        """A few thousand records a second: enough that every kill finds requests in flight."""
        while not self.is_ending.is_set():
            for _ in range(20):
                self.send_one(self.random.randrange(len(self.offsets)))
            self.producer.poll(0.004)

    def send_one(self, partition: int) -> None:
        number = len(self.offsets[partition])
        value = b"%d %d %d %b" % (self.name, partition, number, b"." * self.random.randrange(200))
        try:
            self.producer.produce(self.topic, value, partition=partition, on_delivery=self.delivered)
        except BufferError:
            self.producer.poll(0.05)
        else:
            self.offsets[partition].append(UNACKNOWLEDGED)

    def delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.failures.append(error)
            return
        _, partition, number, _ = (message.value() or b"").split(b" ")
        offsets, offset = self.offsets[int(partition)], message.offset()
        assert offset is not None
        assert offsets[int(number)] == UNACKNOWLEDGED, f"{message.value()!r} was acknowledged twice"
        offsets[int(number)] = offset
        self.acknowledged += 1

    def finish(self) -> None:
        self.is_ending.set()
        self.thread.join()
        left = self.producer.flush(90)
        assert left == 0, f"producer {self.name}: {left} records were never answered"


class Load:
    """Several workers on one topic, for the length of a with-block; all is acknowledged at its end."""

    def __init__(self, bootstrap: str, topic: str, partitions: int, producers: int) -> None:
        self.workers = [Worker(bootstrap, topic, partitions, name) for name in range(producers)]

    def __enter__(self) -> Self:
        for worker in self.workers:
            worker.thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for worker in self.workers:
            worker.is_ending.set()
        if error is None:
            for worker in self.workers:
                worker.finish()

    def wait_for(self, count: int) -> None:
        """Until every producer has so many more records acknowledged: it found the broker again."""
        wanted = [worker.acknowledged + count for worker in self.workers]
        until(
            lambda: all(worker.acknowledged >= number for worker, number in zip(self.workers, wanted, strict=True)),
            f"{count} more records acknowledged to each of {[worker.acknowledged for worker in self.workers]}",
            60,
        )

    def assert_no_failure(self) -> None:
        for worker in self.workers:
            assert not worker.failures, f"producer {worker.name}: {worker.failures[:3]}"

    def assert_stored(self, partition: int, values: list[bytes]) -> None:
        """A partition's values, from offset 0: every number once, in order, and where it was acknowledged."""
        places: dict[int, array[int]] = defaultdict(lambda: array("q"))
        for offset, value in enumerate(values):
            name, where, number, _ = value.split(b" ")
            assert int(where) == partition
            found = places[int(name)]
            assert int(number) == len(found), (
                f"partition {partition}, offset {offset}: {value!r} where {len(found)} is next"
            )
            found.append(offset)
        for worker in self.workers:
            assert worker.offsets[partition] == places[worker.name], (
                f"producer {worker.name}, partition {partition}: acknowledged at other offsets than stored"
            )

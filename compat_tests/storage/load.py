"""A load of idempotent producers, and what a broker acknowledged of it."""

from __future__ import annotations

import random
import threading
from array import array
from collections.abc import Sequence
from types import TracebackType
from typing import NamedTuple, Self

from confluent_kafka import KafkaError, Message, Producer

from compat_tests.harness.records import Received
from compat_tests.harness.waiting import until

CODECS = ("none", "lz4", "zstd")
UNACKNOWLEDGED = -1
MAX_WAITING = 1_000
"""Records of a partition that a producer sends ahead: a backlog on a busy machine would be older than its timeout."""


class Pace(NamedTuple):
    """`burst` records go with each turn of up to 4 ms, with `pause_s` between two turns; librdkafka's `linger_ms`."""

    burst: int = 12
    pause_s: float = 0
    linger_ms: int = 2


FULL = Pace()


class Worker:
    """One producer in a thread of its own: to every partition numbered records, `name partition number`, as they go.

    With `keys` the records have so many keys in turn, else none.
    """

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        partitions: int,
        name: int,
        keys: int = 0,
        pace: Pace = FULL,
    ) -> None:
        settings: dict[str, str | int | bool] = {
            "bootstrap.servers": bootstrap,
            "compression.type": CODECS[name % len(CODECS)],
        }
        settings |= {"enable.idempotence": True, "acks": "all", "delivery.timeout.ms": 120_000, "log_level": 2}
        # A broker that stands still keeps its connections: only this time-out has the client look for another leader
        settings |= {"socket.timeout.ms": 10_000}
        settings |= {"linger.ms": pace.linger_ms, "batch.size": 65_536}  # which fits into the smallest segments
        settings |= {"reconnect.backoff.ms": 20, "reconnect.backoff.max.ms": 100, "retry.backoff.ms": 20}
        self.producer = Producer(settings)
        self.topic = topic
        self.name = name
        self.keys = keys
        self.pace = pace
        self.random = random.Random(name)
        # For each partition the offset at which each number was acknowledged
        self.offsets = [array("q") for _ in range(partitions)]
        self.acknowledged_in = [0] * partitions
        self.failures: list[tuple[int | None, KafkaError]] = []  # and in which partition
        self.is_ending = threading.Event()
        self.thread = threading.Thread(target=self.run, name=f"producer {name}", daemon=True)

    @property
    def acknowledged(self) -> int:
        """How many records were acknowledged to it."""
        return sum(self.acknowledged_in)

    def run(self) -> None:
        """By default a few thousand records a second: enough that every kill finds requests in flight."""
        while not self.is_ending.is_set():
            for _ in range(self.pace.burst):
                partition = self.random.randrange(len(self.offsets))
                if len(self.offsets[partition]) - self.acknowledged_in[partition] < MAX_WAITING:
                    self.send_one(partition)
            self.producer.poll(0.004)
            self.is_ending.wait(self.pace.pause_s)

    def send_one(self, partition: int) -> None:
        number = len(self.offsets[partition])
        value = b"%d %d %d %b" % (self.name, partition, number, b"." * self.random.randrange(200))
        key = self.key(number)
        try:
            self.producer.produce(self.topic, value, key, partition, on_delivery=self.delivered)
        except BufferError:
            self.producer.poll(0.05)
        else:
            self.offsets[partition].append(UNACKNOWLEDGED)

    def key(self, number: int) -> bytes | None:
        return b"%d %d" % (self.name, number % self.keys) if self.keys else None

    def delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.failures.append((message.partition(), error))
            return
        _, partition, number, _ = (message.value() or b"").split(b" ")
        offsets, offset = self.offsets[int(partition)], message.offset()
        assert offset is not None
        assert offsets[int(number)] == UNACKNOWLEDGED, f"{message.value()!r} was acknowledged twice"
        offsets[int(number)] = offset
        self.acknowledged_in[int(partition)] += 1

    def finish(self) -> None:
        self.is_ending.set()
        self.thread.join()
        left = self.producer.flush(90)
        assert left == 0, f"producer {self.name}: {left} records were never answered"


class Load:
    """Several workers on one topic, for the length of a with-block; all is acknowledged at its end."""

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        partitions: int,
        producers: int,
        keys: int = 0,
        pace: Pace = FULL,
    ) -> None:
        self.workers = [Worker(bootstrap, topic, partitions, name, keys, pace) for name in range(producers)]

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

    def wait_for_each(self, count: int) -> None:
        """Until every producer has so many more records acknowledged in every partition."""
        wanted = [[done + count for done in worker.acknowledged_in] for worker in self.workers]
        until(
            lambda: all(
                all(done >= number for done, number in zip(worker.acknowledged_in, numbers, strict=True))
                for worker, numbers in zip(self.workers, wanted, strict=True)
            ),
            f"{count} more records acknowledged in each of {[worker.acknowledged_in for worker in self.workers]}",
            60,
        )

    def assert_no_failure(self) -> None:
        for worker in self.workers:
            assert not worker.failures, f"producer {worker.name}: {worker.failures[:3]}"

    def placed(self, partition: int) -> dict[int, tuple[int, int]]:
        """Offset -> producer and number of what was acknowledged there: a producer's numbers come in their order."""
        found: dict[int, tuple[int, int]] = {}
        for worker in self.workers:
            offsets = worker.offsets[partition]
            assert list(offsets) == sorted(set(offsets)), f"producer {worker.name}, partition {partition}: out of order"
            found |= {offset: (worker.name, number) for number, offset in enumerate(offsets)}
        assert len(found) == sum(len(worker.offsets[partition]) for worker in self.workers), "two at one offset"
        return found

    def assert_stored(self, partition: int, records: Sequence[Received], start: int = 0) -> None:
        """From `start` on there is at every offset what was acknowledged there, and nothing else."""
        expected = {offset: which for offset, which in self.placed(partition).items() if offset >= start}
        found = {record.offset: which(record, partition) for record in records}
        assert len(found) == len(records)
        differing = sorted(offset for offset, _ in expected.items() ^ found.items())
        assert not differing, (
            f"partition {partition}: {len(differing)} offsets differ, first {differing[0]}: "
            f"{found.get(differing[0])} is stored, {expected.get(differing[0])} was acknowledged"
        )
        assert sorted(found) == list(range(start, start + len(found)))

    def assert_compacted(self, partition: int, records: Sequence[Received]) -> None:
        """What is stored was acknowledged there, and the last record of each key is stored."""
        placed = self.placed(partition)
        keys = {worker.name: worker.key for worker in self.workers}
        last = {keys[name](number): offset for offset, (name, number) in sorted(placed.items())}
        found: dict[bytes | None, int] = {}
        for record in records:
            assert which(record, partition) == placed[record.offset]
            found[record.key] = record.offset
        offsets = [record.offset for record in records]
        assert offsets == sorted(set(offsets))
        missing = found.items() ^ last.items()
        assert not missing, f"partition {partition}: keys whose last record is not the last one sent: {missing}"


def which(record: Received, partition: int) -> tuple[int, int]:
    """The producer and the number that a stored record names."""
    name, where, number, _ = (record.value or b"").split(b" ")
    assert int(where) == partition
    return int(name), int(number)

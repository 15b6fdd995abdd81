"""Topics of every kind by seed: codecs, times, transactions, deleted records; for readers that must agree.

The same seed makes the same topic, but for the bytes of batches, which depend on the moment that a client sends.
"""

from __future__ import annotations

import random
import time
from typing import Final

from confluent_kafka import Producer

from compat_tests.harness.broker import Broker
from compat_tests.harness.stored import CODECS
from compat_tests.harness.topics import create_topics, delete_before

LIMIT_S: Final = 60
ACTIONS: Final = 7
_HOUR_MS: Final = 3_600_000


class RandomTopic:
    """A topic that a seed makes. Close it: transactions stay open until then."""

    def __init__(self, broker: Broker, seed: int, least_segment_bytes: int = 0) -> None:
        """`least_segment_bytes`: what the broker allows at least."""
        self.broker, self.random = broker, random.Random(seed)
        self.name = f"random-{seed}"
        self.partitions = self.random.choice([1, 1, 1, 2])
        self.ends = dict.fromkeys(range(self.partitions), 0)
        self.open: list[Producer] = []
        configs = {
            "segment.bytes": str(max(least_segment_bytes, self.random.choice([20_000, 60_000, 1 << 30]))),
            "message.timestamp.type": self.random.choice(["CreateTime", "CreateTime", "LogAppendTime"]),
            "retention.ms": "-1",
            "message.timestamp.before.max.ms": str((1 << 63) - 1),
        }
        create_topics(broker.bootstrap, {self.name: configs}, self.partitions)
        kinds = [self.append, self.append, self.transact, self.transact, self.delete]
        for _ in range(ACTIONS):
            self.random.choice(kinds)()
        self.append()

    def close(self) -> None:
        for producer in self.open:
            producer.abort_transaction(LIMIT_S)
        self.open.clear()

    def producer(self, **more: object) -> Producer:
        settings: dict[str, object] = {
            "bootstrap.servers": self.broker.bootstrap,
            "compression.codec": self.random.choice(CODECS),
            "batch.num.messages": self.random.choice([1, 7, 1000]),
            "batch.size": 16_000,
            "linger.ms": self.random.choice([0, 20]),
            "log_level": 0,  # a producer that is dropped with an open transaction says so
        }
        return Producer(settings | more)

    def append(self) -> None:
        self.send(self.producer(), self.random.randint(1, 120))

    def transact(self) -> None:
        """A transaction that is committed, aborted, or left open; often over the end of a segment."""
        name = f"{self.name}-{self.random.getrandbits(32)}"
        producer = self.producer(**{"transactional.id": name, "transaction.timeout.ms": 600_000})
        producer.init_transactions(LIMIT_S)
        producer.begin_transaction()
        self.send(producer, self.random.randint(1, 120))
        match self.random.choice(["commit", "abort", "abort", "open"]):
            case "commit":
                producer.commit_transaction(LIMIT_S)
            case "abort":
                producer.abort_transaction(LIMIT_S)
            case "open":
                self.open.append(producer)

    def send(self, producer: Producer, count: int) -> None:
        """Records to all partitions. Times go forwards, or in any order."""
        now_ms = int(time.time() * 1000)
        is_ordered = self.random.random() < 0.5
        for number in range(count):
            time_ms = now_ms + number if is_ordered else now_ms - self.random.randrange(_HOUR_MS)
            partition = self.random.randrange(self.partitions)
            producer.produce(
                self.name,
                partition=partition,
                timestamp=time_ms,
                key=self.content(),
                value=self.content(),
                headers=list(self.headers()),
                on_delivery=self.note,
            )
        assert producer.flush(LIMIT_S) == 0

    def note(self, error: object, message: object) -> None:
        assert error is None, error
        partition, offset = message.partition(), message.offset()  # type: ignore[attr-defined]
        self.ends[partition] = max(self.ends[partition], offset + 1)

    def content(self) -> bytes | None:
        match self.random.randrange(10):
            case 0:
                return None
            case 1:
                return b""
            case 2:
                return self.random.randbytes(self.random.randrange(3_000))
        return b"compressible " * self.random.randrange(8) + self.random.randbytes(8)

    def headers(self) -> list[tuple[str, str | bytes | None]]:
        count = self.random.choice([0, 0, 1, 3])
        return [
            (self.random.choice(["a", "näme", ""]), self.random.choice([None, b"", b"x" * 9])) for _ in range(count)
        ]

    def delete(self) -> None:
        """Delete records up to any offset, also inside a batch and of open transactions."""
        partition = self.random.randrange(self.partitions)
        if self.ends[partition]:
            delete_before(self.broker.bootstrap, self.name, {partition: self.random.randint(1, self.ends[partition])})

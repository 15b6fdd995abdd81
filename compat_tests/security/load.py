"""A producer and a consumer that run until they are stopped, and note every error that they are told."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Mapping
from types import TracebackType
from typing import Self

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from compat_tests.harness.waiting import until


class Load:
    """Numbered records, about a thousand a second, to partition 0 of a topic; all are read back in order."""

    def __init__(self, bootstrap: str, topic: str, settings: Mapping[str, str]) -> None:
        self.errors: list[object] = []
        self.acknowledged = self.received = 0
        self._topic = topic
        self._settings = {"bootstrap.servers": bootstrap, "error_cb": self.errors.append, **settings}
        self._producer = Producer({**self._settings, "enable.idempotence": True, "linger.ms": 1})
        self._is_ending, self._has_produced = threading.Event(), threading.Event()
        self._threads = [threading.Thread(target=run, daemon=True) for run in (self._produce, self._consume)]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_ending.set()
        for thread in self._threads:
            thread.join(30)

    def _produce(self) -> None:
        for number in itertools.count():
            if self._is_ending.wait(0.001):
                break
            self._producer.produce(self._topic, str(number), partition=0, on_delivery=self._delivered)
            self._producer.poll(0)
        self._producer.flush(30)
        self._has_produced.set()

    def _delivered(self, error: KafkaError | None, _: Message) -> None:
        if error is None:
            self.acknowledged += 1
        else:
            self.errors.append(error)

    def _consume(self) -> None:
        consumer = Consumer({**self._settings, "group.id": "unused", "enable.auto.commit": False})
        consumer.assign([TopicPartition(self._topic, 0, 0)])
        while not self.errors and (self.received < self.acknowledged or not self._has_produced.is_set()):
            for message in consumer.consume(1000, 0.05):
                if message.error():
                    self.errors.append(message.error())
                elif message.value() == str(self.received).encode():
                    self.received += 1
                else:
                    self.errors.append(f"{message.value()!r} came in the place of {self.received}")
        consumer.close()

    def wait_for(self, count: int) -> None:
        """Until so many more have been received."""
        wanted = self.received + count
        until(lambda: bool(self.errors) or self.received >= wanted, f"{count} records")

    def reconnect(self) -> None:
        """Another client sends a record's worth of requests over a connection of its own."""
        other = Producer(self._settings)
        other.list_topics(self._topic, timeout=10)

"""Committed values of topics: as a consumer follows them while they are written, and as they are read afterwards."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

from compat_tests.families.confluent import new_consumer

Values = dict[tuple[str, int], list[bytes]]
READ_LIMIT_S = 120.0


def read_committed(bootstrap: str) -> Consumer:
    settings = {"isolation.level": "read_committed", "enable.partition.eof": True}
    return new_consumer(bootstrap, {**settings, "reconnect.backoff.ms": 20, "reconnect.backoff.max.ms": 200})


def from_the_start(places: Iterable[tuple[str, int]]) -> list[TopicPartition]:
    return [TopicPartition(topic, partition, OFFSET_BEGINNING) for topic, partition in places]


def committed_values(bootstrap: str, places: Iterable[tuple[str, int]]) -> Values:
    """All committed values up to the last stable offsets, in their order."""
    found: Values = {place: [] for place in places}
    unfinished = set(found)
    consumer = read_committed(bootstrap)
    consumer.assign(from_the_start(found))
    give_up_at = time.monotonic() + READ_LIMIT_S
    while unfinished:
        assert time.monotonic() < give_up_at, f"{unfinished} have no end"
        unfinished -= take(consumer, found)
    consumer.close()
    return found


def take(consumer: Consumer, found: Values, wait_s: float = 0.1) -> set[tuple[str, int]]:
    """Add what comes; the partitions whose end was reached."""
    ended = set()
    for message in consumer.consume(1_000, wait_s):
        topic, partition, error, value = message.topic(), message.partition(), message.error(), message.value()
        assert error is None or error.code() == KafkaError._PARTITION_EOF, error  # noqa: SLF001  its documented name
        assert topic is not None
        assert partition is not None
        if error is None:
            assert value is not None
            found[topic, partition].append(value)
        else:
            ended.add((topic, partition))
    return ended


class Follower:
    """One consumer of committed records that lives as long as the test, across all kills: `values`, as they came."""

    def __init__(self, bootstrap: str, places: Iterable[tuple[str, int]]) -> None:
        self.values: Values = {place: [] for place in places}
        self._failure: BaseException | None = None
        self._is_closing = threading.Event()
        self._consumer = read_committed(bootstrap)
        self._consumer.assign(from_the_start(self.values))
        self._thread = threading.Thread(target=self._run, name="follower", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            while not self._is_closing.is_set():
                take(self._consumer, self.values)
        except BaseException as failure:  # noqa: BLE001  said by check()
            self._failure = failure

    def check(self) -> None:
        if self._failure is not None:
            raise self._failure

    def close(self) -> None:
        self._is_closing.set()
        self._thread.join(60)
        assert not self._thread.is_alive(), "the follower did not end"
        self._consumer.close()

"""A group whose members come and go all the time, so that it is nearly always in a rebalance: confluent-kafka.

Each member reads a record, commits that, and so on, and after a moment leaves and joins anew, until it is told to stay.
That the broker is gone for a while, or refuses a commit because the member is no longer one, is what this is for.
"""

from __future__ import annotations

import contextlib
import random
import threading
import time
from collections import Counter

from confluent_kafka import Consumer, KafkaException, TopicPartition

SERVER = "server"
SHORTEST_S, LONGEST_S = 0.3, 1.5
PAUSE_S = 0.02
SESSION_MS = 2_000
# What makes a broker let members go that soon, which died while it did not run
SETTINGS = {
    "group.min.session.timeout.ms": str(SESSION_MS),
    "group.consumer.min.session.timeout.ms": str(SESSION_MS),
    "group.consumer.session.timeout.ms": str(SESSION_MS),
}
ENDS_WITHIN_S = 60.0


class RestlessGroup:
    """`acknowledged` has, by partition, the highest offset whose commit was answered without an error."""

    def __init__(self, bootstrap: str, name: str, topic: str, assignor: str, members: int) -> None:
        self.name = name
        self.topic = topic
        self.acknowledged: dict[int, int] = {}
        self.commits = 0
        self.failure: BaseException | None = None
        self.stays = threading.Event()
        self.closes = threading.Event()
        self.owned: list[set[int]] = [set() for _ in range(members)]
        self._lock = threading.Lock()
        self._settings = settings(bootstrap, name, assignor)
        self._threads = [threading.Thread(target=self._run, args=[number], daemon=True) for number in range(members)]
        for thread in self._threads:
            thread.start()

    def _run(self, number: int) -> None:
        chance = random.Random(f"{self.name}-{number}")
        try:
            while not self.closes.is_set():
                self._be_member(number, chance.uniform(SHORTEST_S, LONGEST_S))
        except BaseException as failure:  # noqa: BLE001  said by check()
            self.failure = failure

    def _be_member(self, number: int, seconds: float) -> None:
        consumer = Consumer(self._settings)
        try:
            consumer.subscribe([self.topic])
            until = time.monotonic() + seconds
            while not self.closes.is_set() and (self.stays.is_set() or time.monotonic() < until):
                self._read(consumer)
                self.owned[number] = {one.partition for one in consumer.assignment()}
        finally:
            self.owned[number] = set()
            consumer.close()

    def _read(self, consumer: Consumer) -> None:
        """Read a record and commit it."""
        message = consumer.poll(PAUSE_S)
        if message is None:
            return
        error, partition, offset = message.error(), message.partition(), message.offset()
        if error is not None:
            if error.fatal():
                raise KafkaException(error)
        elif partition is not None and offset is not None:
            self._commit(consumer, [TopicPartition(self.topic, partition, offset + 1)])
        time.sleep(PAUSE_S)

    def _commit(self, consumer: Consumer, offsets: list[TopicPartition]) -> None:
        committed: list[TopicPartition] = []
        with contextlib.suppress(KafkaException):  # another owns it by now, or the broker is away
            committed = consumer.commit(offsets=offsets, asynchronous=False) or []
        done = [one for one in committed if one.error is None]
        with self._lock:
            for one in done:
                self.acknowledged[one.partition] = max(one.offset, self.acknowledged.get(one.partition, 0))
            self.commits += bool(done)

    def check(self) -> None:
        if self.failure is not None:
            raise self.failure

    def is_settled(self, partitions: int) -> bool:
        """Whether each partition has one member, and each member a partition."""
        self.check()
        owned = [set(each) for each in self.owned]
        return all(owned) and Counter(one for each in owned for one in each) == Counter(range(partitions))

    def close(self) -> None:
        self.closes.set()
        for thread in self._threads:
            thread.join(ENDS_WITHIN_S)
            assert not thread.is_alive(), f"a member of {self.name} does not end"
        self.check()


def settings(bootstrap: str, name: str, assignor: str) -> dict[str, str | int | bool]:
    found: dict[str, str | int | bool] = {
        "bootstrap.servers": bootstrap,
        "group.id": name,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "reconnect.backoff.max.ms": 200,
        "socket.timeout.ms": 5_000,
        "log_level": 2,
    }
    if assignor == SERVER:
        return {**found, "group.protocol": "consumer"}
    return {
        **found,
        "partition.assignment.strategy": assignor,
        "session.timeout.ms": SESSION_MS,
        "heartbeat.interval.ms": 200,
    }

"""Consume, transform, produce across SIGKILLs of the broker and of the clients: the output equals the input exactly.

20 of each, or HEADGATE_KILLS times; `make soak` raises it to 200. No group goes back, and nothing hangs after the
transaction's timeout.
"""

from __future__ import annotations

import contextlib
import os
import random
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Producer, TopicPartition

from compat_tests.broker import Broker, running
from compat_tests.copying import COMMANDS, PARTITIONS, Copier
from compat_tests.groups.committed import committed_offsets
from compat_tests.topics import create_topics
from compat_tests.waiting import until

KILLS = int(os.environ.get("HEADGATE_KILLS", "200" if os.environ.get("HEADGATE_SOAK") else "20"))
STUCK_S = 60.0
READ_LIMIT_S = 60.0


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with running(
        tmp_path / "killed", {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000"}
    ) as broker:
        yield broker


class Source:
    """Numbers that come into a partition of each topic, one after the other, until it is closed."""

    def __init__(self, bootstrap: str, topics: list[str]) -> None:
        self.sent = 0
        self._topics = topics
        self._producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "log_level": 0})
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._send)
        self._thread.start()

    def _send(self) -> None:
        while not self._is_over.wait(0.005):
            for topic in self._topics:
                self._producer.produce(topic, value=b"%d" % self.sent, partition=self.sent % PARTITIONS)
            self.sent += 1
            self._producer.poll(0)

    def close(self) -> None:
        self._is_over.set()
        self._thread.join()
        assert self._producer.flush(READ_LIMIT_S) == 0


def test_the_output_equals_the_input(broker: Broker, figure: Callable[[str], None]) -> None:
    names = {client: f"from-{client}" for client in COMMANDS}
    create_topics(
        broker.bootstrap, {name: {} for source in names.values() for name in (source, f"to-{source}")}, PARTITIONS
    )
    with contextlib.ExitStack() as stack:
        source = Source(broker.bootstrap, list(names.values()))
        stack.callback(source.close)
        copiers = [Copier(client, broker.bootstrap, name, f"to-{name}") for client, name in names.items()]
        for copier in copiers:
            stack.callback(copier.kill)
        wait_for_progress(copiers)
        least: dict[str, dict[int, int]] = {}
        for number in range(KILLS):
            chance = random.Random(number)
            time.sleep(chance.uniform(0, 0.5))
            broker.kill()
            broker.start()
            least = committed(broker, copiers, least)
            time.sleep(chance.uniform(0, 0.5))
            killed = copiers[number % len(copiers)]
            killed.check()
            killed.kill()
            killed.start()
            wait_for_progress(copiers)
        source.close()
        ends = {index: len(range(index, source.sent, PARTITIONS)) for index in range(PARTITIONS)}

        def is_copied() -> bool:
            return all(one == ends for one in committed(broker, copiers, least).values())

        until(is_copied, f"the offsets {ends} of all groups", STUCK_S, 0.5)
    for copier in copiers:
        for index in range(PARTITIONS):
            copied = read_committed(broker.bootstrap, copier.target, index)
            assert copied == list(range(index, source.sent, PARTITIONS)), f"{copier.client}, partition {index}"
    made = ", ".join(f"{one.transactions} of {one.client}, anew {len(one.beginnings)} times" for one in copiers)
    figure(f"{KILLS} kills of the broker and as many of clients: transactions {made}")


def wait_for_progress(copiers: list[Copier]) -> None:
    """Until each has committed a few transactions more."""
    wanted = [copier.transactions + 2 for copier in copiers]

    def is_there() -> bool:
        for copier in copiers:
            copier.check()
        return all(copier.transactions >= least for copier, least in zip(copiers, wanted, strict=True))

    until(is_there, f"transactions of all of {[copier.client for copier in copiers]}", STUCK_S)


def committed(broker: Broker, copiers: list[Copier], least: dict[str, dict[int, int]]) -> dict[str, dict[int, int]]:
    """The offsets of all groups, of which none went back."""
    found = {copier.source: committed_offsets(broker.bootstrap, copier.source, copier.source) for copier in copiers}
    for group, offsets in least.items():
        assert all(found[group].get(index, -1) >= offset for index, offset in offsets.items()), f"{group} went back"
    return found


def read_committed(bootstrap: str, topic: str, partition: int) -> list[int]:
    """All numbers that a consumer of committed records reads; its end is the last stable offset."""
    consumer = Consumer({
        "bootstrap.servers": bootstrap,
        "group.id": "reader",
        "enable.auto.commit": False,
        "isolation.level": "read_committed",
        "enable.partition.eof": True,
        "log_level": 0,
    })  # fmt: skip
    consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING)])
    numbers: list[int] = []
    deadline = time.monotonic() + READ_LIMIT_S
    while time.monotonic() < deadline:
        for message in consumer.consume(1000, 1.0):
            error = message.error()
            if error is not None and error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001  its documented name
                consumer.close()
                return numbers
            assert error is None, error
            numbers.append(int(message.value() or b""))
    raise AssertionError(f"{topic}-{partition} has no end: {len(numbers)} records so far")

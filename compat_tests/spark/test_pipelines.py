"""`headgate spark replay`, `mirror` and `mirror-groups`: the installed command, with Spark, between two brokers."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from compat_tests.families.confluent import Confluent, received
from compat_tests.harness import toolchain
from compat_tests.harness.broker import Broker, HeadgateBroker, installed_command
from compat_tests.harness.records import Received, Traits, generate
from compat_tests.harness.topics import create_topics
from compat_tests.harness.writing import commit
from compat_tests.spark import jvm
from compat_tests.spark.spark_format import by_place

NO_TIME = -1
PARTITIONS = 3
LIMIT_S = 300


@pytest.fixture
def other(tmp_path: Path) -> Iterator[Broker]:
    """The broker of another cluster."""
    made = HeadgateBroker(tmp_path / "other", {"offsets.topic.num.partitions": "1"})
    made.start()
    try:
        yield made
    finally:
        made.kill()


def command(*arguments: str, kill_after_rows: int | None = None) -> list[dict[str, Any]]:
    """Run `headgate spark ...`; the rows. Killed by SIGKILL after so many rows, if told so."""
    toolchain.module("pyspark", "pip install pyspark==4.1.1")
    running = subprocess.Popen(
        [*installed_command(), "spark", *arguments, "--json"],
        env=jvm.environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert running.stdout is not None
    if kill_after_rows is not None:
        rows = [json.loads(running.stdout.readline()) for _ in range(kill_after_rows)]
        time.sleep(0.3)
        os.killpg(running.pid, 9)
        running.communicate()
        return rows
    out, errors = running.communicate(timeout=LIMIT_S)
    assert running.returncode == 0, errors
    return [json.loads(line) for line in out.splitlines()]


def committed(broker: Broker, topic: str) -> list[Received]:
    """What a read_committed consumer reads from the start to the end, in order."""
    settings = {
        "bootstrap.servers": broker.bootstrap,
        "group.id": "reader",
        "isolation.level": "read_committed",
        "enable.partition.eof": True,
    }
    consumer = Consumer(settings)
    consumer.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
    found, ended, deadline_s = [], set[int](), time.monotonic() + LIMIT_S
    while len(ended) < PARTITIONS:
        assert time.monotonic() < deadline_s
        for one in consumer.consume(1_000, 0.5):
            error = one.error()
            if error is None:
                found.append(received(one))
            else:
                assert error.name() == "_PARTITION_EOF", error
                ended.add(one.partition() or 0)
    consumer.close()
    return by_place(found)


def content(records: list[Received]) -> list[tuple[object, ...]]:
    """All of records but their offsets."""
    return [(one.partition, one.key, one.value, one.headers, one.timestamp_ms) for one in records]


def produce_with_aborted(bootstrap: str, topic: str) -> None:
    """Three transactions, the second aborted."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": f"of-{topic}"})
    producer.init_transactions(30)
    for number in range(3):
        producer.begin_transaction()
        for index in range(300):
            producer.produce(topic, f"{number} {index}", partition=index % PARTITIONS)
        producer.flush(60)
        if number == 1:
            producer.abort_transaction(30)
        else:
            producer.commit_transaction(30)


def produce_without_time(bootstrap: str, topic: str) -> None:
    """A record in each partition as producers before Kafka 0.10 write it."""
    producer = Producer({"bootstrap.servers": bootstrap})
    for partition in range(PARTITIONS):
        producer.produce(topic, b"old", partition=partition, timestamp=NO_TIME)
    assert producer.flush(60) == 0


def test_a_mirror_and_its_groups(broker: Broker, other: Broker, topic: Callable[..., str]) -> None:
    """Killed in the middle and run again: each record once; groups go on at the same records."""
    name = topic(PARTITIONS)
    Confluent().produce(broker.bootstrap, name, generate(3_000, PARTITIONS, Traits(), 1), "lz4")
    produce_with_aborted(broker.bootstrap, name)
    produce_without_time(broker.bootstrap, name)
    arguments = [name, "--name", "m", "--bootstrap-server", broker.bootstrap, "--to-bootstrap-server", other.bootstrap]
    command("mirror", *arguments, "--batch", "500", kill_after_rows=3)
    rows = command("mirror", *arguments, "--batch", "500", "--once")
    assert [row["batch"] for row in rows] == list(range(rows[0]["batch"], rows[-1]["batch"] + 1))
    source, copy = (committed(one, name) for one in (broker, other))
    assert len(source) == 3_600 + PARTITIONS
    assert sum(one.timestamp_ms == NO_TIME for one in source) == PARTITIONS
    assert content(source) == content(copy)

    places = [one.offset for one in source if one.partition == 0]
    groups = {f"g{place}": places[place] for place in (0, 40, len(places) // 2, len(places) - 1)}
    for group, offset in groups.items():
        commit(broker.bootstrap, group, name, {0: offset})
    moved = command("mirror-groups", *groups, *arguments[1:], "--execute", "--backwards")
    assert [row["topic"] for row in moved] == [name] * len(groups)
    for group in groups:
        assert next_value(other.bootstrap, group, name) == next_value(broker.bootstrap, group, name)


def next_value(bootstrap: str, group: str, topic: str) -> tuple[bytes | None, bytes | None]:
    """Key and value of the first record that the group reads in partition 0."""
    settings = {"bootstrap.servers": bootstrap, "group.id": group, "isolation.level": "read_committed"}
    consumer = Consumer(settings)
    try:
        [place] = consumer.committed([TopicPartition(topic, 0)], timeout=60)
        consumer.assign([place])
        found = consumer.poll(20)
        assert found is not None
        assert found.error() is None
        return found.key(), found.value()
    finally:
        consumer.close()


@pytest.mark.soak
def test_a_replay_is_written_once(broker: Broker, topic: Callable[..., str]) -> None:
    """Killed and run again; more records come meanwhile, which are not of the replay."""
    name = topic(PARTITIONS)
    target = f"{name}-replayed"
    create_topics(broker.bootstrap, {target: {}}, PARTITIONS)
    Confluent().produce(broker.bootstrap, name, generate(2_000, PARTITIONS, Traits(), 2), "zstd")
    before = committed(broker, name)
    arguments = [
        "replay",
        name,
        target,
        "--name",
        f"r-{name}",
        "--bootstrap-server",
        broker.bootstrap,
        "--batch",
        "300",
    ]
    command(*arguments, kill_after_rows=2)
    Confluent().produce(broker.bootstrap, name, generate(100, PARTITIONS, Traits(), 3), "none")
    command(*arguments)
    assert content(committed(broker, target)) == content(before)
    assert command(*arguments) == []


@pytest.mark.soak
def test_a_folder_of_loads_is_replayed_once(broker: Broker, topic: Callable[..., str], tmp_path: Path) -> None:
    """Killed and run again after another load, which is not of the replay; the order within a key stays."""
    name, out = topic(PARTITIONS), str(tmp_path / "out")
    target = f"{name}-replayed"
    create_topics(broker.bootstrap, {target: {}}, PARTITIONS)
    where = ("--bootstrap-server", broker.bootstrap)
    for seed in (4, 5):
        Confluent().produce(broker.bootstrap, name, generate(1_000, PARTITIONS, Traits(), seed), "zstd")
        command("load", name, out, *where, "--processes", "2")
    before = committed(broker, name)
    arguments = ("replay", f"table:{out}", target, "--name", f"r-{name}", *where, "--batch", "300")
    command(*arguments, kill_after_rows=2)
    Confluent().produce(broker.bootstrap, name, generate(100, PARTITIONS, Traits(), 6), "none")
    command("load", name, out, *where, "--processes", "2")
    command(*arguments)
    found = committed(broker, target)
    assert sorted(content(found), key=repr) == sorted(content(before), key=repr)
    for key in {one.key for one in before if one.key is not None}:
        assert values_of(found, key) == values_of(before, key)
    assert command(*arguments) == []


def values_of(records: list[Received], key: bytes) -> list[tuple[int, bytes | None]]:
    """The partition and the value of each record with this key, in their order."""
    return [(one.partition, one.value) for one in records if one.key == key]

"""A killed Apache Kafka leaves an open and a prepared transaction; the broker that adopts its directory ends both."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from compat_tests.harness.apache_kafka import QUICK_START, ApacheKafka, missing
from compat_tests.harness.broker import TARGET, Broker, HeadgateBroker, installed_command
from compat_tests.harness.tool_jvm import tool_output
from compat_tests.harness.topics import create_topics
from compat_tests.harness.waiting import until
from compat_tests.tools.kafka_tools import TRANSACTIONS

pytestmark = pytest.mark.skipif(TARGET != "headgate", reason="it is Headgate that adopts")

LIMIT_S = 60
TIMEOUT_MS = 6_000
LONG_MS = 60_000
SETTINGS = {
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "2",
    "group.initial.rebalance.delay.ms": "0",
}
SWEEP = "transaction.abort.timed.out.transaction.cleanup.interval.ms"


def headgate_txn(bootstrap: str, *arguments: str) -> list[Any]:
    """The rows of `headgate txn`, which succeeds."""
    typed = [*installed_command(), "txn", *arguments, "--bootstrap-server", bootstrap]
    done = subprocess.run(typed, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def transactional(bootstrap: str, name: str, timeout_ms: int) -> Producer:
    settings = {"transactional.id": name, "transaction.timeout.ms": timeout_ms, "linger.ms": 0, "log_level": 0}
    producer = Producer({"bootstrap.servers": bootstrap, **settings})
    producer.init_transactions(LIMIT_S)
    return producer


def begin(producer: Producer, topic: str, offset: int | None = None) -> None:
    """A transaction with one record, and an offset of the group `readers`."""
    producer.begin_transaction()
    producer.produce(topic, b"inside", partition=0)
    assert producer.flush(LIMIT_S) == 0
    if offset is not None:
        consumer = Consumer({"bootstrap.servers": "127.0.0.1:1", "group.id": "readers", "log_level": 0})
        metadata = consumer.consumer_group_metadata()
        producer.send_offsets_to_transaction([TopicPartition(topic, 0, offset)], metadata, LIMIT_S)
        consumer.close()


def prepare(bootstrap: str, producer: Producer, topic: str) -> None:
    """Decide a commit of which one marker cannot be written.

    Another coordinator of epoch 1 has written a marker into the partition, so that Kafka's own, of epoch 0, is fenced.
    """
    begin(producer, topic)
    (row,) = headgate_txn(bootstrap, "describe", "prepared")
    identity = ("--producer-id", str(row["producer_id"]), "--producer-epoch", str(row["producer_epoch"]))
    place = ("--topic", topic, "--partition", "0", "--coordinator-epoch", "1")
    tool_output(TRANSACTIONS, "--bootstrap-server", bootstrap, "abort", *place, *identity)
    producer.commit_transaction(LIMIT_S)
    (row,) = headgate_txn(bootstrap, "describe", "prepared")
    assert (row["state"], row["partitions"]) == ("PrepareCommit", {topic: [0]})


@pytest.fixture(params=["broker39", "broker"])
def left_behind(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, list[Producer]]:
    """The log directory of a killed Kafka 3.9 or 4.1, and the producers that know nothing of its end."""
    if reason := missing(request.param):
        pytest.skip(reason)
    more: dict[str, Any] = {"heap": "512m", "options": QUICK_START, "directory": tmp_path / "kafka"}
    (tmp_path / "kafka").mkdir()
    with ApacheKafka({**SETTINGS, SWEEP: "3600000"}, jar_set=request.param, **more) as kafka:
        create_topics(kafka.bootstrap, {"open": {}, "prepared": {}})
        first = transactional(kafka.bootstrap, "open", TIMEOUT_MS)
        second = transactional(kafka.bootstrap, "prepared", LONG_MS)
        begin(first, "open", 5)
        first.commit_transaction(LIMIT_S)
        begin(first, "open", 7)
        prepare(kafka.bootstrap, second, "prepared")
        kafka.kill()
    return kafka.logs, [first, second]


def state(broker: Broker, name: str) -> str:
    (row,) = headgate_txn(broker.bootstrap, "describe", name)
    return str(row["state"])


def committed_values(broker: Broker, topic: str) -> list[bytes | None]:
    """All committed values, once the end of the partition is stable."""
    settings = {"group.id": "-", "isolation.level": "read_committed", "enable.partition.eof": True}
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, **settings})
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[bytes | None] = []
    while (message := consumer.poll(20)) is not None and not message.error():
        found.append(message.value())
    low, high = consumer.get_watermark_offsets(TopicPartition(topic, 0), LIMIT_S)
    assert message is not None
    assert (low, message.offset()) == (0, high)
    consumer.close()
    return found


def committed_offset(broker: Broker) -> int:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "readers"})
    try:
        (place,) = consumer.committed([TopicPartition("open", 0)], LIMIT_S)
        return int(place.offset)
    finally:
        consumer.close()


def test_what_kafka_left_open_and_prepared_is_ended(left_behind: tuple[Path, list[Producer]]) -> None:
    logs, producers = left_behind
    broker = HeadgateBroker(logs.parent / "headgate", {**SETTINGS, SWEEP: "200"}, logs, ["--adopt"])
    broker.start()
    try:
        until(lambda: state(broker, "prepared") == "CompleteCommit", "the marker of the prepared one", LIMIT_S)
        assert headgate_txn(broker.bootstrap, "hanging", "--max-transaction-timeout", "0s") == []
        until(lambda: state(broker, "open") == "CompleteAbort", "the time-out of the open one", LIMIT_S)
        assert any("the transaction of 'open' is aborted by the coordinator: " in line for line in broker.error_lines())
        assert committed_values(broker, "open") == [b"inside"]
        assert committed_values(broker, "prepared") == []
        assert committed_offset(broker) == 5
        del producers[:]
        for name in ("open", "prepared"):
            producer = transactional(broker.bootstrap, name, LONG_MS)
            begin(producer, name, 9)
            producer.commit_transaction(LIMIT_S)
        assert committed_values(broker, "open") == [b"inside", b"inside"]
        assert committed_values(broker, "prepared") == [b"inside"]
    finally:
        broker.stop()

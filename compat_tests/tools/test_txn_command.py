"""`headgate txn` with a broker and a stock client; HEADGATE_COMPAT_TARGET=kafka has it talk to Apache Kafka."""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections.abc import Iterator
from itertools import groupby
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from compat_tests.harness import toolchain
from compat_tests.harness.apache_kafka import DUMP_LOG
from compat_tests.harness.broker import Broker, installed_command, running
from compat_tests.harness.tool_jvm import tool_output
from compat_tests.harness.topics import new_topic
from compat_tests.harness.waiting import until
from compat_tests.tools.hanging import PRODUCER_EPOCH, VERIFICATION_OFF, leave_hanging

LIMIT_S = 60
HANGING = 3
HOUR_MS = 3_600_000
SETTINGS = {
    **VERIFICATION_OFF,
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "2",
    "group.initial.rebalance.delay.ms": "0",
}


class Said(NamedTuple):
    """What the command said."""

    code: int
    rows: list[Any]
    errors: str


@pytest.fixture(scope="module")
def own_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with running(tmp_path_factory.mktemp("transactions"), SETTINGS) as broker:
        yield broker


def command(broker: Broker, *arguments: str) -> Said:
    """`headgate txn`, as it is installed."""
    typed = [*installed_command(), "txn", *arguments, "--bootstrap-server", broker.bootstrap]
    done = subprocess.run(typed, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    return Said(done.returncode, [json.loads(line) for line in done.stdout.splitlines()], done.stderr)


def begin(broker: Broker, name: str, topic: str) -> Producer:
    """A producer with an open transaction of two records."""
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": name, "linger.ms": 0})
    producer.init_transactions(LIMIT_S)
    producer.begin_transaction()
    for partition in (0, 1):
        producer.produce(topic, b"x", partition=partition)
    assert producer.flush(LIMIT_S) == 0
    return producer


def send_offset(broker: Broker, producer: Producer, topic: str, offset: int) -> None:
    """Commit an offset of partition 0 in the transaction; the group is named like the topic."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": topic})
    metadata = consumer.consumer_group_metadata()
    producer.send_offsets_to_transaction([TopicPartition(topic, 0, offset)], metadata, LIMIT_S)
    consumer.close()


def read_committed(broker: Broker, topic: str, count: int) -> list[bytes | None]:
    """So many values of partition 0, as soon as they are there."""
    consumer = Consumer(
        {"bootstrap.servers": broker.bootstrap, "group.id": "reader", "isolation.level": "read_committed"}
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    values: list[bytes | None] = []

    def is_read() -> bool:
        message = consumer.poll(0.2)
        if message is not None and message.error() is None:
            values.append(message.value())
        return len(values) == count

    try:
        until(is_read, f"{count} records of {topic}", LIMIT_S)
    finally:
        consumer.close()
    return values


def test_transactions_are_listed_and_described(own_broker: Broker) -> None:
    topic = new_topic(own_broker.bootstrap, 2)
    name = f"listed-{topic}"
    producer = begin(own_broker, name, topic)
    said = command(own_broker, "list", "--state", "ongoing")
    assert (said.code, said.errors) == (0, "")
    (listed,) = [row for row in said.rows if row["transactional_id"] == name]
    said = command(own_broker, "describe", name)
    assert (said.code, said.errors) == (0, "")
    (row,) = said.rows
    assert (row["state"], row["producer_id"], row["producer_epoch"]) == ("Ongoing", listed["producer_id"], 0)
    assert row["partitions"] == {topic: [0, 1]}
    assert row["timeout_ms"] == 60_000
    assert 0 <= row["age_seconds"] < LIMIT_S
    assert row["coordinator"] == own_broker.bootstrap
    producer.commit_transaction(LIMIT_S)

    def is_complete() -> bool:
        (done,) = command(own_broker, "describe", name).rows
        return (done["state"], done["partitions"]) == ("CompleteCommit", {})

    until(is_complete, "the markers", LIMIT_S)
    said = command(own_broker, "describe", "nobody's")
    assert (said.code, said.rows) == (1, [])
    assert "there is no such transactional id" in said.errors


def test_a_hanging_transaction_is_found_and_aborted(own_broker: Broker) -> None:
    topic = new_topic(own_broker.bootstrap, 2)
    producer = begin(own_broker, f"live-{topic}", topic)
    old_ms = time.time_ns() // 1_000_000 - HOUR_MS
    leave_hanging(own_broker.bootstrap, topic, producer_id=4_711_000, timestamp_ms=old_ms)
    producer.commit_transaction(LIMIT_S)

    said = command(own_broker, "hanging", "--topic", topic)
    assert said.code == HANGING
    (row,) = said.rows
    assert (row["partition"], row["start_offset"], row["producer_id"]) == (0, 1, 4_711_000)
    assert (row["producer_epoch"], row["coordinator_epoch"], row["transactional_id"]) == (PRODUCER_EPOCH, None, None)
    assert 3600 <= row["age_seconds"] < 3600 + LIMIT_S
    assert command(own_broker, "hanging", "--topic", topic, "--max-transaction-timeout", "2h") == Said(0, [], "")

    abort = ("abort", "--topic", f"{topic}:0", "--start-offset", "1")
    said = command(own_broker, *abort)
    assert (said.code, said.rows[0]["aborted"]) == (0, False)
    assert command(own_broker, "hanging", "--topic", topic).code == HANGING
    said = command(own_broker, *abort, "--execute")
    assert (said.code, said.rows[0]["aborted"], said.errors) == (0, True, "")
    assert command(own_broker, "hanging", "--topic", topic) == Said(0, [], "")

    last = begin(own_broker, f"live-{topic}", topic)
    last.commit_transaction(LIMIT_S)
    assert read_committed(own_broker, topic, 2) == [b"x", b"x"]


def test_a_live_transaction_is_not_aborted(own_broker: Broker) -> None:
    topic = new_topic(own_broker.bootstrap, 2)
    producer = begin(own_broker, f"live-{topic}", topic)
    assert command(own_broker, "hanging", "--topic", topic, "--max-transaction-timeout", "0s") == Said(0, [], "")
    said = command(own_broker, "abort", "--topic", f"{topic}:0", "--start-offset", "0", "--execute")
    assert said.code == 1
    assert "the transaction does not hang" in said.errors
    producer.commit_transaction(LIMIT_S)
    assert read_committed(own_broker, topic, 1) == [b"x"]


def test_kafkas_decoder_reads_the_states(own_broker: Broker) -> None:
    """Each state of a transaction is a record of `__transaction_state`, as Kafka writes it."""
    toolchain.jars("broker")
    topic = new_topic(own_broker.bootstrap, 2)
    name = f"dumped-{topic}"
    begin(own_broker, name, topic).abort_transaction(LIMIT_S)
    until(lambda: command(own_broker, "describe", name).rows[0]["state"] == "CompleteAbort", "the markers", LIMIT_S)
    files = sorted(str(log) for log in own_broker.data.glob("__transaction_state-*/*.log"))
    said = tool_output(DUMP_LOG, "--transaction-log-decoder", "--files", ",".join(files))
    lines = [line for line in said.splitlines() if line.startswith("|") and name in line]
    found = [re.search(r" key: (\{.*\}) payload: (\{.*\})$", line) for line in lines]
    values = [json.loads(one[2])["data"] for one in found if one]
    states = [value["transactionStatus"] for value in values]
    assert [state for state, _ in groupby(states)] == [0, 1, 3, 5]
    (partitions,) = values[-2]["transactionPartitions"]
    assert (partitions["topic"], sorted(partitions["partitionIds"])) == (topic, [0, 1])


def test_kafkas_decoder_reads_the_offsets_of_transactions(own_broker: Broker) -> None:
    """They are batches of the producer in `__consumer_offsets`, and a marker follows each transaction."""
    toolchain.jars("broker")
    topic = new_topic(own_broker.bootstrap, 2)
    producer = begin(own_broker, f"offsets-{topic}", topic)
    (described,) = command(own_broker, "describe", f"offsets-{topic}").rows
    send_offset(own_broker, producer, topic, 5)
    producer.commit_transaction(LIMIT_S)
    producer.begin_transaction()
    send_offset(own_broker, producer, topic, 7)
    producer.abort_transaction(LIMIT_S)

    batches: list[str] = []

    def has_both() -> bool:
        batches[:] = offset_batches(own_broker, described["producer_id"])
        return len(batches) == 4

    until(has_both, "the markers", LIMIT_S)
    found = [re.search(r" key: (\{.*\}) payload: (\{.*\})\n|endTxnMarker: (\w+) ", batch) for batch in batches]
    shown = [one and (one[3] or (json.loads(one[1])["data"], json.loads(one[2])["data"]["offset"])) for one in found]
    key = {"group": topic, "topic": topic, "partition": 0}
    assert shown == [(key, 5), "COMMIT", (key, 7), "ABORT"]
    is_control = [re.findall(r"isTransactional: true isControl: (\w+)", batch) for batch in batches]
    assert is_control == [["false"], ["true"], ["false"], ["true"]]


def offset_batches(broker: Broker, producer_id: int) -> list[str]:
    """What kafka-dump-log prints of each batch of a producer in `__consumer_offsets`, with the records."""
    files = sorted(str(log) for log in broker.data.glob("__consumer_offsets-*/*.log"))
    said = tool_output(DUMP_LOG, "--offsets-decoder", "--files", ",".join(files))
    batches = re.split(r"^(?=baseOffset: )", said, flags=re.MULTILINE)
    return [batch for batch in batches if f" producerId: {producer_id} " in batch]

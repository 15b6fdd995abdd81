"""`headgate log` and Kafka's DumpLogSegments on the same files, beside what a client read from them.

The directories are Headgate's, filled by stock clients over the wire, and one of Apache Kafka 4.1 with transactions.
HEADGATE_COMPAT_TARGET=kafka fills all of them with Kafka.
"""

from __future__ import annotations

import json
import random
import re
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from compat_tests.harness import toolchain
from compat_tests.harness.apache_kafka import DUMP_LOG, QUICK_START, ApacheKafka, java
from compat_tests.harness.broker import TARGET, Broker, installed_command, new_broker
from compat_tests.harness.stored import compacted_to
from compat_tests.harness.tool_jvm import tool_output
from compat_tests.harness.topics import create_topics, set_config
from compat_tests.harness.waiting import until

LIMIT_S = 60
SETTINGS = {"offsets.topic.num.partitions": "1", "group.initial.rebalance.delay.ms": "0"}
# The smallest segments that Kafka allows a topic; an entry of the index for nearly each batch
TOPICS = {
    "plain": {"segment.bytes": "1048576", "index.interval.bytes": "4096"},
    "append-time": {"message.timestamp.type": "LogAppendTime", "index.interval.bytes": "100"},
}
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
SIZE = 900


class Record(NamedTuple):
    """As every one of the three tells it: a client, Kafka's tool, ours. Text, as all that is sent is."""

    offset: int
    timestamp: int
    key: str | None
    value: str | None
    header_names: tuple[str, ...]


class Filled(NamedTuple):
    """A data directory of a broker that has stopped, and what was read from it before: topic -> records."""

    data: Path
    read: Mapping[str, list[Record]]

    def directory(self, topic: str) -> Path:
        return self.data / f"{topic}-0"


# ------------------------------------------------------------------------------------------------------------ brokers


def produce(bootstrap: str, topic: str, count: int, codec: str, *, size: int = SIZE, **settings: object) -> None:
    """Send records: some without a key, some without a value, some with headers."""
    producer = Producer(
        {"bootstrap.servers": bootstrap, "compression.type": codec, "enable.idempotence": True, "linger.ms": 1}
        | settings
    )
    chance = random.Random(codec)  # what is alike is compressed to next to nothing
    for number in range(count):
        key = None if number % 7 == 0 else f"{codec}-{number}"
        value = None if number % 11 == 0 else chance.randbytes(size // 2).hex()
        headers: dict[str, str | bytes | None] = {"first": b"1", "second": b"2"} if number % 5 == 0 else {}
        producer.produce(topic, value, key, partition=0, headers=headers)
        if number % 50 == 49:
            producer.poll(0)
            time.sleep(0.002)  # else all is one batch
    assert producer.flush(LIMIT_S) == 0


def transact(bootstrap: str, topic: str, count: int) -> None:
    """Transactions of three records each; every second one is aborted."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "till", "linger.ms": 0})
    producer.init_transactions(LIMIT_S)
    for number in range(count):
        producer.begin_transaction()
        for _ in range(3):
            producer.produce(topic, f"value-{number}", f"key-{number}", partition=0)
        producer.flush(LIMIT_S)
        end = producer.abort_transaction if number % 2 else producer.commit_transaction
        end(LIMIT_S)


def everything(bootstrap: str, topic: str) -> list[Record]:
    """All that a consumer is shown of a topic's one partition; the offset behind it is committed for a group."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    found = []
    until_s = time.monotonic() + LIMIT_S
    while (message := consumer.poll(1.0)) is None or message.error() is None:
        assert time.monotonic() < until_s, f"{topic} was not read to its end in {LIMIT_S} s"
        if message is not None:
            found.append(received(message))
    consumer.commit(offsets=[TopicPartition(topic, 0, found[-1].offset + 1)], asynchronous=False)
    consumer.close()
    return found


def received(message: Any) -> Record:
    key, value = (None if one is None else one.decode() for one in (message.key(), message.value()))
    names = tuple(name for name, _ in message.headers() or ())
    return Record(message.offset(), message.timestamp()[1], key, value, names)


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Filled:
    broker: Broker = new_broker(tmp_path_factory.mktemp("logs"), SETTINGS)
    broker.start()
    try:
        create_topics(broker.bootstrap, TOPICS)
        for codec in CODECS:
            produce(broker.bootstrap, "plain", 700, codec)
        produce(broker.bootstrap, "append-time", 200, "none", size=20)
        read = {topic: everything(broker.bootstrap, topic) for topic in TOPICS}
    finally:
        broker.stop()
    return Filled(broker.data, read)


# -------------------------------------------------------------------------------------------------------------- tools


class Said(NamedTuple):
    code: int
    rows: list[Any]
    errors: str


def ours(*arguments: object) -> Said:
    """`headgate log`, as it is installed."""
    typed = [*installed_command(), "log", *map(str, arguments)]
    done = subprocess.run(typed, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    errors = [line for line in done.stderr.splitlines() if not line.startswith('{"progress": ')]
    return Said(done.returncode, [json.loads(line) for line in done.stdout.splitlines()], "\n".join(errors))


def our_records(directory: Path) -> list[Record]:
    said = ours("dump", directory)
    assert (said.code, said.errors) == (0, "")
    return [
        Record(row["offset"], row["timestamp"], row["key"], row["value"], tuple(name for name, _ in row["headers"]))
        for row in said.rows
        if not row["control"]
    ]


KAFKAS_RECORD = re.compile(
    r"\| offset: (?P<offset>\d+) (?:CreateTime|LogAppendTime): (?P<timestamp>-?\d+) keySize: (?P<key_size>-?\d+) "
    r"valueSize: (?P<value_size>-?\d+) .*?headerKeys: \[(?P<names>[^]]*)\]"
    r"(?: key: (?P<key>\S+))?(?: payload: (?P<value>.*))?"
)


def theirs(directory: Path, *, suffixes: tuple[str, ...], is_compacted: bool = False) -> list[str]:
    """What Kafka's tool prints of the files of a partition, all of them by one process."""
    toolchain.jars("broker")
    files = [str(path) for path in sorted(directory.iterdir()) if path.suffix in suffixes]
    command = java(DUMP_LOG, "--deep-iteration", "--print-data-log", "--files", ",".join(files))
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=True)
    complaints = done.stderr.splitlines()
    assert [line for line in complaints if not (is_compacted and OF_COMPACTION.fullmatch(line))] == []
    return done.stdout.splitlines()


# What it says of any compacted log, one of Kafka's own too: offsets are not dense, and the time of a batch that was
# emptied is still in the index
OF_COMPACTION = re.compile(
    r"Non-consecutive offsets in .*|  \d+ is followed by \d+"
    r"|Found timestamp mismatch in :.*|  Index timestamp: \d+, log timestamp: -1"
)


def their_records(lines: list[str]) -> list[Record]:
    found = []
    for line in lines:
        if line.startswith("|") and "endTxnMarker" not in line:
            one = KAFKAS_RECORD.match(line)
            assert one is not None, line
            key = one["key"] if int(one["key_size"]) >= 0 else None
            value = one["value"] if int(one["value_size"]) >= 0 else None
            names = tuple(filter(None, one["names"].split(",")))
            found.append(Record(int(one["offset"]), int(one["timestamp"]), key, value, names))
    return found


def assert_all_agree(directory: Path, read: list[Record], *, is_compacted: bool = False) -> list[str]:
    """Kafka's tool has no complaint, and it, our dump and a client have the same records."""
    suffixes = (".log", ".index", ".timeindex", ".txnindex", ".snapshot")
    lines = theirs(directory, suffixes=suffixes, is_compacted=is_compacted)
    headers = [line for line in lines if line.startswith("baseOffset: ")]
    assert all(line.endswith(" isvalid: true") for line in headers)
    dumped, offsets = our_records(directory), {one.offset for one in read}
    assert their_records(lines) == dumped
    assert [record for record in dumped if record.offset in offsets] == read
    return lines


# -------------------------------------------------------------------------------------------------------------- tests


@pytest.mark.parametrize("topic", TOPICS)
def test_kafkas_tool_and_ours_say_what_a_client_reads(filled: Filled, topic: str) -> None:
    lines = assert_all_agree(filled.directory(topic), filled.read[topic])
    directory = filled.directory(topic)
    for path in sorted(directory.glob("*.index")):
        start = lines.index(f"Dumping {path}") + 1
        shown = [re.fullmatch(r"offset: (\d+) position: (\d+)", line) for line in lines[start:]]
        count = next((number for number, found in enumerate(shown) if found is None), len(shown))
        entries = [(int(one[1]), int(one[2])) for one in shown[:count] if one]
        assert path.stat().st_size == 8 * len(entries)
        assert entries == [(row["offset"], row["position"]) for row in ours("dump", path).rows]
    for path in sorted(directory.glob("*.snapshot")):
        start = lines.index(f"Dumping {path}") + 1
        rows = ours("dump", path).rows
        assert (
            [(row["producer_id"], row["first_sequence"], row["last_sequence"], row["last_offset"]) for row in rows]
            == [
                tuple(int(re.search(rf" {name}: (-?\d+)", f" {line}")[1]) for name in SNAPSHOT_FIELDS)  # type: ignore[index]
                for line in lines[start : start + len(rows)]
            ]
        )


SNAPSHOT_FIELDS = ("producerId", "firstSequence", "lastSequence", "lastOffset")


def test_batches_are_those_that_kafkas_tool_shows(filled: Filled) -> None:
    lines = [line for line in theirs(filled.directory("plain"), suffixes=(".log",)) if line.startswith("baseOffset")]
    fields = {
        "base_offset": "baseOffset",
        "last_offset": "lastOffset",
        "records": "count",
        "base_sequence": "baseSequence",
        "producer_id": "producerId",
        "leader_epoch": "partitionLeaderEpoch",
        "position": "position",
        "bytes": "size",
        "magic": "magic",
        "codec": "compresscodec",
        "crc": "crc",
    }
    rows = ours("dump", filled.directory("plain"), "--batches").rows
    shown = [dict(re.findall(r"(\w+): (\S+)", line)) for line in lines]
    assert [[str(row[ours]) for ours in fields] for row in rows] == [
        [one[theirs] for theirs in fields.values()] for one in shown
    ]
    assert {row["codec"] for row in rows} == set(CODECS)


def test_nothing_is_wrong_with_a_directory_that_was_stopped(filled: Filled) -> None:
    said = ours("verify", filled.data)
    assert (said.code, said.errors) == (0, "")
    rows = {row["topic"]: row for row in said.rows}
    assert [rows[topic]["records"] for topic in TOPICS] == [len(read) for read in filled.read.values()]
    assert rows["plain"]["segments"] > 2
    if TARGET == "headgate":
        assert {row["indexes"] for row in said.rows} == {"same"}
    states = {row["topic"]: row["state"] for row in ours("ls", filled.data).rows}
    assert set(states.values()) == {"clean"}


def test_beside_a_running_broker(broker: Broker, topic: Callable[..., str]) -> None:
    """It is looked at; a repair is refused."""
    name = topic()
    produce(broker.bootstrap, name, 100, "none", size=100)
    said = ours("verify", broker.data, "--topic", name)
    assert (said.code, said.errors, [row["records"] for row in said.rows]) == (0, "", [100])
    assert [row["state"] for row in ours("ls", broker.data, "--topic", name).rows] == ["in use"]
    refused = ours("repair", broker.data, "--topic", name)
    assert (refused.code, refused.rows) == (1, [])
    assert "is in use by" in refused.errors


def test_committed_offsets_are_decoded_as_by_kafkas_tool(filled: Filled) -> None:
    directory = filled.directory("__consumer_offsets")
    rows = ours("dump", directory).rows
    committed = {
        row["key"]["topic"]: row["value"]["offset"] for row in rows if row["key"].get("type") == "OffsetCommit"
    }
    assert committed == {topic: read[-1].offset + 1 for topic, read in filled.read.items()}
    (log,) = (path for path in directory.glob("*.log") if path.stat().st_size)
    said = tool_output(DUMP_LOG, "--offsets-decoder", "--files", str(log))
    values = [line.partition(" payload: ")[2] for line in said.splitlines() if line.startswith("|")]
    decoded = [None if value == "<DELETE>" else json.loads(value)["data"] for value in values]
    assert [value and value.get("offset") for value in decoded] == [
        row["value"] and row["value"].get("offset") for row in rows
    ]


def test_before_and_after_a_compaction(tmp_path: Path) -> None:
    """A client, Kafka's tool and ours agree; what is gone is told, and nothing else is."""
    toolchain.jars("broker")
    broker = new_broker(tmp_path, {**SETTINGS, "log.cleaner.backoff.ms": "100"})
    broker.start()
    try:
        create_topics(broker.bootstrap, {"kept": {"segment.bytes": "1048576", "min.cleanable.dirty.ratio": "0.01"}})
        for codec in ("none", "lz4", "gzip"):
            produce_keys(broker.bootstrap, "kept", 1500, codec)
        before = everything(broker.bootstrap, "kept")
        broker.stop()
        assert_all_agree(broker.partition_directory("kept", 0), before)
        assert ours("dump", broker.partition_directory("kept", 0), "--gaps").rows == []

        broker.start()
        set_config(broker.bootstrap, "kept", "cleanup.policy", "compact")
        until(lambda: compacted_to(broker.data, "kept", 0) > 1500, "a compaction", LIMIT_S / 2)
        after = everything(broker.bootstrap, "kept")
    finally:
        broker.stop()
    directory = broker.partition_directory("kept", 0)
    assert_all_agree(directory, after, is_compacted=True)
    assert len(after) < len(before)
    assert {record.key: record for record in after} == {record.key: record for record in before}
    said = ours("verify", broker.data)
    assert (said.code, said.errors) == (0, "")
    gaps = ours("dump", directory, "--gaps").rows
    assert {row["reason"] for row in gaps} == {"compacted"}
    gone = {offset for row in gaps for offset in range(row["first"], row["last"] + 1)}
    assert gone == {record.offset for record in before} - {record.offset for record in after}


def produce_keys(bootstrap: str, topic: str, count: int, codec: str) -> None:
    """Values for five hundred keys, again and again."""
    producer = Producer({"bootstrap.servers": bootstrap, "compression.type": codec, "enable.idempotence": True})
    chance = random.Random(codec)
    for number in range(count):
        producer.produce(topic, chance.randbytes(500).hex(), f"key-{number % 500}", partition=0)
        if number % 50 == 49:
            producer.flush(LIMIT_S)
    assert producer.flush(LIMIT_S) == 0


def test_a_directory_of_apache_kafka_with_transactions(tmp_path: Path) -> None:
    """Aborted records, markers and the coordinator's own log, as Kafka 4.1 writes them."""
    toolchain.jars("broker")
    with ApacheKafka(
        {**SETTINGS, "transaction.state.log.num.partitions": "1"},
        directory=tmp_path,
        options=QUICK_START,
    ) as kafka:
        create_topics(kafka.bootstrap, {"paid": {"segment.bytes": "1048576"}})
        transact(kafka.bootstrap, "paid", 6)
        produce(kafka.bootstrap, "paid", 300, "zstd", size=5000)
        read = everything(kafka.bootstrap, "paid")
        kafka.stop()
        filled = Filled(kafka.logs, {"paid": read})
        assert_all_agree(filled.directory("paid"), read)

        said = ours("verify", filled.data)
        assert (said.code, said.errors) == (0, "")
        gaps = ours("dump", filled.directory("paid"), "--gaps").rows
        hidden = {offset: row["reason"] for row in gaps for offset in range(row["first"], row["last"] + 1)}
        end = next(row["end_offset"] for row in said.rows if row["topic"] == "paid")
        assert sorted([*hidden, *(record.offset for record in read)]) == list(range(end))
        assert [hidden.get(offset) for offset in range(8)] == [None, None, None, "marker", *["aborted"] * 3, "marker"]

        states = ours("dump", filled.directory("__transaction_state")).rows
        assert {row["key"]["transactional_id"] for row in states} == {"till"}
        assert [row["value"]["transaction_status"] for row in states][-1] == "CompleteAbort"
        assert {"Ongoing", "PrepareCommit", "CompleteCommit"} <= {row["value"]["transaction_status"] for row in states}
        metadata = ours("dump", filled.directory("__cluster_metadata")).rows
        values = [row["value"] for row in metadata if not row["control"]]
        topics = {value["name"] for value in values if value["type"] == "Topic"}
        assert topics == {"paid", "__consumer_offsets", "__transaction_state"}
        assert metadata[0]["key"] == {"type": "LEADER_CHANGE"}

"""Spark's built-in `kafka` format beside deletions and transactions; topics by pattern; the options that it has."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from compat_tests.families.confluent import Confluent
from compat_tests.harness.broker import Broker
from compat_tests.harness.records import Traits, assert_equal, generate
from compat_tests.harness.topics import create_topics, delete_before
from compat_tests.spark.spark_format import contents, in_order, options, with_millis

PARTITIONS = 3
COUNT = 3_000
LIMIT_S = 60
DATA_LOSS = r"(?i)data.{0,40}(loss|lost)|could not read records|out of range"


def read(spark: Any, broker: Broker, topic: str, **more: object) -> Any:
    return spark.read.format("kafka").options(**options(broker, topic)).options(**more).load()


def produce(broker: Broker, topic: str) -> None:
    Confluent().produce(broker.bootstrap, topic, generate(COUNT, PARTITIONS, Traits()), "zstd")


def test_topics_by_pattern(spark: Any, broker: Broker, tmp_path: Path) -> None:
    """A match anywhere in the name counts; other topics and internal ones are left out."""
    names = [f"{tmp_path.name}-{end}" for end in ("in-1", "in-2", "out")]
    create_topics(broker.bootstrap, {name: {} for name in names}, PARTITIONS)
    for name in names:
        produce(broker, name)
    settings = {"kafka.bootstrap.servers": broker.bootstrap, "subscribePattern": f"{tmp_path.name}-in-[0-9]"}
    found = with_millis(spark.read.format("kafka").options(**settings, includeHeaders="true").load()).collect()
    assert len(found) == 2 * COUNT
    for name in names[:2]:
        of_topic = in_order(row for row in found if row.topic == name)
        assert_equal(contents(broker, name, PARTITIONS), of_topic, name)


def test_more_tasks_than_partitions(spark: Any, broker: Broker, topic: Callable[..., str]) -> None:
    name = topic(PARTITIONS)
    produce(broker, name)
    frame = with_millis(read(spark, broker, name, minPartitions=9))
    assert frame.rdd.getNumPartitions() == 9
    assert_equal(contents(broker, name, PARTITIONS), in_order(frame.collect()), "in many tasks")


def test_deleted_records_fail_a_batch_unless_told(spark: Any, broker: Broker, topic: Callable[..., str]) -> None:
    """Offsets before the log start: an error, or all that is left."""
    name = topic(PARTITIONS)
    produce(broker, name)
    everything = contents(broker, name, PARTITIONS)
    delete_before(broker.bootstrap, name, {0: 300, 2: 1_000})
    left = [one for one in everything if one.offset >= {0: 300, 1: 0, 2: 1_000}[one.partition]]
    starts = json.dumps({name: dict.fromkeys(map(str, range(PARTITIONS)), 0)})
    with pytest.raises(Exception, match=DATA_LOSS):
        read(spark, broker, name, startingOffsets=starts).collect()
    careless = with_millis(read(spark, broker, name, startingOffsets=starts, failOnDataLoss="false"))
    assert_equal(left, in_order(careless.collect()), "what is left, by offsets")
    assert_equal(left, in_order(with_millis(read(spark, broker, name)).collect()), "what is left, from the earliest")


class Transactions:
    """Records of a committed, an aborted, and an open transaction in each partition, with others between them."""

    def __init__(self, broker: Broker, topic: str) -> None:
        self.topic = topic
        self.committed: set[str] = set()
        self.aborted: set[str] = set()
        self.open: set[str] = set()
        common = {"bootstrap.servers": broker.bootstrap, "linger.ms": 50}
        self.plain = Producer(common)
        self.first, self.second = (Producer({**common, "transactional.id": f"{topic}-{one}"}) for one in "ab")
        for producer in (self.first, self.second):
            producer.init_transactions(LIMIT_S)
        for ended in ("commit_transaction", "abort_transaction") * 2:
            self.first.begin_transaction()
            self.write(self.first, self.committed if ended.startswith("commit") else self.aborted)
            self.write(self.plain, self.committed)
            getattr(self.first, ended)(LIMIT_S)
        self.second.begin_transaction()
        self.write(self.second, self.open)

    def write(self, producer: Producer, into: set[str], count: int = 90) -> None:
        start = len(self.committed) + len(self.aborted) + len(self.open)
        for number in range(start, start + count):
            producer.produce(self.topic, f"value {number}", partition=number % PARTITIONS)
            into.add(f"value {number}")
        assert producer.flush(LIMIT_S) == 0

    def end(self) -> None:
        """Commit the open transaction."""
        self.second.commit_transaction(LIMIT_S)
        self.committed |= self.open


def values(rows: list[Any]) -> list[str]:
    return sorted(bytes(row.value).decode() for row in rows)


@pytest.fixture
def transactions(broker: Broker, topic: Callable[..., str]) -> Iterator[Transactions]:
    made = Transactions(broker, topic(PARTITIONS))
    yield made
    made.plain.flush(LIMIT_S)


def test_transactions_in_a_batch(spark: Any, broker: Broker, transactions: Transactions) -> None:
    """All records by default; read_committed hides the aborted ones, and the open transaction until it ends."""
    everything = read(spark, broker, transactions.topic).collect()
    assert values(everything) == sorted(transactions.committed | transactions.aborted | transactions.open)
    committed = {"kafka.isolation.level": "read_committed"}
    assert values(read(spark, broker, transactions.topic, **committed).collect()) == sorted(transactions.committed)
    transactions.end()
    assert values(read(spark, broker, transactions.topic, **committed).collect()) == sorted(transactions.committed)


def test_transactions_in_a_stream(spark: Any, broker: Broker, transactions: Transactions, tmp_path: Path) -> None:
    """A query stops before an open transaction, and reads it once after its end."""

    def run() -> list[str]:
        settings = {
            "startingOffsets": "earliest",
            "kafka.isolation.level": "read_committed",
            "maxOffsetsPerTrigger": 200,
        }
        reader = spark.readStream.format("kafka").options(**options(broker, transactions.topic)).options(**settings)
        writer = reader.load().selectExpr("value").writeStream.format("parquet").option("path", str(tmp_path / "rows"))
        query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True).start()
        assert query.awaitTermination(LIMIT_S)
        return values(spark.read.parquet(str(tmp_path / "rows")).collect())

    assert run() == sorted(transactions.committed)
    transactions.end()
    assert run() == sorted(transactions.committed)


def test_the_command_knows_every_setting_of_the_clients(spark: Any) -> None:
    """`headgate spark options --all` against the classes of the Kafka client that the connector brings."""
    command = [str(Path(sys.executable).parent / "headgate"), "spark", "options", "kafka", "--all", "--json"]
    listed = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    rows = {row["option"]: row["use"] for row in map(json.loads, listed)}
    clients = spark._jvm.org.apache.kafka.clients  # noqa: SLF001 - PySpark has no other way to classes
    for classes, use in ((clients.consumer.ConsumerConfig, "batch"), (clients.producer.ProducerConfig, "write")):
        names = {f"kafka.{name}" for name in classes.configNames() if not name.startswith("internal.")}
        assert names - {name for name, uses in rows.items() if use in uses} == set()
        ours = {name for name, uses in rows.items() if use in uses and name.startswith("kafka.")}
        assert ours - names == set()

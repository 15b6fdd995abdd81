"""Spark's built-in `kafka` format: batch write and batch read, by offset and by time. Stock PySpark, one session."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from compat_tests.families.confluent import Confluent
from compat_tests.harness.broker import Broker
from compat_tests.harness.records import Received, Traits, assert_equal, assert_same, generate
from compat_tests.harness.stored import CODECS, batches
from compat_tests.spark.spark_format import contents, in_order, options, with_millis

COUNT = 10_000
PARTITIONS = 3
# A record as Spark computes it from its number: every tenth without a key
COLUMNS = (
    "IF(id % 10 = 7, NULL, CAST(CONCAT('key-', id) AS BINARY)) AS key",
    "CAST(CONCAT('value ', id, REPEAT(' compressible', 5)) AS BINARY) AS value",
    """ARRAY(NAMED_STRUCT('key', 'number', 'value', CAST(CAST(id AS STRING) AS BINARY)),
             NAMED_STRUCT('key', 'nothing', 'value', CAST(NULL AS BINARY))) AS headers""",
    f"CAST(id % {PARTITIONS} AS INT) AS partition",
)


def read(spark: Any, broker: Broker, topic: str, **more: object) -> list[Received]:
    reader = spark.read.format("kafka").options(**options(broker, topic)).options(**more)
    return in_order(with_millis(reader.load()).collect())


def write(spark: Any, broker: Broker, topic: str, codec: str) -> None:
    writer = spark.range(COUNT).selectExpr(*COLUMNS).write.format("kafka").option("topic", topic)
    settings = {"kafka.bootstrap.servers": broker.bootstrap, "kafka.compression.type": codec, "includeHeaders": "true"}
    writer.options(**settings).save()


@pytest.mark.parametrize("codec", CODECS)
def test_what_spark_writes(spark: Any, broker: Broker, topic: Callable[..., str], codec: str) -> None:
    """Another client finds all rows, in the codec asked for, and so does Spark."""
    name = topic(PARTITIONS)
    write(spark, broker, name, codec)
    stored = {partition: batches(broker.partition_directory(name, partition)) for partition in range(PARTITIONS)}
    assert {batch.codec for found in stored.values() for batch in found} == {codec}
    everything = contents(broker, name, PARTITIONS)
    assert_rows(everything)
    assert_equal(everything, read(spark, broker, name), "what Spark reads of it")


def assert_rows(everything: Sequence[Received]) -> None:
    """Two tasks wrote at the same time: a row is once in its partition, and each task's rows are in order."""
    numbers = []
    for record in everything:
        number = int(dict(record.headers)["number"] or b"")
        assert record.partition == number % PARTITIONS
        assert record.headers == (("number", str(number).encode()), ("nothing", None))
        assert record.key == (None if number % 10 == 7 else f"key-{number}".encode())
        assert record.value == f"value {number}{' compressible' * 5}".encode()
        numbers.append((record.partition, number))
    assert sorted(number for _, number in numbers) == list(range(COUNT))
    for task in (range(COUNT // 2), range(COUNT // 2, COUNT)):
        for partition in range(PARTITIONS):
            own = [number for where, number in numbers if where == partition and number in task]
            assert own == sorted(own)


@pytest.fixture
def produced(broker: Broker, topic: Callable[..., str]) -> tuple[str, list[Received]]:
    """A topic of records of every kind, with timestamps of their own, and what it holds in order."""
    name = topic(PARTITIONS)
    sent = generate(COUNT, PARTITIONS, Traits())
    Confluent().produce(broker.bootstrap, name, sent, "lz4")
    everything = contents(broker, name, PARTITIONS)
    assert_same(sent, everything, 0)
    return name, everything


def test_read_everything_again_after_a_restart(
    spark: Any, broker: Broker, produced: tuple[str, list[Received]]
) -> None:
    name, everything = produced
    assert_equal(everything, read(spark, broker, name), "before the restart")
    broker.restart()
    assert_equal(everything, read(spark, broker, name), "after the restart")


def test_read_by_offsets(spark: Any, broker: Broker, produced: tuple[str, list[Received]]) -> None:
    name, everything = produced
    first, last = {0: 0, 1: 700, 2: 3000}, {0: 1, 1: 2100, 2: 3001}
    found = read(spark, broker, name, startingOffsets=offsets(name, first), endingOffsets=offsets(name, last))
    assert_equal(between(everything, first, last), found, "")


def between(everything: Sequence[Received], first: dict[int, int], last: dict[int, int]) -> list[Received]:
    """From the first offset of each partition up to before the last."""
    return [one for one in everything if first[one.partition] <= one.offset < last[one.partition]]


def test_read_to_the_latest_and_from_the_earliest(
    spark: Any, broker: Broker, produced: tuple[str, list[Received]]
) -> None:
    """-2 and -1 in the JSON are earliest and latest."""
    name, everything = produced
    first, last = {0: -2, 1: 10, 2: -2}, {0: -1, 1: -1, 2: 20}
    found = read(spark, broker, name, startingOffsets=offsets(name, first), endingOffsets=offsets(name, last))
    assert_equal(between(everything, {0: 0, 1: 10, 2: 0}, {0: COUNT, 1: COUNT, 2: 20}), found, "")


def test_read_by_time(spark: Any, broker: Broker, produced: tuple[str, list[Received]]) -> None:
    """One time for all partitions, and one for each."""
    name, everything = produced
    times = sorted(one.timestamp_ms for one in everything)
    first, last = times[COUNT // 3], times[2 * COUNT // 3]
    expected = [one for one in everything if first <= one.timestamp_ms < last]
    assert_equal(expected, read(spark, broker, name, startingTimestamp=first, endingTimestamp=last), "one time")

    starts = {partition: first + 100 * partition for partition in range(PARTITIONS)}
    ends = {partition: last - 100 * partition for partition in range(PARTITIONS)}
    times_of = {"startingOffsetsByTimestamp": offsets(name, starts), "endingOffsetsByTimestamp": offsets(name, ends)}
    expected = [one for one in everything if starts[one.partition] <= one.timestamp_ms < ends[one.partition]]
    assert_equal(expected, read(spark, broker, name, **times_of), "a time for each partition")


def offsets(topic: str, positions: dict[int, int]) -> str:
    return json.dumps({topic: {str(partition): position for partition, position in positions.items()}})


def test_a_topic_is_made_by_writing_to_it(spark: Any, broker: Broker, tmp_path: Path) -> None:
    """Auto-creation, as the README's first lines rely on it."""
    name = f"made-by-spark-{tmp_path.name}"
    rows = spark.range(10).selectExpr("CAST(CAST(id AS STRING) AS BINARY) AS value")
    rows.write.format("kafka").option("kafka.bootstrap.servers", broker.bootstrap).option("topic", name).save()
    assert sorted(one.value or b"" for one in read(spark, broker, name)) == [b"%d" % number for number in range(10)]

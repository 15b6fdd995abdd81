"""Spark's built-in `kafka` format: a stock PySpark session, and its rows as the records that other clients report."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator
from importlib import metadata
from typing import Any

from compat_tests.families.confluent import Confluent
from compat_tests.families.family import FromStart
from compat_tests.harness import apache_kafka, toolchain
from compat_tests.harness.broker import Broker
from compat_tests.harness.records import Received
from compat_tests.harness.stored import batches
from compat_tests.spark import jvm

# Version of Spark -> its connector's folder in build/jars
JAR_SETS = {"4.0.0": "spark40", "4.1.1": "spark", "4.2.0": "spark42"}


@contextlib.contextmanager
def session() -> Iterator[Any]:
    """A session with the connector's jars, or the end of the test where Spark or they are not on this machine."""
    toolchain.module("pyspark", "pip install pyspark==4.1.1")
    jar_set = JAR_SETS[metadata.version("pyspark")]
    toolchain.jars(jar_set)
    os.environ.update(jvm.environment())
    from pyspark.sql import SparkSession

    jars = ",".join(map(str, (apache_kafka.JARS / jar_set).glob("*.jar")))
    builder = SparkSession.builder.master("local[2]").config("spark.jars", jars).config("spark.ui.enabled", "false")
    quiet = builder.config("spark.ui.showConsoleProgress", "false")
    started = quiet.config("spark.sql.shuffle.partitions", "2").getOrCreate()
    started.sparkContext.setLogLevel("OFF")  # queries fail on purpose
    try:
        yield started
    finally:
        started.stop()


def options(broker: Broker, topic: str) -> dict[str, str]:
    """Of every reader."""
    return {"kafka.bootstrap.servers": broker.bootstrap, "subscribe": topic, "includeHeaders": "true"}


def with_millis(frame: Any) -> Any:
    """Rows with the column that `received` takes the time from: a timestamp in Python is one of a time zone."""
    from pyspark.sql.functions import unix_millis

    return frame.withColumn("ms", unix_millis("timestamp"))


def in_order(rows: Iterable[Any]) -> list[Received]:
    return by_place(map(received, rows))


def received(row: Any) -> Received:
    headers = tuple((one.key, None if one.value is None else bytes(one.value)) for one in row.headers or ())
    key, value = (None if one is None else bytes(one) for one in (row.key, row.value))
    return Received(row.partition, row.offset, row.ms, key, value, headers)


def contents(broker: Broker, topic: str, partitions: int) -> list[Received]:
    """All that the topic holds from offset 0, as another client reads it, in order."""
    stored = {partition: batches(broker.partition_directory(topic, partition)) for partition in range(partitions)}
    ends = {partition: found[-1].last_offset + 1 for partition, found in stored.items() if found}
    return by_place(Confluent().consume(broker.bootstrap, topic, FromStart(), ends))


def by_place(records: Iterable[Received]) -> list[Received]:
    return sorted(records, key=lambda one: (one.partition, one.offset))

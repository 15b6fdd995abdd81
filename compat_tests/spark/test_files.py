"""The format `headgate` over the files of brokers that run, were killed, or were stopped, against Spark's `kafka`.

Without a broker the rows are those that `kafka` finds after the broker's next start.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from compat_tests.harness import toolchain
from compat_tests.harness.apache_kafka import QUICK_START, KafkaAndZooKeeper
from compat_tests.harness.broker import Broker, HeadgateBroker
from compat_tests.harness.kafka_target import KafkaBroker
from compat_tests.harness.topics import set_config
from compat_tests.matrix.carried import records_of
from compat_tests.matrix.client import BEFORE_HEADERS, BEFORE_TIMES, MODERN
from compat_tests.spark.random_topics import RandomTopic
from compat_tests.spark.test_headgate import ISOLATIONS, assert_same_rows, frame
from compat_tests.storage.test_adoption import FEW, OF_EACH, SMALL, fill, produce

SEEDS: Final = range(100, 104)
KAFKAS_LEAST_SEGMENT: Final = 1 << 20


def headgate(directory: Path) -> Broker:
    return HeadgateBroker(directory, FEW)


def kafka(directory: Path) -> Broker:
    return KafkaBroker(directory, FEW)


def kafka39(directory: Path) -> Broker:
    return KafkaBroker(directory, FEW, "broker39")


def rows_of(spark: Any, format_name: str, names: str, **options: str) -> dict[str, Any]:
    """The rows of topics for each isolation level, read now."""
    found = {}
    for isolation in ISOLATIONS:
        everything = {"subscribe": names, "kafka.isolation.level": isolation, **options}
        found[isolation] = frame(spark, format_name, everything).cache()
        assert found[isolation].count() > 100
    return found


def assert_all_same(expected: dict[str, Any], **found: dict[str, Any]) -> None:
    """`found`: the rows of `headgate` by isolation level, by the name of the way to them."""
    for isolation in ISOLATIONS:
        each = {way: rows[isolation] for way, rows in found.items()}
        assert_same_rows({"kafka": expected[isolation], **each})


@pytest.mark.parametrize(
    "new_broker", [headgate, *(pytest.param(one, marks=pytest.mark.soak) for one in (kafka, kafka39))]
)
def test_a_broker_runs_is_killed_and_stopped(spark: Any, new_broker: Callable[[Path], Broker], tmp_path: Path) -> None:
    """A running Headgate has `test_random_topics`."""
    broker = new_broker(tmp_path)
    broker.start()
    try:
        topics = [RandomTopic(broker, seed, KAFKAS_LEAST_SEGMENT * (new_broker is kafka)) for seed in SEEDS]
        names, directories = ",".join(topic.name for topic in topics), {"logDirs": str(broker.data)}
        wire = {"kafka.bootstrap.servers": broker.bootstrap}
        if new_broker is not headgate:
            runs = rows_of(spark, "headgate", names, **wire, **directories)
            assert_all_same(rows_of(spark, "kafka", names, **wire), runs=runs)
        broker.kill()
        killed = rows_of(spark, "headgate", names, **directories)
        unanswered = rows_of(spark, "headgate", names, **wire, **directories)
        broker.start()
        expected = rows_of(spark, "kafka", names, **wire)
        broker.stop()
        stopped = rows_of(spark, "headgate", names, **directories)
        assert_all_same(expected, killed=killed, unanswered=unanswered, stopped=stopped)
        del topics
    finally:
        broker.kill()
    spark.catalog.clearCache()


@pytest.mark.soak
def test_messages_of_formats_0_and_1(spark: Any, tmp_path: Path) -> None:
    """As Kafka 2.8 stores them where a topic asks for them; a topic may change its format."""
    toolchain.jars("broker28")
    settings = {**FEW, "log.message.format.version": "0.10.2"}
    more: dict[str, Any] = {"heap": "512m", "options": QUICK_START}
    with KafkaAndZooKeeper(settings, directory=tmp_path, **more) as kafka28:
        wanted = {
            "zero": (BEFORE_TIMES, {**SMALL, "message.format.version": "0.8.2"}),
            "one": (BEFORE_HEADERS, {**SMALL, "message.format.version": "0.10.0"}),
            "one-append-time": (
                BEFORE_HEADERS, {"message.format.version": "0.10.2", "message.timestamp.type": "LogAppendTime"}
            ),
            "changing": (BEFORE_HEADERS, {"message.format.version": "0.10.2"}),
            "two": (MODERN, {**SMALL, "message.format.version": "2.8"}),
        }  # fmt: skip
        fill(kafka28, wanted)
        set_config(kafka28.bootstrap, "changing", "message.format.version", "2.8")
        produce(kafka28.bootstrap, "changing", records_of(BEFORE_HEADERS, OF_EACH, 9), "lz4")
        names, directories = ",".join([*wanted, "transacted"]), {"logDirs": str(kafka28.logs)}
        wire = {"kafka.bootstrap.servers": kafka28.bootstrap}
        expected = rows_of(spark, "kafka", names, **wire)
        by_wire = rows_of(spark, "headgate", names, **wire)
        runs = rows_of(spark, "headgate", names, **wire, **directories)
    assert_all_same(expected, wire=by_wire, runs=runs, stopped=rows_of(spark, "headgate", names, **directories))
    spark.catalog.clearCache()

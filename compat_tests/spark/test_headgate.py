"""The format `headgate` against Spark's built-in `kafka`: the same rows, by wire and by files.

Spark finds the format by itself, in a stock session: the tests name it and import nothing.
"""

from __future__ import annotations

import functools
import json
import os
import random
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka import IsolationLevel, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from compat_tests.families.confluent import Confluent
from compat_tests.harness.apache_kafka import ROOT
from compat_tests.harness.broker import TARGET, Broker, new_broker, running
from compat_tests.harness.records import Received, Traits, assert_equal, generate
from compat_tests.harness.topics import delete_before, new_topic
from compat_tests.hostile.claimed_times import claiming, produce
from compat_tests.spark.random_topics import RandomTopic
from compat_tests.spark.spark_format import in_order, with_millis

ISOLATIONS: Final = ("read_uncommitted", "read_committed")
SETTINGS: Final = {"offsets.topic.num.partitions": "1", "transaction.state.log.num.partitions": "1"}
CHECKPOINTS_S: Final = 0.5
# Files alone tell of deleted records when the next checkpoint is written
OFTEN: Final = {**SETTINGS, "replica.high.watermark.checkpoint.interval.ms": str(int(CHECKPOINTS_S * 1000))}
SEEDS: Final = range(15)
AT_ONCE: Final = 25
MANY: Final = 500
PROGRESS: Final = ROOT / "build" / "soak" / "spark-random-topics.json"
PART_S: Final = float(os.environ.get("HEADGATE_PART_S", "3600"))
PARTITIONS: Final = 3
LEAST_SEGMENT: Final = 0 if TARGET == "headgate" else 1 << 20  # Kafka 4.1 allows no smaller one
COUNT: Final = 3_000
PUSH_DOWN: Final = "spark.sql.python.filterPushdown.enabled"

Options = dict[str, Any]


def frame(spark: Any, format_name: str, options: Options) -> Any:
    return spark.read.format(format_name).option("includeHeaders", "true").options(**options).load()


def rows(spark: Any, format_name: str, options: Options) -> list[Received]:
    return in_order(with_millis(frame(spark, format_name, options)).collect())


def assert_same_rows(frames: Mapping[str, Any]) -> None:
    """All frames have the same rows, each as often; it is `exceptAll` of all pairs in one job."""
    from pyspark.sql import functions as f

    first = next(iter(frames.values()))
    counts = [f.count(f.when(f.col("of") == name, True)).alias(name) for name in frames]
    tagged = [one.withColumn("of", f.lit(name)) for name, one in frames.items()]
    united = functools.reduce(lambda one, other: one.union(other), tagged)
    counted = united.groupBy(*first.columns).agg(*counts).cache()
    for one in frames.values():
        assert one.schema == first.schema
    try:
        assert counted.filter(" OR ".join(f"`{name}` != `{next(iter(frames))}`" for name in frames)).take(3) == []
        assert counted.take(1), "there are no rows"
    finally:
        counted.unpersist()


def ways(broker: Broker) -> dict[str, Options]:
    """The options of each way to the records of a running broker.

    The files of Apache Kafka alone end at its last checkpoint, up to five seconds ago, and begin where that of a minute
    ago has it.
    """
    wire: Options = {"kafka.bootstrap.servers": broker.bootstrap}
    files: Options = {"logDirs": str(broker.data)}
    return {"wire": wire, "files": files if TARGET == "headgate" else wire | files, "both": wire | files}


def frames(spark: Any, broker: Broker, options: Options, *names: str) -> dict[str, Any]:
    """A frame of `kafka`, and one of `headgate` for each of these ways."""
    each = {name: frame(spark, "headgate", options | ways(broker)[name]) for name in names}
    return {"kafka": frame(spark, "kafka", options | ways(broker)["wire"])} | each


@pytest.fixture(scope="module")
def random_topics(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Broker, list[RandomTopic]]]:
    with running(tmp_path_factory.mktemp("random-topics"), OFTEN) as broker:
        made = [RandomTopic(broker, seed, LEAST_SEGMENT) for seed in SEEDS]
        time.sleep(2 * CHECKPOINTS_S)
        yield broker, made
        for topic in made:
            topic.close()


def test_random_topics(spark: Any, random_topics: tuple[Broker, list[RandomTopic]]) -> None:
    """Five codecs, both kinds of times, aborted and open transactions over segments, records deleted inside batches."""
    broker, topics = random_topics
    readable = kafkas_readable(broker, topics)
    common = {"subscribe": ",".join(topic.name for topic in readable), "kafka.isolation.level": "read_committed"}
    assert_same_rows(frames(spark, broker, common, "wire", "files"))
    for topic in topics:
        if topic not in readable:
            assert frame(spark, "headgate", common | ways(broker)["wire"] | {"subscribe": topic.name}).count() >= 0
    common = {"subscribe": ",".join(topic.name for topic in topics), "kafka.isolation.level": "read_uncommitted"}
    assert_same_rows(frames(spark, broker, common, "both"))


def kafkas_readable(broker: Broker, topics: Sequence[RandomTopic]) -> list[RandomTopic]:
    """The topics that the format `kafka` can read with read_committed."""
    return [topic for topic in topics if TARGET == "headgate" or not is_cut(broker, topic)]


def is_cut(broker: Broker, topic: RandomTopic) -> bool:
    """Whether the last stable offset is before the log start, as Apache Kafka has it: its own readers then fail."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    found = []
    for spec in (OffsetSpec.earliest(), OffsetSpec.latest()):  # type: ignore[no-untyped-call]
        wanted = {TopicPartition(topic.name, number): spec for number in range(topic.partitions)}
        asked = admin.list_offsets(wanted, isolation_level=IsolationLevel.READ_COMMITTED)
        found.append({one.partition: answer.result().offset for one, answer in asked.items()})
    starts, ends = found
    return any(ends[number] < start for number, start in starts.items())


@pytest.mark.soak
def test_many_random_topics(spark: Any, tmp_path: Path) -> None:
    """500 topics of fresh seeds, 25 in one broker; a run ends after an hour. The next one goes on with its seeds."""
    PROGRESS.parent.mkdir(parents=True, exist_ok=True)
    if not PROGRESS.exists():
        PROGRESS.write_text(json.dumps({"first": random.randrange(1 << 30), "done": 0}))
    state = json.loads(PROGRESS.read_text())
    end_s = time.monotonic() + PART_S
    while state["done"] < MANY:
        if time.monotonic() > end_s:
            pytest.skip(f"{state['done']} of {MANY} topics are done, from seed {state['first']}; the next run goes on")
        first = state["first"] + state["done"]
        with running(tmp_path / str(first), OFTEN) as broker, ThreadPoolExecutor(4) as pool:
            make = functools.partial(RandomTopic, broker, least_segment_bytes=LEAST_SEGMENT)
            topics = list(pool.map(make, range(first, first + AT_ONCE)))
            time.sleep(2 * CHECKPOINTS_S)
            try:
                compare_all_ways(spark, broker, topics, random.Random(first))
            except BaseException as error:
                error.add_note(f"the seeds are {first} to {first + AT_ONCE - 1}")
                raise
            for topic in topics:
                topic.close()
        shutil.rmtree(tmp_path / str(first))
        state["done"] += AT_ONCE
        PROGRESS.write_text(json.dumps(state))
    PROGRESS.unlink()


def compare_all_ways(spark: Any, broker: Broker, topics: Sequence[RandomTopic], choice: random.Random) -> None:
    """Both isolation levels in one job, as a column; one of the ways is split into more tasks."""
    from pyspark.sql.functions import lit

    readable = {"read_uncommitted": topics, "read_committed": kafkas_readable(broker, topics)}
    united: dict[str, Any] = {}
    split_way = choice.choice(("wire", "files", "both"))  # of "both" there is no other frame
    for level in ISOLATIONS:
        names = ",".join(topic.name for topic in readable[level])
        options = {"subscribe": names, "kafka.isolation.level": level}
        each = frames(spark, broker, options, "wire", "files")
        split = options | ways(broker)[split_way] | {"minPartitions": choice.randrange(60, 100)}
        each[split_way] = frame(spark, "headgate", split)
        for name, one in each.items():
            tagged = one.withColumn("level", lit(level))
            united[name] = united[name].unionAll(tagged) if name in united else tagged
    assert_same_rows(united)


def test_pushed_filters(spark: Any, random_topics: tuple[Broker, list[RandomTopic]]) -> None:
    """Times in any order: a batch may be left out only if none of its records matches."""
    broker, topics = random_topics[0], random_topics[1][:4]
    options = {"subscribe": ",".join(topic.name for topic in topics), "kafka.isolation.level": "read_committed"}
    wire, files = ways(broker)["wire"], ways(broker)["files"]
    expected = frame(spark, "kafka", options | wire)
    low, high = expected.selectExpr("percentile(unix_millis(timestamp), array(0.6, 0.7))").first()[0]
    condition = (
        f"timestamp > timestamp_millis({int(low)}) AND timestamp <= timestamp_millis({int(high)}) "
        f"AND offset >= 3 AND partition IN (0, 1) AND topic != '{topics[0].name}'"
    )
    spark.conf.set(PUSH_DOWN, "true")
    try:
        each = {
            name: frame(spark, "headgate", options | way | {"pushFilters": "true"}).filter(condition)
            for name, way in (("wire", wire), ("files", files))
        }
        assert_same_rows({"kafka": expected.filter(condition)} | each)
    finally:
        spark.conf.unset(PUSH_DOWN)


@pytest.mark.parametrize("claim", ["-1", "base"])
def test_filters_by_time_pass_headers_that_claim_too_little(spark: Any, broker: Broker, claim: str) -> None:
    topic, start = new_topic(broker.bootstrap, 1), int(time.time() * 1000)
    for first in range(start, start + 100, 10):
        data = claiming(-1 if claim == "-1" else first, range(first, first + 10))
        assert produce(broker.bootstrap, topic, data) == 0
    options = {"subscribe": topic} | ways(broker)["wire"]
    spark.conf.set(PUSH_DOWN, "true")
    try:
        condition = f"timestamp >= timestamp_millis({start + 45})"
        pushed = frame(spark, "headgate", options | {"pushFilters": "true"}).filter(condition)
        assert pushed.count() == 55
        assert_same_rows({"kafka": frame(spark, "kafka", options).filter(condition), "headgate": pushed})
    finally:
        spark.conf.unset(PUSH_DOWN)


@pytest.fixture(scope="module")
def produced(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A topic of three partitions with records of every kind, in the session's broker."""
    name = new_topic(broker.bootstrap, PARTITIONS, {"segment.bytes": str(max(50_000, LEAST_SEGMENT))})
    Confluent().produce(broker.bootstrap, name, generate(COUNT, PARTITIONS, Traits()), "lz4")
    return name


def offsets(topic: str, *each: int) -> str:
    return json.dumps({topic: {str(partition): offset for partition, offset in enumerate(each)}})


def test_options_mean_what_they_mean_to_kafka(spark: Any, broker: Broker, produced: str) -> None:
    everything = rows(spark, "kafka", {"subscribe": produced} | ways(broker)["wire"])
    assert len(everything) == COUNT
    time_ms = everything[700].timestamp_ms
    each: list[Options] = [
        {"subscribePattern": f"{produced[:-1]}[{produced[-1]}]$", "minPartitions": 8},
        {
            "assign": json.dumps({produced: [2, 0]}),
            "startingOffsets": json.dumps({produced: {"0": 5, "2": -2}}),
            "endingOffsets": json.dumps({produced: {"0": 9, "2": -1}}),
        },
        {"SUBSCRIBE": produced, "StartingTimestamp": time_ms, "endingTimestamp": time_ms + 2_000},
        {
            "subscribe": produced,
            "startingOffsetsByTimestamp": offsets(produced, time_ms, time_ms + 100, 1 << 60),
            "startingOffsetsByTimestampStrategy": "latest",
            "endingOffsetsByTimestamp": offsets(produced, time_ms + 500, 1 << 60, 1 << 60),
        },
    ]
    for options, name in zip(each, ("files", "wire", "files", "wire"), strict=True):
        expected = rows(spark, "kafka", options | ways(broker)["wire"])
        assert_equal(expected, rows(spark, "headgate", options | ways(broker)[name]), f"{name}, {options}")


def test_a_frame_is_split_into_tasks(spark: Any, broker: Broker, produced: str) -> None:
    options = {"subscribe": produced} | ways(broker)["wire"]
    assert frame(spark, "headgate", options).rdd.getNumPartitions() == PARTITIONS
    each: list[Options] = [{"minPartitions": 7}, {"minPartitions": 10, "endingOffsets": offsets(produced, 20, 500, -1)}]
    for more in each:
        counts = {name: frame(spark, name, options | more).rdd.getNumPartitions() for name in ("kafka", "headgate")}
        assert counts["kafka"] == counts["headgate"] > PARTITIONS
    assert frame(spark, "headgate", options | {"maxRecordsPerPartition": 300}).rdd.getNumPartitions() == 12


def test_a_schema_selects_columns(spark: Any, broker: Broker, produced: str) -> None:
    reader = spark.read.format("headgate").options(subscribe=produced, **ways(broker)["wire"])
    found = reader.schema("Offset BIGINT, headers ARRAY<STRUCT<key: STRING, value: BINARY>>, partition INT").load()
    assert found.columns == ["Offset", "headers", "partition"]
    kafka = frame(spark, "kafka", {"subscribe": produced} | ways(broker)["wire"])
    assert_same_rows({"kafka": kafka.selectExpr("offset AS Offset", "headers", "partition"), "headgate": found})


def test_wrong_options_are_refused_by_load(spark: Any, broker: Broker) -> None:
    from pyspark.errors import AnalysisException

    for options, text in (
        ({"subscribe": "t", "startingOffset": "earliest"}, "the nearest name is startingOffsets"),
        ({"subscribe": "t", "kafka.security.protocol": "SASL_SSL"}, "kafka.sasl.jaas.config is missing"),
        ({}, "give one of subscribe, subscribePattern and assign"),
    ):
        with pytest.raises(AnalysisException, match=text):
            frame(spark, "headgate", options | ways(broker)["wire"])
    reader = spark.read.format("headgate").options(subscribe="t", **ways(broker)["wire"])
    misspelt = reader.schema("timestamps TIMESTAMP").load()
    with pytest.raises(AnalysisException, match="the nearest column is timestamp"):
        misspelt.collect()


def test_records_that_are_gone_fail_a_batch(spark: Any, broker: Broker, topic: Callable[..., str]) -> None:
    from pyspark.errors import PySparkException

    name = topic(1)
    Confluent().produce(broker.bootstrap, name, generate(500, 1, Traits()), "zstd")
    delete_before(broker.bootstrap, name, {0: 123})
    options = {"subscribe": name, "startingOffsets": offsets(name, 100)}
    for way in (ways(broker)["wire"], ways(broker)["both"]):
        with pytest.raises(PySparkException, match="Some data may have been lost"):
            rows(spark, "headgate", options | way)
        found = rows(spark, "headgate", options | way | {"failOnDataLoss": "false"})
        assert [one.offset for one in found] == list(range(123, 500))


@pytest.mark.soak
def test_files_of_a_broker_that_is_gone(spark: Any, tmp_path: Path) -> None:
    """Killed with open transactions, and started again: by files the rows are those that its next start serves."""
    broker = new_broker(tmp_path / "broker", SETTINGS)
    broker.start()
    try:
        topics = [RandomTopic(broker, seed, LEAST_SEGMENT) for seed in (100, 101)]
        names = ",".join(topic.name for topic in topics)
        options = {level: {"subscribe": names, "kafka.isolation.level": level} for level in ISOLATIONS}
        files = {"logDirs": str(broker.data)}
        broker.kill()
        gone = {level: rows(spark, "headgate", options[level] | files) for level in ISOLATIONS}
        broker.start()
        for level in ISOLATIONS:
            wire = {"kafka.bootstrap.servers": broker.bootstrap}
            assert_equal(rows(spark, "kafka", options[level] | wire), gone[level], level)
    finally:
        broker.stop()

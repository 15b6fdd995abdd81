"""The exactly-once sink of `headgate spark`, killed before and after its steps: each row is committed once.

Two kills in `make test`, all of them in `make soak`. Also with HEADGATE_COMPAT_TARGET=kafka.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from compat_tests.harness.broker import Broker, running
from compat_tests.harness.soak import SOAK
from compat_tests.harness.topics import new_topic
from compat_tests.harness.waiting import until
from compat_tests.spark import spark_format
from compat_tests.spark.sink_program import ROWS, STEPS, SinkProgram, expected
from compat_tests.spark.sink_queries import KEPT, produce
from compat_tests.transactions.copiers.committed_values import Follower, Values, committed_values

PARTITIONS = 3
BATCHES = 3
KILLED = -9
ALL_KILLS = [(step, moment) for step in STEPS for moment in ("before", "after")]
QUICK_KILLS = [("end", "before"), ("end", "after")]
KILLS = ALL_KILLS if SOAK else QUICK_KILLS
SETTINGS = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "500"}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with running(tmp_path_factory.mktemp("sink"), SETTINGS) as broker:
        yield broker


def values(broker: Broker, topic: str) -> Values:
    return committed_values(broker.bootstrap, [(topic, partition) for partition in range(PARTITIONS)])


def assert_once(found: Values, batches: int) -> None:
    """Each row once; those of a key, and so those of a partition of a task, in their order."""
    everything = [value for rows in found.values() for value in rows]
    assert sorted(everything) == sorted(expected(batches))
    assert len([rows for rows in found.values() if rows]) == PARTITIONS
    for rows in found.values():
        numbers = [tuple(map(int, value.split())) for value in rows]
        assert numbers == sorted(numbers)


@pytest.mark.parametrize("step, moment", KILLS)
def test_a_driver_killed_at_a_step(broker: Broker, tmp_path: Path, step: str, moment: str) -> None:
    topic = new_topic(broker.bootstrap, PARTITIONS)
    follower = Follower(broker.bootstrap, [(topic, partition) for partition in range(PARTITIONS)])
    program = SinkProgram(broker.bootstrap, topic, tmp_path, batches=BATCHES, rows=ROWS)
    code, _ = program.run(kill=[step, moment, 1])
    assert code == KILLED, program.last_errors()
    code, again = program.run()
    assert code == 0, program.last_errors()
    was_committed = (step, moment) in {("end", "after"), ("done", "before")}
    assert again[0]["is_written"] != was_committed
    assert_once(values(broker, topic), BATCHES)
    until(lambda: follower.values == values(broker, topic), "the reader in a loop to see the same")
    follower.close()


def test_a_broker_killed_while_batches_are_written(tmp_path: Path) -> None:
    """The sink waits for the broker, and tries again what was not answered."""
    with running(tmp_path / "broker", SETTINGS) as broker:
        topic = new_topic(broker.bootstrap, PARTITIONS)
        program = SinkProgram(broker.bootstrap, topic, tmp_path, batches=4, rows=ROWS)
        process = program.start()
        assert process.stdout is not None
        for line in process.stdout:
            batch = json.loads(line)["batch"]
            if batch in {0, 2}:
                broker.kill()
                broker.start()
        process.stdout.close()
        assert process.wait(60) == 0, program.last_errors()
        assert_once(values(broker, topic), 4)


@pytest.mark.soak
def test_two_drivers_under_one_name_do_not_both_write(broker: Broker, tmp_path: Path) -> None:
    """The second one fences the first, or finds its marker."""
    topic = new_topic(broker.bootstrap, PARTITIONS)
    programs = [
        SinkProgram(broker.bootstrap, topic, tmp_path / name, batches=8, rows=ROWS) for name in ("one", "other")
    ]
    processes = [program.start() for program in programs]
    codes = [process.wait(60) for process in processes]
    assert 0 in codes, programs[0].last_errors()
    for process in processes:
        assert process.stdout is not None
        process.stdout.close()
    assert_once(values(broker, topic), 8)


# ----------------------------------------------------------------------------------------------------------- with Spark


def test_the_format_headgate_writes_batches_and_queries(spark: Any, broker: Broker, tmp_path: Path) -> None:
    """Rows of any tasks, with headers and times; a query goes on where it was, and a repeated write writes nothing."""
    source, output, report = (new_topic(broker.bootstrap, PARTITIONS, KEPT) for _ in range(3))
    produce(broker.bootstrap, source, range(900))
    read = spark_format.options(broker, source) | {"startingOffsets": "earliest", "maxOffsetsPerTrigger": "300"}
    target = {"kafka.bootstrap.servers": broker.bootstrap, "topic": output, "queryName": output}

    def run() -> None:
        frame = spark.readStream.format("kafka").options(**read).load()
        writer = frame.select("key", "value", "timestamp", "headers").writeStream.format("headgate").options(**target)
        query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True).start()
        query.awaitTermination()

    run()
    produce(broker.bootstrap, source, range(900, 1_000))
    run()
    found = values(broker, output)
    assert sorted(int(value) for rows in found.values() for value in rows) == list(range(1_000))
    committed = spark_format.options(broker, output) | {"kafka.isolation.level": "read_committed"}
    rows = spark.read.format("kafka").options(**committed).load()
    assert rows.select("timestamp").distinct().count() == 1
    once = {**target, "topic": report, "name": report, "once": "monday"}
    del once["queryName"]
    for _ in range(2):
        rows.select("key", "value").write.format("headgate").options(**once).mode("append").save()
    assert sum(len(one) for one in values(broker, report).values()) == 1_000


class CopyQuery:
    """A query from one topic to another, by `Sink` or by the format `headgate`, on one checkpoint."""

    def __init__(self, spark: Any, broker: Broker, checkpoint: Path, *, uses_format: bool) -> None:
        self.spark, self.broker, self.checkpoint, self.uses_format = spark, broker, checkpoint, uses_format
        self.source, self.output = (new_topic(broker.bootstrap, PARTITIONS, KEPT) for _ in range(2))
        self.appended = 0

    def append(self, count: int) -> None:
        produce(self.broker.bootstrap, self.source, range(self.appended, self.appended + count))
        self.appended += count

    def run(self, limit: int) -> str:
        """Batches of at most `limit` records, until nothing is left; the text of the failure, if the query fails."""
        from pyspark.errors import StreamingQueryException

        options = spark_format.options(self.broker, self.source) | {"startingOffsets": "earliest"}
        read = self.spark.readStream.format("kafka").options(**options, maxOffsetsPerTrigger=str(limit))
        writer = read.load().select("key", "value").writeStream
        if self.uses_format:
            target = {"kafka.bootstrap.servers": self.broker.bootstrap, "topic": self.output, "queryName": self.output}
            writer = writer.format("headgate").options(**target)
        else:
            sink = import_module("headgate.spark.sink.sink").Sink
            writer = writer.foreachBatch(sink(self.broker.bootstrap, topic=self.output, name=self.output))
        query = writer.option("checkpointLocation", str(self.checkpoint)).trigger(availableNow=True).start()
        try:
            query.awaitTermination()
        except StreamingQueryException as error:
            return str(error)
        return ""

    def forget(self, batch: int) -> None:
        """Remove the files of a batch and of those behind it, as in an older copy of the checkpoint."""
        for folder in ("offsets", "commits"):
            for path in (self.checkpoint / folder).iterdir():
                name = path.name.removeprefix(".").removesuffix(".crc")
                if name.isdecimal() and int(name) >= batch:
                    path.unlink()

    def written(self) -> list[int]:
        return sorted(int(value) for rows in values(self.broker, self.output).values() for value in rows)


@pytest.mark.parametrize(
    "uses_format", [pytest.param(False, id="Sink", marks=pytest.mark.soak), pytest.param(True, id="format")]
)
def test_a_checkpoint_that_is_behind_loses_and_doubles_nothing(
    spark: Any, broker: Broker, tmp_path: Path, uses_format: bool
) -> None:
    """The last batch is repeated: to the same offsets, further, and less far. Only the first is not refused."""
    query = CopyQuery(spark, broker, tmp_path / "checkpoint", uses_format=uses_format)
    query.append(600)
    assert query.run(300) == ""
    query.forget(1)
    assert query.run(300) == "", "planned anew to the same offsets"
    query.append(150)
    query.forget(1)
    assert "batch 1 of" in (refusal := query.run(1_000))
    assert "SinkRefused" in refusal
    assert f"{query.source}-0: 250, written up to 200" in refusal
    query.forget(1)
    assert f"{query.source}-0: 150, written up to 200" in query.run(150)
    assert query.written() == list(range(600))

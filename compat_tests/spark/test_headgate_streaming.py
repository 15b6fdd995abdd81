"""Structured Streaming over the format `headgate`: everything is read, and once, over restarts and failures."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest

from compat_tests.harness.broker import Broker
from compat_tests.harness.records import Received, assert_equal
from compat_tests.harness.topics import add_partitions, delete_before
from compat_tests.spark.spark_format import by_place, contents, in_order, with_millis
from compat_tests.spark.test_kafka_streaming import FAILURE, PARTITIONS, finish, numbers, produce, query_exception

LIMIT_S: Final = 60


@dataclass
class Stream:
    """A query that reads a topic in either format, and its checkpoint."""

    spark: Any
    broker: Broker
    topic: str
    checkpoint: Path
    settings: dict[str, str] = field(default_factory=dict)
    taken: list[tuple[int, list[Received]]] = field(default_factory=list)
    fails_at: int | None = None
    restarts_at: int | None = None

    def writer(self, format_name: str = "headgate") -> Any:
        options = {
            "kafka.bootstrap.servers": self.broker.bootstrap,
            "subscribe": self.topic,
            "includeHeaders": "true",
            "startingOffsets": "earliest",
        }
        frame = self.spark.readStream.format(format_name).options(**options | self.settings).load()
        writer = with_millis(frame).writeStream.option("checkpointLocation", str(self.checkpoint))
        return writer.foreachBatch(self.take)

    def take(self, frame: Any, batch: int) -> None:
        self.taken.append((batch, in_order(frame.collect())))
        if batch == self.restarts_at:
            self.broker.restart()
        if batch == self.fails_at:
            self.fails_at = None
            raise RuntimeError(FAILURE)

    def rows(self) -> list[Received]:
        return by_place(record for _, records in self.taken for record in records)

    def drain(self) -> None:
        """Run until everything of this moment is read, in as many batches as it takes."""
        query = self.writer().trigger(processingTime="0 seconds").start()
        try:
            query.processAllAvailable()
        finally:
            query.stop()

    def offsets(self) -> dict[int, int]:
        """The newest offsets of the checkpoint."""
        newest = numbers(self.checkpoint / "offsets")[-1]
        text = (self.checkpoint / "offsets" / str(newest)).read_text().splitlines()[-1]
        return {int(partition): offset for partition, offset in json.loads(text)[self.topic].items()}


def test_batches_within_a_limit_over_restarts(
    spark: Any, broker: Broker, topic: Callable[..., str], tmp_path: Path
) -> None:
    """The query is stopped once, and the broker is restarted while it runs."""
    name = topic(PARTITIONS)
    stream = Stream(spark, broker, name, tmp_path, {"maxOffsetsPerTrigger": "500"}, restarts_at=1)
    for run in range(2):
        produce(broker, name, 1_200, seed=run)
        stream.drain()
        assert_equal(contents(broker, name, PARTITIONS), stream.rows(), f"after run {run}")
    assert len(stream.taken) >= 5
    assert max(len(records) for _, records in stream.taken) <= 500
    assert stream.offsets() == {0: 1_200, 1: 1_200}
    before = len(stream.taken)
    assert finish(stream.writer()) == []
    assert len(stream.taken) == before, "nothing was there"


@pytest.mark.parametrize("fails_at", [0, pytest.param(1, marks=pytest.mark.soak)])
def test_a_batch_that_fails_is_run_again_with_the_same_offsets(
    spark: Any, broker: Broker, topic: Callable[..., str], tmp_path: Path, fails_at: int
) -> None:
    """Also the first one: Spark notes nowhere where a Python stream began."""
    name = topic(PARTITIONS)
    produce(broker, name, 300)
    stream = Stream(spark, broker, name, tmp_path, fails_at=fails_at)
    if fails_at == 1:
        finish(stream.writer())
        produce(broker, name, 200, seed=2)
    with pytest.raises(query_exception(), match=FAILURE):
        finish(stream.writer())
    produce(broker, name, 100, seed=3)
    finish(stream.writer())
    finish(stream.writer())
    (_, failed), (_, again) = [one for one in stream.taken if one[0] == fails_at]
    assert_equal(failed, again, "the batch that failed")
    stream.taken.remove((fails_at, failed))
    assert_equal(contents(broker, name, PARTITIONS), stream.rows(), "all batches that were kept")


def test_partitions_are_added_and_records_deleted(
    spark: Any, broker: Broker, topic: Callable[..., str], tmp_path: Path
) -> None:
    name = topic(1)
    produce(broker, name, 200, partitions=1)
    stream = Stream(spark, broker, name, tmp_path)
    finish(stream.writer())
    add_partitions(broker.bootstrap, name, 2)
    produce(broker, name, 400, partitions=2)
    everything = contents(broker, name, 2)
    delete_before(broker.bootstrap, name, {0: 300})
    with pytest.raises(query_exception(), match=r"Some data may have been lost"):
        finish(stream.writer())
    stream.settings["failOnDataLoss"] = "false"
    finish(stream.writer())
    kept = [one for one in everything if one.partition == 1 or not 200 <= one.offset < 300]
    assert_equal(kept, stream.rows(), "what was there to be read")


def test_a_checkpoint_goes_from_kafka_to_headgate_and_back(
    spark: Any, broker: Broker, topic: Callable[..., str], tmp_path: Path
) -> None:
    """Only the name of the format changes in a job."""
    name = topic(PARTITIONS)
    stream = Stream(spark, broker, name, tmp_path)
    for run, format_name in enumerate(("kafka", "headgate", "kafka")):
        produce(broker, name, 300, seed=run)
        finish(stream.writer(format_name))
        assert_equal(contents(broker, name, PARTITIONS), stream.rows(), f"run {run} with {format_name}")


def test_available_now_within_a_limit(spark: Any, broker: Broker, topic: Callable[..., str], tmp_path: Path) -> None:
    """Spark 4.1 takes one batch a run from a Python source; since 4.2 a run takes them all."""
    name = topic(PARTITIONS)
    produce(broker, name, 1_000)
    stream = Stream(spark, broker, name, tmp_path, {"maxOffsetsPerTrigger": "400"})
    batches_in_a_run = [len(finish(stream.writer())) for _ in range(4)]
    assert_equal(contents(broker, name, PARTITIONS), stream.rows(), "all runs")
    assert max(len(records) for _, records in stream.taken) <= 400
    assert batches_in_a_run == ([3, 0, 0, 0] if spark.version >= "4.2" else [1, 1, 1, 0])

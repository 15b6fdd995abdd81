"""Rows to batches, batches to a broker that is a list."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pytest

from headgate.protocol.records import batch
from headgate.protocol.topic_partition import TopicPartition
from headgate.spark.sink import tasks
from headgate.spark.sink.marker import SinkRefused
from headgate.spark.sink.tasks import (
    SecondAttempt,
    TaskIdentity,
    WriteTarget,
    encode_rows,
    route,
    write_batches,
    write_rows,
)
from headgate.spark.sink.transaction import TransactionalProducer

PRODUCER = TransactionalProducer("id", 7, 3)
COUNTS = {"a": 3, "b": 2}


class FakeWriter:
    """Keeps what is written."""

    requests: list[dict[TopicPartition, list[bytes | None]]]

    def __init__(self, connection: object, producer: TransactionalProducer) -> None:
        assert producer == PRODUCER
        self.records: dict[TopicPartition, int] = {}

    def write(self, batches: Mapping[TopicPartition, tuple[int, bytearray]]) -> None:
        self.requests.append({})
        for partition, (count, data) in batches.items():
            found = [record.value for record in batch.iterate(data)]
            assert len(found) == count
            self.records[partition] = self.records.get(partition, 0) + count
            self.requests[-1][partition] = found


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> list[dict[TopicPartition, list[bytes | None]]]:
    FakeWriter.requests = []
    monkeypatch.setattr(tasks, "TransactionWriter", FakeWriter)
    return FakeWriter.requests


def target(topic: str | None = "a", max_batch_bytes: int = 100_000) -> WriteTarget:
    return WriteTarget("127.0.0.1:1", topic, COUNTS, 0, max_batch_bytes, 1_700, 1.0)


def identity(number: int = 0, attempt: int = 0) -> Any:
    return lambda: TaskIdentity(number, attempt)


def rows(count: int, first: int = 0, **columns: Any) -> Any:
    return pa.record_batch({"value": pa.array([b"%d" % (first + one) for one in range(count)]), **columns})


def joined(written: list[dict[TopicPartition, list[bytes | None]]]) -> dict[TopicPartition, list[int]]:
    found: dict[TopicPartition, list[int]] = {}
    for request in written:
        for partition, values in request.items():
            found.setdefault(partition, []).extend(int(value or b"") for value in values)
    return found


def report(batches: Any) -> dict[TopicPartition, int]:
    return {
        TopicPartition(row["topic"], row["partition"]): row["records"] for one in batches for row in one.to_pylist()
    }


def test_kept_partitions_are_written_by_the_task_itself(written: Any) -> None:
    given = rows(6, partition=pa.array([2, 0, 2, 0, 2, 2], pa.int32()))
    found = report(write_rows(target(), PRODUCER, [given], identity()))
    assert found == {TopicPartition("a", 2): 4, TopicPartition("a", 0): 2}
    assert joined(written) == {TopicPartition("a", 2): [0, 2, 4, 5], TopicPartition("a", 0): [1, 3]}


def test_a_task_without_rows_reports_none(written: Any) -> None:
    assert report(write_rows(target(), PRODUCER, [rows(0)], identity())) == {}
    assert report(write_batches(target(), PRODUCER, [], identity())) == {}


@pytest.mark.parametrize("seed", range(5))
def test_batches_come_in_order_whatever_the_shuffle_does(seed: int, written: Any) -> None:
    rng = random.Random(seed)
    encoded = []
    for task in range(2):
        keys = pa.array([b"%d" % rng.randrange(9) for _ in range(400)])
        encoded += list(encode_rows(target(max_batch_bytes=700), [rows(400, 1000 * task, key=keys)], identity(task)))
    pieces = [one.slice(place, 1) for one in encoded for place in range(one.num_rows)]
    rng.shuffle(pieces)
    found = report(write_batches(target(), PRODUCER, pieces, identity()))
    assert sum(found.values()) == 800
    for request in written:
        assert all(len(values) for values in request.values())
    everything = joined(written)
    for values in everything.values():
        for task in range(2):
            own = [one for one in values if one // 1000 == task]
            assert own == sorted(own)
    assert sorted(one for values in everything.values() for one in values) == [*range(400), *range(1000, 1400)]


def test_a_missing_batch_is_found(written: Any) -> None:
    [encoded] = encode_rows(target(max_batch_bytes=100), [rows(40, partition=pa.array([1] * 40))], identity())
    pieces = [encoded.slice(place, 1) for place in range(encoded.num_rows) if place != 1]
    with pytest.raises(SecondAttempt, match="a-1"):
        list(write_batches(target(), PRODUCER, pieces, identity()))


def test_a_second_attempt_writes_nothing(written: Any) -> None:
    for run in (write_rows, write_batches):
        with pytest.raises(SecondAttempt, match="started again"):
            list(run(target(), PRODUCER, [rows(3)], identity(4, 1)))
    assert written == []


@pytest.mark.parametrize("stage, is_written", [("2.0", True), ("2.1", False), ("13.10", False)])
def test_a_stage_that_runs_again_writes_nothing(written: Any, stage: str, is_written: bool) -> None:
    """Attempts of its tasks count from 0: only the name of Spark's thread has the attempt of the stage."""
    name = f"Thread[Executor task launch worker for task 1.0 in stage {stage} (TID 30),5,main]"
    given = rows(3, thread=pa.array([name, None, None], pa.string()))
    [encoded] = encode_rows(target(), [given], identity())
    names = pa.array([name] + [None] * (encoded.num_rows - 1), pa.string())
    for run, taken in ((write_rows, given), (write_batches, encoded.append_column("thread", names))):
        if is_written:
            assert sum(report(run(target(), PRODUCER, [taken], identity())).values()) == 3
        else:
            with pytest.raises(SecondAttempt, match="stage was started again"):
                list(run(target(), PRODUCER, [taken], identity()))
    assert (written != []) == is_written


def test_topics_of_a_column(written: Any) -> None:
    given = rows(4, topic=pa.array(["b", "a", "b", "a"]), partition=pa.array([1, 2, 0, 2]))
    write = write_rows(target(None), PRODUCER, [given], identity())
    assert report(write) == {TopicPartition("b", 1): 1, TopicPartition("b", 0): 1, TopicPartition("a", 2): 2}


@pytest.mark.parametrize(
    "columns, topic, text",
    [
        ({"partition": pa.array([0, 3])}, "a", "partition 3, but a has the partitions 0 to 2"),
        ({"partition": pa.array([-1, 0])}, "a", "partition -1"),
        ({}, None, "no column `topic`"),
        ({"topic": pa.array(["a", None])}, None, "null in 1 rows"),
        ({"timestamp": pa.array([1, 2])}, "a", "cast it to timestamp"),
        ({"timestamp": pa.array([-2_000, 0], pa.timestamp("us"))}, "a", "-2 ms, before 1970"),
    ],
)
def test_rows_that_cannot_be_written_are_refused(columns: Any, topic: str | None, text: str) -> None:
    with pytest.raises(SinkRefused, match=text):
        list(encode_rows(target(topic), [rows(2, **columns)], identity()))


def test_times_are_kept_and_nulls_get_the_time_of_the_write() -> None:
    times = pa.array([-1_000, 1_234_999, None, 5_000, -1_000], pa.timestamp("us", tz="UTC"))
    [encoded] = encode_rows(target("b"), [rows(5, timestamp=times, partition=pa.array([0] * 5))], identity())
    data = encoded.column("data")[0].as_py()
    assert [one.timestamp for one in batch.iterate(data)] == [-1, 1234, 1_700, 5, -1], "-1 is that of no time"
    header = batch.read_header(data)
    assert (header.base_timestamp, header.max_timestamp) == (-1, 1_700)
    [encoded] = encode_rows(target("b"), [rows(1)], identity())
    assert [one.timestamp for one in batch.iterate(encoded.column("data")[0].as_py())] == [1_700]


def test_a_partition_is_given_or_chosen_by_the_key() -> None:
    given = rows(3, partition=pa.array([2, None, None], pa.int32()), key=pa.array([b"x", b"k", b"k"]))
    [encoded] = encode_rows(target(), [given], identity())
    found = {row["partition"]: row["records"] for row in encoded.to_pylist()}
    assert found[2] >= 1
    assert sum(found.values()) == 3
    assert len(found) <= 2


def test_partitions_of_a_topic_have_routes_beside_each_other() -> None:
    routes = [route(TopicPartition("t", number)) for number in range(4)]
    assert {one % 4 for one in routes} == {0, 1, 2, 3}
    assert min(routes) >= 0

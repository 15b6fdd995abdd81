"""What a sink refuses before anything is written, and what it takes along to other processes."""

from __future__ import annotations

import pickle
from types import SimpleNamespace
from typing import Any

import pytest

from headgate.protocol.topic_partition import TopicPartition
from headgate.spark.sink.marker import SinkRefused
from headgate.spark.sink.sink import Sink, once_batch, sum_reports


@pytest.mark.parametrize(
    "given, text",
    [
        ({"compression": "zip"}, "write one of none, gzip, snappy, lz4, zstd"),
        ({"transaction_timeout_ms": 0}, "transaction_timeout_ms=0"),
        ({"transaction_timeout_ms": 1 << 31}, "transaction_timeout_ms"),
        ({"tries": 0}, "at least 1"),
    ],
)
def test_wrong_settings_are_refused(given: dict[str, Any], text: str) -> None:
    with pytest.raises(SinkRefused, match=text):
        Sink("b", topic="t", **given)


def test_columns_are_checked() -> None:
    sink = Sink("b", topic="t")
    assert sink.check_columns(["offset", "topic", "value", "key"]) == ["key", "value"]
    assert Sink("b").check_columns(["topic", "value"]) == ["topic", "value"]
    with pytest.raises(SinkRefused, match="no column `value`; it has key"):
        sink.check_columns(["key"])
    with pytest.raises(SinkRefused, match="no column `topic`"):
        Sink("b").check_columns(["value"])
    with pytest.raises(SinkRefused, match="keep_partitions needs"):
        Sink("b", topic="t", keep_partitions=True).check_columns(["value"])


def test_a_sink_of_a_query_needs_a_name() -> None:
    with pytest.raises(SinkRefused, match="needs a name"):
        Sink("b", topic="t")(SimpleNamespace(), 0)


def test_a_write_is_once_by_its_name() -> None:
    with pytest.raises(SinkRefused, match="needs a name"):
        once_batch(None, "monday")
    name, batch = once_batch("q", "monday")
    assert (name, batch and batch.query_id) == ("q", "write monday")
    first, second = once_batch(None, None), once_batch(None, None)
    assert first[0] != second[0]
    assert first[1] is None


def test_connections_stay_where_they_are() -> None:
    sink = Sink("b", topic="t", name="q")
    sink.transactions("q")
    assert sink.transactions("q") is sink.transactions("q")
    copy = pickle.loads(pickle.dumps(sink))
    assert copy == sink
    assert len(pickle.dumps(sink)) == len(pickle.dumps(Sink("b", topic="t", name="q")))


def test_two_tasks_with_one_partition_are_refused() -> None:
    assert sum_reports([("t", 0, 5), ("t", 1, 2)]) == {TopicPartition("t", 0): 5, TopicPartition("t", 1): 2}
    with pytest.raises(SinkRefused, match="two tasks have rows of t-0"):
        sum_reports([("t", 0, 5), ("t", 0, 2)])

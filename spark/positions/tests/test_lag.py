"""The lag of readers: as `groups lag` has it, with rate and time left."""

from __future__ import annotations

import pytest

from headgate.protocol.topic_partition import TopicPartition
from headgate.spark.positions.lag import ReaderPosition, measure, seconds_left, summarize, to_row
from headgate.spark.positions.tests.conftest import NOW_MS
from headgate.tools.groups.offsets import OffsetAndMetadata
from headgate.tools.tests.model_cluster import ModelCluster, opened

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def test_readers_with_and_without_a_rate(model: ModelCluster) -> None:
    readers = [
        ReaderPosition("query", {T0: OffsetAndMetadata(6), T1: OffsetAndMetadata(10)}, {T0: 2.0, T1: 1.0}),
        ReaderPosition("group", {T0: OffsetAndMetadata(9)}),
    ]
    with opened() as cluster:
        rows, failures = measure(cluster, readers, lambda: NOW_MS, arrivals={T0: 1.0})
    assert not failures
    assert [to_row(one) for one in rows if one.lag.partition == T0] == [
        {
            "reader": name,
            "topic": "t",
            "partition": 0,
            "committed": offset,
            "start": 0,
            "end": 10,
            "lag": 10 - offset,
            "lag_seconds": 10.0 - offset,
            "rate": rate,
            "seconds_left": left,
            "status": "ok",
            "leader": 0,
        }
        for name, offset, rate, left in (("group", 9, None, None), ("query", 6, 2.0, 4.0))
    ]
    assert summarize(rows) == [
        "group: 1 records behind in 1 partitions, 1.0 s",
        "query: 4 records behind in 2 partitions, 4.0 s, 3 records/s, 4 s left",
    ]
    stopped = [one._replace(seconds_left=None) for one in rows]
    assert summarize(stopped)[1].endswith("no end in sight")


@pytest.mark.parametrize(
    "records, rate, arrivals, expected",
    [
        (0, None, 0.0, 0.0),
        (None, 5.0, 0.0, None),
        (10, None, 0.0, None),
        (10, 5.0, 0.0, 2.0),
        (10, 5.0, 3.0, 5.0),
        (10, 5.0, 5.0, None),
        (10, 0.0, 0.0, None),
    ],
)
def test_the_time_left(records: int | None, rate: float | None, arrivals: float, expected: float | None) -> None:
    assert seconds_left(records, rate, arrivals) == expected

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.protocol.topic_partition import TopicPartition
from headgate.spark.reading.log_reader import OffsetRange
from headgate.spark.source.options import Subscription, parse
from headgate.spark.source.planning import (
    DataLost,
    RangeTask,
    assigned_partitions,
    plan_batch,
    share_limit,
    size,
    split,
)
from headgate.spark.source.pushed_filters import Condition, PushedFilters
from headgate.spark.source.tests.fake_log import T0, T1, FakeLog
from headgate.tools.output import UsageError

NEEDED = {"kafka.bootstrap.servers": "h:1", "subscribe": "t"}
OTHER = TopicPartition("other", 0)


def fail(text: str) -> None:
    raise DataLost(text)


def log() -> FakeLog:
    return FakeLog({T0: (10, 100), T1: (0, 50), OTHER: (0, 7), TopicPartition("__consumer_offsets", 0): (0, 9)})


def plan(*, filters: PushedFilters | None = None, lost: list[str] | None = None, **more: Any) -> list[tuple[int, ...]]:
    """(partition, first, end) of each task."""
    report = fail if lost is None else lost.append
    tasks = plan_batch(log(), parse(NEEDED | more), filters or PushedFilters(), report)
    return [(task.wanted.partition.number, *task.wanted[1:]) for task in tasks]


def test_everything_by_default() -> None:
    assert plan() == [(0, 10, 100), (1, 0, 50)]


def test_subscriptions() -> None:
    def names(**what: object) -> list[str]:
        return [str(one) for one in assigned_partitions(log().topics(), Subscription(**what))]  # type: ignore[arg-type]

    assert names(topics=["t", "other"]) == ["other-0", "t-0", "t-1"]
    assert names(partitions=[T1]) == ["t-1"]
    assert names(pattern="^t$") == ["t-0", "t-1"]
    assert names(pattern="t") == ["other-0", "t-0", "t-1"], "anywhere in the name, as in `kafka`; no internal topic"
    assert names(pattern="nothing") == []
    assert names(topics=["__consumer_offsets"]) == ["__consumer_offsets-0"]


def test_what_does_not_exist_is_named() -> None:
    with pytest.raises(UsageError, match="no topic nothing"):
        assigned_partitions(log().topics(), Subscription(topics=["t", "nothing"]))
    with pytest.raises(UsageError, match="no partition t-7"):
        assigned_partitions(log().topics(), Subscription(partitions=[T0, TopicPartition("t", 7)]))


def test_offsets_and_edges() -> None:
    assert plan(startingOffsets='{"t":{"0":20,"1":-2}}', endingOffsets='{"t":{"0":-1,"1":5}}') == [
        (0, 20, 100),
        (1, 0, 5),
    ]


def test_every_partition_must_be_named() -> None:
    with pytest.raises(UsageError, match="it lacks t-1"):
        plan(startingOffsets='{"t":{"0":20}}')
    with pytest.raises(UsageError, match="does not read, t-2"):
        plan(endingOffsetsByTimestamp='{"t":{"0":20,"1":3,"2":3}}')


def test_times() -> None:
    assert plan(startingTimestamp="1030", endingTimestamp="1060") == [(0, 30, 60), (1, 30, 50)]
    assert plan(startingTimestamp="1060", startingOffsetsByTimestampStrategy="latest") == [(0, 60, 100)]
    with pytest.raises(UsageError, match="no record of t-1"):
        plan(startingTimestamp="1060")


def test_lost_records_fail_a_batch_or_are_left_out() -> None:
    wanted: dict[str, Any] = {"startingOffsets": '{"t":{"0":5,"1":0}}', "endingOffsets": '{"t":{"0":8,"1":60}}'}
    with pytest.raises(DataLost, match=r"t-0: the offsets 5 to 7 are gone\. Some data may have been lost"):
        plan(**wanted)
    lost: list[str] = []
    assert plan(lost=lost, **wanted) == [(1, 0, 50)]
    assert [text.split(".")[0] for text in lost] == [
        "t-0: the offsets 5 to 7 are gone",
        "t-1: the offsets 0 to 60 are asked for, the partition ends at 50",
    ]


def test_a_start_behind_the_end_is_refused() -> None:
    with pytest.raises(UsageError, match="the start, 40, is behind the end, 30"):
        plan(startingOffsets='{"t":{"0":40,"1":0}}', endingOffsets='{"t":{"0":30,"1":1}}')


def test_filters_leave_out_partitions_and_offsets() -> None:
    filters = PushedFilters([Condition("partition", "EqualTo", 0), Condition("offset", "LessThan", 30)])
    assert plan(filters=filters) == [(0, 10, 30)]


def test_large_ranges_are_split() -> None:
    assert plan(maxRecordsPerPartition="30") == [(0, 10, 40), (0, 40, 70), (0, 70, 100), (1, 0, 25), (1, 25, 50)]
    assert plan(minPartitions="3") == [(0, 10, 55), (0, 55, 100), (1, 0, 50)]


def test_only_the_first_part_begins_at_the_log_start() -> None:
    assert [task.is_from_start for task in split([RangeTask(OffsetRange(T0, 0, 10), True)], 3, None)] == [
        True,
        False,
        False,
    ]


def offsets_of(tasks: list[RangeTask]) -> list[int]:
    """Each offset of each partition, in order, as one number: thousands of them are compared."""
    found: list[int] = []
    for task in tasks:
        partition, first, end = task.wanted
        start = partition.number << 32
        found += range(start + first, start + end)
    return found


RANGES = st.lists(st.tuples(st.integers(0, 50), st.integers(0, 2000)), max_size=6)


@given(RANGES, st.none() | st.integers(1, 40), st.none() | st.integers(1, 300))
def test_parts_of_ranges_are_the_ranges(ranges: list[tuple[int, int]], least: int | None, most: int | None) -> None:
    tasks = [
        RangeTask(OffsetRange(TopicPartition("t", number), first, first + count))
        for number, (first, count) in enumerate(ranges)
    ]
    parts = split(tasks, least, most)
    assert offsets_of(parts) == offsets_of(tasks)
    assert {part.wanted.partition.topic for part in parts} <= {"t"}
    assert all(size(part.wanted) > 0 for part in parts)
    if most:
        assert all(size(part.wanted) <= most for part in parts)


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 500)), max_size=6), st.integers(1, 800))
def test_a_limit_is_shared_and_starves_no_partition(ranges: list[tuple[int, int]], limit: int) -> None:
    first = {TopicPartition("t", number): start for number, (start, _) in enumerate(ranges)}
    last = {TopicPartition("t", number): start + count for number, (start, count) in enumerate(ranges)}
    ends = share_limit(first, last, limit)
    taken = {partition: ends[partition] - first[partition] for partition in last}
    assert sum(taken.values()) <= limit + len(ranges)
    assert all(taken[one] > 0 for one in last if last[one] > first[one])
    assert all(ends[one] <= last[one] for one in last)
    if sum(last.values()) - sum(first.values()) <= limit:
        assert ends == last

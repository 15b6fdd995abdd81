"""Which offsets a batch takes, and what a marker says of a copy."""

from __future__ import annotations

import pytest

from headgate.protocol.topic_partition import TopicPartition
from headgate.spark.pipelines.copy_plan import (
    CopyIdentity,
    CopyState,
    ends_of,
    next_batch,
    next_ranges,
    resume,
    starts,
    to_topics,
)
from headgate.spark.reading.log_reader import Bounds, OffsetRange
from headgate.spark.sink.marker import SinkMarker
from headgate.tools.output import UsageError

A, B = TopicPartition("a", 0), TopicPartition("b", 3)
REPLAY = CopyIdentity("replay", {"topic": "a"})


def marker(query_id: str) -> SinkMarker:
    return SinkMarker(query_id, 4, {"a": {0: 7}}, 0)


def test_a_batch_shares_its_size_among_partitions() -> None:
    assert next_ranges({A: 0, B: 100}, {A: 900, B: 200}, 100) == [OffsetRange(A, 0, 90), OffsetRange(B, 100, 110)]


def test_a_nearly_complete_partition_still_moves() -> None:
    assert next_ranges({A: 0, B: 0}, {A: 1_000, B: 1}, 10) == [OffsetRange(A, 0, 9), OffsetRange(B, 0, 1)]


def test_what_fits_is_one_batch() -> None:
    assert next_ranges({A: 1, B: 2}, {A: 5, B: 2}, 100) == [OffsetRange(A, 1, 5)]


def test_batches_end_at_the_ends() -> None:
    positions, ends, batches = {A: 0, B: 3}, {A: 1_000, B: 77}, 0
    while ranges := next_ranges(positions, ends, 64):
        assert sum(one.end_offset - one.start_offset for one in ranges) <= 64 + len(ranges)
        positions |= {one.partition: one.end_offset for one in ranges}
        batches += 1
    assert (positions, batches) == (ends, 17)


def test_a_marker_carries_the_ends_of_a_replay() -> None:
    fixed = REPLAY._replace(ends={A: 50, B: 60})
    assert ends_of("n", REPLAY, marker(fixed.query_id())) == {A: 50, B: 60}
    assert ends_of("n", REPLAY, marker(REPLAY.query_id())) is None


@pytest.mark.parametrize("other", ["2f1c-of-a-query", CopyIdentity("mirror", {"topic": "a"}).query_id(), "replay x {}"])
def test_a_name_of_another_copy_is_refused(other: str) -> None:
    with pytest.raises(UsageError, match="another copy or query"):
        ends_of("n", REPLAY, marker(other))


def test_a_damaged_plan_is_refused() -> None:
    with pytest.raises(UsageError, match="damaged"):
        ends_of("n", REPLAY, marker(f"{REPLAY.query_id()} {{x"))


def test_a_copy_goes_on_behind_its_marker() -> None:
    assert resume(None) == CopyState(0, {})
    assert resume(marker("x")) == CopyState(5, {A: 7})


def test_a_batch_has_the_positions_behind_it() -> None:
    batch = next_batch(REPLAY, CopyState(2, {A: 7, B: 1}), [OffsetRange(A, 7, 9)])
    assert (batch.query_id, batch.batch_id, batch.positions) == (REPLAY.query_id(), 2, to_topics({A: 9, B: 1}))


def test_a_new_partition_begins_at_its_start() -> None:
    assert starts({A: 7}, {A: Bounds(2, 9), B: Bounds(5, 8)}, skips_lost=False) == {A: 7, B: 5}


def test_lost_offsets_end_a_copy() -> None:
    with pytest.raises(UsageError, match="7 to 8 are gone"):
        starts({A: 7}, {A: Bounds(9, 20)}, skips_lost=False)
    assert starts({A: 7}, {A: Bounds(9, 20)}, skips_lost=True) == {A: 9}


def test_a_shorter_partition_ends_a_copy() -> None:
    with pytest.raises(UsageError, match="made anew"):
        starts({A: 7}, {A: Bounds(0, 6)}, skips_lost=True)

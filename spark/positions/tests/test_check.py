"""A checkpoint beside the topics as they are."""

from __future__ import annotations

from typing import Any

import pytest

from headgate.protocol.client.failure import Failure
from headgate.protocol.errors import ErrorCode
from headgate.protocol.topic_partition import TopicPartition
from headgate.spark.positions.check import CheckStatus, PartitionCheck, check, sentence
from headgate.tools.groups.offsets import PartitionEnds

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
GONE = Failure(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "there is no such topic")
SILENT = Failure(ErrorCode.NONE, "no answer")


def one(offset: int | None, start: int | None, end: int | None, **more: Any) -> PartitionCheck:
    known = {} if start is None else {T0: start}
    ends = PartitionEnds(known, {} if end is None else {T0: end}, more.pop("failed", {}))
    offsets = {} if offset is None else {T0: offset}
    planned = {T0: more.pop("planned")} if "planned" in more else {}
    ids = {"noted": {}, "present": {}} | more
    (row,) = check(offsets, planned, ends, [T0] if start is not None else [], **ids)
    return row


@pytest.mark.parametrize(
    "offset, start, end, status, lost",
    [
        (5, 0, 9, CheckStatus.OK, 0),
        (5, 5, 5, CheckStatus.OK, 0),
        (5, 7, 9, CheckStatus.LOST, 2),
        (5, 0, 4, CheckStatus.BEYOND_END, 0),
        (None, 0, 9, CheckStatus.ADDED, 0),
        (None, 4, 9, CheckStatus.ADDED, 0),
    ],
)
def test_a_partition(offset: int | None, start: int, end: int, status: CheckStatus, lost: int) -> None:
    row = one(offset, start, end)
    assert (row.status, row.lost) == (status, lost)
    assert row.status.is_alarm is (status in (CheckStatus.LOST, CheckStatus.BEYOND_END))
    assert bool(sentence(row)) is (status is not CheckStatus.OK)


def test_the_planned_batch_is_run_again_to_the_same_ends() -> None:
    assert one(5, 0, 8, planned=9).status is CheckStatus.BEYOND_END
    assert one(5, 0, 9, planned=9).status is CheckStatus.OK
    assert one(None, 3, 9, planned=9).status is CheckStatus.LOST, "the beginning of a new partition"
    assert "its beginning is gone" in sentence(one(None, 3, 9, planned=9))


def test_a_topic_that_was_made_anew_with_more_records_than_were_read() -> None:
    ids = {"noted": {"t": b"1" * 16}, "present": {"t": b"2" * 16}}
    row = one(5, 0, 900, **ids)
    assert row.status is CheckStatus.MADE_ANEW
    assert "made anew" in sentence(row)
    assert one(5, 0, 900, noted=ids["noted"], present=ids["noted"]).status is CheckStatus.OK
    assert one(5, 0, 900, noted=ids["noted"]).status is CheckStatus.OK, "an old broker has no ids"


def test_a_partition_that_is_gone_and_one_that_is_not_known() -> None:
    assert one(5, None, None, failed={T0: GONE}).status is CheckStatus.GONE
    assert one(5, None, None, failed={T0: SILENT}).status is CheckStatus.UNKNOWN
    assert one(5, None, None).status is CheckStatus.UNKNOWN
    for failed in (GONE, SILENT):
        assert sentence(one(5, None, None, failed={T0: failed}))


def test_partitions_of_the_checkpoint_and_of_the_topics() -> None:
    ends = PartitionEnds({T0: 0, T1: 0}, {T0: 9, T1: 9}, {})
    rows = check({T0: 1}, {}, ends, [T0, T1], {}, {})
    assert [(row.partition, row.status) for row in rows] == [(T0, CheckStatus.OK), (T1, CheckStatus.ADDED)]

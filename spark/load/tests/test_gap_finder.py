from __future__ import annotations

from random import Random

import numpy as np
import pytest

from headgate.protocol.records import batch, legacy
from headgate.protocol.records.batch import Record
from headgate.protocol.topic_partition import TopicPartition
from headgate.spark.load.output.gap_finder import GapFinder, UnexplainedGap, complement
from headgate.spark.load.tests.model_log import TOPIC, ModelLog
from headgate.spark.reading.log_reader import FetchedBatches, IsolationLevel, OffsetRange
from headgate.tools.log.offset_gaps import Gap

PARTITION = TopicPartition(TOPIC, 0)


@pytest.mark.parametrize("seed", range(20))
def test_each_offset_is_a_row_or_a_gap_with_its_reason(seed: int) -> None:
    log = ModelLog.random(seed, partitions=1, batches=12)
    log.piece_batches = seed % 4 + 1
    (partition,), random = log.partitions, Random(seed)
    start, end = sorted(random.sample(range(partition.end + 1), 2))
    wanted = OffsetRange(PARTITION, start, end)
    finder = GapFinder(wanted, is_compacted=True)
    for fetched in log.open().read(wanted, IsolationLevel.READ_COMMITTED):
        rows = [one for one in sorted(partition.committed) if finder.expected <= one < min(end, fetched.next_offset)]
        finder.add(fetched, np.array(rows, np.int64))
    finder.finish()
    found = {offset: gap.reason for gap in finder.gaps for offset in range(gap.first, gap.last + 1)}
    assert found == {offset: reason for offset, reason in partition.reasons.items() if start <= offset < end}
    rows = [offset for first, last in complement(finder.gaps, wanted) for offset in range(first, last + 1)]
    assert rows == [one for one in sorted(partition.committed) if start <= one < end]


def test_rows_that_are_lost_on_the_way_end_the_load() -> None:
    data = bytes(batch.build([Record(-1, 1, b"k", b"v")] * 5))
    finder = GapFinder(OffsetRange(PARTITION, 0, 5), is_compacted=True)
    with pytest.raises(UnexplainedGap, match="orders-0: the records from 2 to 2 are in the log, but are no rows"):
        finder.add(FetchedBatches(data, [], 5), np.array([0, 1, 3, 4]))
    finder = GapFinder(OffsetRange(PARTITION, 0, 5), is_compacted=True)
    with pytest.raises(UnexplainedGap, match="the rows from 3 to 7 came"):
        finder.add(FetchedBatches(data, [], 5), np.array([3, 7]))


def test_without_a_batch_the_reason_depends_on_the_topic() -> None:
    data = bytes(batch.build([Record(-1, 1, b"k", b"v")] * 2, base_offset=3))
    for is_compacted, reason in ((True, "compacted"), (False, "missing")):
        finder = GapFinder(OffsetRange(PARTITION, 0, 9), is_compacted=is_compacted)
        finder.skip_deleted(2)
        finder.add(FetchedBatches(data, [], 5), np.array([3, 4]))
        finder.finish()
        assert finder.gaps == [Gap(0, 1, "deleted"), Gap(2, 2, reason), Gap(5, 8, reason)]


@pytest.mark.parametrize("compression", [0, 1])
def test_old_messages_have_only_the_gaps_of_compaction(compression: int) -> None:
    records = [Record(offset, 1, b"k", b"v") for offset in (2, 3, 6)]
    data = bytes(legacy.build(records, 1, codec=compression))
    finder = GapFinder(OffsetRange(PARTITION, 0, 8), is_compacted=True)
    finder.add(FetchedBatches(data, [], 7), np.array([2, 3, 6]))
    finder.finish()
    assert finder.gaps == [Gap(0, 1, "compacted"), Gap(4, 5, "compacted"), Gap(7, 7, "compacted")]


def test_gaps_that_overlap_are_refused() -> None:
    with pytest.raises(UnexplainedGap, match="overlap at 3"):
        list(complement([Gap(1, 3, "marker"), Gap(3, 4, "marker")], OffsetRange(PARTITION, 0, 9)))

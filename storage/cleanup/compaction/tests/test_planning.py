"""What is compacted, how far, and in which pieces; which batches go. Apache Kafka's rules, one by one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from headgate.protocol.records.batch import BatchHeader, Record, build, read_header
from headgate.storage.cleanup.compaction.planning import (
    ABORT,
    COMMIT,
    BatchRetention,
    CleanableRatio,
    CleanedTransactions,
    LastBatch,
    LogFacts,
    SegmentFacts,
    assess,
    batch_retention,
    dirtiest,
    grouped,
)
from headgate.storage.config import LogConfig
from headgate.storage.segment.transaction_index import AbortedTransaction

NOW_MS = 1_000_000
COMPACT = LogConfig(cleanup_policy=("compact",))


def segment(base_offset: int, size: int = 100, newest: int = 0, oldest: int = 0) -> SegmentFacts:
    return SegmentFacts(base_offset, size, 8, 12, newest, oldest)


# Four segments of 100 bytes, the last of them active
SEGMENTS = [segment(0), segment(10), segment(20), segment(30)]


def log(**settings: Any) -> LogFacts:
    facts = LogFacts(SEGMENTS, start_offset=0, end_offset=40, cleaned_offset=-1, up_to=40)
    return facts._replace(**settings)


def test_all_closed_segments_of_a_never_cleaned_log_are_dirty() -> None:
    assert assess(log(), COMPACT, NOW_MS) == CleanableRatio(0, 30, 0, 300, 0)


def test_what_was_cleaned_is_clean() -> None:
    dirt = assess(log(cleaned_offset=20), COMPACT, NOW_MS)
    assert dirt == CleanableRatio(20, 30, 200, 100, 0)
    assert dirt.ratio == pytest.approx(1 / 3)


@pytest.mark.parametrize("cleaned_offset", [41, 4])
def test_a_checkpoint_outside_of_the_log_counts_for_nothing(cleaned_offset: int) -> None:
    assert assess(log(cleaned_offset=cleaned_offset, start_offset=5), COMPACT, NOW_MS).first_dirty == 5


def test_a_segment_that_was_cleaned_in_part_is_dirty() -> None:
    assert assess(log(cleaned_offset=15), COMPACT, NOW_MS) == CleanableRatio(15, 30, 100, 200, 0)


@pytest.mark.parametrize("up_to,first_uncleanable", [(40, 30), (30, 30), (29, 20), (20, 20), (19, 10), (9, 0), (0, 0)])
def test_nothing_that_reaches_behind_what_is_safe_is_touched(up_to: int, first_uncleanable: int) -> None:
    dirt = assess(log(up_to=up_to), COMPACT, NOW_MS)
    assert (dirt.first_uncleanable, dirt.dirty_bytes) == (first_uncleanable, 10 * first_uncleanable)


def test_what_is_safe_may_lie_before_what_was_cleaned() -> None:
    dirt = assess(log(cleaned_offset=20, up_to=10), COMPACT, NOW_MS)
    assert (dirt.first_dirty, dirt.first_uncleanable, dirt.dirty_bytes) == (20, 20, 0)


@pytest.mark.parametrize("lag_ms,first_uncleanable", [(0, 30), (99, 30), (100, 30), (101, 20), (200, 20), (201, 10)])
def test_a_young_segment_keeps_itself_and_all_behind_it(lag_ms: int, first_uncleanable: int) -> None:
    young = [segment(0), segment(10, newest=NOW_MS - 200), segment(20, newest=NOW_MS - 100), segment(30)]
    config = replace(COMPACT, min_compaction_lag_ms=lag_ms)
    assert assess(log(segments=young), config, NOW_MS).first_uncleanable == first_uncleanable


def test_a_young_segment_of_which_a_part_is_dirty_stays() -> None:
    young = [segment(0, newest=NOW_MS), segment(10)]
    facts = LogFacts(young, start_offset=5, end_offset=20, cleaned_offset=-1, up_to=20)
    dirt = assess(facts, replace(COMPACT, min_compaction_lag_ms=10), NOW_MS)
    assert dirt.dirty_bytes == 0


def test_the_oldest_dirty_record_tells_how_long_it_is_overdue() -> None:
    old = [segment(0, oldest=1), segment(10, oldest=NOW_MS - 500), segment(20, oldest=-1), segment(30, oldest=1)]
    config = replace(COMPACT, max_compaction_lag_ms=400)
    assert assess(log(segments=old, cleaned_offset=10), config, NOW_MS).overdue_ms == 100
    assert assess(log(segments=old, cleaned_offset=20), config, NOW_MS).overdue_ms == 0
    assert assess(log(segments=old, cleaned_offset=10), COMPACT, NOW_MS).overdue_ms == 0


@pytest.mark.parametrize(
    "clean,dirty,overdue_ms,is_due",
    [(100, 100, 0, False), (100, 101, 0, True), (100, 1, 1, True), (100, 0, 1, False), (0, 0, 0, False)],
)
def test_a_log_is_due_when_it_is_dirty_enough_or_overdue(clean: int, dirty: int, overdue_ms: int, is_due: bool) -> None:
    assert CleanableRatio(0, 0, clean, dirty, overdue_ms).is_due(0.5) is is_due


def test_the_dirtiest_that_is_due_is_next() -> None:
    clean, half, dirty = CleanableRatio(0, 0, 9, 1, 0), CleanableRatio(0, 0, 4, 6, 0), CleanableRatio(0, 0, 1, 9, 0)
    assert dirtiest([(0.5, clean), (0.5, half), (0.5, dirty), (0.5, dirty)]) == 2, "the first of two"
    assert dirtiest([(0.95, dirty), (0.5, half)]) == 1, "each by its own ratio"
    assert dirtiest([(0.5, clean)]) is None
    assert dirtiest([]) is None
    assert dirtiest([(0.5, replace(clean, overdue_ms=1))]) == 0, "it has waited too long"


# Groups


def bases(groups: list[list[SegmentFacts]]) -> list[list[int]]:
    return [[facts.base_offset for facts in group] for group in groups]


@pytest.mark.parametrize(
    "max_bytes,expected",
    [(99, [[0], [10], [20]]), (199, [[0], [10], [20]]), (200, [[0, 10], [20]]), (300, [[0, 10, 20]])],
)
def test_neighbours_become_one_segment_as_long_as_it_is_not_too_large(
    max_bytes: int, expected: list[list[int]]
) -> None:
    assert bases(grouped(SEGMENTS[:3], 30, max_bytes, 1000)) == expected


@pytest.mark.parametrize(
    "max_index_bytes,expected", [(24, [[0, 10], [20]]), (36, [[0, 10, 20]]), (11, [[0], [10], [20]])]
)
def test_nor_its_indexes(max_index_bytes: int, expected: list[list[int]]) -> None:
    assert bases(grouped(SEGMENTS[:3], 30, 1000, max_index_bytes)) == expected


def test_nor_its_offsets_too_far_apart() -> None:
    far = [segment(0), segment(0x7FFF_FFFF), segment(0x8000_0000)]
    assert bases(grouped(far, 0x8000_0001, 1000, 1000)) == [[0, 0x7FFF_FFFF], [0x8000_0000]], "the last one just fits"
    assert bases(grouped(far[:2], 0x8000_0001, 1000, 1000)) == [[0], [0x7FFF_FFFF]]


# Transactions


def header(last_offset: int, producer_id: int = 1, epoch: int = 0, **settings: Any) -> BatchHeader:
    data = build(
        [Record(value=b"v")], base_offset=last_offset, producer_id=producer_id, producer_epoch=epoch, **settings
    )
    return read_header(data)


def data(last_offset: int, producer_id: int = 1) -> BatchHeader:
    return header(last_offset, producer_id, is_transactional=True)


def marker(last_offset: int, producer_id: int = 1) -> BatchHeader:
    return header(last_offset, producer_id, is_transactional=True, is_control=True)


def test_a_commit_marker_stays_while_its_transaction_has_records() -> None:
    transactions = CleanedTransactions()
    assert not transactions.may_go(data(1))
    assert not transactions.marker_may_go(marker(2), COMMIT)
    assert transactions.marker_may_go(marker(3), COMMIT), "the records of this one are gone"
    assert transactions.marker_may_go(marker(3, producer_id=2), COMMIT)


def test_aborted_records_go_and_their_marker_a_round_later() -> None:
    aborted = [AbortedTransaction(1, 5)]
    transactions = CleanedTransactions(aborted)
    assert not transactions.may_go(data(4)), "of the transaction before"
    assert not transactions.marker_may_go(marker(4), COMMIT)
    assert transactions.may_go(data(5))
    assert not transactions.may_go(data(6, producer_id=2))
    assert not transactions.may_go(header(6)), "not of a transaction"
    assert not transactions.marker_may_go(marker(7), ABORT), "there were records in this round"
    assert not transactions.may_go(data(8)), "the next transaction"
    assert CleanedTransactions(aborted).marker_may_go(marker(7), ABORT), "there were none"


def test_two_aborted_transactions_of_a_producer_are_two() -> None:
    transactions = CleanedTransactions([AbortedTransaction(1, 20), AbortedTransaction(1, 5)])
    assert transactions.may_go(data(5))
    assert not transactions.marker_may_go(marker(6), ABORT)
    assert not transactions.may_go(data(10))
    assert not transactions.marker_may_go(marker(11), COMMIT)
    assert transactions.may_go(data(20))


def test_an_aborted_transaction_ends_at_its_marker_also_unasked() -> None:
    aborted = [AbortedTransaction(1, 5, 7), AbortedTransaction(1, 20, 22)]
    transactions = CleanedTransactions(aborted)
    assert not transactions.may_go(data(10)), "what was aborted lies before all that is asked about"
    assert transactions.may_go(data(20))
    assert not CleanedTransactions(aborted).may_go(data(30)), "both lie before"
    transactions = CleanedTransactions(aborted)
    assert transactions.may_go(data(6))
    assert not transactions.marker_may_go(marker(7), ABORT)


def test_other_markers_stay_and_empty_ones_go() -> None:
    assert not CleanedTransactions().marker_may_go(marker(1), -1)
    assert CleanedTransactions().marker_may_go(marker(1), None)


# Batches


@pytest.mark.parametrize(
    "records_may_go,is_last_of_group,expected",
    [
        (False, False, BatchRetention.FILTER),
        (False, True, BatchRetention.FILTER_KEEP),
        (True, False, BatchRetention.DROP),
        (True, True, BatchRetention.EMPTY),
    ],
)
def test_the_last_batch_of_a_segment_stays(
    records_may_go: bool, is_last_of_group: bool, expected: BatchRetention
) -> None:
    found = batch_retention(header(5), records_may_go=records_may_go, is_last_of_group=is_last_of_group, last=None)
    assert found is expected


def test_the_last_batch_of_a_producer_stays() -> None:
    for last_offset, expected in ((5, BatchRetention.FILTER_KEEP), (6, BatchRetention.FILTER)):
        last = LastBatch(0, last_offset)
        assert batch_retention(header(5), records_may_go=False, is_last_of_group=False, last=last) is expected
    last = LastBatch(0, 5)
    assert batch_retention(header(5), records_may_go=True, is_last_of_group=False, last=last) is BatchRetention.EMPTY


def test_the_only_marker_of_a_producer_epoch_stays() -> None:
    last = LastBatch(epoch=3, last_offset=-1)
    for batch, expected in (
        (header(5, epoch=3, is_control=True), BatchRetention.EMPTY),
        (header(5, epoch=2, is_control=True), BatchRetention.DROP),
        (header(5, epoch=3), BatchRetention.DROP),
    ):
        assert batch_retention(batch, records_may_go=True, is_last_of_group=False, last=last) is expected

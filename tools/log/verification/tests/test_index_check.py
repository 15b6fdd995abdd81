"""Entries of indexes compared with the batches of a segment."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.protocol.records.batch import BatchHeader
from headgate.storage.segment.transaction_index import TransactionIndex
from headgate.tools.log.verification.index_check import IndexCheck, IndexEntries, is_equivalent_index

BASE = 100
# position, last offset, max timestamp of five batches
BATCHES = [(0, 101, 10), (50, 103, 30), (100, 104, 20), (170, 109, 40), (300, 110, 5)]


def checked(
    offsets: IndexEntries, times: IndexEntries, batches: list[tuple[int, int, int]] | None = None
) -> IndexCheck:
    check, expected = IndexCheck(BASE, offsets, times), BASE
    for position, last, timestamp in batches or BATCHES:
        delta = last - expected
        check.observe(
            position, BatchHeader(expected, 49, 0, 2, 0, 0, delta, timestamp, timestamp, -1, -1, -1, delta + 1)
        )
        expected = last + 1
    return check


@pytest.mark.parametrize(
    "offsets, times, wrong",
    [
        ([], [], 0),
        ([(4, 100), (10, 300)], [(30, 3), (40, 9)], 0),
        ([(5, 100)], [], 0),  # Kafka: of several batches in one append, the first one's place and the last one's offset
        ([(4, 101)], [], 1),  # no batch begins there
        ([(3, 100)], [], 1),  # that offset is before it
        ([(12, 400)], [], 1),
        ([], [(30, 2)], 0),  # the record itself, not the last of its batch
        ([], [(30, 1)], 1),  # nothing so late is there yet
        ([], [(20, 4)], 1),  # something later is before it
        ([], [(40, 11)], 1),  # no such offset
        ([(0, 0), (4, 100)], [(30, 10)], 1),
    ],
)
def test_wrong_entries_are_counted(offsets: IndexEntries, times: IndexEntries, wrong: int) -> None:
    check = checked(offsets, times)
    assert check.wrong_offset_entries + check.wrong_time_entries == wrong


@given(
    sizes=st.lists(st.integers(61, 400), min_size=1, max_size=40),
    interval=st.integers(0, 1500),
)
def test_an_interval_that_gives_the_entries_is_found(sizes: list[int], interval: int) -> None:
    """One with which the rule of `Segment.index` makes the same entries; not always the very one."""
    batches, position = [], 0
    for number, size in enumerate(sizes):
        batches.append((position, BASE + number, number))
        position += size

    def made(interval_bytes: int) -> list[tuple[int, int]]:
        entries, indexed = [], 0
        for at, last, _ in batches:
            if at - indexed > interval_bytes:
                entries.append((last - BASE, at))
                indexed = at
        return entries

    check = checked(made(interval), [], batches)
    assert check.wrong_offset_entries == 0
    assert check.interval_bytes is not None
    assert made(check.interval_bytes) == made(interval)


def test_an_index_with_a_hole_has_no_interval() -> None:
    assert checked([(3, 50), (10, 300)], []).interval_bytes is None


def test_a_compacted_log_may_have_more_aborted_transactions() -> None:
    def entries(*rows: tuple[int, int, int, int]) -> bytes:
        return b"".join(TransactionIndex.ENTRY.pack(0, *row) for row in rows)

    made = entries((7, 10, 20, 21), (8, 15, 30, 31))
    assert is_equivalent_index(made, made)
    assert is_equivalent_index(entries((7, 8, 20, 19), (8, 15, 30, 25)), made)
    assert not is_equivalent_index(entries((7, 11, 20, 21), (8, 15, 30, 31)), made)
    assert not is_equivalent_index(entries((7, 10, 20, 22), (8, 15, 30, 31)), made)
    assert not is_equivalent_index(entries((7, 10, 20, 21)), made)
    assert not is_equivalent_index(made[:-1], made)
    assert not is_equivalent_index(made, entries((7, 10, 20, 21)))
    assert is_equivalent_index(made, entries((7, 10, 20, 21)), may_have_more=True)
    assert not is_equivalent_index(entries((7, 10, 20, 21)), made, may_have_more=True)

"""Entries of indexes beside the batches of a segment, however they came to be."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.protocol.records.batch import BatchHeader
from headgate.tools.log.truth import Pairs, Truth

BASE = 100
# position, last offset, max timestamp of five batches
BATCHES = [(0, 101, 10), (50, 103, 30), (100, 104, 20), (170, 109, 40), (300, 110, 5)]


def seen(offsets: Pairs, times: Pairs, batches: list[tuple[int, int, int]] | None = None) -> Truth:
    truth, expected = Truth(BASE, offsets, times), BASE
    for position, last, timestamp in batches or BATCHES:
        delta = last - expected
        truth.see(position, BatchHeader(expected, 49, 0, 2, 0, 0, delta, timestamp, timestamp, -1, -1, -1, delta + 1))
        expected = last + 1
    return truth


@pytest.mark.parametrize(
    "offsets, times, false",
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
def test_entries(offsets: Pairs, times: Pairs, false: int) -> None:
    truth = seen(offsets, times)
    assert truth.false_offsets + truth.false_times == false


@given(
    sizes=st.lists(st.integers(61, 400), min_size=1, max_size=40),
    interval=st.integers(0, 1500),
)
def test_the_interval_of_an_index_is_found(sizes: list[int], interval: int) -> None:
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

    truth = seen(made(interval), [], batches)
    assert truth.false_offsets == 0
    assert truth.interval_bytes is not None
    assert made(truth.interval_bytes) == made(interval)


def test_an_index_with_a_hole_is_of_no_interval() -> None:
    assert seen([(3, 50), (10, 300)], []).interval_bytes is None

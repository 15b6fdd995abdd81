"""The keys of the dirty part: which count, and what is done where there is no room for all."""

from __future__ import annotations

from storage.compaction.rounds import compact
from storage.tests.builders import NOW_MS
from storage.tests.compacted import (
    filled,
    keyed,
    offsets,
    records,
)


def test_a_full_table_leaves_the_rest_for_the_next_round() -> None:
    log = filled(*(keyed((f"k{number % 8}", str(number))) for number in range(16)))
    capacity = 5 * 192
    ends = []
    while compact(log, NOW_MS, table_bytes=capacity):
        ends.append(log.compacted.offset)
    assert ends == [5, 10, 15, 16]
    assert offsets(records(log)) == list(range(8, 16))

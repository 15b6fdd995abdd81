from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from headgate.spark.load.output.intervals import Interval, difference, split, union

INTERVALS = st.tuples(st.integers(0, 30), st.integers(0, 10)).map(lambda one: Interval(one[0], one[0] + one[1]))


def offsets(intervals: list[Interval] | tuple[Interval, ...]) -> list[int]:
    return [offset for start, end in intervals for offset in range(start, end)]


@given(st.lists(INTERVALS))
def test_a_union_has_each_offset_once_in_order(given: list[Interval]) -> None:
    found = union(given)
    assert offsets(found) == sorted(set(offsets(given)))
    assert all(one.end_offset < other.start_offset for one, other in pairwise(found))


@given(INTERVALS, st.lists(INTERVALS))
def test_a_difference_lacks_what_is_taken(wanted: Interval, taken: list[Interval]) -> None:
    expected = [one for one in offsets([wanted]) if one not in set(offsets(taken))]
    assert offsets(difference(wanted, union(taken))) == expected


@given(INTERVALS, st.integers(1, 12))
def test_pieces_are_even_and_small_enough(whole: Interval, most: int) -> None:
    pieces = split(whole, most)
    assert offsets(pieces) == offsets([whole])
    sizes = [one.size for one in pieces]
    assert len(pieces) == -(-whole.size // most)
    assert max(sizes, default=0) <= most
    assert max(sizes, default=0) - min(sizes, default=0) <= 1

"""What a walk over a segment gives, and where it ends."""

from __future__ import annotations

from headgate.storage.tests.builders import NOW_MS
from headgate.storage.tests.segments import add, new_segment


def test_a_walk_ends_where_there_is_no_batch() -> None:
    segment = new_segment(batches=5)
    third = segment.locate(104)
    segment.file.write_at(b"\xff", third + 70)
    iterator = segment.iterate()
    assert len(list(iterator)) == 5, "headers alone are right"
    assert (iterator.problem, iterator.position, iterator.next_offset) == (None, segment.size, 110)
    iterator = segment.iterate()
    iterator.check_crc_from = 104
    assert [header.base_offset for _, header in iterator] == [100, 102]
    assert (iterator.position, iterator.next_offset) == (third, 104)
    assert "CRC of the batch with offsets 104 to 105" in str(iterator.problem)


def test_batches_that_do_not_follow_are_no_batches() -> None:
    segment = new_segment(batches=2)
    add(segment, 103, NOW_MS)
    iterator = segment.iterate()
    assert len(list(iterator)) == 2
    assert "do not follow" in str(iterator.problem)


def test_a_batch_that_is_cut_is_told_from_one_that_is_damaged() -> None:
    segment = new_segment(batches=3)
    last = segment.locate(104)
    for size, is_cut in ((last + 30, True), (segment.size - 1, True), (segment.size, False)):
        segment.size = size
        iterator = segment.iterate()
        assert len(list(iterator)) == (2 if is_cut else 3)
        assert iterator.is_cut == is_cut
        assert (iterator.problem is not None) == is_cut

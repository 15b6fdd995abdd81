"""Several segments as one: where an offset is, what a read takes, and that places are forgotten when they go."""

from __future__ import annotations

import pytest

from headgate.storage.log.log import Log
from headgate.storage.log.segments import Segments
from headgate.storage.segment.segment import Segment
from headgate.storage.tests.builders import append, batch, new_log


def filled(batches: int = 60) -> tuple[Log, Segments]:
    log = new_log()
    for _ in range(batches):
        append(log, batch(3))
    return log, log.segments


def test_every_offset_is_found_in_the_segment_that_holds_it() -> None:
    log, segments = filled()
    assert len(segments) > 3
    for offset in range(log.end_offset):
        segment, position = segments.locate(offset)
        assert segment is segments.owner(offset) is segments[segments.position_of(offset)]
        assert next(iter(segment.iterate(position)))[1].base_offset == offset - offset % 3
    assert segments.owner(log.end_offset) is segments.active
    assert segments.since(segments[2].base_offset) == list(segments)[2:]


def test_a_place_behind_a_full_segment_is_the_begin_of_the_next() -> None:
    _, segments = filled()
    second = segments[1]
    assert segments.locate(second.base_offset) == (second, 0)


def test_a_reader_goes_on_without_a_search() -> None:
    log, segments = filled()
    piece = segments.plan(0, 500, log.end_offset, log.end_offset, at_least_one=True)
    assert piece is not None
    (ended,) = [offset for offset, place in (segments._memo or {}).items() if place[1] == piece.length]
    assert segments.locate(ended) == (segments[0], piece.length)


@pytest.mark.parametrize("change", ["drop", "delete"])
def test_places_of_what_is_gone_are_forgotten(change: str) -> None:
    log, segments = filled()
    for offset in range(log.end_offset):
        segments.locate(offset)
    first, last = segments[0], segments.active
    if change == "drop":
        segments.drop_behind(first, first.size)
        assert (len(segments), segments.active) == (1, first)
    else:
        segments.forget_first(len(segments) - 1)
        assert (len(segments), segments.active) == (1, last)
    kept = segments.active
    assert segments.locate(kept.base_offset) == (kept, 0)
    assert segments.size == kept.size


def test_headers_before_an_offset_come_from_as_far_back_as_asked_for() -> None:
    log, segments = filled()
    end = log.end_offset - 1
    everything = [header.base_offset for header in segments.headers(0)]
    assert [header.base_offset for header in segments.headers_before(end, 1 << 30)] == everything
    some = [header.base_offset for header in segments.headers_before(end, segments.active.size + 1)]
    assert some == everything[-len(some) :]
    assert len(some) < len(everything)


def test_a_compaction_during_a_seal_hides_no_segment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _, segments = filled()
    *three, fourth, last = segments
    fourth.is_sealed = False
    sealed = list[Segment]()

    def seal(segment: Segment) -> bool:
        if not sealed:
            segments.replace(three, three[0])
        sealed.append(segment)
        return False

    monkeypatch.setattr(Segment, "seal", seal)
    segments.seal([])
    assert sealed == [fourth, last]

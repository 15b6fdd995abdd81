"""Reading a log: whole batches, from any offset, as many as a reader wants."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.records.batch import split
from headgate.storage.config import LogConfig
from headgate.storage.log.tests.test_log import BOUNDARIES, LOG, filled
from headgate.storage.segment.segment import Segment
from headgate.storage.tests.builders import (
    append,
    batch,
    content,
    next_offset,
    read,
)


@given(
    offset=st.integers(0, 89),
    up_to=st.integers(0, 59),
    max_bytes=st.integers(1, 3000),
    at_least_one=st.booleans(),
)
@settings(max_examples=100, deadline=None)
def test_a_read_is_whole_batches_from_the_offset_on(
    offset: int, up_to: int, max_bytes: int, at_least_one: bool
) -> None:
    log = LOG
    boundary = BOUNDARIES[up_to]
    piece = log.read(offset, max_bytes, boundary, at_least_one)
    if offset >= boundary:
        assert piece is None
        return
    if piece is None:
        assert not at_least_one
        return
    with_first = split(piece.read())
    assert with_first[0][0].base_offset <= offset <= with_first[0][0].last_offset
    end = next_offset(piece.read())
    assert end <= boundary
    assert len(piece) <= max_bytes or (at_least_one and len(with_first) == 1)
    following = log.read(end, 1, boundary, at_least_one=True)
    if following is not None and following.fileno == piece.fileno and following.position:
        assert len(piece) + len(following) > max_bytes or end == boundary


def test_every_offset_can_be_read_alone() -> None:
    log = filled()
    assert len(log.segments) > 2
    for offset in range(log.end_offset):
        piece = log.read(offset, 1, log.end_offset, at_least_one=True)
        assert piece is not None
        ((header, _),) = split(piece.read())
        assert header.base_offset <= offset <= header.last_offset
        again = log.read(offset, 1, log.end_offset, at_least_one=True)
        assert again is not None
        assert again.position == piece.position


def test_the_ends_of_the_log() -> None:
    log = filled()
    assert log.read(log.end_offset, 100, log.end_offset, at_least_one=True) is None
    for offset in (-1, log.end_offset + 1):
        with pytest.raises(KafkaError) as caught:
            log.read(offset, 100, log.end_offset, at_least_one=True)
        assert caught.value.code is ErrorCode.OFFSET_OUT_OF_RANGE
    assert content(log) == b"".join(read(log, s.base_offset) for s in log.segments)


def test_a_sequential_consumer_needs_no_search(monkeypatch: pytest.MonkeyPatch) -> None:
    log = filled(200, LogConfig(index_interval_bytes=100))
    offset, searched = 0, []

    def locate(segment: Segment, offset: int, blocking: bool) -> int:
        searched.append(offset)
        return 0

    monkeypatch.setattr(Segment, "locate", locate)
    while (piece := log.read(offset, 700, log.end_offset, at_least_one=True)) is not None:
        offset = next_offset(piece.read())
        piece.release()
    append(log, batch())
    assert log.read(offset, 700, log.end_offset, at_least_one=True) is not None
    assert searched == [0]

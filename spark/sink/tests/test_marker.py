"""Markers: their bytes, and the verdict on a batch."""

from __future__ import annotations

import pytest

from headgate.spark.sink.marker import Decision, Marker, SinkRefused, decide, decode_marker, encode_marker

MARKER = Marker("id", 4, {"orders": {0: 250, 10: 3}, "zoo": {1: 0}}, 1_700_000_000_000)


def test_a_marker_comes_back() -> None:
    assert decode_marker("q", encode_marker(MARKER)) == MARKER
    assert b'"positions":{"orders":{"0":250,"10":3}' in encode_marker(MARKER)


@pytest.mark.parametrize(
    "value",
    [
        *(b"", b"{}", b"[]", b"7", b'{"version":2}', b"\xff", b"[" * 10_000),
        encode_marker(MARKER).replace(b'"batch":4', b'"batch":null'),
        encode_marker(MARKER).replace(b'{"orders"', b'["orders"'),
    ],
)
def test_a_damaged_marker_is_refused(value: bytes) -> None:
    with pytest.raises(SinkRefused, match="marker of 'q'"):
        decode_marker("q", value)


def test_the_next_batch_is_written_and_an_earlier_one_skipped() -> None:
    assert decide("q", None, "id", 0) is Decision.WRITE
    assert decide("q", None, "id", 7) is Decision.WRITE
    assert decide("q", MARKER, "id", 5) is Decision.WRITE
    assert decide("q", MARKER, "id", 4) is Decision.SKIP
    assert decide("q", MARKER, "id", 0) is Decision.SKIP


def test_writes_that_are_no_query_replace_each_other() -> None:
    marker = Marker("write monday", 0, {}, 0)
    assert decide("q", marker, "write monday", 0) is Decision.SKIP
    assert decide("q", marker, "write tuesday", 0) is Decision.WRITE
    with pytest.raises(SinkRefused):
        decide("q", marker, "id", 0)


def test_another_query_and_a_gap_are_refused() -> None:
    with pytest.raises(SinkRefused, match="checkpoint made anew"):
        decide("q", MARKER, "other", 5)
    with pytest.raises(SinkRefused, match="5 to 6 are missing"):
        decide("q", MARKER, "id", 7)
    assert decide("q", MARKER, "id", 7, accept_gap=True) is Decision.WRITE

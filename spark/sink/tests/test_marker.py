"""Markers: their bytes, and the decision on a batch."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.protocol.tests.examples import share
from headgate.spark.sink.marker import (
    BatchDecision,
    MarkerPositions,
    QueryBatch,
    SinkMarker,
    SinkRefused,
    SourceOffsets,
    decide,
    decode_marker,
    encode_marker,
)

MARKER = SinkMarker("id", 4, {"orders": {0: 250, 10: 3}, "zoo": {1: 0}}, 1_700_000_000_000)


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


def batch(number: int, query: str = "id", **more: Any) -> QueryBatch:
    return QueryBatch(query, number, **({"positions": MARKER.positions} | more))


def test_the_next_batch_is_written_and_an_earlier_one_skipped() -> None:
    assert decide("q", None, batch(0)) is BatchDecision.WRITE
    assert decide("q", None, batch(7)) is BatchDecision.WRITE
    assert decide("q", MARKER, batch(5)) is BatchDecision.WRITE
    assert decide("q", MARKER, batch(5, before=SourceOffsets(MARKER.positions))) is BatchDecision.WRITE
    assert decide("q", MARKER, batch(4)) is BatchDecision.SKIP
    assert decide("q", MARKER, batch(3, positions={"orders": {0: 250, 10: 2}})) is BatchDecision.SKIP


@pytest.mark.parametrize(
    "positions, is_same",
    [
        ({"orders": {0: 250, 10: 3}}, True),
        ({"orders": {0: 250, 10: 3, 11: 0}, "new": {0: 0}}, True),
        ({"orders": {0: 251, 10: 3}}, False),
        ({"orders": {0: 249, 10: 3}}, False),
        ({"orders": {0: 250}}, False),
        ({"orders": {0: 250, 10: 3}, "new": {0: 1}}, False),
    ],
)
def test_the_same_number_is_skipped_with_the_same_positions_only(positions: MarkerPositions, is_same: bool) -> None:
    if is_same:
        assert decide("q", MARKER, batch(4, positions=positions)) is BatchDecision.SKIP
        assert decide("q", MARKER, batch(5, before=SourceOffsets(positions))) is BatchDecision.WRITE
        return
    with pytest.raises(SinkRefused, match=r"batch 4 of 'q' .* it ends .*older copy.*offsets group:"):
        decide("q", MARKER, batch(4, positions=positions))
    with pytest.raises(SinkRefused, match=r"batch 5 of 'q' .* it begins"):
        decide("q", MARKER, batch(5, before=SourceOffsets(positions)))


def test_an_older_number_is_refused_where_it_passes_the_marker() -> None:
    for positions in ({"orders": {0: 251}}, {"orders": {0: 1, 11: 1}}, {"new": {0: 1}}):
        with pytest.raises(SinkRefused, match="batch 2 of 'q'"):
            decide("q", MARKER, batch(2, positions=positions))
    with pytest.raises(SinkRefused, match="orders-0: 900, written up to 250"):
        decide("q", MARKER, batch(2, positions={"orders": {0: 900}}))


def test_sources_without_positions_are_compared_by_their_digest() -> None:
    marker = MARKER._replace(others="a")
    assert decide("q", marker, batch(4, others="a")) is BatchDecision.SKIP
    assert decide("q", marker, batch(2, others="a")) is BatchDecision.SKIP
    assert decide("q", marker, batch(5, before=SourceOffsets(MARKER.positions, "a"))) is BatchDecision.WRITE
    for wrong in (batch(4, others="b"), batch(2, others="b"), batch(5, before=SourceOffsets(MARKER.positions, "b"))):
        with pytest.raises(SinkRefused, match="a source that reads no topic"):
            decide("q", marker, wrong)


def test_a_marker_without_a_digest_leaves_it_to_the_number() -> None:
    older = decode_marker("q", encode_marker(MARKER).replace(b'"others":"",', b""))
    assert older.others is None
    assert decide("q", older, batch(4)) is BatchDecision.SKIP
    assert decide("q", older, batch(4, others="a")) is BatchDecision.SKIP
    assert decide("q", older, batch(5, before=SourceOffsets(MARKER.positions, "a"))) is BatchDecision.WRITE
    with pytest.raises(SinkRefused, match="a source that reads no topic"):
        decide("q", older, batch(3, others="a"))


def test_writes_that_are_no_query_replace_each_other() -> None:
    marker = SinkMarker("write monday", 0, {}, 0)
    assert decide("q", marker, batch(0, "write monday", positions={})) is BatchDecision.SKIP
    assert decide("q", marker, batch(0, "write tuesday", positions={})) is BatchDecision.WRITE
    with pytest.raises(SinkRefused):
        decide("q", marker, batch(0))


def test_another_query_and_a_gap_are_refused() -> None:
    with pytest.raises(SinkRefused, match="checkpoint made anew"):
        decide("q", MARKER, batch(5, "other"))
    with pytest.raises(SinkRefused, match="5 to 6 are missing"):
        decide("q", MARKER, batch(7))
    assert decide("q", MARKER, batch(7), accept_gap=True) is BatchDecision.WRITE


class Query:
    """A query with its checkpoint, sources that grow, and a sink that commits a batch with its marker or not at all.

    Partition "f" stands for a source that reads no topic: its offset is in the digest.
    """

    def __init__(self) -> None:
        self.ends = {"p0": 0}
        self.offsets: list[dict[str, int]] = []  # offsets/<batch>
        self.commits = 0
        self.backups: list[tuple[list[dict[str, int]], int]] = []
        self.marker: SinkMarker | None = None
        self.written: list[tuple[str, int]] = []

    def step(self, action: str, number: int) -> None:
        if action == "append":
            name = ("p0", "p1", "f")[number % 3]
            self.ends[name] = self.ends.get(name, 0) + number // 3
        elif action == "back up":
            self.backups.append((list(self.offsets), self.commits))
        elif action == "restore":
            self.backups = self.backups or [([], 0)]
            offsets, self.commits = self.backups[number % len(self.backups)]
            self.offsets = list(offsets)
        elif action == "remove":
            self.commits = max(0, self.commits - 1 - number % 2)
            del self.offsets[self.commits :]
        elif action != "write elsewhere" or self.marker is not None:
            self.run(action, number)

    def run(self, action: str, limit: int) -> None:
        """One batch, as Spark plans and repeats batches. `action`: what happens to the driver."""
        before = self.offsets[self.commits - 1] if self.commits else {}
        if len(self.offsets) == self.commits:
            planned = {name: min(end, before.get(name, 0) + limit) for name, end in self.ends.items()}
            self.offsets.append(planned)
        after = self.offsets[self.commits]
        if action == "kill before":
            return
        if action in {"run", "kill after"}:
            ends, starts = source_offsets(after), source_offsets(before)
            if decide("q", self.marker, QueryBatch("id", self.commits, *ends, starts)) is BatchDecision.WRITE:
                self.written += [
                    (name, offset) for name, end in after.items() for offset in range(before.get(name, 0), end)
                ]
                self.marker = decode_marker(
                    "q", encode_marker(SinkMarker("id", self.commits, ends.positions, 0, ends.others))
                )
            wanted = {(name, offset) for name, end in after.items() for offset in range(end)}
            assert wanted <= set(self.written), "the query goes on without these records"
            assert len(self.written) == len(set(self.written)), "records came twice"
            if action == "kill after":
                return
        self.commits += 1


def source_offsets(offsets: dict[str, int]) -> SourceOffsets:
    positions = {"t": {int(name[1]): offset for name, offset in offsets.items() if name[0] == "p"}}
    return SourceOffsets(positions, f"{offsets['f']}" if "f" in offsets else "")


ACTIONS = ("append", "run", "run", "kill before", "kill after", "back up", "restore", "remove", "write elsewhere")


@pytest.mark.slow
@settings(max_examples=share(200, soak=500))
@given(st.lists(st.tuples(st.sampled_from(ACTIONS), st.integers(0, 11)), max_size=30))
def test_no_checkpoint_loses_or_doubles_a_record(steps: list[tuple[str, int]]) -> None:
    query = Query()
    for action, number in steps:
        with contextlib.suppress(SinkRefused):
            query.step(action, number)


def test_a_query_that_is_only_killed_is_never_refused() -> None:
    query = Query()
    for number in range(60):
        query.step("append", 4 * (number % 5) + number % 4)
        query.step(("run", "kill before", "kill after", "run")[number % 4], 3)
    assert query.commits > 20

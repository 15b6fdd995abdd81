"""The fields of records at given positions, and records that contradict their length."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from headgate.protocol.records import batch
from headgate.protocol.records.batch import HEADER_SIZE, Record
from headgate.spark.records.record_chain import InvalidRecord, record_bounds
from headgate.spark.records.record_fields import RecordFields, Slices, read_fields
from headgate.spark.records.varints import PADDING

RECORDS = [Record(3, 1000, b"key", b"value"), Record(4, 900, None, b""), Record(400, 10**10, b"", None, [("a", b"")])]


def fields_of(
    records: Sequence[Record] = RECORDS, spoil: tuple[int, int] | None = None, **wanted: bool
) -> RecordFields:
    body = bytearray(batch.build(records, base_offset=3)[HEADER_SIZE:])
    size = len(body)
    if spoil is not None:
        body[spoil[0]] = spoil[1]
    bounds = record_bounds(bytes(body) + PADDING, np.array([0, size]), np.array([len(records)]))
    data = np.frombuffer(bytes(body) + PADDING, np.uint8)
    return read_fields(data, bounds[:-1], bounds[1:], **{"timestamps": True, "contents": True, **wanted})


def contents(slices: Slices) -> list[Any]:
    is_null = [False] * len(slices.starts) if slices.is_null is None else slices.is_null.tolist()
    return [None if null else length for null, length in zip(is_null, slices.ends - slices.starts, strict=True)]


def test_all_fields_are_found() -> None:
    fields = fields_of()
    assert fields.timestamp_deltas.tolist() == [0, -100, 10**10 - 1000]
    assert fields.offset_deltas.tolist() == [0, 1, 397]
    assert contents(fields.keys) == [3, None, 0]
    assert contents(fields.values) == [5, 0, None]
    assert fields.header_counts.tolist() == [0, 0, 1]


def test_only_wanted_fields_are_read() -> None:
    fields = fields_of(timestamps=False, contents=False)
    assert fields.offset_deltas.tolist() == [0, 1, 397]
    assert (fields.timestamp_deltas, fields.keys, fields.header_counts) == (None, None, None)


def test_rows_are_selected_from_all_fields() -> None:
    fields = fields_of().rows(np.array([2]))
    assert (fields.offset_deltas.tolist(), contents(fields.keys), contents(fields.values)) == ([397], [0], [None])


@pytest.mark.parametrize(
    "spoil, problem",
    [
        ((4, 0x40), "passes its end"),  # the length of the key
        ((8, 0x7E), "passes its end"),  # that of the value
        ((8, 0x06), "less|more|impossible|passes"),
        ((14, 0x02), "headers"),
        ((14, 0x01), "headers"),
    ],
)
def test_a_record_that_contradicts_its_length_is_refused(spoil: tuple[int, int], problem: str) -> None:
    with pytest.raises(InvalidRecord, match=problem) as caught:
        fields_of([Record(3, 1000, b"key", b"value")], spoil)
    assert caught.value.index == 0

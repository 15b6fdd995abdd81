"""The fields of many records at once: their positions in a block of decompressed records, as numpy arrays.

    length    attributes   timestamp   offset    key                 value               headers
    varint    i8           delta       delta     length, -1: null    length, -1: null    count, then for each
                           varint      varint    varint   bytes      varint   bytes      name, value

`record_chain.py` finds where records begin. Source: Apache Kafka, "Message format".
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from headgate.spark.records.record_chain import InvalidRecord
from headgate.spark.records.varints import decode_zigzags, read_zigzags, skip


class Slices(NamedTuple):
    """Byte strings in a block: where each starts and ends. `is_null`: None if none is null."""

    starts: Any
    ends: Any
    is_null: Any

    def rows(self, keep: Any) -> Slices:
        """Those of some rows only."""
        return Slices(self.starts[keep], self.ends[keep], None if self.is_null is None else self.is_null[keep])


class RecordFields(NamedTuple):
    """The fields of records, an array for each. Fields that are not wanted, and all behind them, may be None.

    `keys`, `values`: Slices. `headers_at`: the position after the count of headers; `ends`: where the records end.
    """

    timestamp_deltas: Any
    offset_deltas: Any
    keys: Any
    values: Any
    header_counts: Any
    headers_at: Any
    ends: Any

    def rows(self, keep: Any) -> RecordFields:
        """The fields of some records only."""
        return RecordFields(
            *(part if part is None else part.rows(keep) if isinstance(part, Slices) else part[keep] for part in self)
        )


def read_fields(data: Any, starts: Any, ends: Any, *, timestamps: bool, contents: bool) -> RecordFields:
    """The fields of the records at `starts`. `data`: uint8, padded; `starts`, `ends`: int64.

    `timestamps`: timestamp deltas are wanted; `contents`: keys, values or headers are. Raises InvalidRecord.
    """
    try:
        at = skip(data, starts) + 1
        timestamp_deltas = None
        if timestamps:
            numbers, at = read_zigzags(data, at)
            timestamp_deltas = decode_zigzags(numbers)
        else:
            at = skip(data, at)
        numbers, at = read_zigzags(data, at)
        offset_deltas = decode_zigzags(numbers)
        if not contents:
            _require(at <= ends, "its fields end behind it")
            return RecordFields(timestamp_deltas, offset_deltas, None, None, None, None, ends)
        keys, at = read_slices(data, at, ends)
        values, at = read_slices(data, at, ends)
        counts, at = read_zigzags(data, at)
        counts = decode_zigzags(counts)
        _require(at <= ends, "its fields end behind it")
        _require((at == ends) | (counts != 0), "its length is more than the length of its fields")
        _require((counts >= 0) & (counts <= ends - at), "its count of headers is impossible")
    except IndexError as error:
        raise InvalidRecord(-1, str(error)) from None
    return RecordFields(timestamp_deltas, offset_deltas, keys, values, counts, at, ends)


def read_slices(data: Any, at: Any, limits: Any) -> tuple[Slices, Any]:
    """The byte strings at these positions, each after its length, and the positions after them.

    Raises InvalidRecord for a string beyond its limit, IndexError.
    """
    numbers, at = read_zigzags(data, at)
    is_null = (numbers & np.uint64(1)).view(np.int64).astype(bool)
    lengths = (numbers >> np.uint64(1)).view(np.int64)
    if is_null.any():
        lengths[is_null] = 0
    else:
        is_null = None
    _require(lengths <= limits - at, "the length of a field passes its end")
    after = at + lengths
    return Slices(at, after, is_null), after


def _require(is_sound: Any, problem: str) -> None:
    if not is_sound.all():
        raise InvalidRecord(int(np.argmin(is_sound)), problem)

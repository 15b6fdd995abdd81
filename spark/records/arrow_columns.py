"""Arrow columns of byte strings that lie in a block, and of headers: Arrow copies them, no Python runs for each."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa

from headgate.protocol.records.varint import read_varint
from headgate.spark.records.record_chain import InvalidRecord
from headgate.spark.records.record_fields import RecordFields, Slices, read_slices

HEADER_FIELDS: Final = [pa.field("key", pa.string()), pa.field("value", pa.binary())]
HEADERS_TYPE: Final = pa.list_(pa.field("element", pa.struct(HEADER_FIELDS)))
_MOST_HEADERS = 64  # of a record; the headers of a record with more are found one by one


def binary_column(block: Any, slices: Slices) -> Any:
    """A binary array of these slices. `block`: an Arrow buffer of less than 2 GiB; the slices are in its order.

    Arrow's view of the block has a slice in each second row, and the bytes between slices in the others.
    """
    count = len(slices.starts)
    bounds = np.empty(2 * count, np.int32)
    bounds[::2], bounds[1::2] = slices.starts, slices.ends
    whole = pa.BinaryArray.from_buffers(pa.binary(), max(0, 2 * count - 1), [None, pa.py_buffer(bounds), block])
    rows = np.arange(0, 2 * count, 2, dtype=np.int32)
    return whole.take(number_column(pa.int32(), rows, slices.is_null))


def number_column(kind: Any, numbers: Any, is_null: Any = None) -> Any:
    """An Arrow array of a numpy array of the same width, without a copy. `pa.array` would import pandas, in 1.5 s."""
    validity = None if is_null is None else pa.py_buffer(np.packbits(~is_null, bitorder="little"))
    return pa.Array.from_buffers(kind, len(numbers), [validity, pa.py_buffer(numbers)])


def repeated_text(text: str, count: int) -> Any:
    """An Arrow array with the same text in each row. `pa.repeat` would import pandas."""
    data = text.encode()
    offsets = np.arange(count + 1, dtype=np.int32) * np.int32(len(data))
    return pa.StringArray.from_buffers(count, pa.py_buffer(offsets), pa.py_buffer(data * count))


def header_column(block: Any, data: Any, fields: RecordFields) -> Any:
    """An array of lists of headers; null for a record without headers. Raises InvalidRecord."""
    counts = fields.header_counts
    offsets = np.zeros(len(counts) + 1, np.int32)
    np.cumsum(counts, out=offsets[1:])
    names, contents = _header_slices(data, fields, offsets)
    rows = pa.StructArray.from_arrays(
        [_text_column(binary_column(block, names)), binary_column(block, contents)], fields=HEADER_FIELDS
    )
    validity = pa.py_buffer(np.packbits(counts > 0, bitorder="little"))
    return pa.Array.from_buffers(HEADERS_TYPE, len(counts), [validity, pa.py_buffer(offsets)], children=[rows])


def _header_slices(data: Any, fields: RecordFields, offsets: Any) -> tuple[Slices, Slices]:
    """The names and the contents of all headers, in the order of the block.

    One step finds the first header of each record, the next one the second of each that has two, and so on.
    """
    total, counts = int(offsets[-1]), fields.header_counts
    found = np.zeros((5, total), np.int64)  # start and end of the name, start and end of the content, is null
    rows = np.flatnonzero(counts)
    at = fields.headers_at[rows]
    try:
        for index in range(int(counts.max(initial=0))):
            if index == _MOST_HEADERS:
                _find_one_by_one(data, rows, at, fields, offsets, found)
                break
            places, ends = offsets[rows] + index, fields.ends[rows]
            names, at = read_slices(data, at, ends)
            if names.is_null is not None:
                raise InvalidRecord(-1, "a header has no name")
            contents, at = read_slices(data, at, ends)
            found[0, places], found[1, places] = names.starts, names.ends
            found[2, places], found[3, places] = contents.starts, contents.ends
            found[4, places] = 0 if contents.is_null is None else contents.is_null
            is_last = counts[rows] == index + 1
            _check_ends(at[is_last], ends[is_last])
            rows, at = rows[~is_last], at[~is_last]
    except IndexError as error:
        raise InvalidRecord(-1, str(error)) from None
    is_null = found[4].astype(bool)
    return Slices(found[0], found[1], None), Slices(found[2], found[3], is_null if is_null.any() else None)


def _check_ends(at: Any, ends: Any) -> None:
    if not (at == ends).all():
        raise InvalidRecord(-1, "its headers do not end where the record does")


def _find_one_by_one(data: Any, rows: Any, at: Any, fields: RecordFields, offsets: Any, found: Any) -> None:
    """The headers of these records from the one numbered _MOST_HEADERS on."""
    content = data.tobytes()
    for row, start in zip(rows.tolist(), at.tolist(), strict=True):
        position, end = start, int(fields.ends[row])
        for place in range(int(offsets[row]) + _MOST_HEADERS, int(offsets[row + 1])):
            length, position = read_varint(content, position)
            found[0, place], found[1, place] = position, position + length
            position += length
            if length < 0:
                raise InvalidRecord(-1, "a header has no name")
            length, position = read_varint(content, position)
            found[4, place] = length < 0
            found[2, place], found[3, place] = position, position + max(0, length)
            position += max(0, length)
            if position > end:
                raise InvalidRecord(-1, "its headers do not end where the record does")
        if position != end:
            raise InvalidRecord(-1, "its headers do not end where the record does")


def _text_column(names: Any) -> Any:
    """Names of headers as text. Bytes that are not UTF-8 become the replacement character, as in Kafka's clients."""
    try:
        return names.cast(pa.string())
    except pa.ArrowInvalid:
        replaced = [name.decode(errors="replace").encode() for name in names.to_pylist()]
        offsets = np.cumsum([0, *map(len, replaced)], dtype=np.int32)
        return pa.StringArray.from_buffers(len(replaced), pa.py_buffer(offsets), pa.py_buffer(b"".join(replaced)))

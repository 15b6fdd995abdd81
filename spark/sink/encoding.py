"""Rows as columns to record batches of magic 2, without Python for a record.

The fields between the bytes of keys and values are varints; numpy computes them for all rows of a chunk at once. Then
Arrow joins, row by row in C++, varints, key, value and headers: the data of the joined column are the records of all
batches, one after another. Layout: `protocol/records/batch.py`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headgate.protocol.records import compression
from headgate.protocol.records.batch import HEADER, HEADER_SIZE, LOG_OVERHEAD, MAGIC, TRANSACTIONAL, set_crc

MAX_SEQUENCE = 0x7FFF_FFFF
_RECORD_OVERHEAD_BYTES = 32
"""More than the varints of any record whose key, value and headers have less than 2 GB: lengths, time, offset."""


class Rows(NamedTuple):
    """Columns of one chunk. `keys`, `values`: binary, with nulls; `headers`: list<struct<key, value>> or None.

    `timestamps_ms`: int64 (numpy).
    """

    keys: Any
    values: Any
    headers: Any
    timestamps_ms: Any

    def take(self, order: Any) -> Rows:
        """The rows in another order."""
        return Rows(
            self.keys.take(order),
            self.values.take(order),
            None if self.headers is None else self.headers.take(order),
            self.timestamps_ms[order],
        )


class EncodedBatch(NamedTuple):
    """A whole batch without a producer, and so without a CRC. `target`: the caller's number of its partition."""

    target: int
    records: int
    data: bytearray


def encode(rows: Rows, targets: Any, max_batch_bytes: int, codec: int = compression.NONE) -> Iterator[EncodedBatch]:
    """The batches of a chunk, by target; rows of one target keep their order.

    `targets`: int (numpy), of each row. `max_batch_bytes`: a bound before compression; a larger record has a batch by
    itself.
    """
    if not len(targets):
        return
    if np.any(targets[1:] < targets[:-1]):
        order = np.argsort(targets, kind="stable")
        rows, targets = rows.take(integers(order, pa.int64())), targets[order]
    headers = _encode_headers(rows.headers)
    key_sizes, value_sizes = _lengths(rows.keys), _lengths(rows.values)
    header_sizes = 1 if headers is None else _lengths(headers)
    bounds = np.maximum(key_sizes, 0) + np.maximum(value_sizes, 0) + header_sizes + _RECORD_OVERHEAD_BYTES
    firsts = _cut(targets, np.cumsum(bounds), max_batch_bytes)
    counts: Any = np.diff(np.append(firsts, len(targets)))
    times = rows.timestamps_ms
    time_deltas = times - np.repeat(times[firsts], counts)
    offset_deltas = np.arange(len(targets), dtype=np.int64) - np.repeat(firsts, counts)
    records = _join(rows, headers, (time_deltas, offset_deltas, key_sizes, value_sizes, header_sizes))
    ends = np.frombuffer(records.buffers()[1], np.int32)[: len(targets) + 1]
    data = memoryview(records.buffers()[2])
    latest = np.maximum.reduceat(times, firsts)
    for number, (first, count) in enumerate(zip(firsts.tolist(), counts.tolist(), strict=True)):
        body = data[ends[first] : ends[first + count]]
        base_time, max_time = int(times[first]), int(latest[number])
        yield EncodedBatch(int(targets[first]), count, _assemble(body, codec, count, base_time, max_time))


def _assemble(body: memoryview, codec: int, count: int, base_time_ms: int, max_time_ms: int) -> bytearray:
    content = compression.compress(codec, body) if codec else body
    batch = bytearray(HEADER_SIZE)
    batch += content
    attributes = codec | TRANSACTIONAL
    # fmt: off
    HEADER.pack_into(
        batch, 0, 0, len(batch) - LOG_OVERHEAD, -1, MAGIC, 0, attributes, count - 1, base_time_ms, max_time_ms,
        -1, -1, -1, count,
    )
    # fmt: on
    return batch


_PRODUCER_FIELDS = struct.Struct(">qhi")
_PRODUCER = 43  # byte of the producer id, then epoch and base sequence


def stamp(batch: bytearray, producer_id: int, producer_epoch: int, base_sequence: int) -> None:
    """Set the producer of a batch, in place, and its CRC."""
    batch[_PRODUCER : _PRODUCER + _PRODUCER_FIELDS.size] = _PRODUCER_FIELDS.pack(
        producer_id, producer_epoch, base_sequence
    )
    set_crc(batch)


def advance(sequence: int, records: int) -> int:
    """The sequence after `records` more; it starts again at 0 after the largest int32 (Kafka's DefaultRecordBatch)."""
    return (sequence + records) & MAX_SEQUENCE


# -------------------------------------------------------------------------------------------------------------- columns


def binary_parts(column: Any) -> tuple[Any, Any, Any]:
    """Data (uint8), starts and lengths (int64) of a binary column; the length of a null is -1."""
    offsets = np.frombuffer(column.buffers()[1], np.int32)[column.offset : column.offset + len(column) + 1]
    starts = offsets[:-1].astype(np.int64)
    lengths = np.diff(offsets).astype(np.int64)
    if column.null_count:
        lengths[~valid(column)] = -1
    buffer = column.buffers()[2]
    return np.frombuffer(buffer, np.uint8) if buffer is not None else np.zeros(0, np.uint8), starts, lengths


def valid(column: Any) -> Any:
    """Bools (numpy): False for nulls."""
    return numbers(column.is_valid().cast(pa.uint8())).astype(bool)


def numbers(column: Any) -> Any:
    """The numbers (numpy) of a column of signed integers or uint8, without a copy; nulls have any number.

    Many ways from Arrow to numpy and back import pandas, where it is installed, for more than a second of each worker.
    """
    dtype = np.dtype(f"i{column.type.bit_width // 8}")
    if not len(column):
        return np.zeros(0, dtype)
    return np.frombuffer(column.buffers()[1], dtype)[column.offset : column.offset + len(column)]


def integers(values: Any, kind: Any) -> Any:
    """Integers (numpy, of the same width) as an Arrow column, without `pa.array`."""
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(values)])


def byte_strings(items: Sequence[bytes | bytearray], kind: Any = None) -> Any:
    """Byte strings as an Arrow column, without `pa.array`."""
    offsets: Any = np.zeros(len(items) + 1, np.int32)
    np.cumsum([len(item) for item in items], out=offsets[1:])
    return pa.Array.from_buffers(
        kind or pa.binary(), len(items), [None, pa.py_buffer(offsets), pa.py_buffer(b"".join(items))]
    )


# `pa.scalar` would import pandas too
_NO_HEADERS, _EMPTY = byte_strings([b"\x00", b""])


def _lengths(column: Any) -> Any:
    return binary_parts(column)[2]


def _cut(targets: Any, ends: Any, max_bytes: int) -> Any:
    """The first row of each batch: a batch ends with its target, or before it gets larger than the bound."""
    changes: Any = np.flatnonzero(targets[1:] != targets[:-1]) + 1
    firsts = []
    for first, end in zip([0, *changes.tolist()], [*changes.tolist(), len(targets)], strict=True):
        row = first
        while row < end:
            firsts.append(row)
            before = int(ends[row - 1]) if row else 0
            row = max(row + 1, int(np.searchsorted(ends, before + max_bytes, side="right")))
    return np.array(firsts, dtype=np.int64)


def _join(rows: Rows, headers: Any, fields: tuple[Any, ...]) -> Any:
    """The records, as one binary column."""
    time_deltas, offset_deltas, key_sizes, value_sizes, header_sizes = fields
    zigzags = [_zigzag(numbers) for numbers in (time_deltas, offset_deltas, key_sizes, value_sizes)]
    sizes = [varint_sizes(zigzag) for zigzag in zigzags]
    body_sizes = 1 + sum(sizes) + np.maximum(key_sizes, 0) + np.maximum(value_sizes, 0) + header_sizes
    length = _zigzag(body_sizes)
    no_attributes: Any = np.zeros(len(length), np.uint64)
    times, offsets, keys, values = zigzags
    prefix = pack_varints((length, no_attributes, times, offsets, keys))
    middle = pack_varints((values,))
    tail = _NO_HEADERS if headers is None else headers
    options = {"null_handling": "replace", "null_replacement": b""}
    return pc.binary_join_element_wise(prefix, rows.keys, middle, rows.values, tail, _EMPTY, **options)


def _encode_headers(column: Any) -> Any:
    """The count of headers, then the headers, for each row, as one binary column; None if no row has any."""
    if column is None or column.null_count == len(column):
        return None
    if column.null_count:
        zeros = pa.py_buffer(np.zeros(2, np.int32))
        [empty] = pa.Array.from_buffers(column.type, 1, [None, zeros], children=[column.values.slice(0, 0)])
        column = column.fill_null(empty)
    offsets = np.frombuffer(column.buffers()[1], np.int32)[column.offset : column.offset + len(column) + 1]
    structs = column.values
    names, contents = (as_binary(structs.field(index)) for index in (0, 1))
    name_sizes, content_sizes = pack_varints((_zigzag(_lengths(names)),)), pack_varints((_zigzag(_lengths(contents)),))
    options = {"null_handling": "replace", "null_replacement": b""}
    each = pc.binary_join_element_wise(name_sizes, names, content_sizes, contents, _EMPTY, **options)
    # The headers of a row lie beside each other: its bytes go from its first header to its last
    ends = np.frombuffer(each.buffers()[1], np.int32)[each.offset :]
    joined = pa.Array.from_buffers(
        pa.binary(), len(column), [None, pa.py_buffer(np.ascontiguousarray(ends[offsets])), each.buffers()[2]]
    )
    counts = pack_varints((_zigzag(np.diff(offsets).astype(np.int64)),))
    return pc.binary_join_element_wise(counts, joined, _EMPTY)


def as_binary(column: Any) -> Any:
    """A column of text or bytes, of any width of offsets, as `binary`. Raises pyarrow.ArrowException."""
    return column if column.type == pa.binary() else column.cast(pa.binary())


# -------------------------------------------------------------------------------------------------------------- varints


def _zigzag(numbers: Any) -> Any:
    signed = numbers.astype(np.int64)
    return ((signed << 1) ^ (signed >> 63)).view(np.uint64)


def varint_sizes(numbers: Any) -> Any:
    """The bytes (int64) of each number as a varint. `numbers`: uint64."""
    sizes: Any = np.ones(len(numbers), np.int64)
    largest = int(numbers.max(initial=0))
    bits = 7
    while largest >> bits:
        sizes += numbers >= np.uint64(1 << bits)
        bits += 7
    return sizes


def pack_varints(columns: tuple[Any, ...]) -> Any:
    """A binary column: in each row the varints of that row of each column. `columns`: uint64."""
    sizes: list[Any] = [varint_sizes(column) for column in columns]
    offsets: Any = np.zeros(len(columns[0]) + 1, np.int64)
    np.cumsum(sum(sizes), out=offsets[1:])
    data: Any = np.empty(int(offsets[-1]), np.uint8)
    places = offsets[:-1].copy()
    for numbers, widths in zip(columns, sizes, strict=True):
        _scatter(data, places, numbers, widths)
        places += widths
    buffers = [None, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.binary(), len(columns[0]), buffers)


def _scatter(data: Any, places: Any, numbers: Any, widths: Any) -> None:
    """Write each number as a varint at its place."""
    longest = int(widths.max(initial=1))
    if longest == 1:
        data[places] = numbers
        return
    data[places] = (numbers & np.uint64(0x7F)) | ((widths > 1).astype(np.uint64) << np.uint64(7))
    for number in range(1, longest):
        rows = np.flatnonzero(widths > number)
        rest = numbers[rows] >> np.uint64(7 * number)
        more = (widths[rows] > number + 1).astype(np.uint64) << np.uint64(7)
        data[places[rows] + number] = (rest & np.uint64(0x7F)) | more

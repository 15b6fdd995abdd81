"""Batches that are larger than memory should hold: decompressed and cut into pieces of whole records, one at a time.

A batch of one megabyte may decompress to a hundred. The codecs of `protocol` make all of it at once, which is faster
for common batches; here are the others. Snappy is no stream: its batches, at most 22 times larger than stored, are
decompressed as a whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import pyarrow as pa

from headgate.protocol.records import Buffer, compression
from headgate.protocol.records.batch import corrupt, invalid
from headgate.protocol.records.compression import CODEC_NAMES, NONE, SNAPPY
from headgate.protocol.records.varint import read_varint
from headgate.spark.records.varints import PADDING

LARGEST_RECORD_BYTES: Final = 128 << 20


class RecordsPiece(NamedTuple):
    """Whole records: `records_count` of them in `size` bytes, with padding behind them."""

    data: bytes
    size: int
    records_count: int


def pieces(
    codec: int, body: Buffer, records_count: int, piece_bytes: int, piece_records: int
) -> Iterator[RecordsPiece]:
    """The records of a batch. Raises KafkaError: CORRUPT_MESSAGE, INVALID_RECORD."""
    stream = pa.BufferReader(compression.decompress(codec, body) if codec == SNAPPY else body)
    if codec not in {NONE, SNAPPY}:
        stream = pa.CompressedInputStream(stream, CODEC_NAMES[codec])
    rest, wanted, left = b"", piece_bytes, records_count
    while left:
        added = _read(stream, wanted - len(rest))
        data = rest + added
        count, end = _whole_records(data, min(left, piece_records))
        if count:
            yield RecordsPiece(data[:end] + PADDING, end, count)
            rest, wanted, left = data[end:], max(piece_bytes, len(data) - end + 1), left - count
        elif not added:
            raise invalid(f"the last {left} of {records_count} records are cut")
        elif len(data) > LARGEST_RECORD_BYTES:
            raise invalid(f"a record has more than {LARGEST_RECORD_BYTES} bytes")
        else:
            rest, wanted = data, 2 * len(data)
    if rest or _read(stream, 1):
        raise invalid(f"bytes follow the last of {records_count} records")


def _read(stream: Any, size: int) -> bytes:
    """The next bytes of a stream; none at its end. Raises KafkaError."""
    try:
        return bytes(stream.read(size)) if size > 0 else b""
    except (OSError, pa.ArrowException) as error:
        raise corrupt(f"the batch cannot be decompressed: {error}") from None


def _whole_records(data: bytes, most: int) -> tuple[int, int]:
    """The count of whole records at the beginning of the data, at most so many, and the position after them."""
    position, size = 0, len(data)
    for count in range(most):
        try:
            length, start = read_varint(data, position)
        except IndexError:
            return count, position
        if length < 0:
            raise invalid(f"a record has the length {length}")
        if start + length > size:
            return count, position
        position = start + length
    return most, position

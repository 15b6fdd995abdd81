"""The columns of Spark's `kafka` format, made of stored batches.

    batches of a range -> blocks of decompressed records -> positions of all fields (numpy) -> columns (Arrow)

    for rows in columns(reader.read(wanted, isolation), wanted, ["key", "value"]): ...

Memory is bounded: a block has BLOCK_BYTES and BLOCK_RECORDS at most, or one batch of LARGE_BYTES at most, or one record
with a few before it. A result has BLOCK_BYTES and BLOCK_RECORDS of a block at most.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from headgate.spark.reading.log_reader import FetchedBatches, OffsetRange
from headgate.spark.records.arrow_columns import (
    HEADERS_TYPE,
    binary_column,
    header_column,
    number_column,
    repeated_text,
)
from headgate.spark.records.blocks import (
    BLOCK_BYTES,
    BLOCK_RECORDS,
    LOG_APPEND_TIME,
    Block,
    BlockReader,
    Hidden,
    OnHidden,
    TimeRange,
    UnreadableRecords,
)
from headgate.spark.records.record_chain import InvalidRecord, follow_chain, record_bounds
from headgate.spark.records.record_fields import RecordFields, read_fields

__all__ = ["COLUMNS", "SCHEMA", "Hidden", "OnHidden", "TimeRange", "UnreadableRecords", "columns"]

SCHEMA: Final = pa.schema(
    [
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("offset", pa.int64()),
        pa.field("timestamp", pa.timestamp("us", tz="UTC")),
        pa.field("timestampType", pa.int32()),
        pa.field("headers", HEADERS_TYPE),
    ]
)
COLUMNS: Final[tuple[str, ...]] = tuple(SCHEMA.names)
_CONTENTS = frozenset({"key", "value", "headers"})
_START, _COUNT, _BASE_OFFSET, _LAST_OFFSET, _TIME, _TIMESTAMP_TYPE = range(6)  # the fields of `Batch`
_LAST_MS = (1 << 63) // 1000 - 1  # Spark's timestamps are microseconds


def columns(
    fetched: Iterable[FetchedBatches],
    wanted: OffsetRange,
    names: Sequence[str] = COLUMNS,
    *,
    times: TimeRange | None = None,
    on_hidden: OnHidden | None = None,
) -> Iterator[Any]:
    """The records of a range as `pyarrow.RecordBatch`es with these columns, in order of their offsets.

    `times` leaves out whole batches without a record in this range; records outside of it may come. `on_hidden` is
    called for control batches and aborted ones. Raises UnreadableRecords; ValueError for an unknown column.
    """
    if not names or not set(names) <= set(COLUMNS):
        raise ValueError(f"the columns {', '.join(names)}: there are {', '.join(COLUMNS)}")
    maker = _RowMaker(wanted, names)
    for block in BlockReader(wanted, times, on_hidden).blocks(fetched):
        yield from maker.record_batches(block)


class _Slice(NamedTuple):
    """Some of the records of a block: where each begins and ends; their batches, and the count of records of each.

    `batches`: a row for each field of `Batch`.
    """

    starts: Any
    ends: Any
    batches: Any
    counts: Any

    def repeat(self, values: Any) -> Any:
        """A value of each batch, repeated for each of its records."""
        return np.repeat(values, self.counts)

    def offset_of(self, index: int) -> int:
        """The first offset of the batch with this record; of the first batch if the record is unknown (-1)."""
        return int(self.batches[_BASE_OFFSET][np.searchsorted(np.cumsum(self.counts), max(0, index), side="right")])


class _RowMaker:
    """Makes the rows of one range."""

    def __init__(self, wanted: OffsetRange, names: Sequence[str]) -> None:
        self._wanted = wanted
        self._names = names
        self._schema = pa.schema([SCHEMA.field(name) for name in names])
        self._wants_times = "timestamp" in names
        self._wants_contents = not _CONTENTS.isdisjoint(names)
        self._topic: Any = repeated_text(wanted.partition.topic, BLOCK_RECORDS) if "topic" in names else None

    def record_batches(self, block: Block) -> Iterator[Any]:
        """The rows of a block. Raises UnreadableRecords."""
        data, buffer = np.frombuffer(block.data, np.uint8), pa.py_buffer(block.data)
        for part in self._slices(block):
            try:
                rows = self._rows(buffer, data, part)
            except InvalidRecord as error:
                raise self._unreadable(part.offset_of(error.index), error) from None
            if rows is not None:
                yield rows

    def _slices(self, block: Block) -> Iterator[_Slice]:
        """The records of a block: all at once, or a part at a time of a batch that is larger than a block."""
        numbers = np.fromiter(chain.from_iterable(block.batches), np.int64)  # np.array would take longer by far
        batches = numbers.reshape(len(block.batches), -1).T.copy()
        begins = np.append(batches[_START], block.size)
        first = block.batches[0]
        if len(block.batches) > 1 or (block.records_count <= BLOCK_RECORDS and block.size <= BLOCK_BYTES):
            try:
                bounds = record_bounds(block.data, begins, batches[_COUNT])
            except InvalidRecord as error:
                number = np.searchsorted(np.cumsum(batches[_COUNT]), max(0, error.index), side="right")
                raise self._unreadable(block.batches[number].base_offset, error) from None
            yield _Slice(bounds[:-1], bounds[1:], batches, batches[_COUNT])
            return
        position, left = 0, block.records_count
        while left:
            count = min(left, BLOCK_RECORDS)
            try:
                starts, position = follow_chain(block.data, position, count)
            except InvalidRecord as error:
                raise self._unreadable(first.base_offset, error) from None
            left -= count
            if not left and position != block.size:
                raise self._unreadable(first.base_offset, InvalidRecord(-1, "its records do not end where it does"))
            bounds = np.fromiter((*starts, position), np.int64, count + 1)
            for here, end in _split(bounds):
                yield _Slice(bounds[here:end], bounds[here + 1 : end + 1], batches, np.array([end - here]))

    def _rows(self, buffer: Any, data: Any, part: _Slice) -> Any:
        """The records of a slice that are in the range; None if none is. Raises InvalidRecord."""
        fields = read_fields(data, part.starts, part.ends, timestamps=self._wants_times, contents=self._wants_contents)
        deltas, bases = fields.offset_deltas, part.batches[_BASE_OFFSET]
        if not ((deltas >= 0) & (deltas <= part.repeat(part.batches[_LAST_OFFSET] - bases))).all():
            raise InvalidRecord(-1, "the offset of a record is outside of its batch")
        offsets = part.repeat(bases) + deltas
        keep: Any = slice(None)
        first, end = self._wanted.start_offset, self._wanted.end_offset
        if bases.min() < first or part.batches[_LAST_OFFSET].max() >= end:
            keep = np.flatnonzero((offsets >= first) & (offsets < end))
            if not keep.size:
                return None
            fields = fields.rows(keep)
            offsets = offsets[keep]
        arrays = [self._array(name, buffer, data, part, keep, fields, offsets) for name in self._names]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _array(
        self, name: str, buffer: Any, data: Any, part: _Slice, keep: Any, fields: RecordFields, offsets: Any
    ) -> Any:
        if name == "key":
            return binary_column(buffer, fields.keys)
        if name == "value":
            return binary_column(buffer, fields.values)
        if name == "headers":
            return header_column(buffer, data, fields)
        if name == "topic":
            return self._topic.slice(0, len(offsets))
        if name == "partition":
            return number_column(pa.int32(), np.full(len(offsets), self._wanted.partition.number, np.int32))
        if name == "offset":
            return number_column(pa.int64(), offsets)
        if name == "timestampType":
            types = part.repeat(part.batches[_TIMESTAMP_TYPE].astype(np.int32))
            return number_column(pa.int32(), types[keep])
        return _timestamps(part, keep, fields.timestamp_deltas)

    def _unreadable(self, offset: int, error: InvalidRecord) -> UnreadableRecords:
        return UnreadableRecords(self._wanted.partition, offset, error.problem)


def _timestamps(part: _Slice, keep: Any, deltas: Any) -> Any:
    """Timestamps in microseconds. Raises InvalidRecord for a time that does not fit."""
    bases = part.repeat(part.batches[_TIME])[keep]
    is_append_time = part.batches[_TIMESTAMP_TYPE] == LOG_APPEND_TIME
    if is_append_time.any():
        deltas = np.where(part.repeat(is_append_time)[keep], 0, deltas)
    times = bases + deltas
    if ((bases ^ times) & (deltas ^ times) < 0).any():
        raise InvalidRecord(-1, "its time is outside of 64 bits")
    if len(times) and (times.max() > _LAST_MS or times.min() < -_LAST_MS):
        raise InvalidRecord(-1, "its time in ms is beyond the microseconds of Spark")
    return number_column(SCHEMA.field("timestamp").type, times * 1000)


def _split(bounds: Any) -> Iterator[tuple[int, int]]:
    """Parts of records of one batch, of BLOCK_BYTES at most, or one record: the first of each, and the one after."""
    first, count = 0, len(bounds) - 1
    while first < count:
        end = max(first + 1, int(np.searchsorted(bounds, bounds[first] + BLOCK_BYTES, side="right")) - 1)
        yield first, end
        first = end

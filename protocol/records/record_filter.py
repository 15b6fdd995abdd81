"""Record filters for compaction: the last offset of each key of a batch, and a batch without the removed records.

The filters take half a microsecond a record. They make no object of a record, and copy the retained bytes in one part
for each gap. They check every record to its end: compaction must not change a faulty batch, as its records are unclear.

An offset map has a key of up to `MAX_KEY_BYTES` bytes itself, and the digest of a longer one, of `_DIGEST_BYTES` bytes.
So no key equals the digest of another, and the size of an entry is known (`ENTRY_BYTES`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import compress, repeat
from operator import gt
from typing import Any, NamedTuple, NoReturn

from headgate.protocol.errors import KafkaError
from headgate.protocol.records.batch import BatchHeader, invalid
from headgate.protocol.records.record_validation import header_parts, skip_headers
from headgate.protocol.records.varint import decode_zigzag, read_rest, read_zigzag, write_varint
from headgate.protocol.steps import Steps

MAX_KEY_BYTES = 30
_DIGEST_BYTES = 31
ENTRY_BYTES = 192
"""The most bytes of an entry of an offset map: 64 for the key, 32 for the offset, and 90 of the table. A growing table
has both of its sizes in memory for a moment (CPython 3.11, measured by a test)."""

RECORDS_AT_ONCE = 500
_NO_LIMIT = 1 << 62

OffsetMap = dict[bytes, int]
"""Offset of the last record of each key, as Kafka's `OffsetMap`."""


def offset_map_key(key: bytes) -> bytes:
    """Return the form of a key in an offset map."""
    if len(key) <= MAX_KEY_BYTES:
        return key
    from hashlib import blake2b

    return blake2b(key, digest_size=_DIGEST_BYTES).digest()


class _RecordColumns(NamedTuple):
    """Adjacent records as columns: their keys (`offset_map_key`), their offsets, and the positions of their ends.

    `keyless`, `tombstones`: the indexes of the records without a key, without a value.
    """

    keys: list[Any]
    offsets: Sequence[int]
    ends: list[int]
    keyless: list[int]
    tombstones: list[int]


def _iterate_columns(header: BatchHeader, data: bytes) -> Iterator[_RecordColumns]:
    """Iterate over the decompressed records `data` of a batch, `RECORDS_AT_ONCE` at a time.

    Raises KafkaError(INVALID_RECORD) for a faulty record.
    """
    last, position, previous, left = header.last_offset_delta << 1, 0, -1, header.records_count
    try:
        while left:
            keys: list[Any] = []
            deltas: list[int] = []
            ends: list[int] = []
            keyless: list[int] = []
            tombstones: list[int] = []
            add_key, add_delta, add_end = keys.append, deltas.append, ends.append
            for number in range(min(left, RECORDS_AT_ONCE)):
                length = data[position]
                at = position = position + 1
                if length > 127:  # two bytes are common, so they are read without a call, here and below
                    high = data[position]
                    if high < 128:
                        length += (high << 7) - 128
                        at = position = position + 1
                    else:
                        length, at = read_rest(data, position, length)
                        position = at
                at += 2  # after the attributes, an unused byte, and the first byte of the time
                if data[at - 1] > 127:
                    at = _skip_rest(data, at)
                delta = data[at]
                at += 1
                if delta > 127:
                    delta, at = read_rest(data, at, delta)
                if delta & 1 or not previous < delta <= last:
                    _raise_fault(f"its offset delta is {delta / 2:g} after {previous >> 1}")
                previous = delta
                add_delta(delta)
                size = data[at]
                at += 1
                if size > 127:
                    size, at = read_rest(data, at, size)
                if size & 1:
                    add_key(None)
                    keyless.append(number)
                else:
                    start = at
                    at += size >> 1
                    add_key(data[start:at] if size <= 60 else offset_map_key(data[start:at]))
                size = data[at]
                at += 1
                if size > 127:
                    high = data[at]
                    if high < 128:
                        size, at = size + (high << 7) - 128, at + 1
                    else:
                        size, at = read_rest(data, at, size)
                if size & 1:
                    tombstones.append(number)
                else:
                    at += size >> 1
                at = _skip_headers(data, at + 1) if data[at] else at + 1
                if at - position << 1 != length:
                    _raise_fault(f"its fields end {at - position - (length >> 1)} bytes after it")
                position = at
                add_end(at)
            left -= len(deltas)
            yield _RecordColumns(keys, _offsets(header.base_offset, deltas), ends, keyless, tombstones)
    except IndexError as error:
        raise _faulty(header, left, error) from None
    if position != len(data):
        raise _faulty(header, left, "bytes follow")


def _offsets(base_offset: int, deltas: Sequence[int]) -> Sequence[int]:
    """Return the offsets of growing deltas in zigzag form: a range, unless there are gaps."""
    first, count = base_offset + (deltas[0] >> 1), len(deltas)
    if deltas[-1] - deltas[0] == count - 1 << 1:
        return range(first, first + count)
    return [base_offset + (delta >> 1) for delta in deltas]


class KeyOffsets(NamedTuple):
    """The keys of a batch with their last offsets. `is_plain`: each record has a key and a value."""

    table: OffsetMap
    is_plain: bool


def key_offsets_steps(header: BatchHeader, data: bytes) -> Steps[KeyOffsets]:
    """Collect the keys of the decompressed records `data`, in steps.

    Raises KafkaError(INVALID_RECORD) for a faulty record.
    """
    found: dict[Any, int] = {}
    is_plain = True
    for columns in _iterate_columns(header, data):
        found.update(zip(columns.keys, columns.offsets, strict=True))
        is_plain = is_plain and not columns.keyless and not columns.tombstones
        yield
    found.pop(None, None)
    return KeyOffsets(found, is_plain)


class RetainedRecords:
    """The retained records of a batch. `parts`: their bytes, in order. `count`: their number."""

    __slots__ = ("count", "parts", "tombstones")

    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self.count = 0
        self.tombstones = 0
        """The number of retained records without a value."""


def filter_steps(
    header: BatchHeader, data: bytes, table: Mapping[bytes, int] | None, *, keeps_tombstones: bool
) -> Steps[RetainedRecords]:
    """Remove the records without a key, and those with a later record of their key in `table`, in steps.

    Unless `keeps_tombstones`, records without a value are removed too. Without a table all records are retained. Raises
    KafkaError as `key_offsets_steps` does. Source: Apache Kafka's `Cleaner.shouldRetainRecord`.
    """
    retained, part_start, end = RetainedRecords(), 0, 0
    for columns in _iterate_columns(header, data):
        is_removed = [False] * len(columns.keys) if table is None else _is_superseded(columns, table)
        if table is not None:
            for number in columns.keyless if keeps_tombstones else (*columns.keyless, *columns.tombstones):
                is_removed[number] = True
        retained.count += len(is_removed) - sum(is_removed)
        retained.tombstones += sum(not is_removed[number] for number in columns.tombstones)
        for number in compress(range(len(is_removed)), is_removed):
            start = columns.ends[number - 1] if number else end
            if part_start != start:
                retained.parts.append(data[part_start:start])
            part_start = columns.ends[number]
        end = columns.ends[-1]
        yield
    if part_start != end:
        retained.parts.append(data[part_start:])
    return retained


def _is_superseded(columns: _RecordColumns, table: Mapping[bytes, int]) -> list[bool]:
    """Return for each record: is there a later record of its key?"""
    last: Callable[[Any, int], int] = table.get
    return list(map(gt, map(last, columns.keys, repeat(-1)), columns.offsets))


def retain_offsets_steps(header: BatchHeader, data: bytes, offsets: Sequence[int]) -> Steps[RetainedRecords]:
    """Retain the records of these offsets, in steps. `offsets` grow. `key_offsets_steps` must have checked the batch.

    This takes half of the time of `filter_steps`: it reads nothing of a record after its offset.
    """
    retained = RetainedRecords()
    retained.count = len(offsets)
    base_offset, taken = header.base_offset, 0
    wanted = offsets[0] - base_offset << 1
    position = part_start = ended = 0
    while taken < retained.count:
        for _ in range(RECORDS_AT_ONCE):
            start = position
            length = data[position]
            position += 1
            if length > 127:
                high = data[position]
                if high < 128:
                    length += (high << 7) - 128
                    position += 1
                else:
                    length, position = read_rest(data, position, length)
            at = position + 2
            position += length >> 1
            if data[at - 1] > 127:
                at = _skip_rest(data, at)
            delta = data[at]
            if delta > 127:
                delta, _ = read_rest(data, at + 1, delta)
            if delta == wanted:
                if start != ended:
                    retained.parts.append(data[part_start:ended])
                    part_start = start
                ended = position
                taken += 1
                if taken == retained.count:
                    break
                wanted = offsets[taken] - base_offset << 1
        yield
    retained.parts.append(data[part_start:ended])
    return retained


def max_timestamp(header: BatchHeader, data: bytes, count: int) -> int:
    """Return the highest timestamp of `count` sound records, in ms; that of the header if the broker set it."""
    if header.is_log_append_time or not count:
        return header.max_timestamp
    highest, previous, position, base_timestamp = None, None, 0, header.base_timestamp
    for _ in range(count):
        length = data[position]
        at = position + 1
        if length > 127:
            length, at = read_rest(data, at, length)
        time = data[at + 1]
        if time > 127:
            time, _ = read_rest(data, at + 2, time)
        if time != previous:  # the zigzag form suffices to see a change
            previous, timestamp = time, base_timestamp + ((time >> 1) ^ -(time & 1))
            if highest is None or timestamp > highest:
                highest = timestamp
        position = at + (length >> 1)
    assert highest is not None
    return highest


def shift_timestamps_steps(data: bytes, count: int, shift_ms: int) -> Steps[bytes]:
    """Return the same sound records with `shift_ms` added to each timestamp delta, in steps."""
    parts: list[bytes | bytearray] = []
    position = 0
    for number in range(1, count + 1):
        length, at = read_zigzag(data, position)
        end = at + (length >> 1)
        time, behind = read_zigzag(data, at + 1)
        lead, size = bytearray(data[at : at + 1]), bytearray()
        write_varint(lead, decode_zigzag(time) + shift_ms)
        write_varint(size, len(lead) + end - behind)
        parts += (size, lead, data[behind:end])
        position = end
        if not number % RECORDS_AT_ONCE:
            yield
    return b"".join(parts)


def _raise_fault(why: str) -> NoReturn:
    raise IndexError(why)


def _skip_rest(data: bytes, at: int) -> int:
    """Return the position after the rest of a varint."""
    return read_rest(data, at, 0)[1]


def _skip_headers(data: bytes, at: int) -> int:
    """Return the position after a record's headers. `at`: the position after the first byte of their count."""
    parts, at = header_parts(data, at, data[at - 1])
    return skip_headers(data, at, parts, _NO_LIMIT)[0]


def _faulty(header: BatchHeader, left: int, why: object) -> KafkaError:
    place = f"record {header.records_count - left + 1} or later of {header.records_count}"
    return invalid(f"{place} cannot be read: {why}")

"""The records of a batch by their keys, and a batch without some of its records: what compaction does, in bulk.

Half a microsecond a record: no objects are made of records, and what stays of a batch is copied in as few pieces as
there are gaps. Every record is looked at to its end, as a batch with a fault in it must be left as it is: nobody knows
what a reader would find there.

A table of keys holds a key of up to `LONGEST_KEY_BYTES` as it is, a longer one as a digest of `_DIGEST_BYTES`. So two
keys are never taken for one, and an entry has a size that is known (`ENTRY_BYTES`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import compress, repeat
from operator import gt
from typing import Any, NamedTuple, NoReturn

from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.records.batch import BatchHeader
from headgate.protocol.records.record_validation import header_parts, skip_headers
from headgate.protocol.records.varint import decode_zigzag, read_rest, read_zigzag, write_varint
from headgate.protocol.steps import Steps

LONGEST_KEY_BYTES = 30
_DIGEST_BYTES = 31
ENTRY_BYTES = 192
"""What an entry of a table takes at most: key 64, offset 32, and 90 of the table, which has both its sizes in memory
for a moment when it grows (CPython 3.11, measured by a test)."""

RECORDS_AT_ONCE = 500
_NO_LIMIT = 1 << 62

OffsetMap = dict[bytes, int]
"""Key -> offset of the last record that has it."""


def offset_map_key(key: bytes) -> bytes:
    """What stands for a key in a table."""
    if len(key) <= LONGEST_KEY_BYTES:
        return key
    from hashlib import blake2b

    return blake2b(key, digest_size=_DIGEST_BYTES).digest()


class _RecordColumns(NamedTuple):
    """Some records, one behind the other: the key of each as `offset_map_key` has it, its offset, and where it ends.

    `keyless`, `tombstones`: which of them have no key, no value, by number.
    """

    keys: list[Any]
    offsets: Sequence[int]
    ends: list[int]
    keyless: list[int]
    tombstones: list[int]


def _walk(header: BatchHeader, data: bytes) -> Iterator[_RecordColumns]:
    """The records `data` of a batch, which are decompressed, `RECORDS_AT_ONCE` at a time.

    Raises KafkaError(INVALID_RECORD) where any of it is no record.
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
                if length > 127:  # two bytes are common, and have no call, here and below
                    high = data[position]
                    if high < 128:
                        length += (high << 7) - 128
                        at = position = position + 1
                    else:
                        length, at = read_rest(data, position, length)
                        position = at
                at += 2  # behind the attributes, unused, and the first byte of the time
                if data[at - 1] > 127:
                    at = _behind_time(data, at)
                delta = data[at]
                at += 1
                if delta > 127:
                    delta, at = read_rest(data, at, delta)
                if delta & 1 or not previous < delta <= last:
                    _refuse(f"its offset delta is {delta / 2:g} after {previous >> 1}")
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
                at = _behind_headers(data, at + 1) if data[at] else at + 1
                if at - position << 1 != length:
                    _refuse(f"its fields end {at - position - (length >> 1)} bytes behind it")
                position = at
                add_end(at)
            left -= len(deltas)
            yield _RecordColumns(keys, _offsets(header.base_offset, deltas), ends, keyless, tombstones)
    except IndexError as error:
        raise _invalid(header, left, error) from None
    if position != len(data):
        raise _invalid(header, left, "bytes follow")


def _offsets(base_offset: int, deltas: Sequence[int]) -> Sequence[int]:
    """Of offset deltas that grow, still zigzag; mostly there is no gap between them."""
    first, count = base_offset + (deltas[0] >> 1), len(deltas)
    if deltas[-1] - deltas[0] == count - 1 << 1:
        return range(first, first + count)
    return [base_offset + (delta >> 1) for delta in deltas]


class KeyOffsets(NamedTuple):
    """The keys of a batch, each with its last offset. `is_plain`: every record has a key and a value."""

    table: OffsetMap
    is_plain: bool


def key_offsets_steps(header: BatchHeader, data: bytes) -> Steps[KeyOffsets]:
    """The keys of the records `data`, which are decompressed; yields now and then.

    Raises KafkaError(INVALID_RECORD) where any of it is no record.
    """
    found: dict[Any, int] = {}
    is_plain = True
    for some in _walk(header, data):
        found.update(zip(some.keys, some.offsets, strict=True))
        is_plain = is_plain and not some.keyless and not some.tombstones
        yield
    found.pop(None, None)
    return KeyOffsets(found, is_plain)


class RetainedRecords:
    """What stays of the records of a batch: `parts` of them, one behind the other."""

    __slots__ = ("count", "parts", "tombstones")

    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self.count = 0
        self.tombstones = 0
        """How many of those that stay have no value."""


def filter_steps(
    header: BatchHeader, data: bytes, table: Mapping[bytes, int] | None, *, keeps_tombstones: bool
) -> Steps[RetainedRecords]:
    """Leave out the records that a later one in `table` stands for, and those without a key; yields now and then.

    Without a table everything stays. Unless it `keeps_tombstones`, records without a value go too. Raises KafkaError as
    `key_offsets_steps` does. Source: Apache Kafka's `Cleaner.shouldRetainRecord`.
    """
    kept, begun, end = RetainedRecords(), 0, 0
    for some in _walk(header, data):
        goes = [False] * len(some.keys) if table is None else _superseded(some, table)
        if table is not None:
            for number in some.keyless if keeps_tombstones else (*some.keyless, *some.tombstones):
                goes[number] = True
        kept.count += len(goes) - sum(goes)
        kept.tombstones += sum(not goes[number] for number in some.tombstones)
        for number in compress(range(len(goes)), goes):
            start = some.ends[number - 1] if number else end
            if begun != start:
                kept.parts.append(data[begun:start])
            begun = some.ends[number]
        end = some.ends[-1]
        yield
    if begun != end:
        kept.parts.append(data[begun:])
    return kept


def _superseded(some: _RecordColumns, table: Mapping[bytes, int]) -> list[bool]:
    """Of each record whether a later one stands for it."""
    last: Callable[[Any, int], int] = table.get
    return list(map(gt, map(last, some.keys, repeat(-1)), some.offsets))


def retain_offsets_steps(header: BatchHeader, data: bytes, offsets: Sequence[int]) -> Steps[RetainedRecords]:
    """Keep the records with these offsets, in order, of a batch in which `key_offsets_steps` has found no fault.

    Half of the time of `filter_steps`: nothing is looked at behind the offset of a record. Yields now and then.
    """
    kept = RetainedRecords()
    kept.count = len(offsets)
    base_offset, taken = header.base_offset, 0
    wanted = offsets[0] - base_offset << 1
    position = begun = ended = 0
    while taken < kept.count:
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
                at = _behind_time(data, at)
            delta = data[at]
            if delta > 127:
                delta, _ = read_rest(data, at + 1, delta)
            if delta == wanted:
                if start != ended:
                    kept.parts.append(data[begun:ended])
                    begun = start
                ended = position
                taken += 1
                if taken == kept.count:
                    break
                wanted = offsets[taken] - base_offset << 1
        yield
    kept.parts.append(data[begun:ended])
    return kept


def max_timestamp(header: BatchHeader, data: bytes, count: int) -> int:
    """The highest timestamp of so many sound records, milliseconds; that of the header if the broker set it."""
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
        if time != previous:  # still zigzag, so only good to be told from others
            previous, timestamp = time, base_timestamp + ((time >> 1) ^ -(time & 1))
            if highest is None or timestamp > highest:
                highest = timestamp
        position = at + (length >> 1)
    assert highest is not None
    return highest


def shift_timestamps_steps(data: bytes, count: int, shift_ms: int) -> Steps[bytes]:
    """The same sound records with this added to the delta of each timestamp; yields now and then."""
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


def _refuse(why: str) -> NoReturn:
    raise IndexError(why)


def _behind_time(data: bytes, at: int) -> int:
    """The position behind the rest of a varint."""
    return read_rest(data, at, 0)[1]


def _behind_headers(data: bytes, at: int) -> int:
    """The position behind a record's headers; `at` is that behind the first byte of their count."""
    parts, at = header_parts(data, at, data[at - 1])
    return skip_headers(data, at, parts, _NO_LIMIT)[0]


def _invalid(header: BatchHeader, left: int, why: object) -> KafkaError:
    place = f"record {header.records_count - left + 1} or later of {header.records_count}"
    return KafkaError(ErrorCode.INVALID_RECORD, f"{place} cannot be read: {why}")

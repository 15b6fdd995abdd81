"""The records of a batch by their keys, and a batch without some of its records: what compaction does, in bulk.

Half a microsecond a record: no objects are made of records, and what stays of a batch is copied in as few pieces as
there are gaps. Every record is looked at to its end, as a batch with a fault in it must be left as it is: nobody knows
what a reader would find there.

A table of keys holds a key of up to `LONGEST_KEY_BYTES` as it is, a longer one as a digest of `_DIGEST_BYTES`. So two
keys are never taken for one, and an entry has a size that is known (`ENTRY_BYTES`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, NoReturn

from protocol.errors import ErrorCode, KafkaError
from protocol.records.batch import BatchHeader
from protocol.records.compression import Steps
from protocol.records.inspection import header_parts, long_varint, skip_headers, varint, varint_at

LONGEST_KEY_BYTES = 30
_DIGEST_BYTES = 31
ENTRY_BYTES = 192
"""What an entry of a table takes at most: key 64, offset 32, and 90 of the table, which has both its sizes in memory
for a moment when it grows (CPython 3.11, measured by a test)."""

RECORDS_AT_ONCE = 500
_NO_LIMIT = 1 << 62
_NOTHING: dict[bytes, int] = {}

Table = dict[bytes, int]
"""Key -> offset of the last record that has it."""


def table_key(key: bytes) -> bytes:
    """What stands for a key in a table."""
    if len(key) <= LONGEST_KEY_BYTES:
        return key
    from hashlib import blake2b

    return blake2b(key, digest_size=_DIGEST_BYTES).digest()


class Keys(NamedTuple):
    """The keys of a batch, each with its last offset. `is_plain`: every record has a key and a value."""

    table: Table
    is_plain: bool


def key_steps(header: BatchHeader, data: bytes) -> Steps[Keys]:
    """The keys of the records `data`, which are decompressed; yields now and then.

    Raises KafkaError(INVALID_RECORD) where any of it is no record.
    """
    found: Table = {}
    is_plain = True
    base_offset, last = header.base_offset, header.last_offset_delta << 1
    position, previous, left = 0, -1, header.records_count
    try:
        while left:
            for _ in range(min(left, RECORDS_AT_ONCE)):
                length = data[position]
                at = position = position + 1
                if length > 127:  # two bytes are common, and have no call, here and below
                    high = data[position]
                    if high < 128:
                        length += (high << 7) - 128
                        at = position = position + 1
                    else:
                        length, at = long_varint(data, position, length)
                        position = at
                at += 2  # behind the attributes, unused, and the first byte of the time
                if data[at - 1] > 127:
                    at = _behind_time(data, at)
                delta = data[at]
                at += 1
                if delta > 127:
                    delta, at = long_varint(data, at, delta)
                if delta & 1 or not previous < delta <= last:
                    _refuse(f"its offset delta is {delta / 2:g} after {previous >> 1}")
                previous = delta
                size = data[at]
                at += 1
                if size > 127:
                    size, at = long_varint(data, at, size)
                if size & 1:
                    key, is_plain = None, False
                else:
                    start = at
                    at += size >> 1
                    key = data[start:at]
                size = data[at]
                at += 1
                if size > 127:
                    high = data[at]
                    if high < 128:
                        size, at = size + (high << 7) - 128, at + 1
                    else:
                        size, at = long_varint(data, at, size)
                if size & 1:
                    is_plain = False
                else:
                    at += size >> 1
                at = _behind_headers(data, at + 1) if data[at] else at + 1
                if at - position << 1 != length:
                    _refuse(f"its fields end {at - position - (length >> 1)} bytes behind it")
                position = at
                if key is not None:
                    found[key if len(key) <= 30 else table_key(key)] = base_offset + (delta >> 1)
            left -= min(left, RECORDS_AT_ONCE)
            yield
    except IndexError as error:
        raise _invalid(header, left, error) from None
    if position != len(data):
        raise _invalid(header, left, "bytes follow")
    return Keys(found, is_plain)


class Kept:
    """What stays of the records of a batch: `parts` of them, one behind the other."""

    __slots__ = ("count", "parts", "tombstones")

    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self.count = 0
        self.tombstones = 0
        """How many of those that stay have no value."""


def filter_steps(
    header: BatchHeader, data: bytes, table: Mapping[bytes, int] | None, *, keeps_tombstones: bool
) -> Steps[Kept]:
    """Leave out the records that a later one in `table` stands for, and those without a key; yields now and then.

    Without a table everything stays. Unless it `keeps_tombstones`, records without a value go too. Raises KafkaError as
    `key_steps` does. Source: Apache Kafka's `Cleaner.shouldRetainRecord`.
    """
    kept, get = Kept(), (_NOTHING if table is None else table).get
    keeps_all, drops_tombstones = table is None, not keeps_tombstones and table is not None
    base_offset, last = header.base_offset, header.last_offset_delta << 1
    position, previous, left, begun, dropped = 0, -1, header.records_count, 0, 0
    try:
        while left:
            for _ in range(min(left, RECORDS_AT_ONCE)):
                start = position
                length = data[position]
                at = position = position + 1
                if length > 127:
                    high = data[position]
                    if high < 128:
                        length += (high << 7) - 128
                        at = position = position + 1
                    else:
                        length, at = long_varint(data, position, length)
                        position = at
                at += 2
                if data[at - 1] > 127:
                    at = _behind_time(data, at)
                delta = data[at]
                at += 1
                if delta > 127:
                    delta, at = long_varint(data, at, delta)
                if delta & 1 or not previous < delta <= last:
                    _refuse(f"its offset delta is {delta / 2:g} after {previous >> 1}")
                previous = delta
                size = data[at]
                at += 1
                if size > 127:
                    size, at = long_varint(data, at, size)
                if size & 1:
                    drops = not keeps_all
                else:
                    key_at = at
                    at += size >> 1
                    key = data[key_at:at]
                    drops = get(key if size <= 60 else table_key(key), -1) > base_offset + (delta >> 1)
                size = data[at]
                at += 1
                if size & 1 or size > 127:
                    size, at, drops = _value(data, at, size, drops, drops_tombstones, kept)
                at += size >> 1
                at = _behind_headers(data, at + 1) if data[at] else at + 1
                if at - position << 1 != length:
                    _refuse(f"its fields end {at - position - (length >> 1)} bytes behind it")
                position = at
                if drops:
                    if begun != start:
                        kept.parts.append(data[begun:start])
                    begun, dropped = at, dropped + 1
            left -= min(left, RECORDS_AT_ONCE)
            yield
    except IndexError as error:
        raise _invalid(header, left, error) from None
    if position != len(data):
        raise _invalid(header, left, "bytes follow")
    if begun != position:
        kept.parts.append(data[begun:])
    kept.count = header.records_count - dropped
    return kept


def pick_steps(header: BatchHeader, data: bytes, offsets: Sequence[int]) -> Steps[Kept]:
    """Keep the records with these offsets, in order, of a batch in which `key_steps` has found no fault.

    Half of the time of `filter_steps`: nothing is looked at behind the offset of a record. Yields now and then.
    """
    kept = Kept()
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
                    length, position = long_varint(data, position, length)
            at = position + 2
            position += length >> 1
            if data[at - 1] > 127:
                at = _behind_time(data, at)
            delta = data[at]
            if delta > 127:
                delta, _ = long_varint(data, at + 1, delta)
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


def newest_time(header: BatchHeader, data: bytes, count: int) -> int:
    """The highest timestamp of so many sound records, milliseconds; that of the header if the broker set it."""
    if header.is_log_append_time or not count:
        return header.max_timestamp
    highest, previous, position, base_timestamp = None, None, 0, header.base_timestamp
    for _ in range(count):
        length = data[position]
        at = position + 1
        if length > 127:
            length, at = long_varint(data, at, length)
        time = data[at + 1]
        if time > 127:
            time, _ = long_varint(data, at + 2, time)
        if time != previous:  # still zigzag, so only good to be told from others
            previous, timestamp = time, base_timestamp + ((time >> 1) ^ -(time & 1))
            if highest is None or timestamp > highest:
                highest = timestamp
        position = at + (length >> 1)
    assert highest is not None
    return highest


def move_times_steps(data: bytes, count: int, shift_ms: int) -> Steps[bytes]:
    """The same sound records with this added to the delta of each timestamp; yields now and then."""
    parts: list[bytes] = []
    position = 0
    for number in range(1, count + 1):
        length, at = varint_at(data, position)
        end = at + (length >> 1)
        time, behind = varint_at(data, at + 1)
        lead = data[at : at + 1] + varint(((time >> 1) ^ -(time & 1)) + shift_ms)
        parts += (varint(len(lead) + end - behind), lead, data[behind:end])
        position = end
        if not number % RECORDS_AT_ONCE:
            yield
    return b"".join(parts)


def _value(data: bytes, at: int, size: int, drops: bool, drops_tombstones: bool, kept: Kept) -> tuple[int, int, bool]:
    """A value of a length that has more than one byte, or none: its zigzag length, where it begins, whether to go."""
    if size > 127:
        size, at = long_varint(data, at, size)
    if not size & 1:
        return size, at, drops
    drops = drops or drops_tombstones
    kept.tombstones += not drops
    return 0, at, drops


def _refuse(why: str) -> NoReturn:
    raise IndexError(why)


def _behind_time(data: bytes, at: int) -> int:
    """The position behind the rest of a varint."""
    return long_varint(data, at, 0)[1]


def _behind_headers(data: bytes, at: int) -> int:
    """The position behind a record's headers; `at` is that behind the first byte of their count."""
    parts, at = header_parts(data, at, data[at - 1])
    return skip_headers(data, at, parts, _NO_LIMIT)[0]


def _invalid(header: BatchHeader, left: int, why: object) -> KafkaError:
    place = f"record {header.records_count - left + 1} or later of {header.records_count}"
    return KafkaError(ErrorCode.INVALID_RECORD, f"{place} cannot be read: {why}")

"""Record batches, magic 2: header, framing, CRC, changes in place, iteration and building.

    byte   0        8        12       16      17     21           23                27
           base     batch    leader   magic   crc    attributes   last offset       base
           offset   length   epoch    (2)     (32C)               delta             timestamp
           i64      i32      i32      i8      u32    i16          i32               i64

    byte   35          43         51         53         57        61
           max         producer   producer   base       records   records ...
           timestamp   id         epoch      sequence   count
           i64         i64        i16        i32        i32

`batch length` counts the bytes from byte 12 on. The CRC covers the bytes from byte 21 on. So the broker can set base
offset and leader epoch without a new CRC. Attributes: bits 0-2 codec, 3 timestamp type, 4 transactional, 5 control,
6 delete horizon. Source: Apache Kafka, "Message format" in its documentation; KIP-98, KIP-101.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple, TypeAlias

from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.records import Buffer
from headgate.protocol.records import compression as codecs
from headgate.protocol.records.checksum import crc32c
from headgate.protocol.records.varint import encode_varint, read_varint, write_varint
from headgate.protocol.steps import Steps

HEADER_SIZE = 61
LOG_OVERHEAD = 12  # base offset and batch length, which batch_length does not count
CRC_START = 21
MAGIC = 2
NO_PRODUCER_ID = -1
NO_SEQUENCE = -1
NO_TIMESTAMP = -1
MIN_TIMESTAMP, MAX_TIMESTAMP = -(1 << 63), (1 << 63) - 1

CODEC_MASK = 0x07
LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20
DELETE_HORIZON = 0x40
MAX_SEQUENCE = 0x7FFF_FFFF
_HAS_OTHER_BASE = LOG_APPEND_TIME | DELETE_HORIZON  # the base timestamp says nothing about the maximum

HEADER = struct.Struct(">qiibIhiqqqhii")
_new_tuple = tuple.__new__  # BatchHeader._make would be one more Python call
_CRC = struct.Struct(">I")
patch_head = struct.Struct(">qii").pack_into
"""`patch_head(view, 0, base offset, batch length, leader epoch)`: `patch` for a caller with the length."""
_ATTRIBUTES = struct.Struct(">h")
_MAX_TIMESTAMP = struct.Struct(">q")
_CACHED_SIZES = 1024
_CRC_POSITION, _ATTRIBUTES_POSITION, _MAX_TIMESTAMP_POSITION = 17, 21, 35

Header: TypeAlias = tuple[str, bytes | None]


class BatchHeader(NamedTuple):
    """The fields of a batch's 61-byte header, in their order. Timestamps are in ms, -1 for none."""

    base_offset: int
    batch_length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    records_count: int

    @property
    def size(self) -> int:
        """Bytes of the whole batch."""
        return self.batch_length + LOG_OVERHEAD

    @property
    def last_offset(self) -> int:
        """The offset of the last record at the time of the produce; compaction may have removed the record."""
        return self.base_offset + self.last_offset_delta

    @property
    def compression(self) -> int:
        """The codec, an index of `compression.CODEC_NAMES`; 5 to 7 do not exist."""
        return self.attributes & CODEC_MASK

    @property
    def is_log_append_time(self) -> bool:
        """The broker set the time: `max_timestamp` is the time of all records."""
        return bool(self.attributes & LOG_APPEND_TIME)

    @property
    def may_have_later_records(self) -> bool:
        """A record may be later than `max_timestamp`: some producers write -1 there, or the base timestamp.

        Several records with the same time have such a header too: only the records themselves show the difference.
        """
        if self.attributes & _HAS_OTHER_BASE:
            return False
        latest, base = self.max_timestamp, self.base_timestamp
        return latest < base or (latest == base >= 0 and self.records_count > 1)

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        """The batch has a control record, such as a transaction marker, and no record of a client."""
        return bool(self.attributes & CONTROL)

    @property
    def delete_horizon_ms(self) -> int | None:
        """The time from which compaction may remove tombstones, or the marker (KIP-534); None before it is set.

        It replaces the base timestamp: the deltas of the records' times count from it.
        """
        return self.base_timestamp if self.attributes & DELETE_HORIZON else None


class Record(NamedTuple):
    """One record. `build` takes an offset of -1 for the one after the previous record."""

    offset: int = -1
    timestamp: int = NO_TIMESTAMP
    key: bytes | None = None
    value: bytes | None = None
    headers: Sequence[Header] = ()


def read_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """Return the header of the batch at `position`.

    Raises KafkaError(CORRUPT_MESSAGE) for too few bytes, another magic, or a length below that of a header.
    """
    try:
        header = _new_tuple(BatchHeader, HEADER.unpack_from(buffer, position))
    except struct.error:
        raise corrupt(f"{max(0, len(buffer) - position)} bytes are less than a batch header") from None
    if header.magic != MAGIC:
        raise corrupt(f"magic {header.magic} is not a record batch (magic 2)")
    if header.batch_length < HEADER_SIZE - LOG_OVERHEAD:
        raise corrupt(f"a batch length of {header.batch_length} bytes is less than the header")
    return header


def split(records: Buffer, max_batches: int | None = None) -> list[tuple[BatchHeader, memoryview]]:
    """Return the batches of `records`, each as its header and a view of its bytes.

    Raises KafkaError: CORRUPT_MESSAGE if the bytes are not whole batches of magic 2; INVALID_RECORD if a count does not
    fit the offsets, or for more than `max_batches`.
    """
    view = memoryview(records)
    end = len(view)
    if end:
        header = read_header(view)
        # The fast path for one sound batch: clients send just one since Produce 3.
        if header.batch_length + LOG_OVERHEAD == end and 0 <= header.last_offset_delta == header.records_count - 1:
            return [(header, view)]
    if max_batches is None:
        return list(_split_many(view))
    batches = list(islice(_split_many(view), max_batches + 1))
    if len(batches) > max_batches:
        raise invalid(f"a request may have {max_batches} batches for a partition, not more")
    return batches


def _split_many(view: memoryview) -> Iterator[tuple[BatchHeader, memoryview]]:
    position, end = 0, len(view)
    while position < end:
        header = read_header(view, position)
        if header.size > end - position:
            raise corrupt(f"a batch of {header.size} bytes is cut after {end - position}")
        if header.records_count != header.last_offset_delta + 1 or header.records_count <= 0:
            raise invalid(
                f"{header.records_count} records do not fit a last offset delta of {header.last_offset_delta}"
            )
        yield header, view[position : position + header.size]
        position += header.size


def check_crc(view: Buffer) -> bool:
    """Return True if the CRC32C of a batch is right. `view`: exactly one batch."""
    crc: int = _CRC.unpack_from(view, _CRC_POSITION)[0]
    return crc == crc32c(memoryview(view)[CRC_START:])


def patch(view: memoryview | bytearray, base_offset: int, leader_epoch: int) -> None:
    """Set base offset and leader epoch of exactly one batch, in place. The CRC does not cover them."""
    patch_head(view, 0, base_offset, len(view) - LOG_OVERHEAD, leader_epoch)


def set_log_append_time(view: memoryview | bytearray, log_append_time_ms: int) -> None:
    """Set exactly one batch to LogAppendTime, in place: this time, in ms, is then that of all records."""
    (attributes,) = _ATTRIBUTES.unpack_from(view, _ATTRIBUTES_POSITION)
    _ATTRIBUTES.pack_into(view, _ATTRIBUTES_POSITION, attributes | LOG_APPEND_TIME)
    _MAX_TIMESTAMP.pack_into(view, _MAX_TIMESTAMP_POSITION, log_append_time_ms)
    set_crc(view)


def set_max_timestamp(view: memoryview | bytearray, max_timestamp: int) -> None:
    """Set the maximum timestamp of exactly one batch, in ms, in place."""
    _MAX_TIMESTAMP.pack_into(view, _MAX_TIMESTAMP_POSITION, max_timestamp)
    set_crc(view)


def clear_log_append_time(view: memoryview | bytearray) -> None:
    """Set exactly one batch to CreateTime, in place: its records then have their own times."""
    (attributes,) = _ATTRIBUTES.unpack_from(view, _ATTRIBUTES_POSITION)
    _ATTRIBUTES.pack_into(view, _ATTRIBUTES_POSITION, attributes & ~LOG_APPEND_TIME)
    set_crc(view)


def recompress_steps(view: Buffer, codec: int, level: int | None = None) -> Steps[bytearray]:
    """Return a copy of exactly one batch in another codec. The records are not checked.

    Yields before each call of a codec. Raises KafkaError: CORRUPT_MESSAGE if the codec cannot decompress the records,
    MESSAGE_TOO_LARGE if they become too large, UNSUPPORTED_COMPRESSION_TYPE for an unknown codec.
    """
    header = read_header(view)
    if header.compression != codecs.NONE:
        yield
    plain = codecs.decompress(header.compression, memoryview(view)[HEADER_SIZE : header.size])
    return (yield from with_codec_steps(view, plain, codec, level))


def with_codec_steps(view: Buffer, plain: Buffer, codec: int, level: int | None = None) -> Steps[bytearray]:
    """Compress `plain`, the decompressed records of exactly one batch, into a copy of the batch, in steps."""
    header = read_header(view)
    attributes = header.attributes & ~CODEC_MASK | codec
    body: Buffer = plain if codec == codecs.NONE else (yield from codecs.compress_steps(codec, plain, level))
    return _assemble(header._replace(attributes=attributes, batch_length=_batch_length(body)), body)


def iterate(
    view: Buffer, limit_bytes: int = codecs.MAX_OUTPUT_BYTES, *, name_errors: str = "strict"
) -> Iterator[Record]:
    """Iterate over the records of exactly one batch, decompressed, with their offsets and timestamps in ms.

    Keys, values and headers are copies. `limit_bytes`: of the decompressed records. `name_errors`: the treatment of a
    header's name that is not UTF-8, as for `bytes.decode`. Raises KafkaError: CORRUPT_MESSAGE, MESSAGE_TOO_LARGE or
    UNSUPPORTED_COMPRESSION_TYPE for the batch, INVALID_RECORD for a record.
    """
    header = read_header(view)
    body = memoryview(view)[HEADER_SIZE : header.size]
    data = bytes(codecs.decompress(header.compression, body, limit_bytes))
    number = 0
    append_time = header.max_timestamp if header.is_log_append_time else None
    base_offset, base_timestamp, last_delta = header.base_offset, header.base_timestamp, header.last_offset_delta
    position = 0
    try:
        for number in range(1, header.records_count + 1):
            timestamp_delta, offset_delta, key, value, headers, position = _read_record(data, position, name_errors)
            timestamp = base_timestamp + timestamp_delta if append_time is None else append_time
            _check_timestamp(timestamp)
            if not 0 <= offset_delta <= last_delta:
                raise invalid(f"record {number} has offset delta {offset_delta}; the last of the batch is {last_delta}")
            yield Record(base_offset + offset_delta, timestamp, key, value, headers)
    except (IndexError, UnicodeDecodeError) as error:
        raise invalid(f"record {number} of {header.records_count} cannot be read: {error}") from None
    if position != len(data):
        raise invalid(f"{len(data) - position} bytes follow the last of {header.records_count} records")


def build(
    records: Iterable[Record],
    *,
    base_offset: int = 0,
    compression: int = codecs.NONE,
    level: int | None = None,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = -1,
    base_sequence: int = NO_SEQUENCE,
    log_append_time_ms: int = NO_TIMESTAMP,
    is_transactional: bool = False,
    is_control: bool = False,
    leader_epoch: int = -1,
) -> bytearray:
    """Build a batch of these records. A `log_append_time_ms` >= 0 makes a batch of LogAppendTime."""
    body = bytearray()
    base_timestamp = max_timestamp = NO_TIMESTAMP
    count, delta = 0, -1
    for offset, timestamp, key, value, headers in records:
        delta = delta + 1 if offset < 0 else offset - base_offset
        if not count:
            base_timestamp = timestamp
        max_timestamp = max(max_timestamp, timestamp)
        _write_record(body, timestamp - base_timestamp, delta, key, value, headers)
        count += 1
    attributes = compression | is_transactional * TRANSACTIONAL | is_control * CONTROL
    if log_append_time_ms >= 0:
        attributes, max_timestamp = attributes | LOG_APPEND_TIME, log_append_time_ms
    content = codecs.compress(compression, body, level) if compression else body
    # fmt: off
    header = (
        base_offset, _batch_length(content), leader_epoch, MAGIC, 0, attributes, delta, base_timestamp, max_timestamp,
        producer_id, producer_epoch, base_sequence, count,
    )
    # fmt: on
    return _assemble(header, content)


def build_one(
    timestamp: int,
    key: bytes,
    value: bytes | None,
    *,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = -1,
    is_transactional: bool = False,
) -> bytearray:
    """`build` for one record without headers, not compressed: most batches of coordinators are such."""
    record = bytearray(3)  # attributes, unused; timestamp and offset, each the first of the batch
    _write_bytes(record, key)
    _write_bytes(record, value)
    record.append(0)
    made = bytearray(HEADER_SIZE)
    made += _encode_size(len(record))
    made += record
    # fmt: off
    HEADER.pack_into(
        made, 0, 0, len(made) - LOG_OVERHEAD, -1, MAGIC, 0, is_transactional * TRANSACTIONAL, 0, timestamp, timestamp,
        producer_id, producer_epoch, NO_SEQUENCE, 1,
    )
    # fmt: on
    set_crc(made)
    return made


def assemble(
    base_offset: int,
    attributes: int,
    last_offset_delta: int,
    base_timestamp: int,
    max_timestamp: int,
    records_count: int,
    body: Buffer,
) -> bytearray:
    """Return a batch without a producer. `body`: the encoded records, in the codec of the attributes."""
    made = bytearray(HEADER_SIZE)
    made += body
    fill_header(made, base_offset, attributes, last_offset_delta, base_timestamp, max_timestamp, records_count)
    return made


def fill_header(
    made: bytearray,
    base_offset: int,
    attributes: int,
    last_offset_delta: int,
    base_timestamp: int,
    max_timestamp: int,
    records_count: int,
) -> None:
    """Write the header of `assemble` in place. `made`: room for the header, then the encoded records."""
    # fmt: off
    HEADER.pack_into(
        made, 0, base_offset, len(made) - LOG_OVERHEAD, -1, MAGIC, 0, attributes, last_offset_delta, base_timestamp,
        max_timestamp, NO_PRODUCER_ID, -1, NO_SEQUENCE, records_count,
    )
    # fmt: on
    set_crc(made)


def with_records(header: BatchHeader, body: Buffer) -> bytearray:
    """Return the batch of `header` with other encoded records, a new length and a new CRC."""
    return _assemble(header._replace(batch_length=_batch_length(body)), body)


def _check_timestamp(timestamp: int) -> None:
    """Raise KafkaError for a timestamp outside of int64. Base and delta are 64-bit numbers, so their sum may be."""
    if not MIN_TIMESTAMP <= timestamp <= MAX_TIMESTAMP:
        raise invalid(f"a record has the timestamp {timestamp}")


def corrupt(message: str) -> KafkaError:
    """Return the error for bytes that are no batch or message, or fail their CRC."""
    return KafkaError(ErrorCode.CORRUPT_MESSAGE, message)


def invalid(message: str) -> KafkaError:
    """Return the error for a batch, a set or a record that contradicts itself."""
    return KafkaError(ErrorCode.INVALID_RECORD, message)


def _batch_length(body: Buffer) -> int:
    return HEADER_SIZE - LOG_OVERHEAD + len(body)


def _assemble(header: tuple[int, ...], body: Buffer) -> bytearray:
    """Return the batch of these header fields and encoded records, with its CRC."""
    batch = bytearray(HEADER.pack(*header))
    batch += body
    set_crc(batch)
    return batch


def set_crc(batch: memoryview | bytearray) -> None:
    """Set the CRC of exactly one batch, in place."""
    _CRC.pack_into(batch, _CRC_POSITION, crc32c(memoryview(batch)[CRC_START:]))


def _read_bytes(data: bytes, position: int) -> tuple[bytes | None, int]:
    length, position = read_varint(data, position)
    if length < 0:
        return None, position
    end = position + length
    if end > len(data):
        raise IndexError(f"{length} bytes pass the end of the batch")
    return data[position:end], end


def _read_record(
    data: bytes, position: int, name_errors: str
) -> tuple[int, int, bytes | None, bytes | None, list[Header], int]:
    """Return timestamp delta, offset delta, key, value and headers of one record, and the position after it.

    The load of a log reads millions of records. So a key or a value with a length of one byte is read without a call.
    The check of the record's end finds a slice that was cut. Raises IndexError and UnicodeDecodeError.
    """
    length, position = read_varint(data, position)
    end = position + length
    timestamp_delta, position = read_varint(data, position + 1)  # after the attributes, an unused byte
    offset_delta, position = read_varint(data, position)
    key: bytes | None
    value: bytes | None
    size = data[position]
    if size & 0x81:
        key, position = _read_bytes(data, position)
    else:
        start = position + 1
        position = start + (size >> 1)
        key = data[start:position]
    size = data[position]
    if size & 0x81:
        value, position = _read_bytes(data, position)
    else:
        start = position + 1
        position = start + (size >> 1)
        value = data[start:position]
    headers: list[Header] = []
    if data[position]:
        headers, position = _read_headers(data, position, name_errors)
    else:
        position += 1
    if position != end or end > len(data):
        raise IndexError(f"its length is {length}, but its fields end {position - end} bytes after that")
    return timestamp_delta, offset_delta, key, value, headers, position


def _read_headers(data: bytes, position: int, name_errors: str) -> tuple[list[Header], int]:
    count, position = read_varint(data, position)
    if not 0 < count <= len(data) - position:
        raise IndexError(f"a count of {count} headers")
    headers: list[Header] = []
    for _ in range(count):
        name, position = _read_bytes(data, position)
        if name is None:
            raise IndexError("a header without a name")
        content, position = _read_bytes(data, position)
        headers.append((name.decode(errors=name_errors), content))
    return headers, position


_encode_size = functools.lru_cache(_CACHED_SIZES)(encode_varint)


def _write_bytes(out: bytearray, data: bytes | None) -> None:
    if data is None:
        out.append(1)  # -1 as a zigzag varint
        return
    out += _encode_size(len(data))
    out += data


def _write_record(
    out: bytearray,
    timestamp_delta: int,
    offset_delta: int,
    key: bytes | None,
    value: bytes | None,
    headers: Sequence[Header],
) -> None:
    if timestamp_delta or offset_delta:
        record = bytearray(1)  # attributes, unused
        write_varint(record, timestamp_delta)
        write_varint(record, offset_delta)
    else:
        record = bytearray(3)  # both are one zero byte
    _write_bytes(record, key)
    _write_bytes(record, value)
    if headers:
        write_varint(record, len(headers))
        for name, content in headers:
            _write_bytes(record, name.encode())
            _write_bytes(record, content)
    else:
        record.append(0)
    out += _encode_size(len(record))
    out += record

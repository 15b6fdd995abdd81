"""What a leader checks of a client's batch before it appends it, and what a topic's configuration changes in it.

By default that is the header alone: CRC, count and offset deltas, sequence, time range, no control batch. Records are
decoded only with validate="full", on a compacted topic (every record needs a key), or when batches are recompressed.
Source: Apache Kafka's `LogValidator`.
"""

from __future__ import annotations

from crc32c import crc32c

from protocol.errors import ErrorCode, KafkaError
from protocol.records import batch, compression
from protocol.records.batch import (
    CRC_START,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
    BatchHeader,
)
from storage.config import LOG_APPEND_TIME, PRODUCER, LogConfig

HEADER = "header"
FULL = "full"
PREPARED = "prepared"  # batches that `prepare` has made as the topic stores them
OWN = "own"  # batches that the broker made itself: their header is looked at, whatever the topic asks for
HIGHEST_CODEC = 4
_unpack_header = batch.HEADER.unpack_from
_new_tuple = tuple.__new__  # a NamedTuple without its constructor in Python


def plain_batch(view: memoryview, config: LogConfig, now_ms: int) -> BatchHeader | None:
    """The header, if this is one batch in which `split` and `check_header` would find no fault; else None.

    Nearly every append is one, so that all is looked at here in one go; who wants to know the fault asks those two.
    """
    size = len(view)
    if size < HEADER_SIZE:
        return None
    header = _unpack_header(view)
    base_offset, length, _, magic, crc, attributes, delta, _, timestamp, producer_id, _, sequence, count = header
    if (
        magic == MAGIC
        and length + LOG_OVERHEAD == size <= config.max_message_bytes
        and not base_offset
        and 0 <= delta == count - 1
        and 0 <= attributes <= HIGHEST_CODEC
        and (producer_id == NO_PRODUCER_ID or sequence >= 0)
        and -config.message_timestamp_before_max_ms <= timestamp - now_ms <= config.message_timestamp_after_max_ms
        and crc32c(view[CRC_START:]) == crc
    ):
        return _new_tuple(BatchHeader, header)
    return None


def check_header(header: BatchHeader, view: memoryview, config: LogConfig, now_ms: int) -> None:
    """Check all that the header tells.

    Raises KafkaError: MESSAGE_TOO_LARGE, CORRUPT_MESSAGE, INVALID_RECORD, INVALID_TIMESTAMP, INVALID_TXN_STATE,
    UNSUPPORTED_COMPRESSION_TYPE.
    """
    if len(view) > config.max_message_bytes:
        limit = f"max.message.bytes={config.max_message_bytes}"
        raise KafkaError(ErrorCode.MESSAGE_TOO_LARGE, f"a batch of {len(view)} bytes exceeds {limit}")
    if crc32c(view[CRC_START:]) != header.crc:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, "the CRC of the batch is wrong")
    timestamp = header.max_timestamp
    if (
        timestamp - now_ms > config.message_timestamp_after_max_ms
        or now_ms - timestamp > config.message_timestamp_before_max_ms
    ):
        _check_time(timestamp, config, now_ms)
    if not 0 <= header.attributes <= HIGHEST_CODEC:
        _check_attributes(header, config)
    if header.base_offset:
        raise KafkaError(
            ErrorCode.INVALID_RECORD, f"the base offset of a produced batch is 0, not {header.base_offset}"
        )
    if header.base_sequence < 0 and header.producer_id != NO_PRODUCER_ID:
        raise KafkaError(
            ErrorCode.INVALID_RECORD, f"producer {header.producer_id} sent sequence {header.base_sequence}"
        )


def prepare(view: memoryview, config: LogConfig, now_ms: int, validate: str) -> memoryview:
    """The batches of a client as a topic of this configuration stores them: the same bytes, or new ones.

    Raises KafkaError: what `batch.split`, `check_header` and `adapt` refuse.
    """
    batches = batch.split(view)
    for header, part in batches:
        check_header(header, part, config, now_ms)
    if config.keeps_batches and validate != FULL:
        return view
    adapted = [adapt(header, part, config, now_ms, validate) for header, part in batches]
    return adapted[0] if len(adapted) == 1 else memoryview(bytearray().join(adapted))


def stored(view: memoryview, config: LogConfig, now_ms: int) -> list[tuple[BatchHeader, memoryview]]:
    """Batches that `prepare` has made, with the time at which they are appended, where the topic stores that."""
    if config.message_timestamp_type == LOG_APPEND_TIME:
        for _, part in batch.split(view):
            batch.patch_timestamps(part, now_ms)
    return batch.split(view)


def adapt(header: BatchHeader, view: memoryview, config: LogConfig, now_ms: int, validate: str) -> memoryview:
    """The batch as this topic stores it, but for the time of its append: the same view, or a new one.

    Raises KafkaError: INVALID_RECORD, INVALID_TIMESTAMP, CORRUPT_MESSAGE for what is wrong with its records.
    """
    if validate == FULL or config.is_compacted:
        _check_records(header, view, config, now_ms)
    if config.compression_type != PRODUCER:
        codec = compression.type_names.index(
            "none" if config.compression_type == "uncompressed" else config.compression_type
        )
        if codec != header.compression:
            level = config.compression_level(compression.type_names[codec])
            view = memoryview(batch.recompress(view, codec, level))
    return view


def _check_time(timestamp: int, config: LogConfig, now_ms: int) -> None:
    if timestamp == NO_TIMESTAMP or config.message_timestamp_type == LOG_APPEND_TIME:
        return
    before, after = config.message_timestamp_before_max_ms, config.message_timestamp_after_max_ms
    if not -before <= timestamp - now_ms <= after:
        raise KafkaError(
            ErrorCode.INVALID_TIMESTAMP,
            f"timestamp {timestamp} is out of range: it may be {before} ms before and {after} ms after {now_ms}",
        )


def _check_attributes(header: BatchHeader, config: LogConfig) -> None:
    if header.is_control:
        raise KafkaError(ErrorCode.INVALID_RECORD, "clients are not allowed to write control batches")
    if header.is_transactional:
        raise KafkaError(ErrorCode.INVALID_TXN_STATE, "this broker does not serve transactions yet")
    if header.compression > HIGHEST_CODEC:
        raise KafkaError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"there is no compression codec {header.compression}")
    if header.is_log_append_time and config.message_timestamp_type != LOG_APPEND_TIME:
        raise KafkaError(
            ErrorCode.INVALID_TIMESTAMP, "a producer cannot send a batch with timestamp type LogAppendTime"
        )


def _check_records(header: BatchHeader, view: memoryview, config: LogConfig, now_ms: int) -> None:
    for number, record in enumerate(batch.iterate(view)):
        if record.offset != header.base_offset + number:
            raise KafkaError(
                ErrorCode.INVALID_RECORD, f"record {number} has offset delta {record.offset - header.base_offset}"
            )
        if record.key is None and config.is_compacted:
            raise KafkaError(
                ErrorCode.INVALID_RECORD, f"record {number} has no key; every record of a compacted topic needs one"
            )
        _check_time(record.timestamp, config, now_ms)

"""A leader's checks of batches before the append, and the changes that a topic's configuration demands.

The checks depend on the origin of a batch, and for a client's batch on the depth. The default checks only the header:
CRC, count and offset deltas, sequence, time range, no control batch, and the first bytes of compressed records. Records
are read with `headgate.validate.records=full`, on a compacted topic, where each needs a key, for another codec, and
where the maximum timestamp of the header cannot be right, or is out of range: then the records decide, and the header
gets their maximum. Apache Kafka always reads them. Source: Apache Kafka's `LogValidator`.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import NamedTuple

from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.records import Buffer, batch, compression
from headgate.protocol.records.batch import (
    CODEC_MASK,
    CRC_START,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    MAX_TIMESTAMP,
    MIN_TIMESTAMP,
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
    TRANSACTIONAL,
    BatchHeader,
)
from headgate.protocol.records.checksum import crc32c
from headgate.protocol.records.control import TRANSACTION_BITS, Marker
from headgate.protocol.records.frame_headers import fault as frame_fault
from headgate.protocol.steps import Steps, finish
from headgate.storage.config import LOG_APPEND_TIME, LONG_MAX, LogConfig


class BatchOrigin(Enum):
    """The maker of a batch."""

    CLIENT = auto()
    CONVERTED = auto()
    """The broker, from a client's message set or batch: `prepare_steps` has brought the batch into the topic's form."""
    BROKER = auto()
    """The broker itself: a coordinator's records and markers. Their batches of transactions are stored unchanged."""


class Depth(Enum):
    """The checked part of a client's batch: the values of `headgate.validate.records`."""

    HEADER = "header"
    RECORDS = "full"


CLIENT, CONVERTED, BROKER = BatchOrigin.CLIENT, BatchOrigin.CONVERTED, BatchOrigin.BROKER
HEADER, RECORDS = Depth.HEADER, Depth.RECORDS


class BatchFacts(NamedTuple):
    """The content of a batch that the broker has just made: then the log need not read the batch.

    marker      of a control batch
    is_raised   the coordinator raised the epoch for the marker, as it does in protocol 2 with each transaction: the
                epoch of the marker is above the epoch of the batches (KIP-890, KIP-1228)
    """

    marker: Marker | None = None
    is_raised: bool = False


HIGHEST_CODEC = 4
_TRANSACTIONAL_ATTRIBUTES = range(TRANSACTIONAL, TRANSACTIONAL + HIGHEST_CODEC + 1)
_BROKER_ATTRIBUTES = TRANSACTION_BITS | CODEC_MASK
_MAGIC_POSITION = 16
_LOW_ATTRIBUTES = CRC_START + 1
_SLICE_BYTES = 16 * 1024
_unpack_header = batch.HEADER.unpack_from
_new_tuple = tuple.__new__  # a NamedTuple without its constructor in Python


def sound_batch(view: memoryview, config: LogConfig, now_ms: int) -> BatchHeader | None:
    """The header, if this is one batch without a fault for `split` and `check_header`; else None.

    Nearly every append is one: so one expression checks everything; `split` and `check_header` name the fault.
    """
    size = len(view)
    if size < HEADER_SIZE:
        return None
    header = _unpack_header(view)
    base_offset, length, _, magic, crc, attributes, delta, base_time, timestamp, producer_id, _, sequence, count = (
        header
    )
    if (
        magic == MAGIC
        and length + LOG_OVERHEAD == size <= config.max_message_bytes
        and not base_offset
        and 0 <= delta == count - 1
        and (
            not attributes
            or (0 < attributes <= HIGHEST_CODEC and frame_fault(attributes, view, HEADER_SIZE) is None)
            or (
                attributes in _TRANSACTIONAL_ATTRIBUTES
                and producer_id >= 0
                and (attributes == TRANSACTIONAL or frame_fault(attributes & CODEC_MASK, view, HEADER_SIZE) is None)
            )
        )
        and (producer_id == NO_PRODUCER_ID or sequence >= 0)
        and base_time <= timestamp
        and -config.message_timestamp_before_max_ms <= timestamp - now_ms <= config.message_timestamp_after_max_ms
        and crc32c(view[CRC_START:]) == crc
    ):
        return _new_tuple(BatchHeader, header)
    return None


def broker_batch(view: memoryview, config: LogConfig, now_ms: int) -> BatchHeader | None:
    """`sound_batch` for a batch of the broker itself."""
    if len(view) >= HEADER_SIZE and view[_LOW_ATTRIBUTES] & TRANSACTION_BITS:
        return transaction_batch(view, config)
    return sound_batch(view, config, now_ms)


def fresh_batch(view: memoryview, config: LogConfig) -> BatchHeader | None:
    """The header of one batch that the broker has just made, if it is stored unchanged; else None."""
    header = _unpack_header(view)
    if header[1] + LOG_OVERHEAD != len(view) or config.message_timestamp_type == LOG_APPEND_TIME:
        return None
    return _new_tuple(BatchHeader, header) if len(view) <= config.max_message_bytes else None


def transaction_batch(view: memoryview, config: LogConfig) -> BatchHeader | None:
    """The header, if this is one batch of a transaction as a coordinator makes it; else None, as in `sound_batch`."""
    size = len(view)
    if size < HEADER_SIZE or config.message_timestamp_type == LOG_APPEND_TIME:
        return None
    header = _unpack_header(view)
    base_offset, length, _, magic, crc, attributes, delta, _, _, producer_id, _, _, count = header
    if (
        magic == MAGIC
        and length + LOG_OVERHEAD == size
        and not base_offset
        and 0 <= delta == count - 1
        and attributes & TRANSACTION_BITS
        and not attributes & ~_BROKER_ATTRIBUTES
        and attributes & CODEC_MASK <= HIGHEST_CODEC
        and producer_id >= 0
        and crc32c(view[CRC_START:]) == crc
    ):
        return _new_tuple(BatchHeader, header)
    return None


def check_header(header: BatchHeader, view: memoryview, config: LogConfig, now_ms: int) -> None:
    """Check everything that the header has, but the times of records: see `_is_doubtful`.

    Raises KafkaError: MESSAGE_TOO_LARGE, CORRUPT_MESSAGE, INVALID_RECORD, INVALID_TIMESTAMP,
    UNSUPPORTED_COMPRESSION_TYPE.
    """
    _check_size(len(view), config)
    if crc32c(view[CRC_START:]) != header.crc:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, "the CRC of the batch is wrong")
    if header.attributes:
        _check_attributes(header, config, now_ms)
        if fault := frame_fault(header.compression, view, HEADER_SIZE):
            raise KafkaError(ErrorCode.INVALID_RECORD, f"Kafka's Java clients could not read the records: {fault}")
    if header.base_offset:
        raise KafkaError(
            ErrorCode.INVALID_RECORD, f"the base offset of a produced batch is 0, not {header.base_offset}"
        )
    if header.base_sequence < 0 and header.producer_id != NO_PRODUCER_ID:
        raise KafkaError(
            ErrorCode.INVALID_RECORD, f"producer {header.producer_id} sent sequence {header.base_sequence}"
        )


def prepare(
    view: memoryview, config: LogConfig, now_ms: int, depth: Depth = HEADER, origin: BatchOrigin = CLIENT
) -> memoryview:
    """A client's batch in the form for a topic of this configuration: the same bytes, or new ones.

    Raises KafkaError: the errors of `batch.split` and `check_header`; INVALID_RECORD and INVALID_TIMESTAMP for records,
    with `record_errors`; CORRUPT_MESSAGE and MESSAGE_TOO_LARGE for failed decompressions. INVALID_TIMESTAMP without
    `record_errors`: the header has a time by which the records must be read, which may take long; `prepare_steps` does.
    """
    return finish(prepare_steps(view, config, now_ms, depth, origin, reads_for_times=False))


def stored(view: memoryview, config: LogConfig, now_ms: int) -> list[tuple[BatchHeader, memoryview]]:
    """Prepared batches, with their append time if the topic stores it."""
    if config.message_timestamp_type == LOG_APPEND_TIME:
        for _, part in batch.split(view):
            batch.set_log_append_time(part, now_ms)
    return batch.split(view)


def prepare_steps(
    view: memoryview,
    config: LogConfig,
    now_ms: int,
    depth: Depth,
    origin: BatchOrigin = CLIENT,
    *,
    reads_for_times: bool = True,
) -> Steps[memoryview]:
    """`prepare` in slices: yields before each call of a codec, and after some hundred microseconds of other work.

    A client sends one batch, as in Kafka: the append of each takes the loop some microseconds. `reads_for_times`: a
    header with a doubtful time has the records read; otherwise the batch is refused.
    """
    if len(view) > _MAGIC_POSITION and view[_MAGIC_POSITION] < MAGIC:
        message = f"a message of magic {view[_MAGIC_POSITION]} in place of batches: that is for Produce 0 to 2"
        raise KafkaError(ErrorCode.INVALID_RECORD, message)
    batches = batch.split(view, 1 if origin is CLIENT else None)
    if origin is BROKER and all(header.attributes & TRANSACTION_BITS for header, _ in batches):
        for header, part in batches:
            _check_transaction_batch(header, part)
        return view
    # The conversion of a set has read all times, but a batch tells only the latest one.
    needs_earliest = origin is CONVERTED and config.message_timestamp_before_max_ms != LONG_MAX
    reads_records = (depth is RECORDS and origin is not BROKER) or config.is_compacted or needs_earliest
    made: list[Buffer] = []
    for header, part in batches:
        check_header(header, part, config, now_ms)
        is_doubtful = _is_doubtful(header, config, now_ms)
        if is_doubtful and not reads_for_times:
            times = f"times from {header.base_timestamp} to {header.max_timestamp}"
            raise KafkaError(ErrorCode.INVALID_TIMESTAMP, f"the batch has {times}; at {now_ms} its records decide")
        made.append((yield from _form_steps(header, part, config, now_ms, reads_records or is_doubtful)))
    if all(form is part for form, (_, part) in zip(made, batches, strict=True)):
        return view
    return memoryview(bytearray().join(made))


def _form_steps(
    header: BatchHeader, view: memoryview, config: LogConfig, now_ms: int, reads_records: bool
) -> Steps[Buffer]:
    """A checked batch in the form for its topic: `view` itself, changed in place, or a batch in the topic's codec.

    Raises KafkaError.
    """
    codec = config.compression_codec
    if codec is None:
        codec = header.compression
    if not reads_records and codec == header.compression:
        if header.is_log_append_time:
            batch.clear_log_append_time(view)
        return view
    records = yield from _inspect(header, view, config, now_ms)
    if header.is_log_append_time:
        batch.clear_log_append_time(view)
    if records.max_timestamp != header.max_timestamp:
        batch.set_max_timestamp(view, records.max_timestamp)
    if codec == header.compression:
        return view
    level = config.compression_level(compression.CODEC_NAMES[codec])
    made = yield from batch.with_codec_steps(view, records.data, codec, level)
    _check_size(len(made), config)
    return made


def _check_transaction_batch(header: BatchHeader, view: memoryview) -> None:
    """Check a coordinator's transactional batch. It is stored unchanged."""
    if not batch.check_crc(view):
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, "the CRC of the batch is wrong")
    is_unknown = header.attributes & ~_BROKER_ATTRIBUTES or header.compression > HIGHEST_CODEC
    if header.producer_id < 0 or header.base_offset or is_unknown:
        raise KafkaError(ErrorCode.INVALID_RECORD, "the batch of a transaction needs a producer and offsets from 0 on")


class InspectedRecords(NamedTuple):
    """The sound records of a batch, decompressed, and their highest timestamp."""

    data: Buffer
    max_timestamp: int


def _inspect(header: BatchHeader, view: memoryview, config: LogConfig, now_ms: int) -> Steps[InspectedRecords]:
    """Check every record of a batch. Raises KafkaError with `record_errors`."""
    from headgate.protocol.records import lz4  # most brokers never need these
    from headgate.protocol.records.record_validation import RecordValidator

    content = view[HEADER_SIZE:]
    if header.compression != compression.NONE:
        yield
        if header.compression == compression.LZ4 and (fault := (yield from lz4.java_incompatibility_steps(content))):
            raise KafkaError(ErrorCode.INVALID_RECORD, f"Kafka's Java clients could not read this lz4 frame: {fault}")
    data = compression.decompress_records(header.compression, content)
    earliest, latest = MIN_TIMESTAMP, MAX_TIMESTAMP
    if config.message_timestamp_type != LOG_APPEND_TIME and not header.is_log_append_time:
        earliest = now_ms - config.message_timestamp_before_max_ms
        latest = now_ms + config.message_timestamp_after_max_ms
    validator = RecordValidator(header, data, needs_keys=config.is_compacted, earliest=earliest, latest=latest)
    while validator.left:
        validator.validate_next(_SLICE_BYTES)
        if validator.left:
            yield
    if validator.errors:
        raise _refusal(validator.errors)
    return InspectedRecords(data, header.max_timestamp if header.is_log_append_time else validator.max_timestamp)


def _refusal(errors: list[tuple[int, ErrorCode, str]]) -> KafkaError:
    """One error for the batch, as in Kafka: a wrong time outweighs all other faults."""
    codes = {code for _, code, _ in errors}
    code = ErrorCode.INVALID_TIMESTAMP if ErrorCode.INVALID_TIMESTAMP in codes else ErrorCode.INVALID_RECORD
    first = "; ".join([f"record {number}: {sentence}" for number, _, sentence in errors[:3]])
    some = f"{len(errors)} records are" if len(errors) > 1 else "one record is"
    return KafkaError(code, f"{some} refused: {first}", [(number, sentence) for number, _, sentence in errors])


def _check_size(size: int, config: LogConfig) -> None:
    if size > config.max_message_bytes:
        limit = f"max.message.bytes={config.max_message_bytes}"
        raise KafkaError(ErrorCode.MESSAGE_TOO_LARGE, f"a batch of {size} bytes exceeds {limit}")


def _is_doubtful(header: BatchHeader, config: LogConfig, now_ms: int) -> bool:
    """Whether the records have to tell their times: the maximum of the header cannot be right, or is out of range.

    With LogAppendTime in place of CreateTime the maximum is the time of all records, as in Kafka.
    """
    if config.message_timestamp_type == LOG_APPEND_TIME or header.is_log_append_time:
        return False
    return header.max_timestamp < header.base_timestamp or not _is_in_time(header.max_timestamp, config, now_ms)


def _is_in_time(timestamp: int, config: LogConfig, now_ms: int) -> bool:
    before, after = config.message_timestamp_before_max_ms, config.message_timestamp_after_max_ms
    return timestamp == NO_TIMESTAMP or -before <= timestamp - now_ms <= after


def _check_attributes(header: BatchHeader, config: LogConfig, now_ms: int) -> None:
    if header.is_control:
        raise KafkaError(ErrorCode.INVALID_RECORD, "clients are not allowed to write control batches")
    if header.is_transactional and header.producer_id < 0:
        raise KafkaError(ErrorCode.INVALID_RECORD, "the batch of a transaction has no producer id")
    if header.compression > HIGHEST_CODEC:
        raise KafkaError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"there is no compression codec {header.compression}")
    if header.is_log_append_time:
        if config.message_timestamp_type == LOG_APPEND_TIME:
            raise _refuse_times(header, "a producer cannot send timestamp type LogAppendTime")
        if not _is_in_time(header.max_timestamp, config, now_ms):  # Kafka treats the batch as CreateTime
            raise _refuse_times(header, f"timestamp {header.max_timestamp} is out of range at {now_ms}")


def _refuse_times(header: BatchHeader, message: str) -> KafkaError:
    """The refusal of all records of a batch."""
    from headgate.protocol.records.record_validation import MAX_ERRORS

    count = min(header.records_count, MAX_ERRORS)
    return KafkaError(ErrorCode.INVALID_TIMESTAMP, message, [(number, message) for number in range(count)])

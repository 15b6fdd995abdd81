"""A leader's checks of a client's batch before the append, and the changes that a topic's configuration demands.

The default checks only the header: CRC, count and offset deltas, sequence, time range, no control batch. Records are
checked with validate="full", and on a compacted topic, where each needs a key. Apache Kafka always does both. Source:
Apache Kafka's `LogValidator`.
"""

from __future__ import annotations

from collections.abc import Sequence

from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.records import batch, compression
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
from headgate.protocol.records.control import TRANSACTION_BITS
from headgate.protocol.steps import Steps, finish
from headgate.storage.config import LOG_APPEND_TIME, LogConfig

HEADER = "header"
FULL = "full"
# Batches made by the broker itself: only their header is checked, whatever the topic demands. A coordinator's
# transactional batches and markers have no sequence, and are stored unchanged.
OWN = "own"
# A marker of the transaction protocol 2, which raises the epoch with each transaction: the marker's epoch is above that
# of the batches (KIP-890, KIP-1228).
OWN_RAISED = "own, of a raised epoch"
OWN_BATCHES = (OWN, OWN_RAISED)
PREPARED = "prepared"  # batches that `prepare` has brought into the topic's form
HIGHEST_CODEC = 4
_TRANSACTIONAL_ATTRIBUTES = range(TRANSACTIONAL, TRANSACTIONAL + HIGHEST_CODEC + 1)
_OWN_ATTRIBUTES = TRANSACTION_BITS | CODEC_MASK
_MAGIC_POSITION = 16
_LOW_ATTRIBUTES = CRC_START + 1
_SLICE_BYTES = 16 * 1024
_unpack_header = batch.HEADER.unpack_from
_new_tuple = tuple.__new__  # a NamedTuple without its constructor in Python


def plain_batch(view: memoryview, config: LogConfig, now_ms: int) -> BatchHeader | None:
    """The header, if this is one batch without a fault for `split` and `check_header`; else None.

    Nearly every append is one: so one expression checks everything; `split` and `check_header` name the fault.
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
        and (0 <= attributes <= HIGHEST_CODEC or (attributes in _TRANSACTIONAL_ATTRIBUTES and producer_id >= 0))
        and (producer_id == NO_PRODUCER_ID or sequence >= 0)
        and -config.message_timestamp_before_max_ms <= timestamp - now_ms <= config.message_timestamp_after_max_ms
        and crc32c(view[CRC_START:]) == crc
    ):
        return _new_tuple(BatchHeader, header)
    return None


def kept_batch(view: memoryview, config: LogConfig, now_ms: int, validate: str) -> BatchHeader | None:
    """`plain_batch` for any level of validation: the header of one batch that is stored unchanged; else None."""
    if validate in OWN_BATCHES and len(view) >= HEADER_SIZE and view[_LOW_ATTRIBUTES] & TRANSACTION_BITS:
        return own_batch(view, config)
    if validate == OWN or (config.allows_verbatim and validate != FULL):
        return plain_batch(view, config, now_ms)
    return None


def made_batch(view: memoryview, config: LogConfig) -> BatchHeader | None:
    """The header of one batch that the broker has just made, if it is stored unchanged; else None."""
    header = _unpack_header(view)
    if header[1] + LOG_OVERHEAD != len(view) or config.message_timestamp_type == LOG_APPEND_TIME:
        return None
    return _new_tuple(BatchHeader, header) if len(view) <= config.max_message_bytes else None


def own_batch(view: memoryview, config: LogConfig) -> BatchHeader | None:
    """The header, if this is one batch of a transaction as a coordinator makes it; else None, as in `plain_batch`."""
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
        and not attributes & ~_OWN_ATTRIBUTES
        and attributes & CODEC_MASK <= HIGHEST_CODEC
        and producer_id >= 0
        and crc32c(view[CRC_START:]) == crc
    ):
        return _new_tuple(BatchHeader, header)
    return None


def check_header(header: BatchHeader, view: memoryview, config: LogConfig, now_ms: int) -> None:
    """Check everything that the header has.

    Raises KafkaError: MESSAGE_TOO_LARGE, CORRUPT_MESSAGE, INVALID_RECORD, INVALID_TIMESTAMP,
    UNSUPPORTED_COMPRESSION_TYPE.
    """
    _check_size(len(view), config)
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
    """A client's batch in the form for a topic of this configuration: the same bytes, or new ones.

    Raises KafkaError: the errors of `batch.split` and `check_header`; INVALID_RECORD and INVALID_TIMESTAMP for records,
    with `record_errors`; CORRUPT_MESSAGE and MESSAGE_TOO_LARGE for failed decompressions. If the header alone has a
    wrong time, `record_errors` stay empty, as the search may take long: `prepare_steps` searches.
    """
    return finish(prepare_steps(view, config, now_ms, validate, names_records=False))


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
    validate: str,
    *,
    may_be_many: bool = False,
    names_records: bool = True,
) -> Steps[memoryview]:
    """`prepare` in slices: yields before each call of a codec, and after some hundred microseconds of other work.

    `may_be_many`: batches made from a message set may be several, and the broker's own. A client sends one, as in
    Kafka: the append of each takes the loop some microseconds. `names_records`: a refusal for a time in the header
    lists the records.
    """
    if len(view) > _MAGIC_POSITION and view[_MAGIC_POSITION] < MAGIC:
        message = f"a message of magic {view[_MAGIC_POSITION]} in place of batches: that is for Produce 0 to 2"
        raise KafkaError(ErrorCode.INVALID_RECORD, message)
    is_own = validate in OWN_BATCHES
    batches = batch.split(view, None if may_be_many or is_own else 1)
    if is_own and all(header.attributes & TRANSACTION_BITS for header, _ in batches):
        for header, part in batches:
            _check_own(header, part)
        return view
    for header, part in batches:
        try:
            check_header(header, part, config, now_ms)
        except KafkaError as error:
            if names_records and error.code is ErrorCode.INVALID_TIMESTAMP:
                yield from _inspect(header, part, config, now_ms)  # finds the records for the error
            raise
    if validate == FULL or config.is_compacted:
        for header, part in batches:
            yield from _inspect(header, part, config, now_ms)
    for header, part in batches:
        if header.is_log_append_time:
            batch.clear_log_append_time(part)
    codec = config.compression_codec
    if codec is None or all(header.compression == codec for header, _ in batches):
        return view
    return (yield from _recompress_steps(batches, codec, config))


def _recompress_steps(
    batches: Sequence[tuple[BatchHeader, memoryview]], codec: int, config: LogConfig
) -> Steps[memoryview]:
    """The batches with the codec of the topic. Raises KafkaError(MESSAGE_TOO_LARGE)."""
    made: list[memoryview | bytearray] = []
    level = config.compression_level(compression.CODEC_NAMES[codec])
    for header, part in batches:
        made.append(part if header.compression == codec else (yield from batch.recompress_steps(part, codec, level)))
        _check_size(len(made[-1]), config)
    return memoryview(bytearray().join(made))


def _check_own(header: BatchHeader, view: memoryview) -> None:
    """Check a coordinator's transactional batch. It is stored unchanged."""
    if not batch.check_crc(view):
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, "the CRC of the batch is wrong")
    is_unknown = header.attributes & ~_OWN_ATTRIBUTES or header.compression > HIGHEST_CODEC
    if header.producer_id < 0 or header.base_offset or is_unknown:
        raise KafkaError(ErrorCode.INVALID_RECORD, "the batch of a transaction needs a producer and offsets from 0 on")


def _inspect(header: BatchHeader, view: memoryview, config: LogConfig, now_ms: int) -> Steps[None]:
    """Check every record of a batch. Raises KafkaError with `record_errors`."""
    from headgate.protocol.records import lz4  # most brokers never need these
    from headgate.protocol.records.record_validation import RecordValidator

    content = view[HEADER_SIZE:]
    if header.compression != compression.NONE:
        yield
        if header.compression == compression.LZ4 and (fault := (yield from lz4.java_incompatibility_steps(content))):
            raise KafkaError(ErrorCode.INVALID_RECORD, f"Kafka's Java clients could not read this lz4 frame: {fault}")
    data = bytes(compression.decompress(header.compression, content))
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
    if header.is_transactional and header.producer_id < 0:
        raise KafkaError(ErrorCode.INVALID_RECORD, "the batch of a transaction has no producer id")
    if header.compression > HIGHEST_CODEC:
        raise KafkaError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"there is no compression codec {header.compression}")
    if header.is_log_append_time and config.message_timestamp_type == LOG_APPEND_TIME:
        # Otherwise Kafka treats the batch as CreateTime.
        from headgate.protocol.records.record_validation import MAX_ERRORS

        count = min(header.records_count, MAX_ERRORS)
        message = "a producer cannot send timestamp type LogAppendTime"
        raise KafkaError(ErrorCode.INVALID_TIMESTAMP, message, [(number, message) for number in range(count)])

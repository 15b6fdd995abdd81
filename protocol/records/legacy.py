"""Conversion between message sets (see `message_set.py`) and batches.

A batch has all fields of messages, so up-conversion loses nothing. Down-conversion drops headers and transaction
markers, which a set cannot express. Both keep the offsets, with their gaps.

A conversion costs about a microsecond a record, and the time of the codecs. So each conversion has a form in steps,
`..._steps`. It yields before each call of a codec, and after some hundred microseconds of other work.
"""

from __future__ import annotations

from collections.abc import Iterator

from headgate.protocol.records import Buffer, batch
from headgate.protocol.records.batch import Record
from headgate.protocol.records.down_conversion import down_convert_steps
from headgate.protocol.records.message_set import MAGIC_POSITION, ConvertedRecords, build
from headgate.protocol.records.up_conversion import MAX_BATCH_BYTES, up_convert_steps, up_convert_stored_steps
from headgate.protocol.steps import finish

__all__ = [
    "ConvertedRecords",
    "build",
    "down_convert",
    "down_convert_steps",
    "is_legacy",
    "iterate",
    "up_convert",
    "up_convert_steps",
    "up_convert_stored",
    "up_convert_stored_steps",
]


def is_legacy(records: Buffer) -> bool:
    """Return True if `records` begin with a message, not with a batch."""
    return len(records) > MAGIC_POSITION and records[MAGIC_POSITION] < batch.MAGIC


def up_convert(data: Buffer, max_batch_bytes: int = MAX_BATCH_BYTES) -> bytearray:
    """Convert a client's set to batches: each wrapper becomes one in its codec, adjacent plain messages share one.

    The offsets of each batch begin at 0. Plain messages become several batches if one would exceed `max_batch_bytes`.
    Bytes that are batches already are copied.

    Raises KafkaError, as Kafka's brokers do: CORRUPT_MESSAGE for an invalid CRC, size or compressed stream;
    INVALID_RECORD for a set that contradicts itself, or becomes too many batches; UNSUPPORTED_COMPRESSION_TYPE;
    MESSAGE_TOO_LARGE for a wrapper of more than `compression.MAX_OUTPUT_BYTES` decompressed.
    """
    return finish(up_convert_steps(data, max_batch_bytes))


def up_convert_stored(data: Buffer) -> ConvertedRecords:
    """Convert stored messages to batches, at their offsets; stored batches stay unchanged. Both may be mixed.

    The result ends before a cut message or batch, and before the first faulty one. A fault of the first one raises
    KafkaError as `up_convert` does.
    """
    return finish(up_convert_stored_steps(data))


def down_convert(data: Buffer, magic: int, first_offset: int, max_bytes: int) -> ConvertedRecords:
    """Convert stored records from `first_offset` on to a set of this magic.

    The set has as many whole messages as `max_bytes` allow, and the first one whatever its size. A compressed batch
    becomes one wrapper in its codec, with gzip in place of lz4 and zstd: some readers of such sets do not know those.
    The batch becomes several wrappers if one would exceed `max_bytes`. Messages of this magic or an older one stay
    unchanged.

    The result ends before a cut message or batch, and before the first faulty one. A fault of the first one raises
    KafkaError: CORRUPT_MESSAGE, INVALID_RECORD, UNSUPPORTED_COMPRESSION_TYPE, or MESSAGE_TOO_LARGE for a batch of more
    than `compression.MAX_OUTPUT_BYTES` decompressed.
    """
    return finish(down_convert_steps(data, magic, first_offset, max_bytes))


def iterate(data: Buffer) -> Iterator[Record]:
    """Iterate over stored records of any format, with their offsets. Raises KafkaError as `up_convert_stored`."""
    view = memoryview(up_convert_stored(data).data)
    while view:
        size = batch.read_header(view).size
        yield from batch.iterate(view[:size])
        view = view[size:]

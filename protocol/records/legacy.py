"""Conversion between message sets (see `message_set.py`) and batches.

A batch has all that messages have, so that up-conversion loses nothing. On the way down headers are dropped, and with
them batches of transaction markers, as a set has nothing to say them with. Offsets are kept, with the gaps between
them.

It costs about a microsecond a record, and whatever the codecs cost; so each conversion has a form that works in slices,
`..._steps`. It yields before each call of a codec, and after some hundred microseconds of other work.
"""

from __future__ import annotations

from collections.abc import Iterator

from headgate.protocol.records import batch
from headgate.protocol.records.batch import Buffer, Record
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
    """Whether the first thing in it is a message, no batch."""
    return len(records) > MAGIC_POSITION and records[MAGIC_POSITION] < batch.MAGIC


def up_convert(data: Buffer, max_batch_bytes: int = MAX_BATCH_BYTES) -> bytearray:
    """Batches with the messages of a client's set, one for each wrapper, in its codec, and one for plain ones together.

    Offsets are numbered from 0 in each batch. Plain messages become several batches where one would be larger than
    `max_batch_bytes`. What is in batches already is copied as it is.

    Raises KafkaError, as Kafka's brokers do: CORRUPT_MESSAGE for a CRC, a size, or a stream of a codec that is wrong,
    INVALID_RECORD for a set that contradicts itself, or becomes too many batches, UNSUPPORTED_COMPRESSION_TYPE,
    MESSAGE_TOO_LARGE for a wrapper with more in it than `compression.MAX_OUTPUT_BYTES`.
    """
    return finish(up_convert_steps(data, max_batch_bytes))


def up_convert_stored(data: Buffer) -> ConvertedRecords:
    """Batches with what a log holds, messages and batches mixed, at their offsets; batches stay as they are.

    A tail that is cut is left out. So is all from the first fault on; a fault at the very beginning raises KafkaError,
    as `up_convert` does.
    """
    return finish(up_convert_stored_steps(data))


def down_convert(data: Buffer, magic: int, first_offset: int, max_bytes: int) -> ConvertedRecords:
    """A set of this magic with the records from `first_offset` on of what a log holds.

    It has as many whole messages as `max_bytes` allow, and the first one whatever its size. A compressed batch becomes
    one wrapper in its codec, but gzip in place of lz4 and zstd, which some of those who read such sets do not know; it
    becomes several where that is needed to keep to `max_bytes`. Messages of this magic or an older one stay as they
    are.

    A tail that is cut is left out. So is all from the first fault on; a fault at the very beginning raises KafkaError:
    CORRUPT_MESSAGE, INVALID_RECORD, UNSUPPORTED_COMPRESSION_TYPE, or MESSAGE_TOO_LARGE for a batch with more in it than
    `compression.MAX_OUTPUT_BYTES`.
    """
    return finish(down_convert_steps(data, magic, first_offset, max_bytes))


def iterate(data: Buffer) -> Iterator[Record]:
    """The records that a log holds, with their offsets. Raises KafkaError as `up_convert_stored`."""
    view = memoryview(up_convert_stored(data).data)
    while view:
        size = batch.read_header(view).size
        yield from batch.iterate(view[:size])
        view = view[size:]

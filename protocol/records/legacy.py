"""Conversion between message sets (see `message_set.py`) and batches.

A batch has all fields of messages, so up-conversion loses nothing. Down-conversion drops headers and transaction
markers, which a set cannot express. Both keep the offsets, with their gaps.

A conversion costs about a microsecond a record, and the time of the codecs. So each conversion goes in steps,
`..._steps`, which yield before each call of a codec, and after some hundred microseconds of other work.
"""

from __future__ import annotations

from collections.abc import Iterator

from headgate.protocol.records import Buffer, batch
from headgate.protocol.records.batch import Record
from headgate.protocol.records.down_conversion import down_convert_steps
from headgate.protocol.records.message_set import MAGIC_POSITION, ConvertedRecords, build
from headgate.protocol.records.up_conversion import up_convert_steps, up_convert_stored_steps
from headgate.protocol.steps import finish

__all__ = [
    "ConvertedRecords",
    "build",
    "down_convert_steps",
    "is_legacy",
    "iterate",
    "up_convert_steps",
    "up_convert_stored_steps",
]


def is_legacy(records: Buffer) -> bool:
    """Return True if `records` begin with a message, not with a batch."""
    return len(records) > MAGIC_POSITION and records[MAGIC_POSITION] < batch.MAGIC


def iterate(data: Buffer) -> Iterator[Record]:
    """Iterate over stored records of any format, with their offsets. Raises KafkaError as `up_convert_stored_steps`."""
    view = memoryview(finish(up_convert_stored_steps(data)).data)
    while view:
        size = batch.read_header(view).size
        yield from batch.iterate(view[:size])
        view = view[size:]

"""Message sets as kafka-python reads and writes them, and records for tests of both conversions."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

from hypothesis import strategies as st

from headgate.protocol.records import Buffer
from headgate.protocol.records.batch import Record
from headgate.protocol.records.compression import NONE
from headgate.protocol.records.down_conversion import down_convert_steps
from headgate.protocol.records.message_set import ConvertedRecords
from headgate.protocol.records.up_conversion import MAX_BATCH_BYTES, up_convert_steps, up_convert_stored_steps
from headgate.protocol.steps import finish

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # of importlib.resources, in kafka-python
    from kafka.record.legacy_records import LegacyRecordBatchBuilder
    from kafka.record.memory_records import MemoryRecords

optional_bytes = st.none() | st.binary(max_size=300)
record = st.builds(
    Record,
    offset=st.just(-1),
    timestamp=st.integers(-1, 2**53),
    key=optional_bytes,
    value=optional_bytes,
    headers=st.just([]),
)
records = st.lists(record, min_size=1, max_size=6)
magics = st.sampled_from([0, 1])


def expected(some: Sequence[Record], magic: int, base_offset: int = 0, step: int = 1) -> list[Record]:
    """These records with their offsets, and with what a set of this magic can say of them."""
    return [
        Record(base_offset + step * number, one.timestamp if magic else -1, one.key, one.value, [])
        for number, one in enumerate(some)
    ]


def theirs(data: bytes | bytearray) -> list[Record]:
    """The messages of a set as kafka-python reads them; every CRC is checked."""
    found: list[Record] = []
    sets = MemoryRecords(bytes(data))
    while sets.has_next():
        batch = sets.next_batch()
        assert batch.validate_crc()
        for one in batch:
            assert one.validate_crc()
            found.append(Record(one.offset, -1 if one.timestamp is None else one.timestamp, one.key, one.value, []))
    return found


def built_by_kafka_python(some: Sequence[Record], magic: int, codec: int = NONE) -> bytes:
    """A set of these, with offsets from 0 on; its wrapper has the offset 0, as some producers leave it."""
    builder = LegacyRecordBatchBuilder(magic=magic, compression_type=codec, batch_size=1 << 30)
    for offset, one in enumerate(some):
        assert builder.append(offset, one.timestamp, one.key, one.value)
    return bytes(builder.build())


def up_convert(data: Buffer, max_batch_bytes: int = MAX_BATCH_BYTES) -> bytearray:
    return finish(up_convert_steps(data, max_batch_bytes))


def up_convert_stored(data: Buffer) -> ConvertedRecords:
    return finish(up_convert_stored_steps(data))


def down_convert(data: Buffer, magic: int, first_offset: int, max_bytes: int) -> ConvertedRecords:
    return finish(down_convert_steps(data, magic, first_offset, max_bytes))

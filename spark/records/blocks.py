"""Blocks: the decompressed records of many batches in one buffer, so that numpy and Arrow work on many at once.

Batches that no reader sees are left out: control batches, batches of aborted transactions, batches outside of the
wanted offsets. A range of times leaves out batches only by the largest time in the header, and by the smallest one
where the header has it: records come in any order of their times.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np

from headgate.protocol.errors import KafkaError
from headgate.protocol.records import Buffer, batch, compression
from headgate.protocol.records.aborted_batches import AbortedBatches
from headgate.protocol.records.batch import (
    CODEC_MASK,
    CONTROL,
    CRC_START,
    DELETE_HORIZON,
    HEADER_SIZE,
    LOG_OVERHEAD,
    BatchHeader,
)
from headgate.protocol.records.batch import LOG_APPEND_TIME as LOG_APPEND_TIME_BIT
from headgate.protocol.records.checksum import crc32c
from headgate.protocol.records.message_set import MAGIC_POSITION
from headgate.protocol.records.up_conversion import MAX_BATCH_BYTES, UpConversion
from headgate.protocol.steps import finish
from headgate.protocol.topic_partition import TopicPartition
from headgate.spark.reading.log_reader import FetchedBatches, OffsetRange
from headgate.spark.records.large_batches import pieces
from headgate.spark.records.varints import PADDING
from headgate.storage.segment.legacy_messages import size_at

BLOCK_BYTES: Final = 4 << 20
BLOCK_RECORDS: Final = 1 << 15
LARGE_BYTES: Final = 16 << 20
"""A batch with more bytes is decompressed in pieces."""
_new_tuple = tuple.__new__  # a NamedTuple without its constructor in Python
_LEGACY_BYTES = 1 << 18  # the messages of old formats that are converted at once
CREATE_TIME, LOG_APPEND_TIME, NO_TIMESTAMP_TYPE = 0, 1, -1
"""Kafka's numbers of timestamp types. Messages of magic 0 have none."""


class Hidden(enum.Enum):
    """The reason why a reader does not see the records of a whole batch."""

    CONTROL = "control"
    ABORTED = "aborted"


OnHidden = Callable[[int, int, Hidden], None]
"""Called with the first and the last offset of hidden records, and the reason."""


class TimeRange(NamedTuple):
    """Times in ms, from the first to the last one, both included; None: no limit."""

    first_ms: int | None = None
    last_ms: int | None = None

    def excludes(self, header: BatchHeader) -> bool:
        """Whether the header of a batch says that no record has such a time."""
        newest = header.max_timestamp
        if newest < 0 or header.may_have_later_records:
            return False  # no record has a time, or the producer did not write the largest one
        if self.first_ms is not None and newest < self.first_ms:
            return True
        if self.last_ms is None:
            return False
        if header.is_log_append_time:
            return newest > self.last_ms
        is_alone = header.records_count == 1 and not header.attributes & DELETE_HORIZON
        return is_alone and header.base_timestamp == newest > self.last_ms


class UnreadableRecords(Exception):
    """Stored batches or records are damaged, or in an unknown format."""

    def __init__(self, partition: TopicPartition, offset: int, problem: str) -> None:
        self.partition, self.offset, self.problem = partition, offset, problem
        super().__init__(
            f"{partition}: the records from offset {offset} on cannot be read: {problem}; "
            "`headgate log verify` checks the files of the partition, startingOffsets behind the damage passes it"
        )


class BlockBatch(NamedTuple):
    """One batch of a block, in numbers alone, so that all batches of a block become one array.

    `start`: the position of its first record. `time`: the time of all records for LOG_APPEND_TIME, else the time from
    which they count.
    """

    start: int
    records_count: int
    base_offset: int
    last_offset: int
    time: int
    timestamp_type: int


class Block(NamedTuple):
    """The records of batches, one after another, in `data` with padding behind `size` bytes.

    The next block takes the same place in memory: use the data before asking for the next one.
    """

    data: Buffer
    size: int
    records_count: int
    batches: Sequence[BlockBatch]


class BlockReader:
    """Makes blocks of the batches of one range. Each block has at most BLOCK_RECORDS records, or a single batch.

    Batches are decompressed straight into the block, and all blocks share one buffer: memory that is in the processor's
    cache, and that the kernel has given once. The kernel gives no more of the buffer than records come to, in steps of
    2 MiB at most.
    """

    def __init__(self, wanted: OffsetRange, times: TimeRange | None = None, on_hidden: OnHidden | None = None) -> None:
        self._wanted = wanted
        self._times = times
        self._on_hidden = on_hidden
        self._buffer = memoryview(np.empty(LARGE_BYTES + len(PADDING), np.uint8))
        self._batches: list[BlockBatch] = []
        self._size = self._count = 0
        self._last_added = 0
        self._is_at_end = False

    def blocks(self, fetched: Iterable[FetchedBatches]) -> Iterator[Block]:
        """The blocks of all pieces. Raises UnreadableRecords."""
        for piece in fetched:
            aborted = AbortedBatches(piece.aborted) if piece.aborted else None
            for view, header, timestamp_type in self._wanted_batches(memoryview(piece.batches), aborted):
                yield from self._add(view, header, timestamp_type)
            if self._is_at_end:
                break
        if self._batches:
            yield self._close_block()

    def _wanted_batches(
        self, data: memoryview, aborted: AbortedBatches | None
    ) -> Iterator[tuple[memoryview, BatchHeader, int]]:
        """The batches of a piece that readers see, up to the end of the range, with their timestamp types.

        Nearly all batches are plain ones of magic 2, so few lines run for each of those.
        """
        position, size, next_offset = 0, len(data), self._wanted.start_offset
        first_offset, end_offset, looks_closer = next_offset, self._wanted.end_offset, self._times is not None
        try:
            while position < size:
                if size - position > MAGIC_POSITION and data[position + MAGIC_POSITION] < batch.MAGIC:
                    stop = _end_of_messages(data, position)
                    yield from self._convert(data[position:stop])
                    position = stop
                    continue
                header = batch.read_header(data, position)
                next_offset, attributes, after = header[0], header[5], position + header[1] + LOG_OVERHEAD
                if after > size:
                    raise batch.corrupt(f"a batch of {header.size} bytes is cut after {size - position}")
                if next_offset >= end_offset or self._is_at_end:
                    self._is_at_end = True
                    return
                view = data[position:after]
                position = after
                if crc32c(view[CRC_START:]) != header[4]:
                    raise batch.corrupt("the CRC of the batch is wrong")
                if (looks_closer or aborted is not None or attributes & CONTROL) and self._is_hidden(
                    header, view, aborted
                ):
                    continue
                if header[12] and next_offset + header[6] >= first_offset:
                    yield view, header, LOG_APPEND_TIME if attributes & LOG_APPEND_TIME_BIT else CREATE_TIME
        except KafkaError as error:
            raise self._unreadable(next_offset, error) from None

    def _convert(self, messages: memoryview) -> Iterator[tuple[memoryview, BatchHeader, int]]:
        """Batches made of messages of one old magic. Raises KafkaError."""
        magic = messages[MAGIC_POSITION]
        conversion = UpConversion(bytes(messages), MAX_BATCH_BYTES, is_stored=True)
        finish(conversion.steps())
        converted = memoryview(conversion.out)
        position = 0
        while position < len(converted):
            header = batch.read_header(converted, position)
            view, position = converted[position : position + header.size], position + header.size
            if header.base_offset >= self._wanted.end_offset:
                self._is_at_end = True
                return
            kind = LOG_APPEND_TIME if header.is_log_append_time else CREATE_TIME if magic else NO_TIMESTAMP_TYPE
            is_excluded = self._times is not None and self._times.excludes(header)
            if header.last_offset >= self._wanted.start_offset and not is_excluded:
                yield view, header, kind

    def _is_hidden(self, header: BatchHeader, view: memoryview, aborted: AbortedBatches | None) -> bool:
        """Whether no record of a batch is wanted. A batch before the range may still end an aborted transaction."""
        is_aborted = aborted is not None and aborted.includes(header, view)
        if header.last_offset < self._wanted.start_offset:
            return True
        if is_aborted or header.is_control:
            self._tell_hidden(header, Hidden.ABORTED if is_aborted else Hidden.CONTROL)
            return True
        return self._times is not None and self._times.excludes(header)

    def _tell_hidden(self, header: BatchHeader, reason: Hidden) -> None:
        if self._on_hidden is not None:
            first = max(header.base_offset, self._wanted.start_offset)
            self._on_hidden(first, min(header.last_offset, self._wanted.end_offset - 1), reason)

    def _add(self, view: memoryview, header: BatchHeader, timestamp_type: int) -> Iterator[Block]:
        """Add a batch to the block under construction; yield the blocks that this finishes, mostly none."""
        base_offset, codec, count = header[0], header[5] & CODEC_MASK, header[12]
        body = view[HEADER_SIZE:]
        if count < 0:
            raise self._unreadable(base_offset, batch.invalid(f"it counts {count} records"))
        # A batch that does not fit is decompressed again into the next block: rarely, as most are as large as the last
        reserve = self._last_added if codec else 0
        if self._batches and (self._count + count > BLOCK_RECORDS or self._size + reserve > BLOCK_BYTES):
            yield self._close_block()
        added = self._decompress_into_block(base_offset, codec, body)
        if added is None and self._batches:
            yield self._close_block()
            added = self._decompress_into_block(base_offset, codec, body)
        time = header[8] if timestamp_type == LOG_APPEND_TIME else header[7]
        if added is None:
            yield from self._large_batch(view, header, time, timestamp_type)
            return
        fields = (self._size, count, base_offset, base_offset + header[6], time, timestamp_type)
        self._batches.append(_new_tuple(BlockBatch, fields))
        self._size += added
        self._count += count
        self._last_added = added

    def _decompress_into_block(self, base_offset: int, codec: int, body: memoryview) -> int | None:
        """The size of the records of a batch; None if they do not fit into the block. Raises UnreadableRecords."""
        end = BLOCK_BYTES if self._batches else LARGE_BYTES
        try:
            return compression.decompress_into(codec, body, self._buffer[self._size : end])
        except KafkaError as error:
            raise self._unreadable(base_offset, error) from None

    def _large_batch(self, view: memoryview, header: BatchHeader, time: int, timestamp_type: int) -> Iterator[Block]:
        """Blocks that are parts of one batch. Raises UnreadableRecords."""
        offset, last_offset = header.base_offset, header.last_offset
        found = pieces(header.compression, view[HEADER_SIZE:], header.records_count, BLOCK_BYTES, BLOCK_RECORDS)
        try:
            for data, size, count in found:
                yield Block(data, size, count, [BlockBatch(0, count, offset, last_offset, time, timestamp_type)])
        except KafkaError as error:
            raise self._unreadable(offset, error) from None

    def _close_block(self) -> Block:
        end = self._size + len(PADDING)
        self._buffer[self._size : end] = PADDING
        block = Block(self._buffer[:end], self._size, self._count, self._batches)
        self._batches, self._size, self._count = [], 0, 0
        return block

    def _unreadable(self, offset: int, error: KafkaError) -> UnreadableRecords:
        return UnreadableRecords(self._wanted.partition, offset, error.message)


def _end_of_messages(data: memoryview, position: int) -> int:
    """The end of the messages of one magic from `position` on, of those that are converted at once.

    Raises KafkaError for a message that is cut or too small.
    """
    start, magic = position, data[position + MAGIC_POSITION]
    while position < len(data) and position - start < _LEGACY_BYTES:
        size = size_at(data, position)
        if size is None or position + size > len(data):
            raise batch.corrupt(f"a message is cut after {len(data) - position} bytes")
        if data[position + MAGIC_POSITION] != magic:
            break
        position += size
    return position

"""The messages in the bytes of a fetch: batches of magic 2, and message sets of magic 0 and 1.

A batch that cannot be read is one unreadable message at its first offset, and the messages after it follow.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from headgate.protocol.errors import KafkaError
from headgate.protocol.records import Buffer, batch, legacy
from headgate.protocol.records.aborted_batches import AbortedBatches
from headgate.protocol.records.batch import BatchHeader, Record
from headgate.storage.segment.legacy_messages import check_crc, read_head

ABORTED, COMMITTED, PENDING = "aborted", "committed", "pending"
MOST_PLAIN_BYTES: Final = 64 << 20
"""Of one batch, decompressed."""


class FetchedPiece(NamedTuple):
    """The bytes that a fetch at `offset` returned, with the partition's ends at that moment.

    `aborted`: (producer id, first offset) of the aborted transactions in the piece; None: the broker did not say, as
    the piece lies behind the last stable offset. `start_offset`: -1 if unknown. `end_offset`: the high watermark.
    `is_last`: there is no batch at the offset or after it.
    """

    offset: int
    data: Buffer
    aborted: Sequence[tuple[int, int]] | None
    start_offset: int
    stable_offset: int
    end_offset: int
    is_last: bool = False


class FetchedMessage(NamedTuple):
    """A record with its batch. `transaction`: ABORTED, COMMITTED or PENDING (an earlier one is open); None outside.

    `fault`: the reason why the batch cannot be read; the record then has only an offset.
    """

    partition: int
    header: BatchHeader
    record: Record
    transaction: str | None = None
    fault: str | None = None


class PieceReader:
    """Reads the messages of one piece in order; `next_offset` is the offset after the last batch so far."""

    def __init__(self, partition: int, piece: FetchedPiece) -> None:
        self._partition = partition
        self._piece = piece
        self.next_offset = max(piece.offset, piece.start_offset)  # retention may have deleted the offset
        self.first_offset: int | None = None
        """Of the first batch: a fetch starts with the whole batch that has its offset."""

    def batches(self) -> Iterator[tuple[BatchHeader, memoryview]]:
        """The whole batches; a cut one at the end is left out. Raises KafkaError for bytes that are none."""
        view, position = memoryview(self._piece.data), 0
        while position < len(view):
            try:
                header = read_head(view, position)
            except KafkaError:
                if len(view) - position < batch.HEADER_SIZE:
                    return  # cut
                raise
            if header.size > len(view) - position:
                return
            yield header, view[position : position + header.size]
            position += header.size

    def messages(self, from_offset: int) -> Iterator[FetchedMessage]:
        """The messages with this offset or a later one. Raises KafkaError as `batches`."""
        aborted = AbortedBatches(self._piece.aborted or ())
        for header, content in self.batches():
            transaction = None
            if header.is_transactional:
                is_aborted = aborted.includes(header, content)
                if not header.is_control:
                    transaction = PENDING if self._piece.aborted is None else ABORTED if is_aborted else COMMITTED
            if self.first_offset is None:
                self.first_offset = header.base_offset
            for message in self._read(header, content, transaction):
                if message.record.offset >= from_offset:
                    yield message
                elif message.fault is not None and header.last_offset >= from_offset:
                    yield message._replace(record=Record(from_offset))
            self.next_offset = max(self.next_offset, header.last_offset + 1)

    def _read(self, header: BatchHeader, content: memoryview, transaction: str | None) -> Iterator[FetchedMessage]:
        offset = header.base_offset
        try:
            for record in iterate(header, content):
                offset = record.offset + 1
                if self.first_offset is not None and record.offset < self.first_offset:
                    self.first_offset = record.offset  # within a wrapper, whose offset is that of its last message
                yield FetchedMessage(self._partition, header, record, transaction)
        except KafkaError as error:
            yield FetchedMessage(self._partition, header, Record(offset), transaction, error.message)
        except MemoryError:
            yield FetchedMessage(
                self._partition, header, Record(offset), transaction, "the batch takes too much memory"
            )


def iterate(header: BatchHeader, content: memoryview) -> Iterator[Record]:
    """The records of one batch, or of one message or wrapper of magic 0 or 1. Raises KafkaError.

    Names of headers that are not UTF-8 have escapes: no broker checks them, and no consumer of Java fails on one.
    """
    if header.magic == batch.MAGIC:
        return batch.iterate(content, MOST_PLAIN_BYTES, name_errors="backslashreplace")
    return legacy.iterate(content)


def is_sound(content: memoryview) -> bool:
    """Whether the CRC of exactly one batch or message is right."""
    return check_crc(content)

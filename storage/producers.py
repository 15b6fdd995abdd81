"""Idempotent producers: which sequence comes next from whom, and which batches were already written (KIP-98).

A producer is told apart by (id, epoch); its batches are numbered by sequence, one number a record. The last five
batches are remembered: one that comes again is answered with the offset that it got. A snapshot, in Kafka's own layout,
holds each producer's last batch only:

    version i16 = 1 | crc u32, CRC32C of what follows | count i32 | then for each producer
    producer id i64 | epoch i16 | last sequence i32 | last offset i64 | offset delta i32 | timestamp i64 |
    coordinator epoch i32 | first offset of the open transaction i64, -1 for none

The older four are found again in the log when a producer asks for them (`recall`). Everything here can be rebuilt from
the log. Source: Apache Kafka's `ProducerStateManager`, `ProducerAppendInfo`, `ProducerStateEntry`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from typing import NamedTuple

from crc32c import crc32c

from protocol.errors import ErrorCode, KafkaError
from protocol.records.batch import MAX_SEQUENCE, NO_PRODUCER_ID, BatchHeader
from storage.errors import BadFile

BATCHES_REMEMBERED = 5
NO_SEQUENCE = -1
NO_EPOCH = -1
SNAPSHOT_SUFFIX = ".snapshot"
SNAPSHOT_VERSION = 1
DEFAULT_EXPIRATION_MS = 86_400_000  # producer.id.expiration.ms

_SNAPSHOT_HEAD = struct.Struct(">hIi")
_SNAPSHOT_ENTRY = struct.Struct(">qhiqiqiq")
_CRC_START = 6


class WrittenBatch(NamedTuple):
    """One batch of a producer, as it was written."""

    first_sequence: int
    last_sequence: int
    first_offset: int
    last_offset: int
    timestamp: int


class Producer:
    """One producer's state. `is_partial`: older batches than those here may be in the log."""

    __slots__ = ("batches", "coordinator_epoch", "epoch", "is_partial", "last_timestamp", "transaction_start")

    def __init__(self, epoch: int, is_partial: bool = False) -> None:
        self.epoch = epoch
        self.batches: list[WrittenBatch] = []
        self.last_timestamp = -1
        self.coordinator_epoch = -1
        self.transaction_start = -1
        self.is_partial = is_partial

    def copy(self) -> Producer:
        """The same state, which changes of this one leave alone."""
        copied = Producer(self.epoch, self.is_partial)
        copied.batches = self.batches.copy()
        copied.last_timestamp = self.last_timestamp
        copied.coordinator_epoch = self.coordinator_epoch
        copied.transaction_start = self.transaction_start
        return copied

    def __eq__(self, other: object) -> bool:
        """Equal where a client could not tell them apart; `is_partial` is about memory only."""
        return isinstance(other, Producer) and (
            (self.epoch, self.batches, self.last_timestamp, self.coordinator_epoch, self.transaction_start)
            == (other.epoch, other.batches, other.last_timestamp, other.coordinator_epoch, other.transaction_start)
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Producer(epoch={self.epoch}, batches={self.batches})"

    @property
    def last_sequence(self) -> int:
        """The sequence of its last record; -1 if it wrote none in this epoch."""
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    def find(self, first_sequence: int, last_sequence: int) -> WrittenBatch | None:
        """The remembered batch with exactly these sequences."""
        for batch in self.batches:
            if batch.first_sequence == first_sequence and batch.last_sequence == last_sequence:
                return batch
        return None


Recall = Callable[[int, int], Iterable[BatchHeader]]
"""(producer id, offset) -> headers of this producer's batches, in order, that end at or before the offset."""


class Producers:
    """The producers of one partition."""

    __slots__ = ("by_id",)

    def __init__(self) -> None:
        self.by_id: dict[int, Producer] = {}

    def __len__(self) -> int:
        return len(self.by_id)

    def check(self, header: BatchHeader, recall: Recall) -> WrittenBatch | None:
        """Whether a batch may be appended: None if so, the batch written before if this is it once more.

        A producer that is not known here may start at any sequence; a new epoch of a known one starts at 0.
        Raises KafkaError: INVALID_PRODUCER_EPOCH for an older epoch, OUT_OF_ORDER_SEQUENCE_NUMBER.
        """
        producer = self.by_id.get(header.producer_id)
        if producer is None:
            return None
        if header.producer_epoch != producer.epoch:
            _check_new_epoch(header, producer)
            return None
        first_sequence = header.base_sequence
        if first_sequence == _next(producer.last_sequence):
            return None
        last_sequence = add_to_sequence(first_sequence, header.last_offset_delta)
        found = producer.find(first_sequence, last_sequence)
        if found is None and producer.is_partial:
            self._complete(header.producer_id, producer, recall)
            found = producer.find(first_sequence, last_sequence)
        if found is None:
            raise KafkaError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"producer {header.producer_id} sent sequence {first_sequence} after {producer.last_sequence}",
            )
        return found

    def record(self, header: BatchHeader, base_offset: int) -> None:
        """A batch has been written at `base_offset`. Nothing is checked: this also replays a log."""
        if header.producer_id == NO_PRODUCER_ID or header.is_control:
            return
        producer = self.by_id.get(header.producer_id)
        if producer is None:
            producer = self.by_id[header.producer_id] = Producer(header.producer_epoch)
        elif producer.epoch != header.producer_epoch:
            producer.epoch, producer.is_partial = header.producer_epoch, False
            producer.batches.clear()
        batches = producer.batches
        batches.append(_written(header, base_offset))
        if len(batches) > BATCHES_REMEMBERED:
            del batches[0]
        producer.last_timestamp = header.max_timestamp

    def expire(self, now_ms: int, expiration_ms: int = DEFAULT_EXPIRATION_MS) -> int:
        """Forget producers that wrote nothing for so long; how many."""
        expired = [
            producer_id
            for producer_id, producer in self.by_id.items()
            if producer.transaction_start < 0 and now_ms - producer.last_timestamp >= expiration_ms
        ]
        for producer_id in expired:
            del self.by_id[producer_id]
        return len(expired)

    def _complete(self, producer_id: int, producer: Producer, recall: Recall) -> None:
        """Look up in the log what a snapshot does not hold, once."""
        oldest = producer.batches[0]
        older = [
            _written(header, header.base_offset)
            for header in recall(producer_id, oldest.first_offset - 1)
            if header.producer_epoch == producer.epoch
        ]
        missing = BATCHES_REMEMBERED - len(producer.batches)
        producer.batches[:0] = older[-missing:] if missing > 0 else []
        producer.is_partial = False

    def to_snapshot(self) -> bytes:
        """The content of a `.snapshot` file."""
        rows = bytearray()
        for producer_id, producer in self.by_id.items():
            last = producer.batches[-1] if producer.batches else WrittenBatch(-1, -1, -1, -1, -1)
            delta = last.last_offset - last.first_offset
            rows += _SNAPSHOT_ENTRY.pack(
                producer_id, producer.epoch, last.last_sequence, last.last_offset, delta,
                producer.last_timestamp, producer.coordinator_epoch, producer.transaction_start,
            )  # fmt: skip
        data = bytearray(_SNAPSHOT_HEAD.pack(SNAPSHOT_VERSION, 0, len(self.by_id)) + rows)
        _SNAPSHOT_HEAD.pack_into(data, 0, SNAPSHOT_VERSION, crc32c(memoryview(data)[_CRC_START:]), len(self.by_id))
        return bytes(data)

    @classmethod
    def from_snapshot(cls, data: bytes) -> Producers:
        """Raises BadFile for what is not a whole snapshot."""
        if len(data) < _SNAPSHOT_HEAD.size:
            raise BadFile("a producer snapshot is cut in its head")
        version, crc, count = _SNAPSHOT_HEAD.unpack_from(data)
        if version != SNAPSHOT_VERSION:
            raise BadFile(f"a producer snapshot has version {version}; {SNAPSHOT_VERSION} is known here")
        if (
            crc != crc32c(memoryview(data)[_CRC_START:])
            or len(data) != _SNAPSHOT_HEAD.size + count * _SNAPSHOT_ENTRY.size
        ):
            raise BadFile("a producer snapshot has a wrong CRC or length")
        producers = cls()
        for row in _SNAPSHOT_ENTRY.iter_unpack(data[_SNAPSHOT_HEAD.size :]):
            producers._restore(*row)
        return producers

    def _restore(
        self,
        producer_id: int,
        epoch: int,
        last_sequence: int,
        last_offset: int,
        delta: int,
        timestamp: int,
        coordinator_epoch: int,
        transaction_start: int,
    ) -> None:
        producer = self.by_id[producer_id] = Producer(epoch, is_partial=last_sequence >= 0)
        if last_sequence >= 0:
            first_sequence = subtract_from_sequence(last_sequence, delta)
            producer.batches.append(
                WrittenBatch(first_sequence, last_sequence, last_offset - delta, last_offset, timestamp)
            )
        producer.last_timestamp = timestamp
        producer.coordinator_epoch = coordinator_epoch
        producer.transaction_start = transaction_start


def add_to_sequence(sequence: int, count: int) -> int:
    """Sequences go from 2^31-1 on to 0."""
    return sequence + count if sequence <= MAX_SEQUENCE - count else count - (MAX_SEQUENCE - sequence) - 1


def subtract_from_sequence(sequence: int, count: int) -> int:
    """The reverse of `add_to_sequence`."""
    return sequence - count if sequence >= count else MAX_SEQUENCE - (count - sequence) + 1


def _next(sequence: int) -> int:
    return 0 if sequence == MAX_SEQUENCE else sequence + 1


def _written(header: BatchHeader, base_offset: int) -> WrittenBatch:
    delta = header.last_offset_delta
    last_sequence = add_to_sequence(header.base_sequence, delta)
    return WrittenBatch(header.base_sequence, last_sequence, base_offset, base_offset + delta, header.max_timestamp)


def _check_new_epoch(header: BatchHeader, producer: Producer) -> None:
    if header.producer_epoch < producer.epoch:
        raise KafkaError(
            ErrorCode.INVALID_PRODUCER_EPOCH,
            f"producer {header.producer_id} has epoch {header.producer_epoch}; {producer.epoch} is known already",
        )
    if header.base_sequence != 0 and producer.epoch != NO_EPOCH:
        raise KafkaError(
            ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
            f"producer {header.producer_id} begins epoch {header.producer_epoch} at sequence {header.base_sequence}",
        )

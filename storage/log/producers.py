"""Idempotent producers: the next sequence, the last batches and the open transaction of each (KIP-98).

(id, epoch) identifies a producer; its batches are numbered by sequence, one number a record. The log remembers the last
five batches: a repeated batch is answered with its first offset. A snapshot, in Kafka's own layout, has each producer's
last batch only:

    version i16 = 1 | crc u32, CRC32C of what follows | count i32 | then for each producer
    producer id i64 | epoch i16 | last sequence i32 | last offset i64 | offset delta i32 | timestamp i64 |
    coordinator epoch i32 | first offset of the open transaction i64, -1 for none

`recall` finds the older four in the log when a producer needs them. Everything here can be rebuilt from the log.
Source: Apache Kafka's `ProducerStateManager`, `ProducerAppendInfo`, `ProducerStateEntry`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from typing import NamedTuple

from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.records import control
from headgate.protocol.records.batch import CONTROL, MAX_SEQUENCE, NO_PRODUCER_ID, BatchHeader
from headgate.protocol.records.checksum import crc32c
from headgate.protocol.records.control import TRANSACTION_BITS, Marker
from headgate.storage.errors import BadFile
from headgate.storage.log.verification import UnverifiedTransaction, Verification
from headgate.storage.segment import transactions
from headgate.storage.segment.transaction_index import AbortedTransaction
from headgate.storage.segment.transactions import Transactions

BATCHES_REMEMBERED = 5
NO_SEQUENCE = -1
NO_EPOCH = -1
SNAPSHOT_SUFFIX = ".snapshot"
SNAPSHOT_VERSION = 1
DEFAULT_EXPIRATION_MS = 86_400_000  # producer.id.expiration.ms

_new = object.__new__
_SNAPSHOT_HEAD = struct.Struct(">hIi")
_SNAPSHOT_ENTRY = struct.Struct(">qhiqiqiq")
_CRC_START = 6


class WrittenBatch(NamedTuple):
    """One batch of a producer, as written. Sequences are -1 in a coordinator's batch."""

    first_sequence: int
    last_sequence: int
    first_offset: int
    last_offset: int
    timestamp: int


class Producer:
    """One producer's state. `is_partial`: the log may have older batches than the remembered ones."""

    __slots__ = ("batches", "coordinator_epoch", "epoch", "is_partial", "last_timestamp", "transaction_start")

    def __init__(self, epoch: int, is_partial: bool = False) -> None:
        self.epoch = epoch
        self.batches: list[WrittenBatch] = []
        self.last_timestamp = -1
        self.coordinator_epoch = -1
        self.transaction_start = -1
        self.is_partial = is_partial

    def copy(self) -> Producer:
        copied: Producer = _new(Producer)  # `__init__` would set what is set here
        copied.epoch, copied.is_partial = self.epoch, self.is_partial
        copied.batches = self.batches.copy()
        copied.last_timestamp = self.last_timestamp
        copied.coordinator_epoch = self.coordinator_epoch
        copied.transaction_start = self.transaction_start
        return copied

    def __eq__(self, other: object) -> bool:
        """Equal if no client could see a difference; `is_partial` is ignored."""
        return isinstance(other, Producer) and (
            (self.epoch, self.batches, self.last_timestamp, self.coordinator_epoch, self.transaction_start)
            == (other.epoch, other.batches, other.last_timestamp, other.coordinator_epoch, other.transaction_start)
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Producer(epoch={self.epoch}, batches={self.batches})"

    @property
    def is_transactional(self) -> bool:
        """Whether the producer has an open transaction, or had one."""
        return self.coordinator_epoch >= 0 or self.transaction_start >= 0

    @property
    def last_sequence(self) -> int:
        """The sequence of the producer's last record; -1 for none in this epoch."""
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    def find(self, first_sequence: int, last_sequence: int) -> WrittenBatch | None:
        """The remembered batch with exactly these sequences."""
        for batch in self.batches:
            if batch.first_sequence == first_sequence and batch.last_sequence == last_sequence:
                return batch
        return None

    def has_written(self, header: BatchHeader) -> bool:
        """Whether a batch is a copy of one of the remembered ones."""
        sequence = header.base_sequence
        is_found = self.find(sequence, add_to_sequence(sequence, header.last_offset_delta)) is not None
        return is_found and header.producer_epoch == self.epoch


Recall = Callable[[int, int], Iterable[BatchHeader]]
"""(producer id, offset) -> headers of this producer's batches, in order, that end at or before the offset."""


class Producers:
    """The producers of one partition, and their transactions."""

    __slots__ = ("_transactions", "_verifications", "by_id", "snapshot_offset")

    def __init__(self, snapshot_offset: int = 0) -> None:
        self.by_id: dict[int, Producer] = {}
        self.snapshot_offset = snapshot_offset
        """The offset of the last snapshot of this state, or the start of its tracking."""
        self._transactions: Transactions | None = None
        self._verifications: dict[int, Verification] | None = None

    @property
    def transactions(self) -> Transactions:
        """The producers' transactions; made at first use, as most partitions never have any."""
        if self._transactions is None:
            self._transactions = Transactions()
        return self._transactions

    def __len__(self) -> int:
        return len(self.by_id)

    def replicated(self, high_watermark: int) -> None:
        """Note that every replica has the log below an offset: transactions that ended there are stable."""
        if self._transactions is not None:
            self._transactions.replicated(high_watermark)

    @property
    def are_transactional(self) -> bool:
        """Whether any producer has, or had, a transaction."""
        return any(producer.is_transactional for producer in self.by_id.values())

    def check(self, header: BatchHeader, recall: Recall) -> WrittenBatch | None:
        """Check that a batch may be appended. Returns None, or the first append of a repeated batch.

        An unknown producer may start at any sequence; a new epoch of a known one starts at 0. A coordinator's batches
        for a producer have no sequence (-1).
        Raises KafkaError: INVALID_PRODUCER_EPOCH for an older epoch, OUT_OF_ORDER_SEQUENCE_NUMBER, INVALID_TXN_STATE
        for a batch outside of the open transaction.
        """
        producer = self.by_id.get(header.producer_id)
        if producer is None:
            return None
        if header.producer_epoch != producer.epoch:
            _check_new_epoch(header, producer)
        elif header.base_sequence != _next(producer.last_sequence) and header.base_sequence != NO_SEQUENCE:
            return self._written_before(header, producer, recall)
        if producer.transaction_start >= 0 and not header.is_transactional:
            message = f"producer {header.producer_id} has a transaction open since offset {producer.transaction_start}"
            raise KafkaError(ErrorCode.INVALID_TXN_STATE, message)
        return None

    # The first batch of a transaction: see `storage.log.verification`

    def is_verified(self, producer_id: int, producer_epoch: int) -> bool:
        """Whether the producer's transaction is open in the partition, or was confirmed by the coordinator."""
        producer = self.by_id.get(producer_id)
        if producer is not None and producer.transaction_start >= 0 and producer.epoch == producer_epoch:
            return True
        return self._verified(producer_id, producer_epoch) is not None

    def _verified(self, producer_id: int, producer_epoch: int) -> Verification | None:
        verification = self._verifications.get(producer_id) if self._verifications else None
        if verification is None or not verification.is_verified or verification.epoch != producer_epoch:
            return None
        return verification

    def check_transaction(self, header: BatchHeader) -> None:
        """Whether a client's batch may open its transaction, or go on with it. A copy of a written batch opens none.

        Raises UnverifiedTransaction; KafkaError: INVALID_PRODUCER_EPOCH, OUT_OF_ORDER_SEQUENCE_NUMBER.
        """
        producer = self.by_id.get(header.producer_id)
        if producer is not None:
            if producer.transaction_start >= 0 and producer.epoch == header.producer_epoch:
                return
            _check_epoch(header.producer_id, header.producer_epoch, producer)
        verification = self._verified(header.producer_id, header.producer_epoch)
        if verification is None:
            raise UnverifiedTransaction(header)
        highest = verification.highest_first_sequence(has_batches=producer is not None and bool(producer.batches))
        if header.base_sequence > highest and (producer is None or not producer.has_written(header)):
            raise KafkaError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"producer {header.producer_id} begins a transaction at sequence {header.base_sequence}; it has sent"
                f" sequence {highest} before, or has to begin there",
            )

    def begin_verification(
        self, producer_id: int, producer_epoch: int, base_sequence: int, now_ms: int, *, begins_at_zero: bool
    ) -> Verification:
        """The verification for a batch: its caller asks the coordinator, and notes the answer on the verification.

        Raises KafkaError(INVALID_PRODUCER_EPOCH).
        """
        producer = self.by_id.get(producer_id)
        if producer is not None:
            _check_epoch(producer_id, producer_epoch, producer)
        if self._verifications is None:
            self._verifications = {}
        known = self._verifications.get(producer_id)
        if known is not None and known.epoch == producer_epoch:
            known.lowest_sequence = min(known.lowest_sequence, base_sequence)
            return known
        begun = Verification(producer_epoch, base_sequence, now_ms, begins_at_zero=begins_at_zero)
        if known is None or known.epoch < producer_epoch:  # a zombie's opens nothing, and ends no other
            self._verifications[producer_id] = begun
        return begun

    def end_verification(self, producer_id: int, verification: Verification) -> None:
        """Forget a verification that was refused, unless another one has taken its place."""
        if self._verifications is not None and self._verifications.get(producer_id) is verification:
            del self._verifications[producer_id]

    def _written_before(self, header: BatchHeader, producer: Producer, recall: Recall) -> WrittenBatch:
        first_sequence = header.base_sequence
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

    def check_all(
        self, batches: list[tuple[BatchHeader, memoryview]], recall: Recall, *, is_raised: bool = False
    ) -> WrittenBatch | None:
        """The first append of a repeated batch, or None. `is_raised`: see `check_marker`.

        A batch with a sequence comes alone, as in Kafka's protocol since Produce 3. Raises KafkaError as `check` and
        `check_marker` do; INVALID_RECORD for several batches or none.
        """
        if not batches:
            raise KafkaError(ErrorCode.INVALID_RECORD, "there is no batch in the request")
        if len(batches) == 1:
            header, part = batches[0]
            if not header.is_control:
                return self.check(header, recall)
            self.check_marker(header, control.read(part), is_raised=is_raised)
            return None
        if any(header.producer_id >= 0 for header, _ in batches):
            raise KafkaError(
                ErrorCode.INVALID_RECORD, "an idempotent producer may send one batch in a request for a partition"
            )
        return None

    def check_marker(self, header: BatchHeader, marker: Marker | None, *, is_raised: bool = False) -> None:
        """Check that a marker may be appended.

        `is_raised`: the coordinator raised the epoch for the marker. Then an open transaction of the same epoch is the
        producer's next one, and a late marker of the last transaction must not end it. Without an open transaction a
        marker of the same epoch came before, and may come again (KIP-1228, KAFKA-19999).

        Raises KafkaError: INVALID_PRODUCER_EPOCH for an older epoch of the producer, TRANSACTION_COORDINATOR_FENCED for
        an older epoch of the coordinator, INVALID_RECORD for a batch without a marker.
        """
        if marker is None:
            raise KafkaError(ErrorCode.INVALID_RECORD, "a control batch holds no transaction marker")
        producer = self.by_id.get(header.producer_id)
        if producer is None:
            return
        _check_epoch(header.producer_id, header.producer_epoch, producer)
        if is_raised and header.producer_epoch == producer.epoch and producer.transaction_start >= 0:
            message = f"the transaction of producer {header.producer_id} in epoch {producer.epoch} is not the ended one"
            raise KafkaError(ErrorCode.INVALID_PRODUCER_EPOCH, message)
        if marker.coordinator_epoch < producer.coordinator_epoch:
            message = f"coordinator epoch {marker.coordinator_epoch} is older than {producer.coordinator_epoch}"
            raise KafkaError(ErrorCode.TRANSACTION_COORDINATOR_FENCED, message)

    def record(self, header: BatchHeader, base_offset: int, marker: Marker | None = None) -> AbortedTransaction | None:
        """Record a batch written at `base_offset`, with its marker. Returns the transaction that the marker aborts.

        Nothing is checked: this also replays a log.
        """
        producer_id = header.producer_id
        if producer_id == NO_PRODUCER_ID:
            return None
        belongs = header.attributes & TRANSACTION_BITS
        if belongs and marker is None and belongs & CONTROL:
            return None
        producer = self.by_id.get(producer_id)
        if producer is None:
            producer = self.by_id[producer_id] = Producer(header.producer_epoch)
        elif producer.epoch != header.producer_epoch:
            producer.epoch, producer.is_partial = header.producer_epoch, False
            producer.batches.clear()
        producer.last_timestamp = header.max_timestamp
        if belongs:
            if self._verifications:
                self._verifications.pop(producer_id, None)
            aborted = self.transactions.follow(header, base_offset, marker)
            producer.transaction_start = self.transactions.open.get(producer_id, -1)
            if marker is not None:
                producer.coordinator_epoch = marker.coordinator_epoch
                return aborted
        batches = producer.batches
        batches.append(_written(header, base_offset))
        if len(batches) > BATCHES_REMEMBERED:
            del batches[0]
        return None

    def restore(self, producer_id: int, producer: Producer | None, end_offset: int) -> None:
        """Restore a producer as of the log's end at `end_offset`; None: the producer was unknown."""
        if producer is None:
            self.by_id.pop(producer_id, None)
        else:
            self.by_id[producer_id] = producer
        self.transactions.restore(producer_id, -1 if producer is None else producer.transaction_start, end_offset)

    def expire(self, now_ms: int, expiration_ms: int = DEFAULT_EXPIRATION_MS) -> int:
        """Remove producers that wrote nothing for so long; return their number.

        One transactional producer stays: a snapshot with it shows that the log may have markers, so that a missing
        `.txnindex` file counts as lost.
        """
        expired = {
            producer_id
            for producer_id, producer in self.by_id.items()
            if producer.transaction_start < 0 and now_ms - producer.last_timestamp >= expiration_ms
        }
        if expired:
            witnesses = [producer_id for producer_id, producer in self.by_id.items() if producer.is_transactional]
            if witnesses and expired.issuperset(witnesses):
                expired.discard(witnesses[-1])
        for producer_id in expired:
            del self.by_id[producer_id]
        if self._verifications:
            self._verifications = {
                producer_id: verification
                for producer_id, verification in self._verifications.items()
                if now_ms - verification.begun_ms < expiration_ms
            }
        return len(expired)

    def _complete(self, producer_id: int, producer: Producer, recall: Recall) -> None:
        """Find the batches that a snapshot lacks in the log, once."""
        oldest = producer.batches[0]
        older = [
            _written(header, header.base_offset)
            for header in recall(producer_id, oldest.first_offset - 1)
            if header.producer_epoch == producer.epoch and not header.is_control
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
        """The producers of a `.snapshot` file. Raises BadFile for an incomplete or damaged one."""
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
            producers._load(*row)
        starts = ((producer_id, producer.transaction_start) for producer_id, producer in producers.by_id.items())
        producers._transactions = transactions.opened(starts) if producers.are_transactional else None
        return producers

    def _load(
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
        producer = self.by_id[producer_id] = Producer(epoch, is_partial=last_offset >= 0)
        if last_offset >= 0:
            first_sequence = subtract_from_sequence(last_sequence, delta) if last_sequence >= 0 else NO_SEQUENCE
            producer.batches.append(
                WrittenBatch(first_sequence, last_sequence, last_offset - delta, last_offset, timestamp)
            )
        producer.last_timestamp = timestamp
        producer.coordinator_epoch = coordinator_epoch
        producer.transaction_start = transaction_start


def add_to_sequence(sequence: int, count: int) -> int:
    """The sum of a sequence and a count; 0 follows 2^31-1."""
    return sequence + count if sequence <= MAX_SEQUENCE - count else count - (MAX_SEQUENCE - sequence) - 1


def subtract_from_sequence(sequence: int, count: int) -> int:
    """The reverse of `add_to_sequence`."""
    return sequence - count if sequence >= count else MAX_SEQUENCE - (count - sequence) + 1


def _next(sequence: int) -> int:
    return 0 if sequence == MAX_SEQUENCE else sequence + 1


def _written(header: BatchHeader, base_offset: int) -> WrittenBatch:
    delta, sequence = header.last_offset_delta, header.base_sequence
    last_sequence = add_to_sequence(sequence, delta) if sequence >= 0 else NO_SEQUENCE
    return WrittenBatch(sequence, last_sequence, base_offset, base_offset + delta, header.max_timestamp)


def _check_epoch(producer_id: int, producer_epoch: int, producer: Producer) -> None:
    if producer_epoch < producer.epoch:
        raise KafkaError(
            ErrorCode.INVALID_PRODUCER_EPOCH,
            f"producer {producer_id} has epoch {producer_epoch}; {producer.epoch} is known already",
        )


def _check_new_epoch(header: BatchHeader, producer: Producer) -> None:
    _check_epoch(header.producer_id, header.producer_epoch, producer)
    if header.base_sequence not in (0, NO_SEQUENCE) and producer.epoch != NO_EPOCH:
        raise KafkaError(
            ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
            f"producer {header.producer_id} begins epoch {header.producer_epoch} at sequence {header.base_sequence}",
        )

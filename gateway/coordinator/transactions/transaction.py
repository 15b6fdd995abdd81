"""A transaction as a value: the state of one transactional id, its transitions, and its record.

                        InitProducerId          AddPartitionsToTxn
    (unknown) ──> Empty <───────────── Complete... ──────────> Ongoing <── Empty
                                           ^                      │ EndTxn, timeout, another InitProducerId
                       all markers written └── Prepare... <───────┘

A transition returns the next value and checks nothing; `initialization`, `partitions` and `ending` say when which may
happen. There are two protocols. In the old one (versions 0 and 1) an epoch lasts until the next InitProducerId. In the
new one (version 2, KIP-890) each end of a transaction raises the epoch, so a batch of an ended transaction is known by
its epoch. Source: org.apache.kafka.coordinator.transaction.TransactionMetadata, in Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import NamedTuple, Self

from headgate.gateway.coordinator.decision import ProducerIdAndEpoch
from headgate.gateway.coordinator.transactions.effects import PartitionsByTopic, WriteMarkers
from headgate.protocol.internal.transactions import (
    STATES,
    PartitionsSchema,
    TransactionLogValue,
    encode_common,
    encode_value,
)

NO_ID = -1
NO_EPOCH = -1
NO_PARTITIONS: Mapping[str, tuple[int, ...]] = {}
"""One for all: most ids have no transaction, and there may be very many."""
HIGHEST_EPOCH = 0x7FFF
EXHAUSTED_EPOCH = HIGHEST_EPOCH - 1
"""The last epoch that a client may get. The one above is for the fence of its holder."""
EPOCH_PER_TRANSACTION = 2
"""The version of the protocol from which each transaction has an epoch of its own."""


class TransactionState(IntEnum):
    """The states that a record may have; an index of `protocol.internal.transactions.STATES`.

    Kafka's states Dead and PrepareEpochFence are never written.
    """

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5

    @property
    def title(self) -> str:
        """Kafka's name of the state, "PrepareCommit"."""
        return STATES[self]


_STATES: Mapping[int, TransactionState] = {int(state): state for state in TransactionState}
"""A look-up takes a tenth of the time of a call of the enumeration."""


class Transaction(NamedTuple):
    """The state of one transactional id.

    producer_epoch        of the holder; -1 before the first InitProducerId has ended
    previous_producer_id  the id before the last transition, if that was another one, as after an exhausted epoch; else
                          -1. Records of others may name the same id
    next_producer_id      the id from the end of this transaction on, if its epoch is exhausted; else -1
    timeout_ms            of each transaction; set by InitProducerId
    partitions            topic -> indexes, both ascending; empty unless Ongoing or Prepare...
    start_ms              timestamp of the last transaction's begin; -1 if there was none since InitProducerId
    last_update_ms        timestamp of the last transition
    client_version        of the protocol of the request that caused the last transition: 0 or 2
    """

    producer_id: int
    producer_epoch: int = NO_EPOCH
    previous_producer_id: int = NO_ID
    next_producer_id: int = NO_ID
    timeout_ms: int = 0
    state: TransactionState = TransactionState.EMPTY
    partitions: Mapping[str, tuple[int, ...]] = NO_PARTITIONS
    start_ms: int = -1
    last_update_ms: int = -1
    client_version: int = 0

    # Questions

    @property
    def holder(self) -> ProducerIdAndEpoch:
        """The only producer that may begin, extend and end transactions."""
        return ProducerIdAndEpoch(self.producer_id, self.producer_epoch)

    @property
    def next_holder(self) -> ProducerIdAndEpoch:
        """The producer after the end of this transaction: an exhausted epoch makes room for the next id."""
        if self.next_producer_id != NO_ID:
            return ProducerIdAndEpoch(self.next_producer_id, 0)
        return ProducerIdAndEpoch(self.producer_id, self.producer_epoch)

    @property
    def is_prepared(self) -> bool:
        """Whether the end is decided, and markers are being written."""
        return self.state in (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)

    @property
    def is_complete(self) -> bool:
        """Whether the last transaction has ended, with all its markers."""
        return self.state in (TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT)

    @property
    def is_commit(self) -> bool:
        """Whether the last transaction was committed, if its end is decided."""
        return self.state in (TransactionState.PREPARE_COMMIT, TransactionState.COMPLETE_COMMIT)

    @property
    def is_exhausted(self) -> bool:
        """Whether the next epoch would be the one that is kept for a fence."""
        return self.producer_epoch >= EXHAUSTED_EPOCH

    @property
    def ended_by(self) -> ProducerIdAndEpoch | None:
        """The producer whose transaction has ended in the new protocol, with the epoch before; None in the old one.

        After a fence this is the fenced producer, as in Kafka 4.1: it may repeat an abort and continue, until the next
        InitProducerId fences it again. None if the fence took the last epoch.
        """
        if self.client_version < EPOCH_PER_TRANSACTION or not (self.is_prepared or self.is_complete):
            return None
        if self.previous_producer_id not in (NO_ID, self.producer_id):
            return ProducerIdAndEpoch(self.previous_producer_id, EXHAUSTED_EPOCH)
        if self.producer_epoch == HIGHEST_EPOCH and self.next_producer_id == NO_ID:
            return None
        return ProducerIdAndEpoch(self.producer_id, self.producer_epoch - 1)

    @property
    def maybe_fenced(self) -> ProducerIdAndEpoch | None:
        """The producer that the coordinator fenced, at a level of `transaction.version` below 2, if it fenced any.

        The record of such a fence equals the record of an abort in the old protocol. So this is valid only at a level
        without the new protocol: elsewhere another producer may have replaced this one long ago.
        """
        is_abort = self.state in (TransactionState.PREPARE_ABORT, TransactionState.COMPLETE_ABORT)
        if not is_abort or self.client_version >= EPOCH_PER_TRANSACTION or self.producer_epoch in (0, HIGHEST_EPOCH):
            return None
        return ProducerIdAndEpoch(self.producer_id, self.producer_epoch - 1)

    def has(self, topic: str, index: int) -> bool:
        return index in self.partitions.get(topic, ())

    def has_all(self, partitions: PartitionsByTopic) -> bool:
        known = self.partitions
        for topic, indexes in partitions.items():
            there = known.get(topic, ())
            for index in indexes:
                if index not in there:
                    return False
        return True

    def markers(self, transactional_id: str) -> WriteMarkers:
        """The effect of a Prepare record."""
        return WriteMarkers(
            transactional_id,
            self.producer_id,
            self.producer_epoch,
            self.is_commit,
            self.partitions,
            self.client_version,
        )

    # Transitions

    def initialized(self, producer_id: int, producer_epoch: int, timeout_ms: int, now_ms: int) -> Self:
        """The transition of InitProducerId, to this id and epoch; a repeated request changes neither."""
        is_repeated = (producer_id, producer_epoch) == (self.producer_id, self.producer_epoch)
        previous = self.previous_producer_id if is_repeated else self.producer_id
        return self._replace(
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            previous_producer_id=NO_ID if previous == producer_id else previous,
            next_producer_id=NO_ID,
            timeout_ms=timeout_ms,
            state=TransactionState.EMPTY,
            partitions=NO_PARTITIONS,
            start_ms=-1,
            last_update_ms=now_ms,
        )

    def with_partitions(self, added: PartitionsByTopic, client_version: int, now_ms: int) -> Self:
        """The transition that adds partitions, and begins the transaction if necessary."""
        return type(self)(
            self.producer_id,
            self.producer_epoch,
            NO_ID,
            self.next_producer_id,
            self.timeout_ms,
            TransactionState.ONGOING,
            _union(self.partitions, added),
            self.start_ms if self.state is TransactionState.ONGOING else now_ms,
            now_ms,
            client_version,
        )

    def prepared(self, is_commit: bool, client_version: int, next_producer_id: int, now_ms: int) -> Self:
        """The transition that decides the end. The new protocol raises the epoch, and may abort without a begin."""
        epoch = self.producer_epoch
        return type(self)(
            self.producer_id,
            next_epoch(epoch) if client_version >= EPOCH_PER_TRANSACTION else epoch,
            NO_ID,
            next_producer_id,
            self.timeout_ms,
            TransactionState.PREPARE_COMMIT if is_commit else TransactionState.PREPARE_ABORT,
            self.partitions,
            self.start_ms if self.state is TransactionState.ONGOING else now_ms,
            now_ms,
            client_version,
        )

    def fenced(self, transaction_version: int, now_ms: int) -> Self:
        """The transition of an abort by the coordinator, in the next epoch: the holder is fenced.

        `transaction_version` of the cluster. The end of a transaction of the new protocol has the next epoch already.
        """
        if transaction_version >= EPOCH_PER_TRANSACTION:
            return self.prepared(False, EPOCH_PER_TRANSACTION, NO_ID, now_ms)
        return self._replace(producer_epoch=next_epoch(self.producer_epoch)).prepared(False, 0, NO_ID, now_ms)

    def completed(self, now_ms: int) -> Self:
        """The transition after all markers were written."""
        producer_id, epoch = self.next_holder
        return type(self)(
            producer_id,
            epoch,
            NO_ID if producer_id == self.producer_id else self.producer_id,
            NO_ID,
            self.timeout_ms,
            TransactionState.COMPLETE_COMMIT if self.is_commit else TransactionState.COMPLETE_ABORT,
            NO_PARTITIONS,
            self.start_ms,
            now_ms,
            self.client_version,
        )

    # Records

    @classmethod
    def from_value(cls, value: TransactionLogValue) -> Self:
        """The transaction of a record. Raises ValueError for a state that is never written."""
        return cls(
            value.producer_id,
            value.producer_epoch,
            value.previous_producer_id,
            value.next_producer_id,
            value.transaction_timeout_ms,
            _STATES.get(value.transaction_status) or TransactionState(value.transaction_status),
            {row.topic: tuple(row.partition_ids) for row in value.transaction_partitions or ()} or NO_PARTITIONS,
            value.transaction_start_timestamp_ms,
            value.transaction_last_update_timestamp_ms,
            value.client_transaction_version,
        )

    def to_value(self) -> TransactionLogValue:
        """The record. It has the fields of version 1 only if one of them is needed."""
        rows = [PartitionsSchema(topic, list(indexes)) for topic, indexes in self.partitions.items()]
        return TransactionLogValue(
            producer_id=self.producer_id,
            previous_producer_id=self.previous_producer_id,
            next_producer_id=self.next_producer_id,
            producer_epoch=self.producer_epoch,
            transaction_timeout_ms=self.timeout_ms,
            transaction_status=self.state,
            transaction_partitions=None if self.state is TransactionState.EMPTY else rows,
            transaction_last_update_timestamp_ms=self.last_update_ms,
            transaction_start_timestamp_ms=self.start_ms,
            client_transaction_version=self.client_version,
        )


def next_epoch(producer_epoch: int) -> int:
    """The epoch after this one, wherever a producer epoch rises. A fence may have taken the highest one already."""
    return min(producer_epoch + 1, HIGHEST_EPOCH)


def encode(transaction: Transaction, transaction_version: int) -> bytes:
    """The value of a transaction's record, where `transaction.version` has this level."""
    if (
        transaction_version
        and transaction.next_producer_id == transaction.previous_producer_id == NO_ID
        and transaction.state is not TransactionState.EMPTY
    ):
        encoded = encode_common(
            transaction.producer_id,
            transaction.producer_epoch,
            transaction.timeout_ms,
            transaction.state,
            transaction.partitions,
            transaction.last_update_ms,
            transaction.start_ms,
            transaction.client_version,
        )
        if encoded is not None:
            return encoded
    return encode_value(transaction.to_value(), record_version(transaction, transaction_version))


def record_version(transaction: Transaction, transaction_version: int) -> int:
    """The version of a record: 1 where `transaction.version` is above 0, or where version 0 would lose a field.

    That happens after a downgrade of the feature, while clients of the new protocol are still connected.
    """
    needs_tags = (
        transaction.client_version != 0
        or transaction.next_producer_id != NO_ID
        or transaction.previous_producer_id != NO_ID
    )
    return 1 if transaction_version or needs_tags else 0


def _union(known: Mapping[str, tuple[int, ...]], added: PartitionsByTopic) -> dict[str, tuple[int, ...]]:
    merged = dict(known)
    for topic, indexes in added.items():
        merged[topic] = tuple(sorted({*merged.get(topic, ()), *indexes}))
    return dict(sorted(merged.items()))

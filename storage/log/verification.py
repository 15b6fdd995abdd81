"""Verification: the coordinator confirms a transaction before its first batch is appended to a partition (KIP-890).

A batch can arrive after the marker of its transaction. Such a batch would open a transaction that nobody ends, and
readers of committed records would wait for ever. So before the first batch of a transaction in a partition, the
coordinator has to confirm that the transaction is open, and has the partition.

    no transaction open ──> begin ──> asked ──> verified ──> the first batch is appended: the transaction is open
                                        └───────────┴──────> a marker is appended: the verification is void

The verification itself is the guard against a late answer. The answer is noted on the object that stood for the
question. A marker removes that object from the partition, so that an answer about an earlier transaction opens nothing.
Source: Apache Kafka's `VerificationStateEntry`, `VerificationGuard`.
"""

from __future__ import annotations

from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.records.batch import BatchHeader


class UnverifiedTransaction(KafkaError):
    """The coordinator has to be asked about the transaction of a batch."""

    def __init__(self, header: BatchHeader) -> None:
        message = f"the batch of producer {header.producer_id} was not part of an ongoing transaction"
        super().__init__(ErrorCode.INVALID_TXN_STATE, message)
        self.header = header


class Verification:
    """The verification of one producer's transaction in one partition.

    begins_at_zero   the first batch of a producer without batches in the log has sequence 0: a client of the new
                     protocol begins each transaction with a new epoch, and so with a new sequence
    begun_ms         the time of the first batch, to forget a verification that ended with no batch
    is_verified      set by the caller, once the coordinator has confirmed the transaction
    lowest_sequence  of the batches that asked. Where the log has no batch of the producer, a higher one is refused: the
                     lower batch comes again, and would be out of order behind the higher
    """

    __slots__ = ("begins_at_zero", "begun_ms", "epoch", "is_verified", "lowest_sequence")

    def __init__(self, epoch: int, base_sequence: int, begun_ms: int, *, begins_at_zero: bool) -> None:
        self.epoch = epoch
        self.lowest_sequence = base_sequence
        self.begun_ms = begun_ms
        self.begins_at_zero = begins_at_zero
        self.is_verified = False

    def check(self, header: BatchHeader, *, has_batches: bool) -> None:
        """Check the sequence of the first batch; `has_batches`: batches of the producer are known in the partition.

        Raises KafkaError(OUT_OF_ORDER_SEQUENCE_NUMBER).
        """
        if has_batches:
            return  # the batch has to follow them; a late copy of one of them may have asked, and never comes again
        sequence, expected = header.base_sequence, self.lowest_sequence
        if self.begins_at_zero:
            expected = 0
        if sequence > expected:
            message = f"producer {header.producer_id} begins a transaction at sequence {sequence}, not at {expected}"
            raise KafkaError(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, message)

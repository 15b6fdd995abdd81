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
    lowest_sequence  of the batches that asked. A higher one is refused: the batch with the lowest is to open the
                     transaction. A client may have used a sequence again that an earlier transaction in this epoch has:
                     the log takes such a batch for a copy, and the next batch must not commit a transaction without it
    """

    __slots__ = ("begins_at_zero", "begun_ms", "epoch", "is_verified", "lowest_sequence")

    def __init__(self, epoch: int, base_sequence: int, begun_ms: int, *, begins_at_zero: bool) -> None:
        self.epoch = epoch
        self.lowest_sequence = base_sequence
        self.begun_ms = begun_ms
        self.begins_at_zero = begins_at_zero
        self.is_verified = False

    def highest_first_sequence(self, *, has_batches: bool) -> int:
        """The highest sequence that may open the transaction; `has_batches`: the log has batches of the producer."""
        return 0 if self.begins_at_zero and not has_batches else self.lowest_sequence

"""A produce request with batches whose transaction the coordinator has to confirm before the append (KIP-890).

    verify_at_once ──> the coordinator, in this process, says yes ──> the handler appends as it does any batch

    handler ──> all other batches are appended
       └──────> UnverifiedAppend: ask the coordinator ──> append ──> the request waits as any other (DelayedProduce)
                        │ while the last transaction ends: ask once more, a little later
                        └─ refused: the error of the partition

A log refuses the first batch of a transaction (`storage.log.verification`). The batch then waits here, as a copy, until
the coordinator has answered; one question covers all such batches of the request. Other connections are served
meanwhile; later requests on the same connection come behind. From version 12 on the question also adds the partitions
to the transaction: clients of the new protocol do not add them by themselves.

Source: `AddPartitionsToTxnManager` and `ReplicaManager.handleProduceAppend` of Apache Kafka 4.1.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TypeAlias

from headgate.gateway.api.context import HandlerContext
from headgate.gateway.api.delayed_produce import MIN_WAIT_MS, Delayed
from headgate.gateway.coordinator.decision import ProducerIdAndEpoch
from headgate.gateway.replication.append import Append
from headgate.gateway.replication.replica import Replica
from headgate.gateway.runtime.clock import Clock
from headgate.gateway.runtime.tasks import Changes, Task, value_of, within
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnResult
from headgate.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
)
from headgate.protocol.records.batch import (
    CRC_START,
    HEADER,
    HEADER_SIZE,
    MAGIC,
    MAX_SEQUENCE,
    TRANSACTIONAL,
    BatchHeader,
)
from headgate.storage.log.producers import Producers
from headgate.storage.log.verification import UnverifiedTransaction, Verification

AppendAgain: TypeAlias = Callable[["UnverifiedAppend", list[Delayed]], PartitionProduceResponse]
"""Begins the append of a verified batch: its row, and the list for appends that are delayed."""
Codes: TypeAlias = Mapping[tuple[str, int], int]
"""(topic, index) -> the coordinator's answer."""

KNOWS_ABORTABLE, ADDS_PARTITIONS = 11, 12
"""The first versions of Produce that know TRANSACTION_ABORTABLE, and that add partitions to the transaction."""
FIRST_RETRY_MS, MAX_RETRY_MS, RETRIES_END_MS = 2.0, 20.0, 100.0
"""While the last transaction of the producer ends, the coordinator is asked again: as long as by default in Kafka
(add.partitions.to.txn.retry.backoff.ms, .max.ms), but the first times sooner."""
_MAGIC_AT = 16
_LOW_ATTRIBUTES = CRC_START + 1
_STRANGERS = frozenset((ErrorCode.INVALID_PRODUCER_ID_MAPPING, ErrorCode.INVALID_PRODUCER_EPOCH))
_PRODUCER, _PRODUCER_POSITION = struct.Struct(">qhi"), 43
"""Producer id, producer epoch and base sequence in the header of a batch."""
_UNREACHABLE = frozenset(
    (
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    )
)


class UnverifiedAppend(Append):
    """An append that the log refused: it has failed, unless the coordinator confirms the transaction.

    topic, data   of the request; the batch is a copy
    header        of the batch
    """

    __slots__ = ("data", "header", "topic", "verification")

    def __init__(self, replica: Replica, topic: str, data: PartitionProduceData, header: BatchHeader) -> None:
        super().__init__(replica, required_acks=0)
        self.topic = topic
        self.data = data
        self.header = header
        self.verification: Verification | None = None
        self.fail(KafkaError(ErrorCode.INVALID_TXN_STATE, "the transaction was not verified"))

    @property
    def partition(self) -> tuple[str, int]:
        return self.topic, self.replica.index

    def begin_verification(self, context: HandlerContext) -> None:
        """Begin again with each question: the marker of the producer's last transaction may have come meanwhile."""
        self.verification = None
        with suppress(KafkaError):  # an old epoch, with which the append will be refused
            self.verification = self.replica.log.producers.begin_verification(
                self.header.producer_id,
                self.header.producer_epoch,
                _first_sequence(self.header.base_sequence, context),
                context.broker.clock.now_ms(),
                begins_at_zero=context.version >= ADDS_PARTITIONS,
            )

    def confirm(self) -> None:
        """The coordinator has confirmed the transaction."""
        if self.verification is not None:
            self.verification.is_verified = True

    def refused(self, error: KafkaError) -> Append:
        """The failed append that takes the place of this one.

        A producer that the coordinator does not know leaves nothing behind: made-up producers must not fill the memory.
        """
        if self.verification is not None and error.code in _STRANGERS:
            self.replica.log.producers.end_verification(self.header.producer_id, self.verification)
        append = Append(self.replica, required_acks=0)
        append.fail(error)
        return append


def _first_sequence(sequence: int, context: HandlerContext) -> int:
    """The sequence that a verification notes as seen. Without verification any sequence may come first, as in Kafka."""
    is_verified = context.version >= ADDS_PARTITIONS or context.broker.config.transaction_partition_verification_enable
    return sequence if is_verified else MAX_SEQUENCE


def check_transaction(replica: Replica, records: memoryview) -> None:
    """Have the coordinator asked first, and not in the append's turn, which may come much later.

    Raises UnverifiedTransaction.
    """
    if _is_transactional(records):
        header = BatchHeader._make(HEADER.unpack_from(records))
        if header.producer_id >= 0 and not replica.log.producers.is_verified(header.producer_id, header.producer_epoch):
            raise UnverifiedTransaction(header)


def has_transactional_batch(request: ProduceRequest) -> bool:
    for topic in request.topic_data:
        for data in topic.partition_data:
            if isinstance(data.records, memoryview) and _is_transactional(data.records):
                return True
    return False


def _is_transactional(records: memoryview) -> bool:
    """Whether records begin with a batch of a transaction. A message of magic 0 or 1 has other bytes in that place."""
    return (
        len(records) >= HEADER_SIZE and (records[_LOW_ATTRIBUTES] & TRANSACTIONAL) != 0 and records[_MAGIC_AT] >= MAGIC
    )


def verify_at_once(request: ProduceRequest, context: HandlerContext) -> None:
    """Have the batches of a request verified before the appends, if the coordinator can say yes without a wait.

    That is the usual case: then no batch is copied or refused. The log refuses a batch that this
    function leaves unverified, and `TransactionVerification` asks about the batch.
    """
    broker, adds = context.broker, context.version >= ADDS_PARTITIONS
    partitions: dict[str, list[int]] = {}
    unverified: list[tuple[Producers, int]] = []
    producer: ProducerIdAndEpoch | None = None
    with suppress(KafkaError):  # its request is refused, partition by partition
        for topic in request.topic_data:
            for data in topic.partition_data:
                records = data.records
                if not isinstance(records, memoryview) or not _is_transactional(records):
                    return
                producer_id, epoch, sequence = _PRODUCER.unpack_from(records, _PRODUCER_POSITION)
                if producer_id < 0:
                    return
                producers = broker.partitions.get(topic.name, data.index).log.producers
                if producers.is_verified(producer_id, epoch):
                    continue
                if producer not in (None, (producer_id, epoch)):
                    return
                producer = ProducerIdAndEpoch(producer_id, epoch)
                unverified.append((producers, sequence))
                partitions.setdefault(topic.name, []).append(data.index)
        if producer is None or not broker.transactions.confirm(
            request.transactional_id or "", producer, partitions, adds=adds
        ):
            return
        now_ms = broker.clock.now_ms()
        for producers, sequence in unverified:  # now, so that the log has nothing of a producer that is unknown
            first_sequence = _first_sequence(sequence, context)
            verification = producers.begin_verification(*producer, first_sequence, now_ms, begins_at_zero=adds)
            verification.is_verified = True


def delay_unverified(
    topic: str, data: PartitionProduceData, header: BatchHeader, context: HandlerContext, delayed: list[Delayed]
) -> PartitionProduceResponse:
    """The row of a batch that waits for the coordinator."""
    replica = context.broker.partitions.get(topic, data.index)
    # A copy: the frame's buffer is reused before the coordinator answers.
    owned = bytearray(data.records) if isinstance(data.records, memoryview) else bytearray()
    copied = PartitionProduceData(data.index, memoryview(owned))
    row = PartitionProduceResponse(data.index, base_offset=-1)
    delayed.append((UnverifiedAppend(replica, topic, copied, header), row))
    return row


def has_unverified(delayed: Sequence[Delayed]) -> bool:
    return any(isinstance(append, UnverifiedAppend) for append, _ in delayed)


def _unverified(delayed: Sequence[Delayed]) -> list[UnverifiedAppend]:
    return [append for append, _ in delayed if isinstance(append, UnverifiedAppend)]


class Retries:
    """The pauses between questions to a coordinator that still ends the producer's last transaction."""

    __slots__ = ("_clock", "_end_ms", "_pause_ms")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._end_ms, self._pause_ms = clock.monotonic_ms() + RETRIES_END_MS, FIRST_RETRY_MS

    def pause(self) -> Task[bool]:
        """Wait, and return whether to ask again: not for ever, and not if the broker stops."""
        due_ms = self._clock.monotonic_ms() + self._pause_ms
        if due_ms > self._end_ms:
            return False
        self._pause_ms = min(2 * self._pause_ms, MAX_RETRY_MS)
        yield Changes((), due_ms)
        return self._clock.monotonic_ms() >= due_ms


class TransactionVerification:
    """A produce request with a transactional id, and those of its appends that had not ended in the handler."""

    __slots__ = (
        "_adds",
        "_append_again",
        "_context",
        "_deadline_ms",
        "_delayed",
        "_request",
        "_response",
        "_unverified",
    )

    def __init__(
        self,
        request: ProduceRequest,
        context: HandlerContext,
        response: ProduceResponse,
        delayed: Sequence[Delayed],
        append_again: AppendAgain,
    ) -> None:
        self._request = request
        self._context = context
        self._response = response
        self._delayed = delayed
        self._append_again = append_again
        self._unverified = _unverified(delayed)
        self._adds = context.version >= ADDS_PARTITIONS
        self._deadline_ms = context.broker.clock.monotonic_ms() + max(request.timeout_ms, MIN_WAIT_MS)

    def verify(self) -> Task[Sequence[Delayed]]:
        """Ask about the transaction, and append what is verified. Returns the appends that have not ended.

        The marker of the producer's last transaction may come between question and answer, and make the verification
        void. In the new protocol, where epochs distinguish the transactions, the question is asked again: after
        a slow answer by the client, which takes INVALID_TXN_STATE for the end of its producer.
        """
        retries = Retries(self._context.broker.clock)
        codes = yield from self._ask(retries)
        while True:
            self._append(codes)
            if not self._unverified:
                break
            codes = self._codes(ErrorCode.CONCURRENT_TRANSACTIONS if self._adds else ErrorCode.INVALID_TXN_STATE)
            if self._adds and (yield from retries.pause()):
                codes = yield from self._ask(retries)
        self._context.broker.batcher.write_all()  # no later step of this turn writes what was staged
        return self._delayed

    def _codes(self, code: ErrorCode) -> Codes:
        return {append.partition: code for append in self._unverified}

    def _ask(self, retries: Retries) -> Task[Codes]:
        """The coordinator's answers for all batches."""
        is_verified = self._adds or self._context.broker.config.transaction_partition_verification_enable
        if len({(append.header.producer_id, append.header.producer_epoch) for append in self._unverified}) > 1:
            return self._codes(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        while True:
            for append in self._unverified:
                append.begin_verification(self._context)
            if not is_verified:
                return self._codes(ErrorCode.NONE)
            codes = yield from self._answer()
            if not self._adds or ErrorCode.CONCURRENT_TRANSACTIONS not in codes.values():
                return codes
            if not (yield from retries.pause()):
                return codes

    def _answer(self) -> Task[Codes]:
        broker, header = self._context.broker, self._unverified[0].header
        partitions: dict[str, set[int]] = {}
        for append in self._unverified:
            partitions.setdefault(append.topic, set()).add(append.replica.index)
        try:
            outcome = broker.transactions.verify(
                self._request.transactional_id or "",
                header.producer_id,
                header.producer_epoch,
                {topic: sorted(partitions[topic]) for topic in sorted(partitions)},
                adds=self._adds,
            )
            answer = yield from within(broker.tasks, value_of(outcome), self._deadline_ms, _late)
        except KafkaError as error:
            return self._codes(error.code)
        return _codes(answer)

    def _append(self, codes: Codes) -> None:
        """Append the batches whose transaction has the partition; refuse the others."""
        delayed: list[Delayed] = []
        rows: dict[int, PartitionProduceResponse] = {}
        for append, row in self._delayed:
            if not isinstance(append, UnverifiedAppend):
                delayed.append((append, row))
            elif (code := codes.get(append.partition, ErrorCode.INVALID_TXN_STATE)) != ErrorCode.NONE:
                delayed.append((append.refused(_refusal(ErrorCode(code), self._context.version)), row))
            else:
                append.confirm()
                rows[id(row)] = self._append_again(append, delayed)
        for topic in self._response.responses:
            topic.partition_responses = [rows.get(id(row), row) for row in topic.partition_responses]
        self._delayed, self._unverified = delayed, _unverified(delayed)


def _late() -> KafkaError:
    return KafkaError(ErrorCode.NOT_COORDINATOR, "the coordinator did not answer in time")


def _codes(result: AddPartitionsToTxnResult) -> Codes:
    return {
        (topic.name, partition.partition_index): partition.partition_error_code
        for topic in result.topic_results
        for partition in topic.results_by_partition
    }


def _refusal(code: ErrorCode, version: int) -> KafkaError:
    """The error of a partition for a client of this version of Produce.

    A coordinator that cannot be asked becomes NOT_ENOUGH_REPLICAS: every client sends the batch again, and does not ask
    for new metadata first.
    """
    if code in _UNREACHABLE or (code == ErrorCode.CONCURRENT_TRANSACTIONS and version < ADDS_PARTITIONS):
        return KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS, f"the transaction could not be verified: {code.name}")
    if code == ErrorCode.PRODUCER_FENCED:
        code = ErrorCode.INVALID_PRODUCER_EPOCH
    elif code == ErrorCode.TRANSACTION_ABORTABLE and version < KNOWS_ABORTABLE:
        code = ErrorCode.INVALID_TXN_STATE
    if code in (ErrorCode.INVALID_TXN_STATE, ErrorCode.TRANSACTION_ABORTABLE):
        return KafkaError(code, "the partition was not added to the transaction")
    return KafkaError(code)

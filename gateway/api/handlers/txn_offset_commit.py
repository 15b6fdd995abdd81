"""TxnOffsetCommit: commit offsets of a group within a transaction (KIP-98).

v2 leader epochs (KIP-320)   v3 flexible; members are checked (KIP-447)   v4 TRANSACTION_ABORTABLE (KIP-890)
v5 adds the group to the transaction (KIP-890)   v6 topics by id (KIP-1319)

The transaction coordinator confirms the first offsets of a transaction in a partition of `__consumer_offsets`, as with
batches of clients (`storage.log.verification`):

    handler ──> the transaction is open in the log ───────────────────────────────> the group decides
       └──────> ask the transaction coordinator; from v5 on it adds the partition ──> the group decides, or refuses
                        │ while the last transaction ends: ask once more, a little later
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial

from headgate.gateway.api.authorization import AclOperation
from headgate.gateway.api.authorization_rules import committed_topics, every, group, transactional_id
from headgate.gateway.api.context import HandlerContext
from headgate.gateway.api.handler_registration import handles
from headgate.gateway.api.transactions.transaction_verification import Retries
from headgate.gateway.coordinator.decision import Decision, ProducerIdAndEpoch, Ticket
from headgate.gateway.coordinator.groups import offset_requests
from headgate.gateway.coordinator.groups.group_shard import GroupShard
from headgate.gateway.metadata.image import CONSUMER_OFFSETS
from headgate.gateway.replication.replica import Replica
from headgate.gateway.runtime.tasks import Outcome, Task, value_of
from headgate.protocol.errors import ErrorCode, KafkaError, without_frames
from headgate.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse
from headgate.protocol.records.batch import NO_SEQUENCE
from headgate.storage.log.verification import Verification

_KNOWS_LOADS = 2
"""The first version whose producers come again after COORDINATOR_LOAD_IN_PROGRESS (KAFKA-7296)."""
_KNOWS_ABORTABLE, _ADDS_GROUP = 4, 5
_UNREACHABLE = frozenset(
    (
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.NOT_COORDINATOR,
    )
)
"""Errors of the transaction coordinator. The client must not take them for those of the group's coordinator."""


_authorize = every(transactional_id, group(AclOperation.READ), committed_topics)


@handles(TxnOffsetCommitRequest, versions="0-6", authorize=_authorize, stages=True)
def txn_offset_commit(request: TxnOffsetCommitRequest, context: HandlerContext) -> Outcome[TxnOffsetCommitResponse]:
    """Have the transaction verified, then let the group decide; the response waits for the high watermark."""
    return _TransactionalCommit(request, context).answer()


class _TransactionalCommit:
    """One request, from the question for its transaction to the decision of the group."""

    __slots__ = ("_adds", "_context", "_replica", "_request")

    def __init__(self, request: TxnOffsetCommitRequest, context: HandlerContext) -> None:
        self._request = request
        self._context = context
        self._adds = context.version >= _ADDS_GROUP
        self._replica: Replica | None = None  # if the transaction has to be open, or verified, in its log

    def answer(self) -> Outcome[TxnOffsetCommitResponse]:
        """The response, or a task that waits for it. Raises KafkaError: those of `CoordinatorRuntime.submit`."""
        broker = self._context.broker
        if not self._adds and not broker.config.transaction_partition_verification_enable:
            return self._commit(stages=True)
        try:
            self._replica = broker.partitions.get(CONSUMER_OFFSETS, broker.groups.index_of(self._request.group_id))
        except KafkaError:
            return self._commit(stages=True)  # there is no coordinator either: the client gets its error
        if self._is_verified(self._replica):
            return self._commit(stages=True)
        try:
            verification = self._begin(self._replica)
        except KafkaError as error:
            return self._commit(error, stages=True)
        with suppress(KafkaError):  # which `verify` raises too
            verification.is_verified = broker.transactions.confirm(
                self._request.transactional_id, self._producer, self._partitions(self._replica), adds=self._adds
            )
        if verification.is_verified:
            return self._commit(stages=True)
        return self._ask_and_commit(self._replica)

    @property
    def _producer(self) -> ProducerIdAndEpoch:
        return ProducerIdAndEpoch(self._request.producer_id, self._request.producer_epoch)

    @staticmethod
    def _partitions(replica: Replica) -> dict[str, list[int]]:
        return {CONSUMER_OFFSETS: [replica.index]}

    def _is_verified(self, replica: Replica) -> bool:
        return replica.log.producers.is_verified(*self._producer)

    def _begin(self, replica: Replica) -> Verification:
        """Begin with each question: a marker that comes meanwhile makes the answer void. Raises KafkaError."""
        now_ms = self._context.broker.clock.now_ms()
        return replica.log.producers.begin_verification(*self._producer, NO_SEQUENCE, now_ms, begins_at_zero=False)

    def _ask_and_commit(self, replica: Replica) -> Task[TxnOffsetCommitResponse]:
        try:
            error = yield from self._ask(replica)
        except KafkaError as refused:
            error = without_frames(refused)
        return (yield from value_of(self._commit(error)))

    def _ask(self, replica: Replica) -> Task[KafkaError | None]:
        """Ask the transaction coordinator, again while the last transaction ends. Returns its refusal; None for a yes.

        Raises KafkaError if the log refuses the producer.
        """
        broker, version, retries = self._context.broker, self._context.version, Retries(self._context.broker.clock)
        transactional_id, partitions = self._request.transactional_id, self._partitions(replica)
        while True:
            verification = self._begin(replica)
            try:
                answer = yield from value_of(
                    broker.transactions.verify(transactional_id, *self._producer, partitions, adds=self._adds)
                )
            except KafkaError as error:
                return _refusal(error.code, version)
            code = ErrorCode(answer.topic_results[0].results_by_partition[0].partition_error_code)
            if code is ErrorCode.NONE:
                verification.is_verified = True
                return None
            if code is not ErrorCode.CONCURRENT_TRANSACTIONS or not self._adds:
                break
            if not (yield from retries.pause()):
                return KafkaError(code)
        if code in (ErrorCode.INVALID_PRODUCER_ID_MAPPING, ErrorCode.PRODUCER_FENCED):  # else a peer could fill memory
            replica.log.producers.end_verification(self._request.producer_id, verification)
        return _refusal(code, version)

    def _commit(self, error: KafkaError | None = None, *, stages: bool = False) -> Outcome[TxnOffsetCommitResponse]:
        """Let the group decide. `error`: why the transaction cannot take the offsets. `stages`: in the handler."""
        request, version = self._request, self._context.version

        def decide(shard: GroupShard, ticket: Ticket) -> Decision:
            return offset_requests.commit_in_transaction(shard, request, version, ticket, error or self._too_late())

        lost = partial(request.error_response, version) if stages else None
        stores = self._context.broker.offset_stores
        try:
            dual = None if stores is None else stores.dual(request.group_id)
            if stores is not None and dual is not None:
                return self._with_known_errors(stores.commit_in_transaction(dual, request.topics, decide))
            return self._context.broker.groups.submit(request.group_id, decide, lost)
        except KafkaError as failure:
            raise self._known(failure) from failure.__cause__

    def _known(self, failure: KafkaError) -> KafkaError:
        """The same error; old producers get one that they know."""
        if self._context.version < _KNOWS_LOADS and failure.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            return KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, failure.message)
        return failure

    def _with_known_errors(self, commit: Task[TxnOffsetCommitResponse]) -> Task[TxnOffsetCommitResponse]:
        try:
            return (yield from commit)
        except KafkaError as failure:
            raise self._known(failure) from failure.__cause__

    def _too_late(self) -> KafkaError | None:
        """The error of offsets whose transaction has ended since it was verified: they would open another (KIP-890)."""
        if self._replica is None or self._is_verified(self._replica):
            return None
        return _refusal(ErrorCode.TRANSACTION_ABORTABLE, self._context.version)


def _refusal(code: ErrorCode, version: int) -> KafkaError:
    if code in _UNREACHABLE:
        known = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE if version < _KNOWS_LOADS else known)
    if code is ErrorCode.PRODUCER_FENCED:
        return KafkaError(ErrorCode.INVALID_PRODUCER_EPOCH)
    if code is ErrorCode.TRANSACTION_ABORTABLE and version < _KNOWS_ABORTABLE:
        return KafkaError(ErrorCode.INVALID_TXN_STATE)
    return KafkaError(code)

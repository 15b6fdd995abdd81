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

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from headgate.gateway.api.authorization import AclOperation, AclResource, Authorization
from headgate.gateway.api.authorization_rules import every, group
from headgate.gateway.api.context import HandlerContext
from headgate.gateway.api.handler_registration import handles
from headgate.gateway.coordinator.decision import NEVER, Decision, ProducerIdAndEpoch, Ticket
from headgate.gateway.coordinator.gathering import value_of
from headgate.gateway.coordinator.groups import offset_requests
from headgate.gateway.coordinator.groups.group_shard import GroupShard
from headgate.gateway.metadata.image import CONSUMER_OFFSETS
from headgate.gateway.replication.replica import Replica
from headgate.gateway.runtime.purgatory import Waiting, WaitList
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnResult
from headgate.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse
from headgate.protocol.records.batch import NO_SEQUENCE
from headgate.storage.log.verification import Verification

_KNOWS_LOADS = 2
"""The first version whose producers come again after COORDINATOR_LOAD_IN_PROGRESS (KAFKA-7296)."""
_KNOWS_ABORTABLE, _ADDS_GROUP = 4, 5
FIRST_RETRY_MS, MAX_RETRY_MS, RETRIES_END_MS = 2.0, 20.0, 100.0
"""While the last transaction of the producer ends, the coordinator is asked again."""
_UNREACHABLE = frozenset(
    (
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.NOT_COORDINATOR,
    )
)
"""Errors of the transaction coordinator. The client must not take them for those of the group's coordinator."""


def _authorize_id(authorization: Authorization) -> None:
    """Require WRITE on the transactional id."""
    transactional_id = authorization.request.transactional_id
    authorization.require(AclOperation.WRITE, AclResource.TRANSACTIONAL_ID, transactional_id)


def _authorize_topics(authorization: Authorization) -> None:
    """Require READ on each topic."""
    authorization.split(
        "topics", "topics", lambda topic: authorization.allows_topic(AclOperation.READ, topic.name, topic.topic_id)
    )


_authorize = every(_authorize_id, group(AclOperation.READ), _authorize_topics)


@handles(TxnOffsetCommitRequest, versions="0-6", authorize=_authorize, stages=True)
def txn_offset_commit(request: TxnOffsetCommitRequest, context: HandlerContext) -> Any:
    """Have the transaction verified, then let the group decide; the response waits for the high watermark."""
    return _TransactionalCommit(request, context).answer()


class _TransactionalCommit:
    """One request, from the question for its transaction to the decision of the group."""

    __slots__ = ("_adds", "_context", "_is_parked", "_replica", "_request", "_retries_end_ms", "_retry_ms")

    def __init__(self, request: TxnOffsetCommitRequest, context: HandlerContext) -> None:
        self._request = request
        self._context = context
        self._adds = context.version >= _ADDS_GROUP
        self._replica: Replica | None = None  # if the transaction has to be open, or verified, in its log
        self._is_parked = False
        self._retries_end_ms, self._retry_ms = context.broker.clock.monotonic_ms() + RETRIES_END_MS, FIRST_RETRY_MS

    def answer(self) -> Any:
        """The response, or a `Waiting` for it. Raises KafkaError: those of `CoordinatorRuntime.submit`."""
        broker = self._context.broker
        if not self._adds and not broker.config.transaction_partition_verification_enable:
            return self._commit()
        try:
            self._replica = broker.partitions.get(CONSUMER_OFFSETS, broker.groups.index_of(self._request.group_id))
        except KafkaError:
            return self._commit()  # there is no coordinator either, and its error is the one to be told
        if self._is_verified(self._replica):
            return self._commit()
        return self._ask(self._replica)

    def _is_verified(self, replica: Replica) -> bool:
        return replica.log.producers.is_verified(self._request.producer_id, self._request.producer_epoch)

    def _ask(self, replica: Replica) -> Any:
        """Ask the transaction coordinator. A marker that comes meanwhile makes the answer void."""
        broker, request = self._context.broker, self._request
        producer = ProducerIdAndEpoch(request.producer_id, request.producer_epoch)
        partitions = {CONSUMER_OFFSETS: [replica.index]}
        try:
            verification = replica.log.producers.begin_verification(
                *producer, NO_SEQUENCE, broker.clock.now_ms(), begins_at_zero=False
            )
        except KafkaError as error:
            return self._commit(error)
        with suppress(KafkaError):  # which `verify` raises too
            verification.is_verified = broker.transactions.confirm(
                request.transactional_id, producer, partitions, adds=self._adds
            )
        if verification.is_verified:
            return self._commit()
        verify = partial(broker.transactions.verify, request.transactional_id, *producer, partitions, adds=self._adds)
        return self._take(verify, replica, verification)

    def _take(self, ask: Callable[[], Any], replica: Replica, verification: Verification) -> Any:
        """Take the answer, or wait for it; None: it is still to come."""
        answer: AddPartitionsToTxnResult | KafkaError | Waiting | None = value_of(ask)
        if answer is None:
            return None
        if isinstance(answer, Waiting):
            waiting = answer
            self._is_parked = True
            return Waiting(
                waiting.lists,
                NEVER,
                lambda touched: self._take(lambda: waiting.attempt(touched), replica, verification),
                lambda: self._take(waiting.expire, replica, verification),
            )
        if isinstance(answer, KafkaError):
            return self._commit(_refusal(answer.code, self._context.version))
        code = ErrorCode(answer.topic_results[0].results_by_partition[0].partition_error_code)
        if code is ErrorCode.NONE:
            verification.is_verified = True
            return self._commit()
        if code is ErrorCode.CONCURRENT_TRANSACTIONS and self._adds:
            return self._retry(replica)
        if code in (ErrorCode.INVALID_PRODUCER_ID_MAPPING, ErrorCode.PRODUCER_FENCED):  # else a peer could fill memory
            replica.log.producers.end_verification(self._request.producer_id, verification)
        return self._commit(_refusal(code, self._context.version))

    def _retry(self, replica: Replica) -> Any:
        """Ask again in a moment; not for ever, and not if a stop of the broker ends the wait early."""
        clock, refused = self._context.broker.clock, KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
        due_ms = clock.monotonic_ms() + self._retry_ms
        if due_ms > self._retries_end_ms:
            return self._commit(refused)
        self._retry_ms = min(2 * self._retry_ms, MAX_RETRY_MS)
        self._is_parked = True
        return Waiting(
            (), due_ms, _never, lambda: self._ask(replica) if clock.monotonic_ms() >= due_ms else self._commit(refused)
        )

    def _commit(self, error: KafkaError | None = None) -> Any:
        """Let the group decide; `error`: why the transaction cannot take the offsets."""
        request, version = self._request, self._context.version

        def decide(shard: GroupShard, ticket: Ticket) -> Decision:
            return offset_requests.commit_in_transaction(shard, request, version, ticket, error or self._too_late())

        def lost(code: ErrorCode) -> TxnOffsetCommitResponse:
            return request.error_response(version, code)

        # Whoever was parked gets an answer that leaves at once, and no later step of the turn writes what is staged
        staging = None if self._is_parked else lost
        stores = self._context.broker.offset_stores
        try:
            dual = None if stores is None else stores.dual(request.group_id)
            if stores is not None and dual is not None:
                return self._told(stores.commit_in_transaction(dual, request.topics, decide))
            return self._context.broker.groups.submit(request.group_id, decide, staging)
        except KafkaError as failure:
            raise self._known(failure) from failure.__cause__

    def _known(self, failure: KafkaError) -> KafkaError:
        """The same error; old producers get one that they know."""
        if self._context.version < _KNOWS_LOADS and failure.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            return KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, failure.message)
        return failure

    def _told(self, waiting: Waiting) -> Waiting:
        """The same wait, with `_known` errors."""
        attempt, expire = waiting.attempt, waiting.expire

        def known(make: Callable[..., Any], *arguments: Any) -> Any:
            try:
                return make(*arguments)
            except KafkaError as failure:
                raise self._known(failure) from failure.__cause__

        waiting.attempt, waiting.expire = partial(known, attempt), partial(known, expire)
        return waiting

    def _too_late(self) -> KafkaError | None:
        """The error of offsets whose transaction has ended since it was verified: they would open another (KIP-890)."""
        if self._replica is None or self._is_verified(self._replica):
            return None
        return _refusal(ErrorCode.TRANSACTION_ABORTABLE, self._context.version)


def _refusal(code: ErrorCode, version: int) -> KafkaError:
    """The error for a client of this version."""
    if code in _UNREACHABLE:
        known = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE if version < _KNOWS_LOADS else known)
    if code is ErrorCode.PRODUCER_FENCED:
        return KafkaError(ErrorCode.INVALID_PRODUCER_EPOCH)
    if code is ErrorCode.TRANSACTION_ABORTABLE and version < _KNOWS_ABORTABLE:
        return KafkaError(ErrorCode.INVALID_TXN_STATE)
    return KafkaError(code)


def _never(wait_list: WaitList) -> None:
    """No list is ever touched."""

"""TxnOffsetCommit: commit offsets of a group within a transaction (KIP-98).

v2 leader epochs (KIP-320)   v3 flexible; members are checked (KIP-447)   v4 TRANSACTION_ABORTABLE (KIP-890)
v5 adds the group to the transaction (KIP-890)   v6 topics by id (KIP-1319)
"""

from __future__ import annotations

from typing import Any

from headgate.gateway.api.authorization import AclOperation, AclResource, Authorization
from headgate.gateway.api.authorization_rules import every, group
from headgate.gateway.api.context import HandlerContext
from headgate.gateway.api.handlers import handles
from headgate.gateway.coordinator.decision import Decision, Ticket
from headgate.gateway.coordinator.groups import offset_requests
from headgate.gateway.coordinator.groups.group_shard import GroupShard
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse

_KNOWS_LOADS = 2
"""The first version whose producers come again after COORDINATOR_LOAD_IN_PROGRESS (KAFKA-7296)."""


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
    """Let the group decide; the response waits until the records are below the high watermark."""
    version = context.version

    def decide(shard: GroupShard, ticket: Ticket) -> Decision:
        return offset_requests.commit_in_transaction(shard, request, version, ticket)

    def lost(code: ErrorCode) -> TxnOffsetCommitResponse:
        return request.error_response(version, code)

    try:
        return context.broker.groups.submit(request.group_id, decide, lost)
    except KafkaError as error:
        if version < _KNOWS_LOADS and error.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, error.message) from error
        raise

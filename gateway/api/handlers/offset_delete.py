"""OffsetDelete: delete committed offsets of a group (KIP-496)."""

from headgate.gateway.api.authorization import AclOperation, Authorization
from headgate.gateway.api.authorization_rules import every, group
from headgate.gateway.api.context import HandlerContext
from headgate.gateway.api.handler_registration import handles
from headgate.gateway.api.handlers.each import check_group_id
from headgate.gateway.coordinator.groups import offset_requests
from headgate.gateway.runtime.tasks import Outcome
from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)


def _authorize_topics(authorization: Authorization) -> None:
    """Require READ on each topic."""
    authorization.split(
        "topics", "topics", lambda topic: authorization.allows_topic(AclOperation.READ, topic.name), _denied
    )


def _denied(topics: list[OffsetDeleteRequestTopic]) -> list[OffsetDeleteResponseTopic]:
    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return [
        OffsetDeleteResponseTopic(
            topic.name, [OffsetDeleteResponsePartition(row.partition_index, code) for row in topic.partitions]
        )
        for topic in topics
    ]


@handles(OffsetDeleteRequest, versions="0", authorize=every(group(AclOperation.DELETE), _authorize_topics))
def offset_delete(request: OffsetDeleteRequest, context: HandlerContext) -> Outcome[OffsetDeleteResponse]:
    """Let the group decide; the response waits until the group's records are below the high watermark."""
    check_group_id(request.group_id)
    stores = context.broker.offset_stores
    if stores is not None:
        dual = stores.dual(request.group_id)
        if dual is not None:
            return dual.commit(None, lambda shard, ticket: offset_requests.delete(shard, request, ticket))
    return context.broker.groups.submit(
        request.group_id, lambda shard, ticket: offset_requests.delete(shard, request, ticket)
    )

"""OffsetForLeaderEpoch: the end offset of an epoch; consumers detect log truncation by it (KIP-101, KIP-320).

v1 epoch in the reply   v2 the client's current epoch, throttle   v3 replica id   v4 flexible
"""

from headgate.gateway.api.authorization import AclOperation, Authorization
from headgate.gateway.api.authorization_rules import partitions
from headgate.gateway.api.context import HandlerContext
from headgate.gateway.api.handler_registration import handles
from headgate.gateway.api.handlers.each import each_row
from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
    OffsetForLeaderTopicResult,
)
from headgate.protocol.steps import lazy_map


def _authorize(authorization: Authorization) -> None:
    """Require CLUSTER_ACTION, as followers have; of other clients, DESCRIBE on each topic."""
    if not authorization.holds_cluster(AclOperation.CLUSTER_ACTION):
        _authorize_topics(authorization)


_authorize_topics = partitions(AclOperation.DESCRIBE)


@handles(OffsetForLeaderEpochRequest, versions="0-4", authorize=_authorize, in_steps=True)
def offset_for_leader_epoch(
    request: OffsetForLeaderEpochRequest, context: HandlerContext
) -> OffsetForLeaderEpochResponse:
    """For every partition, the last epoch up to the requested one, and the offset behind its last record."""
    return OffsetForLeaderEpochResponse(
        topics=lazy_map(
            request.topics,
            lambda topic: OffsetForLeaderTopicResult(topic=topic.topic, partitions=_partitions(topic, context)),
        )
    )


def _partitions(topic: OffsetForLeaderTopic, context: HandlerContext) -> list[EpochEndOffset]:
    def answer(wanted: OffsetForLeaderPartition) -> EpochEndOffset:
        replica = context.broker.partitions.get(topic.topic, wanted.partition)
        replica.check_leader_epoch(wanted.current_leader_epoch)
        epoch, end_offset = replica.end_offset_for(wanted.leader_epoch)
        return EpochEndOffset(partition=wanted.partition, leader_epoch=epoch, end_offset=end_offset)

    return each_row(context.broker, topic.partitions, answer, _refuse)


def _refuse(wanted: OffsetForLeaderPartition, code: ErrorCode, message: str) -> EpochEndOffset:
    return EpochEndOffset(error_code=code, partition=wanted.partition)

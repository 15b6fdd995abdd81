"""DeleteRecords: advance the start of logs (KIP-107). The next clean-up of old segments frees the space.

v2 flexible
"""

from headgate.gateway.api.authorization import AclOperation
from headgate.gateway.api.authorization_rules import partitions
from headgate.gateway.api.context import HandlerContext
from headgate.gateway.api.handler_registration import handles
from headgate.gateway.api.handlers.each import count_rows, each_in_steps
from headgate.gateway.metadata.image import INTERNAL_TOPICS
from headgate.gateway.runtime.tasks import Outcome, at_once_if_few
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.messages.delete_records import (
    TO_HIGH_WATERMARK,
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
    DeleteRecordsTopicResult,
)
from headgate.protocol.steps import Steps


@handles(DeleteRecordsRequest, versions="0-2", authorize=partitions(AclOperation.DELETE), in_steps=True)
def delete_records(request: DeleteRecordsRequest, context: HandlerContext) -> Outcome[DeleteRecordsResponse]:
    """Advance the start of every named log to an offset, at most to the high watermark."""
    return at_once_if_few(_delete_all(request, context), count_rows(request.topics))


def _delete_all(request: DeleteRecordsRequest, context: HandlerContext) -> Steps[DeleteRecordsResponse]:
    def answer(topic: DeleteRecordsTopic, wanted: DeleteRecordsPartition) -> DeleteRecordsPartitionResult:
        start_offset = _delete(topic.name, wanted, context)
        return DeleteRecordsPartitionResult(wanted.partition_index, start_offset)

    return DeleteRecordsResponse(
        topics=(
            yield from each_in_steps(
                context.broker,
                request.topics,
                lambda topic: topic.partitions,
                answer,
                _refuse,
                lambda topic, partitions: DeleteRecordsTopicResult(name=topic.name, partitions=partitions),
            )
        )
    )


def _delete(topic: str, wanted: DeleteRecordsPartition, context: HandlerContext) -> int:
    replica = context.broker.partitions.get(topic, wanted.partition_index)
    if topic in INTERNAL_TOPICS:
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"only its coordinators delete records of {topic}")
    offset = replica.high_watermark if wanted.offset == TO_HIGH_WATERMARK else wanted.offset
    if not 0 <= offset <= replica.high_watermark:
        message = f"offset {offset} is outside of [0, {replica.high_watermark}] of {topic}-{replica.index}"
        raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, message)
    if not replica.log.config.is_deleted:
        message = f"records of {topic} cannot be deleted: its cleanup.policy has no delete"
        raise KafkaError(ErrorCode.POLICY_VIOLATION, message)
    replica.log.advance_start(offset)
    context.broker.tasks.touch(replica.waiters)
    return replica.log.start_offset


def _refuse(wanted: DeleteRecordsPartition, code: ErrorCode, message: str) -> DeleteRecordsPartitionResult:
    return DeleteRecordsPartitionResult(wanted.partition_index, -1, code)

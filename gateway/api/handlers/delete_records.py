"""DeleteRecords: advance the start of logs (KIP-107). The next clean-up of old segments frees the space.

The reply waits until all live followers have advanced their logs too: their fetches say so.

v2 flexible
"""

from typing import NamedTuple

from headgate.gateway.api.authorization import AclOperation
from headgate.gateway.api.authorization_rules import partitions
from headgate.gateway.api.context import HandlerContext
from headgate.gateway.api.handler_registration import handles
from headgate.gateway.api.handlers.each import count_rows, each_in_steps
from headgate.gateway.metadata.image import INTERNAL_TOPICS
from headgate.gateway.replication.progress import Progress
from headgate.gateway.replication.replica import Replica
from headgate.gateway.runtime.tasks import Changes, Outcome, Task, at_once_if_few, value_of
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


class Deletion(NamedTuple):
    """Deleted records that followers may still have: those before `offset`."""

    row: DeleteRecordsPartitionResult
    replica: Replica
    progress: Progress
    offset: int


@handles(DeleteRecordsRequest, versions="0-2", authorize=partitions(AclOperation.DELETE), in_steps=True)
def delete_records(request: DeleteRecordsRequest, context: HandlerContext) -> Outcome[DeleteRecordsResponse]:
    """Advance the start of every named log to an offset, at most to the high watermark."""
    deletions: list[Deletion] = []
    outcome = at_once_if_few(_delete_all(request, context, deletions), count_rows(request.topics))
    if isinstance(outcome, DeleteRecordsResponse) and not deletions:
        return outcome
    return _await_followers(outcome, deletions, request.timeout_ms, context)


def _delete_all(
    request: DeleteRecordsRequest, context: HandlerContext, deletions: list[Deletion]
) -> Steps[DeleteRecordsResponse]:
    def answer(topic: DeleteRecordsTopic, wanted: DeleteRecordsPartition) -> DeleteRecordsPartitionResult:
        replica = _delete(topic.name, wanted, context)
        row = DeleteRecordsPartitionResult(wanted.partition_index, replica.log.start_offset)
        if replica.progress is not None:
            deletions.append(Deletion(row, replica, replica.progress, replica.log.start_offset))
        return row

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


def _await_followers(
    outcome: Outcome[DeleteRecordsResponse], deletions: list[Deletion], timeout_ms: int, context: HandlerContext
) -> Task[DeleteRecordsResponse]:
    """The response once the live followers have advanced their logs, or the client's time is up."""
    broker, is_late = context.broker, False
    deadline_ms = broker.clock.monotonic_ms() + timeout_ms
    response = yield from value_of(outcome)
    while waiting := [deletion for deletion in deletions if not _has_ended(deletion, context)]:
        if is_late:
            for deletion in waiting:
                deletion.row.low_watermark, deletion.row.error_code = -1, ErrorCode.REQUEST_TIMED_OUT
            break
        changes = Changes([deletion.progress.starts for deletion in waiting], deadline_ms)
        is_late = (yield changes) is None
    return response


def _has_ended(deletion: Deletion, context: HandlerContext) -> bool:
    """Whether no live follower has the deleted records, or this broker leads the partition no more."""
    row, replica = deletion.row, deletion.replica
    live = context.broker.metadata.image.brokers
    row.low_watermark = deletion.progress.low_watermark(replica.log.start_offset, live)
    if replica.has_resigned:
        row.low_watermark, row.error_code = -1, ErrorCode.NOT_LEADER_OR_FOLLOWER
    return replica.has_resigned or row.low_watermark >= deletion.offset


def _delete(topic: str, wanted: DeleteRecordsPartition, context: HandlerContext) -> Replica:
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
    replica.notify()
    return replica


def _refuse(wanted: DeleteRecordsPartition, code: ErrorCode, message: str) -> DeleteRecordsPartitionResult:
    return DeleteRecordsPartitionResult(wanted.partition_index, -1, code)

"""OffsetForLeaderEpoch: where an epoch ends, by which a consumer finds out that its log was cut (KIP-101, KIP-320).

v1 epoch in the reply   v2 the epoch that the client knows, throttle   v3 replica id   v4 flexible
"""

from gateway.context import Context
from gateway.handlers import handles
from gateway.handlers.each import each_row
from gateway.replication.partition import Partition
from protocol.errors import ErrorCode
from protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
    OffsetForLeaderTopicResult,
)
from protocol.steps import rows
from storage.epochs import NO_EPOCH


@handles(OffsetForLeaderEpochRequest, versions="0-4")
def offset_for_leader_epoch(request: OffsetForLeaderEpochRequest, context: Context) -> OffsetForLeaderEpochResponse:
    """For every partition the last epoch up to the one asked for, and the offset behind its last record."""
    return OffsetForLeaderEpochResponse(
        topics=rows(
            request.topics,
            lambda topic: OffsetForLeaderTopicResult(topic=topic.topic, partitions=_partitions(topic, context)),
        )
    )


def _partitions(topic: OffsetForLeaderTopic, context: Context) -> list[EpochEndOffset]:
    def answer(wanted: OffsetForLeaderPartition) -> EpochEndOffset:
        partition = context.broker.partitions.get(topic.topic, wanted.partition)
        partition.check_leader_epoch(wanted.current_leader_epoch)
        epoch, end_offset = _end(partition, wanted.leader_epoch)
        return EpochEndOffset(partition=wanted.partition, leader_epoch=epoch, end_offset=end_offset)

    return each_row(topic.partitions, answer, _refuse)


def _end(partition: Partition, epoch: int) -> tuple[int, int]:
    """The leader's own epoch goes on, and so does the one before, until the first record of the leader's is written."""
    epochs, log_end = partition.log.epochs, partition.log.end_offset
    if not epochs.latest < epoch <= partition.leader_epoch:
        return epochs.end_offset_for(epoch, log_end)
    is_own = epoch == partition.leader_epoch or epochs.latest == NO_EPOCH
    return epoch if is_own else epochs.latest, log_end


def _refuse(wanted: OffsetForLeaderPartition, code: ErrorCode, message: str) -> EpochEndOffset:
    return EpochEndOffset(error_code=code, partition=wanted.partition)

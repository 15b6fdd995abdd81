"""ListOffsets: the offset at a time, or at an end of a partition.

v0 offsets where segments begin   v1 one offset   v2 isolation level   v4 leader epochs (KIP-320)   v6 flexible   v7
the maximum timestamp (KIP-734)   v8 earliest local (KIP-405)   v9 latest tiered (KIP-1005)   v10 timeout for remote
lists (KIP-1075)   v11 earliest pending upload (KIP-1023)
"""

from collections.abc import Callable

from gateway.context import Context
from gateway.handlers import handles
from gateway.handlers.each import each
from gateway.replication.partition import Partition
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
    ListOffsetsTopicResponse,
)

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD = -1, -2, -3, -4, -5, -6
SINCE = {LATEST: 1, EARLIEST: 1, MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9, EARLIEST_PENDING_UPLOAD: 11}
"""The version from which on each of these may be asked for."""
NOTHING = (-1, -1, -1)
"""Offset, timestamp and leader epoch where nothing matches."""


Row = ListOffsetsPartitionResponse
Answer = Callable[[ListOffsetsRequest, ListOffsetsPartition, Partition, Context], Row]


@handles(ListOffsetsRequest, versions="1-11")
def list_offsets(request: ListOffsetsRequest, context: Context) -> ListOffsetsResponse:
    """Answer every partition from its log and its time index."""
    return _respond(request, context, _one_offset)


@handles(ListOffsetsRequest, versions="0")
def list_segments(request: ListOffsetsRequest, context: Context) -> ListOffsetsResponse:
    """Answer every partition with the offsets where its segments begin."""
    return _respond(request, context, _segment_offsets)


def _respond(request: ListOffsetsRequest, context: Context, answer: Answer) -> ListOffsetsResponse:
    def rows(topic: ListOffsetsTopic) -> list[Row]:
        def row(wanted: ListOffsetsPartition) -> Row:
            partition = context.broker.partitions.get(topic.name, wanted.partition_index)
            return answer(request, wanted, partition, context)

        return each(topic.partitions, row, _refuse)

    topics = [ListOffsetsTopicResponse(name=topic.name, partitions=rows(topic)) for topic in request.topics]
    return ListOffsetsResponse(topics=topics)


def _one_offset(
    request: ListOffsetsRequest, wanted: ListOffsetsPartition, partition: Partition, context: Context
) -> Row:
    partition.check_leader_epoch(wanted.current_leader_epoch)
    _check_time(wanted.timestamp, context.version)
    offset, timestamp, epoch = _find(partition, wanted.timestamp, request.isolation_level)
    return Row(partition_index=wanted.partition_index, offset=offset, timestamp=timestamp, leader_epoch=epoch)


def _segment_offsets(
    request: ListOffsetsRequest, wanted: ListOffsetsPartition, partition: Partition, context: Context
) -> Row:
    """Where segments begin that were last written to by the time, newest first; as of now, also where the log ends.

    A consumer sees the high watermark in the place of everything above. Source: Apache Kafka 3.9, which answers so.
    """
    places = partition.log.places(context.broker.clock.now_ms())
    if wanted.timestamp == EARLIEST:
        found = places[:1]
    elif wanted.timestamp == LATEST:
        found = places
    else:  # up to the last one of that time, as the files' times need not be in order
        written = [number for number, (_, time_ms) in enumerate(places, 1) if time_ms <= wanted.timestamp]
        found = places[: written[-1]] if written else []
    offsets = [offset for offset, _ in reversed(found)][: max(0, wanted.max_num_offsets)]
    if request.replica_id < 0 and offsets and offsets[0] > partition.high_watermark:
        high_watermark = partition.high_watermark
        offsets = [high_watermark, *(offset for offset in offsets if offset <= high_watermark)]
    return Row(partition_index=wanted.partition_index, old_style_offsets=offsets)


def _check_time(timestamp: int, version: int) -> None:
    if timestamp < 0 and version < SINCE.get(timestamp, version + 1):
        message = f"timestamp {timestamp} has no meaning in version {version}"
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, message)


def _find(partition: Partition, timestamp: int, isolation_level: int) -> tuple[int, int, int]:
    """Offset, timestamp of the record there (-1 for the ends), leader epoch."""
    end = partition.readable_end(isolation_level)
    if timestamp == LATEST:
        return end, -1, partition.leader_epoch
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        return partition.log.start_offset, -1, partition.log.epochs.epoch_at(partition.log.start_offset)
    if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return NOTHING  # nothing is tiered here
    log = partition.log
    found = log.max_timestamp(end) if timestamp == MAX_TIMESTAMP else log.offset_for_time(timestamp, end)
    return NOTHING if found is None else (found.offset, found.timestamp, found.leader_epoch)


def _refuse(wanted: ListOffsetsPartition, code: ErrorCode, message: str) -> Row:
    return Row(partition_index=wanted.partition_index, error_code=code, offset=-1, timestamp=-1)

"""Produce: append batches to partitions.

v0-2 message sets (refused until they can be converted)   v3 record batches   v5 log_start_offset   v7 zstd   v8
record_errors and message (KIP-467)   v9 flexible   v10 leader hints (KIP-951)   v11 transactions known by the
coordinator (KIP-890)
"""

from collections.abc import Sequence
from typing import NamedTuple

from gateway.context import CloseConnection, Context
from gateway.handlers import handles
from gateway.handlers.each import each
from gateway.replication.partition import ACKS_ALL, Partition
from gateway.waiting import Waiting, WaitList
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)


class Appended(NamedTuple):
    """One partition's part of a request: its row of the response, and what it waits for (None if it was refused)."""

    row: PartitionProduceResponse
    partition: Partition | None = None
    end_offset: int = -1


# librdkafka up to 2.11.0 compresses nothing unless version 0 is advertised; Apache Kafka 4 advertises it for the same
# reason and refuses it as is done here.
@handles(ProduceRequest, versions="3-11", advertised_from=0)
def produce(request: ProduceRequest, context: Context) -> ProduceResponse | Waiting | None:
    """Append every partition's batches; with acks=all the reply waits for the high watermark."""
    appended = [(topic.name, _append_topic(request, topic, context)) for topic in request.topic_data]
    if request.acks == 0:
        _close_on_error(appended)
        return None
    if request.acks == ACKS_ALL:
        behind = [item for _, items in appended for item in items if _is_behind(item)]
        if behind:
            return _wait(request, context, appended, behind)
    return _response(appended)


def _append_topic(request: ProduceRequest, topic: TopicProduceData, context: Context) -> list[Appended]:
    def append(data: PartitionProduceData) -> Appended:
        if request.acks not in (ACKS_ALL, 0, 1):
            raise KafkaError(ErrorCode.INVALID_REQUIRED_ACKS, f"acks is {request.acks}; it can be -1, 0 or 1")
        partition = context.broker.partitions.get(topic.name, data.index)
        records = data.records
        if not isinstance(records, memoryview) or not records:
            raise KafkaError(ErrorCode.INVALID_RECORD, "there is no batch in the request")
        info = partition.append(records, request.acks, context.broker.clock.now_ms())
        row = PartitionProduceResponse(
            index=data.index,
            base_offset=info.first_offset,
            log_append_time_ms=info.log_append_time_ms,
            log_start_offset=info.log_start_offset,
        )
        return Appended(row, partition, info.last_offset + 1)

    return each(topic.partition_data, append, _refuse)


def _refuse(data: PartitionProduceData, code: ErrorCode, message: str) -> Appended:
    return Appended(PartitionProduceResponse(index=data.index, error_code=code, base_offset=-1, error_message=message))


def _late(item: Appended, timeout_ms: int) -> Appended:
    if not _is_behind(item):
        return item
    message = f"not every in-sync replica had it after {timeout_ms} ms"
    return Appended(
        PartitionProduceResponse(
            index=item.row.index, error_code=ErrorCode.REQUEST_TIMED_OUT, base_offset=-1, error_message=message
        )
    )


def _is_behind(item: Appended) -> bool:
    return item.partition is not None and item.partition.high_watermark < item.end_offset


def _wait(
    request: ProduceRequest,
    context: Context,
    appended: Sequence[tuple[str, list[Appended]]],
    behind: Sequence[Appended],
) -> Waiting:
    def attempt(_: WaitList) -> ProduceResponse | None:
        return None if any(_is_behind(item) for item in behind) else _response(appended)

    def expire() -> ProduceResponse:
        return _response([(name, [_late(item, request.timeout_ms) for item in items]) for name, items in appended])

    lists = [item.partition.waiters for item in behind if item.partition is not None]
    return Waiting(lists, context.broker.clock.monotonic_ms() + request.timeout_ms, attempt, expire)


def _response(appended: Sequence[tuple[str, list[Appended]]]) -> ProduceResponse:
    return ProduceResponse(
        responses=[
            TopicProduceResponse(name=name, partition_responses=[item.row for item in items])
            for name, items in appended
        ]
    )


def _close_on_error(appended: Sequence[tuple[str, list[Appended]]]) -> None:
    """With acks=0 no reply tells of an error: hanging up does, and makes the client refresh what it knows."""
    for name, items in appended:
        for item in items:
            if item.row.error_code != ErrorCode.NONE:
                what = f"produce with acks=0 to {name}-{item.row.index}"
                raise CloseConnection(f"{what} failed with error {item.row.error_code}: {item.row.error_message}")

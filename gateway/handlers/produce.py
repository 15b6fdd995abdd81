"""Produce: append batches to partitions.

v0-2 message sets (refused until they can be converted)   v3 record batches   v5 log_start_offset   v7 zstd   v8
record_errors and message (KIP-467)   v9 flexible   v10 leader hints (KIP-951)   v11 transactions known by the
coordinator (KIP-890)
"""

from collections.abc import Sequence
from typing import NamedTuple

from gateway.context import CloseConnection, Context
from gateway.handlers import handles
from gateway.handlers.each import refusal
from gateway.replication.partition import ACKS_ALL, Partition
from gateway.waiting import Waiting, WaitList
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)

_NOTHING = memoryview(b"")  # null: no batch at all


class Behind(NamedTuple):
    """A row of the response that has to wait until the high watermark reaches `end_offset`."""

    row: PartitionProduceResponse
    partition: Partition
    end_offset: int

    def is_met(self) -> bool:
        return self.partition.high_watermark >= self.end_offset


# librdkafka up to 2.11.0 compresses nothing unless version 0 is advertised; Apache Kafka 4 advertises it for the same
# reason and refuses it as is done here.
@handles(ProduceRequest, versions="3-11", advertised_from=0)
def produce(request: ProduceRequest, context: Context) -> ProduceResponse | Waiting | None:
    """Append every partition's batches; with acks=all the reply waits for the high watermark."""
    if request.acks not in (ACKS_ALL, 0, 1):
        raise KafkaError(ErrorCode.INVALID_REQUIRED_ACKS, f"acks is {request.acks}; it can be -1, 0 or 1")
    now_ms = context.broker.clock.now_ms()
    responses: list[TopicProduceResponse] = []
    behind: list[Behind] = []
    for topic in request.topic_data:
        name = topic.name
        rows = [_append(request.acks, name, data, context, now_ms, behind) for data in topic.partition_data]
        responses.append(TopicProduceResponse(name, partition_responses=rows))
    response = ProduceResponse(responses)
    if request.acks == 0:
        context.broker.appends.commit()
        _close_on_error(response)
        return None
    if behind:
        context.broker.appends.commit()
        behind = [item for item in behind if item.row.error_code == ErrorCode.NONE]
    return _wait(request, context, response, behind) if behind else response


def _append(
    acks: int, topic: str, data: PartitionProduceData, context: Context, now_ms: int, behind: list[Behind]
) -> PartitionProduceResponse:
    """Append to one partition. The row promises what was staged; `Appends.commit` takes that back if it must."""
    broker = context.broker
    try:
        partition = broker.partitions.get(topic, data.index)
        records = data.records
        info = partition.stage(records if isinstance(records, memoryview) else _NOTHING, acks, now_ms)
    except (KafkaError, OSError) as error:
        code, message = refusal(error)
        return PartitionProduceResponse(data.index, code, -1, error_message=message)
    row = PartitionProduceResponse(
        data.index, ErrorCode.NONE, info.first_offset, info.log_append_time_ms, info.log_start_offset
    )
    broker.appends.promise(partition, row)
    if acks == ACKS_ALL and partition.high_watermark <= info.last_offset:
        behind.append(Behind(row, partition, info.last_offset + 1))
    return row


def _wait(request: ProduceRequest, context: Context, response: ProduceResponse, behind: Sequence[Behind]) -> Waiting:
    def attempt(_: WaitList) -> ProduceResponse | None:
        return response if all(item.is_met() for item in behind) else None

    def expire() -> ProduceResponse:
        for item in behind:
            if not item.is_met():
                message = f"not every in-sync replica had it after {request.timeout_ms} ms"
                item.row.refuse(ErrorCode.REQUEST_TIMED_OUT, message)
        return response

    lists = [item.partition.waiters for item in behind]
    return Waiting(lists, context.broker.clock.monotonic_ms() + request.timeout_ms, attempt, expire)


def _close_on_error(response: ProduceResponse) -> None:
    """With acks=0 no reply tells of an error: hanging up does, and makes the client refresh what it knows."""
    for topic in response.responses:
        for row in topic.partition_responses:
            if row.error_code != ErrorCode.NONE:
                what = f"produce with acks=0 to {topic.name}-{row.index}"
                raise CloseConnection(f"{what} failed with error {row.error_code}: {row.error_message}")

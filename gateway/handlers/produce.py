"""Produce: append batches to partitions.

v0-2 message sets (refused until they can be converted)   v3 record batches   v5 log_start_offset   v7 zstd   v8
record_errors and message (KIP-467)   v9 flexible   v10 leader hints (KIP-951)   v11 transactions known by the
coordinator (KIP-890)
"""

from collections.abc import Sequence
from typing import NoReturn

from gateway.context import CloseConnection, Context
from gateway.handlers import handles
from gateway.handlers.each import refusal
from gateway.replication.partition import ACKS_ALL, Partition
from gateway.replication.writer import Writer
from gateway.waiting import Waiting, WaitList
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from storage.staged import AppendInfo
from storage.validation import OWN

_ACKS = (ACKS_ALL, 0, 1)
_NOTHING = memoryview(b"")  # null: no batch at all


class Behind:
    """A row of the response that has to wait: for its write, if that is not made inline, and for the high watermark."""

    __slots__ = ("_acks", "_end_offset", "partition", "row")

    def __init__(self, row: PartitionProduceResponse, partition: Partition, acks: int, end_offset: int | None) -> None:
        self.row = row
        self.partition = partition
        self._acks = acks
        self._end_offset = end_offset  # None until it is written

    def written(self, result: AppendInfo | KafkaError) -> None:
        """The write has ended."""
        if isinstance(result, KafkaError):
            self.row.refuse(*refusal(result))
            self._end_offset = 0
            return
        self.row.base_offset = result.first_offset
        self.row.log_append_time_ms, self.row.log_start_offset = result.log_append_time_ms, result.log_start_offset
        self._end_offset = result.last_offset + 1 if self._acks == ACKS_ALL else 0

    @property
    def is_met(self) -> bool:
        """Whether there is nothing more to wait for."""
        end_offset = self._end_offset
        is_there = end_offset is not None and self.partition.high_watermark >= end_offset
        return is_there or self.row.error_code != ErrorCode.NONE


@handles(ProduceRequest, versions="3-11", stages=True)
def produce(request: ProduceRequest, context: Context) -> ProduceResponse | Waiting | None:
    """Append every partition's batches; with acks=all the reply waits for the high watermark."""
    acks = request.acks
    if acks not in _ACKS:
        raise KafkaError(ErrorCode.INVALID_REQUIRED_ACKS, f"acks is {acks}; it can be -1, 0 or 1")
    now_ms = context.broker.clock.now_ms()
    responses: list[TopicProduceResponse] = []
    behind: list[Behind] = []
    for topic in request.topic_data:
        name = topic.name
        rows = []
        for data in topic.partition_data:  # a comprehension would be a function, made and called for each topic
            rows.append(_append(acks, name, data, context, now_ms, behind))  # noqa: PERF401
        responses.append(TopicProduceResponse(name, partition_responses=rows))
    response = ProduceResponse(responses)
    if acks == 0:
        context.broker.appends.commit()
        _close_on_error(response)
        return None
    if behind:
        context.broker.appends.commit()
        behind = [item for item in behind if not item.is_met]
    return _wait(request, context, response, behind) if behind else response


@handles(ProduceRequest, versions="0-2")
def produce_sets(request: ProduceRequest, context: Context) -> None:
    """Refuse message sets, until they can be converted."""
    raise CloseConnection(f"Produce version {context.version} is not served yet; versions 3 to 11 are")


def _append(
    acks: int, topic: str, data: PartitionProduceData, context: Context, now_ms: int, behind: list[Behind]
) -> PartitionProduceResponse:
    """Append to one partition. The row promises what was staged; `Appends.commit` takes that back if it must."""
    broker = context.broker
    try:
        partition = broker.partitions.get(topic, data.index)
        if partition.validate is OWN:
            _refuse_own(topic)
        records = data.records if isinstance(data.records, memoryview) else _NOTHING
        writer = partition.writer()
        if writer is not None:
            return _append_later(acks, writer, partition, records, now_ms, behind)
        info = partition.stage(records, acks, now_ms)
    except (KafkaError, OSError) as error:
        code, message = refusal(error)
        return PartitionProduceResponse(data.index, code, -1, error_message=message)
    row = PartitionProduceResponse(
        data.index, ErrorCode.NONE, info.first_offset, info.log_append_time_ms, info.log_start_offset
    )
    staged = partition.log.staged
    if staged is not None:
        broker.appends.promise(partition, staged, row)
    if acks == ACKS_ALL and partition.high_watermark <= info.last_offset:
        behind.append(Behind(row, partition, acks, info.last_offset + 1))
    return row


def _refuse_own(topic: str) -> NoReturn:
    raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{topic} is written by the broker alone")


def _append_later(
    acks: int, writer: Writer, partition: Partition, records: memoryview, now_ms: int, behind: list[Behind]
) -> PartitionProduceResponse:
    row = PartitionProduceResponse(partition.index, base_offset=-1)
    item = Behind(row, partition, acks, None)
    behind.append(item)
    writer.append(records, acks, now_ms, item.written)
    return row


def _wait(request: ProduceRequest, context: Context, response: ProduceResponse, behind: Sequence[Behind]) -> Waiting:
    def attempt(_: WaitList) -> ProduceResponse | None:
        return response if all(item.is_met for item in behind) else None

    def expire() -> ProduceResponse:
        for item in behind:
            if not item.is_met:
                message = f"it was not written, or not by every in-sync replica, after {request.timeout_ms} ms"
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

"""Produce of the modelled cluster: the leader of a partition appends batches at its end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from headgate.protocol.records import batch


class AppendableLog(Protocol):
    """The part of a modelled partition that a producer changes."""

    leader: int
    end: int
    batches: list[bytes]


def append_produced(
    topics: Mapping[str, Sequence[AppendableLog]], node: int, request: ProduceRequest
) -> ProduceResponse:
    """Append the batches of a request to broker `node`, and answer with their offsets."""
    responses = []
    for topic in request.topic_data:
        rows = [_append(topics[topic.name][one.index], node, one.index, one.records) for one in topic.partition_data]
        responses.append(TopicProduceResponse(name=topic.name, partition_responses=rows))
    return ProduceResponse(responses=responses)


def _append(log: AppendableLog, node: int, index: int, records: object) -> PartitionProduceResponse:
    if log.leader != node:
        return PartitionProduceResponse(index, ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)
    assert isinstance(records, bytes | memoryview)
    content = bytearray(records)
    assert batch.check_crc(content)
    [(header, _)] = batch.split(content)
    base_offset = log.end
    batch.patch(content, base_offset, 3)
    log.batches.append(bytes(content))
    log.end += header.records_count
    return PartitionProduceResponse(index, 0, base_offset)

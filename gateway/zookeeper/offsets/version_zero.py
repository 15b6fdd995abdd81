"""OffsetCommit 0 and OffsetFetch 0 of a group whose two stores are separate: nodes in ZooKeeper, as in Kafka 0.8.2.

A commit replaces the offset of any client in the node. Metadata are checked, and not kept. No offset, and an unknown
partition: -1 with UNKNOWN_TOPIC_OR_PARTITION. A fetch without topics has all offsets that the group has in ZooKeeper,
whatever its store is; Kafka's answer has none. `headgate groups migrate` compares the stores with it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headgate.gateway.runtime.tasks import Caller, Task
from headgate.gateway.zookeeper.combined_writes import CombinedWrites
from headgate.gateway.zookeeper.layout.node import InvalidNode
from headgate.gateway.zookeeper.offsets.offset_nodes import ABSENT, Found, OffsetNodes
from headgate.gateway.zookeeper.offsets.partition_locks import Partition
from headgate.gateway.zookeeper.requests import Failed
from headgate.gateway.zookeeper.session import KeeperError, Session
from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from headgate.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)

PartitionsOf = Callable[[str], int]
"""The number of partitions of a topic; 0 for an unknown one."""
_UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def commit(
    session: Session,
    writes: CombinedWrites,
    request: OffsetCommitRequest,
    partitions_of: PartitionsOf,
    is_too_large: Callable[[str], bool],
    caller: Caller,
) -> Task[OffsetCommitResponse]:
    codes: dict[Partition, ErrorCode] = {}
    targets: dict[Partition, int | None] = {}
    for topic in request.topics:
        count = partitions_of(topic.name)
        for row in topic.partitions:
            partition = topic.name, row.partition_index
            if not 0 <= row.partition_index < count:
                codes[partition] = _UNKNOWN
            elif is_too_large(row.committed_metadata or ""):
                codes[partition] = ErrorCode.OFFSET_METADATA_TOO_LARGE
            else:
                targets[partition] = row.committed_offset
    try:
        nodes = OffsetNodes(session, writes, request.group_id)
    except InvalidNode:
        return _committed(request, dict.fromkeys(targets, ErrorCode.INVALID_GROUP_ID) | codes)
    failed = yield from nodes.write(targets, caller)
    codes.update((partition, code_of(error)) for partition, error in failed.items())
    return _committed(request, codes)


def _committed(request: OffsetCommitRequest, codes: dict[Partition, ErrorCode]) -> OffsetCommitResponse:
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                topic.name,
                partitions=[
                    OffsetCommitResponsePartition(
                        row.partition_index, codes.get((topic.name, row.partition_index), ErrorCode.NONE)
                    )
                    for row in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def fetch(
    session: Session, writes: CombinedWrites, request: OffsetFetchRequest, partitions_of: PartitionsOf
) -> Task[OffsetFetchResponse]:
    wanted = {
        (topic.name, index)
        for topic in request.topics or ()
        for index in topic.partition_indexes
        if 0 <= index < partitions_of(topic.name)
    }
    found, failure = Found(), ErrorCode.NONE
    try:
        nodes = OffsetNodes(session, writes, request.group_id)
        found = yield from nodes.read(wanted) if request.topics else nodes.read_all()
    except InvalidNode:
        failure = code_of(KeeperError.BAD_ARGUMENTS)
    except Failed as error:
        failure = code_of(error.error)

    def row(topic: str, index: int) -> OffsetFetchResponsePartition:
        if failure and (topic, index) in wanted:
            return OffsetFetchResponsePartition(index, -1, -1, "", failure)
        node = found.get((topic, index))
        if node is None or node.version == ABSENT:
            return OffsetFetchResponsePartition(index, -1, -1, "", _UNKNOWN)
        if node.offset is None:
            return OffsetFetchResponsePartition(index, -1, -1, "", ErrorCode.UNKNOWN_SERVER_ERROR)
        return OffsetFetchResponsePartition(index, node.offset, -1, "")

    if request.topics:
        return fetched(request, row)
    return request.error_response(0, failure) if failure else _all(found, row)


def _all(found: Found, row: Callable[[str, int], OffsetFetchResponsePartition]) -> OffsetFetchResponse:
    rows: dict[str, list[OffsetFetchResponsePartition]] = {}
    for topic, index in found:
        rows.setdefault(topic, []).append(row(topic, index))
    return OffsetFetchResponse(topics=[OffsetFetchResponseTopic(topic, each) for topic, each in rows.items()])


def fetched(request: OffsetFetchRequest, row: Callable[[str, int], Any]) -> OffsetFetchResponse:
    """The response of rows by topic and partition."""
    return OffsetFetchResponse(
        topics=[
            OffsetFetchResponseTopic(topic.name, [row(topic.name, index) for index in topic.partition_indexes])
            for topic in request.topics or ()
        ]
    )


def code_of(error: KeeperError) -> ErrorCode:
    """The client's error: it asks again, unless the node can never be."""
    is_final = error in (KeeperError.BAD_ARGUMENTS, KeeperError.NO_AUTH, KeeperError.OTHER, KeeperError.TOO_LARGE)
    return ErrorCode.UNKNOWN_SERVER_ERROR if is_final else ErrorCode.COORDINATOR_LOAD_IN_PROGRESS

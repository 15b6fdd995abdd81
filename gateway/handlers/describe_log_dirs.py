"""DescribeLogDirs: what lies in each data directory (KIP-113), and which of them cannot be used.

v2 flexible   v3 an error at the top   v4 sizes of the volume (KIP-827)   v5 cordoned directories (KIP-1066)
"""

from collections.abc import Iterable
from pathlib import Path

from gateway.context import Context
from gateway.handlers import handles
from gateway.replication.partition import Partition
from protocol.errors import ErrorCode
from protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from storage.files import parent


@handles(DescribeLogDirsRequest, versions="0-5")
def describe_log_dirs(request: DescribeLogDirsRequest, context: Context) -> DescribeLogDirsResponse:
    """Bytes of every partition that is named and here, or of all."""
    partitions = context.broker.partitions
    found: dict[str, list[Partition]] = {directory: [] for directory in partitions.directories}
    for partition in _wanted(request, context):
        found[parent(partition.log.directory)].append(partition)
    results = [_result(directory, inside, context) for directory, inside in found.items()]
    results += [
        DescribeLogDirsResult(error_code=ErrorCode.KAFKA_STORAGE_ERROR, log_dir=_absolute(directory))
        for directory in partitions.refused_directories
    ]
    return DescribeLogDirsResponse(results=results)


def _result(directory: str, inside: Iterable[Partition], context: Context) -> DescribeLogDirsResult:
    topics: dict[str, DescribeLogDirsTopic] = {}
    for partition in inside:
        row = topics.setdefault(partition.topic, DescribeLogDirsTopic(name=partition.topic))
        row.partitions.append(DescribeLogDirsPartition(partition.index, partition.log.size))
    result = DescribeLogDirsResult(log_dir=_absolute(directory), topics=list(topics.values()))
    if directory in context.broker.partitions.offline_directories:
        result.error_code = ErrorCode.KAFKA_STORAGE_ERROR
        return result
    if context.version >= 4:
        here = context.broker.partitions
        try:  # one that answers is asked each second; of one that hangs what it told last is true still
            result.total_bytes, result.usable_bytes = here.rooms.get(directory) or here.space(directory)
        except OSError:
            result.error_code = ErrorCode.KAFKA_STORAGE_ERROR
    return result


def _absolute(directory: str) -> str:
    return str(Path(directory).absolute())


def _wanted(request: DescribeLogDirsRequest, context: Context) -> list[Partition]:
    here = context.broker.partitions
    if request.topics is None:
        return list(here)
    named = {(topic.topic, index) for topic in request.topics for index in topic.partitions}
    return [partition for partition in here if (partition.topic, partition.index) in named]

"""DescribeLogDirs: what lies in the data directory (KIP-113).

v2 flexible   v3 an error at the top   v4 sizes of the volume (KIP-827)   v5 cordoned directories (KIP-1066)
"""

from pathlib import Path

from gateway.context import Context
from gateway.handlers import handles
from gateway.replication.partition import Partition
from protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)


@handles(DescribeLogDirsRequest, versions="0-5")
def describe_log_dirs(request: DescribeLogDirsRequest, context: Context) -> DescribeLogDirsResponse:
    """Bytes of every partition that is named and here, or of all."""
    topics: dict[str, DescribeLogDirsTopic] = {}
    for partition in _wanted(request, context):
        row = topics.setdefault(partition.topic, DescribeLogDirsTopic(name=partition.topic))
        row.partitions.append(DescribeLogDirsPartition(partition.index, partition.log.size))
    result = DescribeLogDirsResult(
        log_dir=str(Path(context.broker.config.log_directories[0]).absolute()), topics=list(topics.values())
    )
    if context.version >= 4:
        result.total_bytes, result.usable_bytes = context.broker.partitions.space()
    return DescribeLogDirsResponse(results=[result])


def _wanted(request: DescribeLogDirsRequest, context: Context) -> list[Partition]:
    here = context.broker.partitions
    if request.topics is None:
        return list(here)
    named = {(topic.topic, index) for topic in request.topics for index in topic.partitions}
    return [partition for partition in here if (partition.topic, partition.index) in named]

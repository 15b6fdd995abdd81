"""DescribeLogDirs: the partitions in each log directory (KIP-113), and failed directories.

v2 flexible   v3 an error at the top   v4 sizes of the volume (KIP-827)   v5 cordoned directories (KIP-1066)
"""

from collections.abc import Iterable
from pathlib import Path

from headgate.gateway.api.authorization import AclOperation
from headgate.gateway.api.authorization_rules import cluster
from headgate.gateway.api.context import HandlerContext
from headgate.gateway.api.handler_registration import handles
from headgate.gateway.api.handlers.each import ROWS_A_STEP
from headgate.gateway.replication.replica import Replica
from headgate.gateway.runtime.tasks import Outcome, at_once_if_few
from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from headgate.protocol.steps import Steps
from headgate.storage.files import parent


@handles(DescribeLogDirsRequest, versions="0-5", authorize=cluster(AclOperation.DESCRIBE))
def describe_log_dirs(request: DescribeLogDirsRequest, context: HandlerContext) -> Outcome[DescribeLogDirsResponse]:
    """The sizes in bytes of the named partitions with a log here, or of all."""
    here = list(context.broker.partitions)
    return at_once_if_few(_describe(request, here, context), len(here))


def _describe(
    request: DescribeLogDirsRequest, here: Iterable[Replica], context: HandlerContext
) -> Steps[DescribeLogDirsResponse]:
    named: set[tuple[str, int]] = set()
    for topic in request.topics or ():
        named.update((topic.topic, index) for index in topic.partitions)
        yield
    partitions = context.broker.partitions
    directories: dict[str, dict[str, DescribeLogDirsTopic]] = {directory: {} for directory in partitions.directories}
    for number, replica in enumerate(here, 1):
        if request.topics is None or (replica.topic, replica.index) in named:
            topics = directories[parent(replica.log.directory)]
            row = topics.setdefault(replica.topic, DescribeLogDirsTopic(name=replica.topic))
            row.partitions.append(DescribeLogDirsPartition(replica.index, replica.log.segments.size))
        if not number % ROWS_A_STEP:
            yield
    results = [_result(directory, list(topics.values()), context) for directory, topics in directories.items()]
    results += [
        DescribeLogDirsResult(error_code=ErrorCode.KAFKA_STORAGE_ERROR, log_dir=_absolute(directory))
        for directory in partitions.refused_directories
    ]
    return DescribeLogDirsResponse(results=results)


def _result(directory: str, topics: list[DescribeLogDirsTopic], context: HandlerContext) -> DescribeLogDirsResult:
    result = DescribeLogDirsResult(log_dir=_absolute(directory), topics=topics)
    status = context.broker.partitions.directories[directory]
    if status.is_offline:
        result.error_code = ErrorCode.KAFKA_STORAGE_ERROR
        return result
    if context.version >= 4:
        try:  # a live directory is asked each second; a hanging one keeps its last answer
            result.total_bytes, result.usable_bytes = status.space or context.broker.partitions.space(directory)
        except OSError:
            result.error_code = ErrorCode.KAFKA_STORAGE_ERROR
    return result


def _absolute(directory: str) -> str:
    return str(Path(directory).absolute())

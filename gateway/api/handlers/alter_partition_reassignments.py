"""AlterPartitionReassignments: move partitions to other brokers (KIP-455).

v1 may forbid another number of replicas (KIP-860)

With ZooKeeper the controller's machine moves partitions; the answer is about the beginning. A single node without
ZooKeeper has every partition: a move to this node is complete at once, and a move to another node is refused.
"""

from headgate.gateway.api.authorization import AclOperation
from headgate.gateway.api.authorization_rules import cluster
from headgate.gateway.api.context import HandlerContext, Services
from headgate.gateway.api.handler_registration import handles
from headgate.gateway.api.handlers.each import TOO_MANY_ROWS, each_row, exceeds_max_rows
from headgate.gateway.metadata.image import Image
from headgate.gateway.metadata.new_topics import check_brokers
from headgate.gateway.runtime.tasks import Ask, Outcome, Task, at_most
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopic,
    ReassignableTopicResponse,
)
from headgate.protocol.topic_partition import TopicPartition


@handles(AlterPartitionReassignmentsRequest, versions="0-1", authorize=cluster(AclOperation.ALTER))
def alter_partition_reassignments(
    request: AlterPartitionReassignmentsRequest, context: HandlerContext
) -> Outcome[AlterPartitionReassignmentsResponse]:
    """Answer for every partition. A request without replicas cancels a reassignment."""
    metadata = context.broker.metadata
    metadata.require_controller()
    if exceeds_max_rows(map(_size, request.topics)):
        code, message = TOO_MANY_ROWS
        return AlterPartitionReassignmentsResponse(error_code=code, error_message=message)
    targets = {
        TopicPartition(topic.name, wanted.partition_index): wanted.replicas
        for topic in request.topics
        for wanted in topic.partitions
    }
    beginning = metadata.reassign(targets, may_change_factor=request.allow_replication_factor_change)
    if beginning is not None:
        return _begun(at_most(context.broker.scheduler, request.timeout_ms, beginning))
    image = metadata.image
    return AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change,
        error_message=None,
        responses=[
            ReassignableTopicResponse(name=topic.name, partitions=_partitions(topic, image, context.broker))
            for topic in request.topics
        ],
    )


def _begun(answer: Ask) -> Task[AlterPartitionReassignmentsResponse]:
    response: AlterPartitionReassignmentsResponse | None = yield answer
    if response is None:
        raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, "Timed out waiting for the controller; list the reassignments")
    return response


def _size(topic: ReassignableTopic) -> int:
    return sum(max(1, len(wanted.replicas or ())) for wanted in topic.partitions)


def _partitions(topic: ReassignableTopic, image: Image, broker: Services) -> list[ReassignablePartitionResponse]:
    def answer(wanted: ReassignablePartition) -> ReassignablePartitionResponse:
        index = wanted.partition_index
        if topic.name not in image.topics:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find a topic named {topic.name}.")
        if not image.has_partition(topic.name, index):
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find partition {topic.name}:{index}.")
        if wanted.replicas is None:
            message = f"no reassignment of {topic.name}-{index} is in progress"
            raise KafkaError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, message)
        check_brokers(index, wanted.replicas, image)
        return ReassignablePartitionResponse(partition_index=index, error_message=None)

    return each_row(broker, topic.partitions, answer, _refuse)


def _refuse(wanted: ReassignablePartition, code: ErrorCode, message: str) -> ReassignablePartitionResponse:
    return ReassignablePartitionResponse(wanted.partition_index, code, message)

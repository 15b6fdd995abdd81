"""ElectLeaders: move leadership to the preferred replica, or, uncleanly, to any live replica (KIP-183).

v1 unclean elections, top-level error (KIP-460)   v2 flexible

A single node leads every partition as the preferred replica: no election is ever needed.
"""

from headgate.gateway.api.authorization import AclOperation
from headgate.gateway.api.authorization_rules import cluster
from headgate.gateway.api.context import HandlerContext, Services
from headgate.gateway.api.handler_registration import handles
from headgate.gateway.api.handlers.each import each_row
from headgate.gateway.metadata.image import Image
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.messages.elect_leaders import (
    PREFERRED,
    UNCLEAN,
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
    TopicPartitions,
)
from headgate.protocol.steps import lazy_map


@handles(ElectLeadersRequest, versions="0-2", authorize=cluster(AclOperation.ALTER))
def elect_leaders(request: ElectLeadersRequest, context: HandlerContext) -> ElectLeadersResponse:
    """Answer for every partition in the request. A request for all partitions lists only new leaders, so none."""
    if request.election_type not in {PREFERRED, UNCLEAN}:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"election type {request.election_type} does not exist")
    if request.topic_partitions is None:
        context.broker.metadata.require_controller()
    topics = request.topic_partitions or ()
    image = context.broker.metadata.image
    return ElectLeadersResponse(
        replica_election_results=lazy_map(
            topics,
            lambda wanted: ReplicaElectionResult(
                topic=wanted.topic, partition_result=_results(wanted, image, context.broker)
            ),
        )
    )


def _results(wanted: TopicPartitions, image: Image, broker: Services) -> list[PartitionResult]:
    def answer(index: int) -> PartitionResult:
        broker.metadata.require_controller()
        topic = image.topics.get(wanted.topic)
        if topic is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such topic as {wanted.topic}")
        if not image.has_partition(wanted.topic, index):
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such partition as {wanted.topic}-{index}")
        leader = f"the preferred replica, broker {topic.partition(index).leader}, leads {wanted.topic}-{index}"
        message = f"Leader election not needed for topic partition: {leader}"
        raise KafkaError(ErrorCode.ELECTION_NOT_NEEDED, message)

    return each_row(broker, wanted.partitions, answer, PartitionResult)

"""ElectLeaders: move leadership to the preferred replica, or, uncleanly, to any live replica (KIP-183).

v1 unclean elections, top-level error (KIP-460)   v2 flexible

With ZooKeeper the controller's machine elects. A single node without ZooKeeper leads every partition as the preferred
replica: no election is ever needed.
"""

from headgate.gateway.api.authorization import AclOperation
from headgate.gateway.api.authorization_rules import cluster
from headgate.gateway.api.context import HandlerContext, Services
from headgate.gateway.api.handler_registration import handles
from headgate.gateway.api.handlers.each import each_row
from headgate.gateway.metadata.image import Image
from headgate.gateway.metadata.store import MetadataStore
from headgate.gateway.runtime.tasks import Ask, Outcome, Task, at_most
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
from headgate.protocol.topic_partition import TopicPartition


@handles(ElectLeadersRequest, versions="0-2", authorize=cluster(AclOperation.ALTER))
def elect_leaders(request: ElectLeadersRequest, context: HandlerContext) -> Outcome[ElectLeadersResponse]:
    """Answer for every partition in the request. A request for all partitions lists only new leaders."""
    if request.election_type not in {PREFERRED, UNCLEAN}:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"election type {request.election_type} does not exist")
    if request.topic_partitions is None:
        context.broker.metadata.require_controller()
    election = _election(request, context.broker.metadata)
    if election is not None:
        return _elected(at_most(context.broker.scheduler, request.timeout_ms, election))
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


def _election(request: ElectLeadersRequest, metadata: MetadataStore) -> Ask | None:
    """The wait for the elections of a controller; None if every row is answered at once."""
    topics = request.topic_partitions
    wanted = [TopicPartition(row.topic, index) for row in topics or () for index in row.partitions]
    try:
        return metadata.elect(request.election_type, None if topics is None else wanted)
    except KafkaError:
        if topics is None:
            raise
        return None


def _elected(answer: Ask) -> Task[ElectLeadersResponse]:
    response: ElectLeadersResponse | None = yield answer
    if response is None:
        raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, "Timed out waiting for the elections; ask again")
    return response


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

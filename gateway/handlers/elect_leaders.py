"""ElectLeaders: move leadership to the preferred replica, or, uncleanly, to one that is alive (KIP-183).

v1 unclean elections, top-level error (KIP-460)   v2 flexible

A node that stands alone leads every partition, as its preferred replica: no election is ever needed.
"""

from gateway.context import Context
from gateway.handlers import handles
from gateway.handlers.each import TOO_MANY, each, first_rows, is_too_many
from gateway.metadata.image import Image
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.elect_leaders import (
    PREFERRED,
    UNCLEAN,
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
    TopicPartitions,
)


@handles(ElectLeadersRequest, versions="0-2")
def elect_leaders(request: ElectLeadersRequest, context: Context) -> ElectLeadersResponse:
    """Answer for every partition that is named; of all partitions, those would be told that got another leader."""
    if request.election_type not in {PREFERRED, UNCLEAN}:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"there is no election of type {request.election_type}")
    topics = request.topic_partitions or ()
    if is_too_many(len(topic.partitions) for topic in topics):
        first = first_rows((topic.topic, topic.partitions) for topic in topics)
        few = ElectLeadersRequest(topic_partitions=[TopicPartitions(name, list(indexes)) for name, indexes in first])
        return few.error_response(context.version, *TOO_MANY)
    image = context.broker.metadata.image
    return ElectLeadersResponse(
        replica_election_results=[
            ReplicaElectionResult(topic=wanted.topic, partition_result=_results(wanted, image)) for wanted in topics
        ]
    )


def _results(wanted: TopicPartitions, image: Image) -> list[PartitionResult]:
    def answer(index: int) -> PartitionResult:
        state = image.topic(wanted.topic).partition(index)
        raise KafkaError(
            ErrorCode.ELECTION_NOT_NEEDED, f"broker {state.leader} leads {wanted.topic}-{index}, as it should"
        )

    return each(wanted.partitions, answer, PartitionResult)

"""ListPartitionReassignments: the partition reassignments in progress (KIP-455).

A broker without ZooKeeper never has any; see `alter_partition_reassignments`.
"""

from collections import defaultdict
from collections.abc import Container, Iterable
from typing import Any

from headgate.gateway.api.authorization import AclOperation
from headgate.gateway.api.authorization_rules import cluster
from headgate.gateway.api.context import HandlerContext
from headgate.gateway.api.handler_registration import handles
from headgate.gateway.api.handlers.each import ROWS_A_STEP
from headgate.gateway.metadata.image import Topic
from headgate.gateway.runtime.tasks import Outcome, at_once_if_few
from headgate.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from headgate.protocol.steps import Steps


@handles(ListPartitionReassignmentsRequest, versions="0", authorize=cluster(AclOperation.DESCRIBE))
def list_partition_reassignments(
    request: ListPartitionReassignmentsRequest, context: HandlerContext
) -> Outcome[ListPartitionReassignmentsResponse]:
    """The named partitions under reassignment, or all; nothing for partitions that do not exist, as in Kafka."""
    metadata = context.broker.metadata
    metadata.require_controller()
    topics = metadata.written_image.topics
    if request.topics is None:
        return at_once_if_few(_list((topic, range(len(topic.partitions))) for topic in topics.values()), len(topics))
    named: defaultdict[str, set[int]] = defaultdict(set)
    for wanted in request.topics:
        named[wanted.name].update(wanted.partition_indexes)
    known = [(topics[name], indexes) for name, indexes in named.items() if name in topics]
    return at_once_if_few(_list(known), len(known))


def _list(topics: Iterable[tuple[Topic, Container[int]]]) -> Steps[Any]:
    found = []
    for number, (topic, indexes) in enumerate(topics, 1):
        rows = _ongoing(topic, indexes)
        found += [OngoingTopicReassignment(topic.name, rows)] if rows else []
        if not number % ROWS_A_STEP:
            yield
    return ListPartitionReassignmentsResponse(error_message=None, topics=found)


def _ongoing(topic: Topic, wanted: Container[int]) -> list[OngoingPartitionReassignment]:
    return [
        OngoingPartitionReassignment(
            index, list(state.replicas), list(state.adding_replicas), list(state.removing_replicas)
        )
        for index, state in enumerate(topic.partitions)
        if state.is_reassigning and index in wanted
    ]

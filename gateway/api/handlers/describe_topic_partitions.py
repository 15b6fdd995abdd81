"""DescribeTopicPartitions: the partitions of topics, in pages (KIP-966)."""

from collections.abc import Iterable, Mapping

from headgate.gateway.api import authorized_operations
from headgate.gateway.api.authorization import AclOperation, AclResource, Authorization
from headgate.gateway.api.authorization_rules import authorize_topic_operations
from headgate.gateway.api.broker_endpoints import Reachability
from headgate.gateway.api.context import HandlerContext
from headgate.gateway.api.handler_registration import handles
from headgate.gateway.api.handlers.each import ROWS_A_STEP
from headgate.gateway.metadata.image import Topic
from headgate.gateway.metadata.new_topics import check_name
from headgate.gateway.runtime.tasks import Outcome, at_once_if_few
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
    TopicRequest,
)
from headgate.protocol.steps import Steps


def _authorize(authorization: Authorization) -> None:
    """Require DESCRIBE on each topic. In a request for all topics, denied ones are omitted."""
    authorization.amends.append(lambda response: authorize_topic_operations(authorization, response))
    if authorization.request.topics:
        authorization.split(
            "topics", "topics", lambda topic: authorization.allows_topic(AclOperation.DESCRIBE, topic.name)
        )
        return
    topics = authorization.context.broker.metadata.image.topics
    names = [name for name in topics if authorization.shows(AclOperation.DESCRIBE, AclResource.TOPIC, name)]
    if len(names) == len(topics):
        return
    cursor = authorization.request.cursor
    if cursor is not None and cursor.topic_name not in names:
        names = [name for name in names if name > cursor.topic_name]
        cursor = None
    if not names:  # an empty list would mean all topics
        authorization.response = DescribeTopicPartitionsResponse()
        return
    authorization.request = DescribeTopicPartitionsRequest(
        [TopicRequest(name) for name in names], authorization.request.response_partition_limit, cursor
    )


@handles(DescribeTopicPartitionsRequest, versions="0", authorize=_authorize)
def describe_topic_partitions(
    request: DescribeTopicPartitionsRequest, context: HandlerContext
) -> Outcome[DescribeTopicPartitionsResponse]:
    """One page in the order of topic names, from the cursor on, with the cursor of the next page."""
    if not context.broker.metadata.knows_topics:  # clients would take an unknown topic for a deleted one
        message = "the controller has not sent the topics of the cluster yet; ask again"
        raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, message)
    topics = context.broker.metadata.image.topics
    return at_once_if_few(_page(request, topics, context), len(request.topics) or len(topics))


def _page(
    request: DescribeTopicPartitionsRequest, topics: Mapping[str, Topic], context: HandlerContext
) -> Steps[DescribeTopicPartitionsResponse]:
    names = _names(request, topics)
    left = max(1, min(request.response_partition_limit, context.broker.config.max_request_partition_size_limit))
    rows: list[DescribeTopicPartitionsResponseTopic] = []
    for number, name in enumerate(names, 1):
        if not number % ROWS_A_STEP:
            yield
        topic = topics.get(name)
        if topic is None:
            rows.append(_unknown(name))
            continue
        start = _start(name, request.cursor)
        if not left:
            return DescribeTopicPartitionsResponse(
                topics=rows, next_cursor=Cursor(topic_name=name, partition_index=start)
            )
        end = min(start + left, len(topic.partitions))
        rows.append(_describe(topic, start, end, context))
        if end < len(topic.partitions):
            return DescribeTopicPartitionsResponse(
                topics=rows, next_cursor=Cursor(topic_name=name, partition_index=end)
            )
        left -= max(0, end - start)
    return DescribeTopicPartitionsResponse(topics=rows)


def _names(request: DescribeTopicPartitionsRequest, existing: Iterable[str]) -> list[str]:
    cursor = request.cursor
    named = {topic.name for topic in request.topics}
    if cursor is None:
        return sorted(named or existing)
    if named and cursor.topic_name not in named:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"the topic of the cursor, {cursor.topic_name}, is not in the list")
    if cursor.partition_index < 0:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"the cursor is at partition {cursor.partition_index}")
    return sorted(name for name in named or existing if name >= cursor.topic_name)


def _start(name: str, cursor: Cursor | None) -> int:
    return cursor.partition_index if cursor is not None and cursor.topic_name == name else 0


def _describe(topic: Topic, start: int, end: int, context: HandlerContext) -> DescribeTopicPartitionsResponseTopic:
    reachability = Reachability(context)
    rows = [_partition(topic, index, reachability) for index in range(start, end)]
    return DescribeTopicPartitionsResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        partitions=rows,
        topic_authorized_operations=authorized_operations.TOPIC,
    )


def _partition(topic: Topic, index: int, reachability: Reachability) -> DescribeTopicPartitionsResponsePartition:
    state = topic.partitions[index]
    error = reachability.leader_error(topic.name, index, state)
    return DescribeTopicPartitionsResponsePartition(
        error_code=error,
        partition_index=index,
        leader_id=-1 if error else state.leader,
        leader_epoch=state.leader_epoch,
        replica_nodes=list(state.replicas),
        isr_nodes=list(state.isr),
        eligible_leader_replicas=[],
        last_known_elr=[],
        offline_replicas=reachability.offline_replicas(topic.name, index, state),
    )


def _unknown(name: str) -> DescribeTopicPartitionsResponseTopic:
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    try:
        check_name(name)
    except KafkaError as error:
        code = error.code
    return DescribeTopicPartitionsResponseTopic(
        error_code=code, name=name, topic_authorized_operations=authorized_operations.TOPIC
    )

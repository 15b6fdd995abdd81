"""Metadata: the brokers, and of every topic its partitions and their leaders.

v0 an empty list means all topics, v1 null does; controller, racks, internal topics   v2 cluster id   v3 throttle
v4 may forbid auto-creation   v5 offline replicas   v7 leader epochs   v8 authorized operations (KIP-430)   v9 flexible
v10 topic ids (KIP-516)   v12 topics by id   v13 an error at the top

Topics come into being here if `auto.create.topics.enable` and the request say so, and nowhere else.
"""

from collections.abc import Callable, Iterable
from typing import Any

from gateway import operations
from gateway.advertised import endpoints
from gateway.context import Context
from gateway.handlers import handles
from gateway.handlers.each import AT_ONCE, each_in_turns
from gateway.metadata.image import INTERNAL_TOPICS, PartitionState, Topic
from gateway.metadata.topics import MAX_PARTITIONS_AT_ONCE, check_name
from gateway.waiting import Waiting
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from protocol.wire import ZERO_UUID

CREATION_TIMEOUT_MS = 30_000
"""The request does not say how long its client waits for topics that are created; this long it does by default."""


def _is_lasting(response: MetadataResponse) -> bool:
    """An error may be of its moment: a topic could not be made, a partition could not be opened."""
    return not any(topic.error_code or any(row.error_code for row in topic.partitions) for topic in response.topics)


@handles(MetadataRequest, versions="0-13", is_lasting=_is_lasting)
def metadata(request: MetadataRequest, context: Context) -> MetadataResponse | Waiting:
    """Describe all topics, or those that are named; these may be created by it."""

    def respond(topics: list[MetadataResponseTopic]) -> MetadataResponse:
        image = context.broker.metadata.image
        wants_operations = request.include_cluster_authorized_operations
        return MetadataResponse(
            brokers=[MetadataResponseBroker(*endpoint) for endpoint in endpoints(context)],
            cluster_id=image.cluster_id,
            controller_id=image.controller_id,
            topics=topics,
            cluster_authorized_operations=operations.CLUSTER if wants_operations else operations.UNKNOWN,
        )

    if request.topics is None or (context.version == 0 and not request.topics):
        return respond([_describe(topic, request, context) for topic in context.broker.metadata.image.topics.values()])
    response: MetadataResponse | Waiting = _named(request.topics, request, respond, context)
    return response


def _named(
    topics: Iterable[MetadataRequestTopic],
    request: MetadataRequest,
    respond: Callable[[list[MetadataResponseTopic]], MetadataResponse],
    context: Context,
) -> Any:
    def answer(wanted: MetadataRequestTopic) -> MetadataResponseTopic:
        if are_too_many and (wanted.name, wanted.topic_id) in new:
            raise KafkaError(ErrorCode.POLICY_VIOLATION, f"{len(new)} new topics in one request are too many")
        return _describe(_find(wanted, request, context), request, context)

    def refuse(wanted: MetadataRequestTopic, code: ErrorCode, message: str) -> MetadataResponseTopic:
        is_told = request.include_topic_authorized_operations and wanted.name is not None
        return MetadataResponseTopic(
            error_code=code,
            name=wanted.name,
            topic_id=wanted.topic_id,
            topic_authorized_operations=operations.TOPIC if is_told else operations.UNKNOWN,
        )

    def again(wanted: MetadataRequestTopic, row: MetadataResponseTopic) -> MetadataResponseTopic:
        """What was created is described as it is now: a partition may not have opened."""
        topic = context.broker.metadata.image.topics.get(wanted.name or "")
        return row if topic is None or row.error_code else _describe(topic, request, context)

    unique: dict[tuple[str | None, bytes], MetadataRequestTopic] = {}
    for topic in topics:
        _check(topic, context.version)
        unique[topic.name, topic.topic_id] = topic
    new = {key for key, topic in unique.items() if _is_to_create(topic, request, context)}
    are_too_many = len(new) * context.broker.config.num_partitions > MAX_PARTITIONS_AT_ONCE
    at_once = len(unique) if are_too_many or len(new) <= AT_ONCE else 0
    return each_in_turns(
        list(unique.values()),
        answer,
        refuse,
        respond,
        CREATION_TIMEOUT_MS,
        context,
        at_once,
        again,
        changes=lambda wanted: (wanted.name, wanted.topic_id) in new,
    )


def _check(topic: MetadataRequestTopic, version: int) -> None:
    """Versions 10 and 11 have fields for ids, which no broker ever served."""
    if version < 12 and (topic.name is None or topic.topic_id != ZERO_UUID):
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"version {version} asks for topics by name, not by id")


def _is_to_create(wanted: MetadataRequestTopic, request: MetadataRequest, context: Context) -> bool:
    name = wanted.name
    if name is None or wanted.topic_id != ZERO_UUID or name in context.broker.metadata.image.topics:
        return False
    return _may_create(name, request, context) and _is_valid(name)


def _is_valid(name: str) -> bool:
    try:
        check_name(name)
    except KafkaError:
        return False
    return True


def _may_create(name: str, request: MetadataRequest, context: Context) -> bool:
    """Topics of coordinators are left to these, which know how many partitions they need."""
    is_wanted = context.broker.config.auto_create_topics_enable and request.allow_auto_topic_creation
    return is_wanted and name not in INTERNAL_TOPICS


def _find(wanted: MetadataRequestTopic, request: MetadataRequest, context: Context) -> Topic:
    image = context.broker.metadata.image
    if wanted.name is None or wanted.topic_id != ZERO_UUID:
        return image.topic_by_id(wanted.topic_id)
    found = image.topics.get(wanted.name)
    return _create(wanted.name, request, context) if found is None else found


def _create(name: str, request: MetadataRequest, context: Context) -> Topic:
    """Create a topic by the defaults. Raises KafkaError where there shall be none."""
    check_name(name)
    if not _may_create(name, request, context):
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name}")
    metadata = context.broker.metadata
    return metadata.planned.topics.get(name) or metadata.create_topic(name)  # somebody else may have asked for it


def _describe(topic: Topic, request: MetadataRequest, context: Context) -> MetadataResponseTopic:
    wants_operations = request.include_topic_authorized_operations
    return MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        partitions=_partitions(topic, context),
        topic_authorized_operations=operations.TOPIC if wants_operations else operations.UNKNOWN,
    )


def _partitions(topic: Topic, context: Context) -> list[MetadataResponsePartition]:
    """All of them; what cannot be opened here, or not yet, has no leader, which tools count as unavailable."""
    rows = [_partition(index, state) for index, state in enumerate(topic.partitions)]
    offline, opening = context.broker.partitions.offline, context.broker.partitions.opening
    for row in rows if offline or opening else ():
        key = topic.name, row.partition_index
        if key in offline or key in opening:
            row.error_code, row.leader_id = ErrorCode.LEADER_NOT_AVAILABLE, -1
            row.offline_replicas = [context.broker.config.node_id] if key in offline else []
    return rows


def _partition(index: int, state: PartitionState) -> MetadataResponsePartition:
    return MetadataResponsePartition(
        error_code=ErrorCode.NONE if state.leader >= 0 else ErrorCode.LEADER_NOT_AVAILABLE,
        partition_index=index,
        leader_id=state.leader,
        leader_epoch=state.leader_epoch,
        replica_nodes=list(state.replicas),
        isr_nodes=list(state.isr),
    )

"""CreateTopics: create topics, each with its own result.

v1 validate_only, messages   v2 throttle   v4 defaults for counts (KIP-464)   v5 flexible, configs in the reply
(KIP-525)   v6 quota errors (KIP-599)   v7 topic ids (KIP-516)
"""

from functools import partial
from operator import attrgetter

from headgate.gateway.api.authorization import AclOperation, AclResource, Authorization
from headgate.gateway.api.authorization_rules import elements, every
from headgate.gateway.api.context import HandlerContext
from headgate.gateway.api.handler_registration import handles
from headgate.gateway.api.handlers.each import each_in_turns, unrepeated
from headgate.gateway.api.throttling import charge_partitions, counts_partitions
from headgate.gateway.config.describe import ConfigEntry, TopicRows
from headgate.gateway.metadata.image import Image, Topic
from headgate.gateway.metadata.new_topics import MAX_PARTITIONS_AT_ONCE, too_many_partitions
from headgate.gateway.metadata.store import Change
from headgate.gateway.runtime.tasks import Outcome
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from headgate.protocol.steps import finish, lazy_map
from headgate.protocol.wire import ZERO_UUID


def _authorize_configs(authorization: Authorization) -> None:
    """Require DESCRIBE_CONFIGS on each created topic; otherwise the response omits the topic's configs."""

    def limited(row: CreatableTopicResult) -> CreatableTopicResult:
        if not row.error_code and not authorization.shows(AclOperation.DESCRIBE_CONFIGS, AclResource.TOPIC, row.name):
            row.topic_config_error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            row.num_partitions, row.replication_factor, row.configs = -1, -1, []
        return row

    def limit(response: CreateTopicsResponse) -> None:
        response.topics = lazy_map(response.topics, limited)

    authorization.amends.append(limit)


_authorize_topics = elements(
    AclOperation.CREATE,
    AclResource.TOPIC,
    "topics",
    "topics",
    attrgetter("name"),
    or_cluster=AclOperation.CREATE,
    message="Authorization failed.",
)


@handles(CreateTopicsRequest, versions="0-7", authorize=every(_authorize_topics, _authorize_configs))
def create_topics(request: CreateTopicsRequest, context: HandlerContext) -> Outcome[CreateTopicsResponse]:
    """Create each topic, or with `validate_only` check each."""
    _check_size(request, context)
    rows = TopicRows(context.broker.config, _row)
    before = context.broker.metadata.planned

    def answer(wanted: CreatableTopic) -> tuple[CreatableTopicResult, Change]:
        context.broker.metadata.require_controller()
        change = _create(wanted, before, request.validate_only, context)
        topic = change.image.topics[wanted.name]
        configs = rows.of(topic.configs) if context.version >= 5 else []
        return _result(topic, ZERO_UUID if request.validate_only else topic.topic_id, configs), change

    def respond(rows: list[CreatableTopicResult]) -> CreateTopicsResponse:
        return CreateTopicsResponse(topics=rows)

    name = attrgetter("name")
    once = finish(unrepeated(request.topics, name, answer, name, "Duplicate topic name."))
    return each_in_turns(*once, _refuse, respond, request.timeout_ms, context)


def _check_size(request: CreateTopicsRequest, context: HandlerContext) -> None:
    """Raises KafkaError(POLICY_VIOLATION) for too many partitions, over all topics."""
    default, total = context.broker.config.num_partitions, len(request.topics)
    if total <= MAX_PARTITIONS_AT_ONCE:
        total = sum(len(topic.assignments) or max(topic.num_partitions, default) for topic in request.topics)
    if total > MAX_PARTITIONS_AT_ONCE:
        raise too_many_partitions(total)


def _create(wanted: CreatableTopic, before: Image, validate_only: bool, context: HandlerContext) -> Change:
    assignments: dict[int, list[int]] = {}
    for row in wanted.assignments:
        if row.partition_index in assignments:
            message = f"Found multiple manual partition assignments for partition {row.partition_index}"
            raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
        assignments[row.partition_index] = row.broker_ids
    create = partial(
        context.broker.metadata.create_topic,
        wanted.name,
        wanted.num_partitions,
        wanted.replication_factor,
        {config.name: config.value for config in wanted.configs},
        assignments,
        before=before,
    )
    if counts_partitions(context):  # only a topic that is valid counts
        charge_partitions(context, len(create(validate_only=True).image.topics[wanted.name].partitions))
    return create(validate_only=validate_only)


def _row(entry: ConfigEntry) -> CreatableTopicConfigs:
    return CreatableTopicConfigs(
        name=entry.name,
        value=entry.value,
        read_only=entry.read_only,
        config_source=entry.source,
        is_sensitive=entry.is_sensitive,
    )


def _result(topic: Topic, topic_id: bytes, configs: list[CreatableTopicConfigs]) -> CreatableTopicResult:
    return CreatableTopicResult(
        name=topic.name,
        topic_id=topic_id,
        error_message=None,
        num_partitions=len(topic.partitions),
        replication_factor=len(topic.partitions[0].replicas),
        configs=configs,
    )


def _refuse(wanted: CreatableTopic, code: ErrorCode, message: str) -> CreatableTopicResult:
    return CreatableTopicResult(name=wanted.name, error_code=code, error_message=message, configs=[])

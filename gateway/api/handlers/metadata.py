"""Metadata: the brokers, and the topics with their partitions and leaders.

v0 an empty list means all topics, v1 null does; controller, racks, internal topics   v2 cluster id   v3 throttle v4 may
forbid auto-creation   v5 offline replicas   v7 leader epochs   v8 authorized operations (KIP-430)   v9 flexible v10
topic ids (KIP-516)   v12 topics by id   v13 an error at the top

Only this request auto-creates topics, if `auto.create.topics.enable` and the request allow it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from typing import Any, TypeAlias, TypeVar, cast

from headgate.gateway.api import authorized_operations
from headgate.gateway.api.authorization import AclOperation, AclResource, Authorization
from headgate.gateway.api.authorization_rules import authorize_topic_operations, cluster_operations
from headgate.gateway.api.broker_endpoints import Reachability, endpoints
from headgate.gateway.api.context import HandlerContext
from headgate.gateway.api.handler_registration import handles
from headgate.gateway.api.handlers.each import ROWS_A_STEP, each_in_turns
from headgate.gateway.metadata.image import INTERNAL_TOPICS, Image, PartitionState, Topic
from headgate.gateway.metadata.new_topics import MAX_PARTITIONS_AT_ONCE, check_name
from headgate.gateway.metadata.store import Change
from headgate.gateway.runtime.tasks import PAUSE, Changes, Outcome, Task, as_task, at_once_if_few, value_of
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from headgate.protocol.steps import FEW_ITEMS, LazyArray, lazy_map
from headgate.protocol.wire import ZERO_UUID

W = TypeVar("W", bound=Topic | MetadataRequestTopic)
Key: TypeAlias = tuple[str | None, bytes]

DESCRIBE = AclOperation.DESCRIBE

CREATION_TIMEOUT_MS = 30_000
"""How long to wait for created topics: a client's default, as the request has no timeout."""
KNOWN_WITHIN_MS = 5_000
"""How long to wait for the topics after a start: a client without an answer asks another broker, but not at once."""


def _is_lasting(response: MetadataResponse) -> bool:
    """Whether to cache the response. An error may be temporary: a failed creation, or a partition that is not open.

    Without brokers, the topics of the cluster are not known yet.
    """
    if not response.brokers:
        return False
    topics: Any = response.topics
    if isinstance(topics, _Rows):
        return not topics.description.has_errors
    return not any(topic.error_code or any(row.error_code for row in topic.partitions) for topic in response.topics)


def _authorize(authorization: Authorization) -> None:
    """Require DESCRIBE on each topic, and CREATE on the cluster or the topic for a topic to be created.

    In a request for all topics, denied ones are omitted. The response does not reveal whether a denied topic exists.
    """
    request, context = authorization.request, authorization.context
    image = context.broker.metadata.image
    authorization.amends.append(lambda response: authorize_topic_operations(authorization, response))
    if request.include_cluster_authorized_operations:
        authorization.amends.append(
            lambda response: setattr(response, "cluster_authorized_operations", cluster_operations(authorization))
        )
    is_of_all = request.topics is None or (context.version == 0 and not request.topics)
    wanted = [MetadataRequestTopic(name=name) for name in image.topics] if is_of_all else request.topics
    if is_of_all:
        kept = [topic for topic in wanted if authorization.shows(DESCRIBE, AclResource.TOPIC, topic.name or "")]
    else:
        kept = [topic for topic in wanted if _is_allowed(topic, authorization)]
    if len(kept) == len(wanted):
        return
    rows = [] if is_of_all else [_denied(topic) for topic in wanted if not _is_allowed(topic, authorization)]
    authorization.request = copy(request)
    authorization.request.topics = kept
    if kept or context.version > 0:
        authorization.add_rows("topics", rows)
    else:  # an empty list would mean all topics
        authorization.amends.append(lambda response: setattr(response, "topics", rows))


def _is_allowed(topic: MetadataRequestTopic, authorization: Authorization) -> bool:
    if not authorization.allows_topic(DESCRIBE, topic.name or "", topic.topic_id):
        return False
    if not _is_to_create(topic, authorization.request, authorization.context):
        return True
    return authorization.holds_cluster(AclOperation.CREATE) or authorization.allows_topic(
        AclOperation.CREATE, topic.name or ""
    )


def _denied(topic: MetadataRequestTopic) -> MetadataResponseTopic:
    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return MetadataResponseTopic(error_code=code, name=topic.name, topic_id=topic.topic_id)


@handles(MetadataRequest, versions="0-13", authorize=_authorize, is_lasting=_is_lasting, in_steps=True)
def metadata(request: MetadataRequest, context: HandlerContext) -> Outcome[MetadataResponse]:
    """Describe all topics, or the named ones; these may be created first."""
    if not context.broker.metadata.knows_topics:
        return _once_known(request, context)
    return _describe(request, context)


def _once_known(request: MetadataRequest, context: HandlerContext) -> Task[MetadataResponse]:
    """Wait for the topics after a start: at a response without brokers, librdkafka forgets those that it knows."""
    services = context.broker
    changes = Changes([services.metadata.waiters], services.clock.monotonic_ms() + KNOWN_WITHIN_MS)
    while not services.metadata.knows_topics and (yield changes) is not None:
        pass
    return (yield from value_of(_describe(request, context)))


def _describe(request: MetadataRequest, context: HandlerContext) -> Outcome[MetadataResponse]:
    if request.topics is None or (context.version == 0 and not request.topics):
        topics = list(context.broker.metadata.image.topics.values())
        description = _Description(request, context)
        outcome: Outcome[MetadataResponse] = _respond(request, context, topics, description, description.topic)
    else:
        outcome = at_once_if_few(_named(request.topics, request, context), len(request.topics))
    if isinstance(outcome, MetadataResponse) and isinstance(outcome.topics, _Rows):
        return as_task(outcome)
    return outcome


def _respond(
    request: MetadataRequest,
    context: HandlerContext,
    wanted: Sequence[W],
    description: _Description,
    row: Callable[[W], MetadataResponseTopic],
) -> MetadataResponse:
    """The response with a row for each of `wanted`: described while they are written, if they are many."""
    image, wants_operations = description.image, request.include_cluster_authorized_operations
    response = MetadataResponse(
        brokers=[MetadataResponseBroker(*endpoint) for endpoint in endpoints(context)],
        cluster_id=image.cluster_id,
        controller_id=image.controller_id,
        cluster_authorized_operations=authorized_operations.CLUSTER
        if wants_operations
        else authorized_operations.UNKNOWN,
    )
    is_large = len(wanted) > FEW_ITEMS or any(description.is_large(topic) for topic in wanted)
    if not is_large:
        response.topics = list(map(row, wanted))
        return response
    description.freeze(context)
    response.topics = cast("list[MetadataResponseTopic]", _Rows(description, wanted, row))
    return response


class _Rows(LazyArray[W, MetadataResponseTopic]):
    """Topics that are described while they are written."""

    __slots__ = ("description",)

    def __init__(
        self, description: _Description, wanted: Sequence[W], row: Callable[[W], MetadataResponseTopic]
    ) -> None:
        super().__init__(wanted, row)
        self.description = description


def _named(
    topics: Iterable[MetadataRequestTopic], request: MetadataRequest, context: HandlerContext
) -> Task[MetadataResponse]:
    """Describe these topics, after the creation of missing ones."""
    unique: dict[Key, MetadataRequestTopic] = {}
    new: list[Key] = []
    for number, topic in enumerate(topics, 1):
        _check(topic, context.version)
        key = topic.name, topic.topic_id
        if key not in unique and _is_to_create(topic, request, context):
            new.append(key)
        unique[key] = topic
        if not number % ROWS_A_STEP:
            yield PAUSE

    before = context.broker.metadata.planned

    def create(key: Key) -> tuple[None, Change]:
        return None, _create(key[0] or "", before, context)

    def refuse(key: Key, code: ErrorCode, message: str) -> ErrorCode:
        return code

    def respond(outcomes: Iterable[ErrorCode | None]) -> MetadataResponse:
        # A topic that was created, but is not in the image: the controller has to send it first
        refused = {key: code or ErrorCode.LEADER_NOT_AVAILABLE for key, code in zip(new, outcomes, strict=True)}
        description = _Description(request, context)
        rows = list(unique.values())
        return _respond(request, context, rows, description, lambda wanted: description.named(wanted, refused))

    if len(new) * context.broker.config.num_partitions > MAX_PARTITIONS_AT_ONCE:
        return respond([ErrorCode.POLICY_VIOLATION] * len(new))
    return (yield from value_of(each_in_turns(new, create, refuse, respond, CREATION_TIMEOUT_MS, context)))


def _check(topic: MetadataRequestTopic, version: int) -> None:
    """Check a topic. Versions 10 and 11 have fields for ids, which no broker ever supported."""
    if version < 12 and (topic.name is None or topic.topic_id != ZERO_UUID):
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"version {version} asks for topics by name, not by id")


def _is_to_create(wanted: MetadataRequestTopic, request: MetadataRequest, context: HandlerContext) -> bool:
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


def _may_create(name: str, request: MetadataRequest, context: HandlerContext) -> bool:
    """Whether the request may create the topic. Coordinators create their own topics, with the partitions they need."""
    is_wanted = context.broker.config.auto_create_topics_enable and request.allow_auto_topic_creation
    return is_wanted and name not in INTERNAL_TOPICS


def _create(name: str, before: Image, context: HandlerContext) -> Change:
    """Create a topic with the broker's defaults; `before`: see `check_new`. Raises KafkaError for a refused topic."""
    metadata = context.broker.metadata
    if name in metadata.planned.topics:  # another client has requested the same topic
        return metadata.submit(())
    return metadata.create_on_demand(name, before=before)


class _Description:
    """Topic rows that reflect one moment."""

    def __init__(self, request: MetadataRequest, context: HandlerContext) -> None:
        self.image = context.broker.metadata.image
        self.has_errors = False
        self._version = context.version
        self._reachability = Reachability(context)
        self._knows_topics = context.broker.metadata.knows_topics
        wants_operations = request.include_topic_authorized_operations
        self._operations = authorized_operations.TOPIC if wants_operations else authorized_operations.UNKNOWN

    def freeze(self, context: HandlerContext) -> None:
        """Copy the state outside the image: the rows are made later."""
        self._reachability.freeze(context)

    def is_large(self, wanted: Topic | MetadataRequestTopic) -> bool:
        """Whether a single topic has many partitions."""
        topic = wanted if isinstance(wanted, Topic) else self.image.topics.get(wanted.name or "")
        return topic is not None and len(topic.partitions) > FEW_ITEMS

    def named(self, wanted: MetadataRequestTopic, refused: Mapping[Key, ErrorCode]) -> MetadataResponseTopic:
        """The row of a topic by name or id. `refused`: the topics whose creation failed."""
        try:
            return self.topic(self._find(wanted))
        except KafkaError as error:
            self.has_errors = True
            is_named = wanted.name is not None
            code = refused.get((wanted.name, wanted.topic_id), error.code)
            return MetadataResponseTopic(
                error_code=code if self._knows_topics else ErrorCode.LEADER_NOT_AVAILABLE,
                name=wanted.name,
                topic_id=wanted.topic_id,
                topic_authorized_operations=self._operations if is_named else authorized_operations.UNKNOWN,
            )

    def _find(self, wanted: MetadataRequestTopic) -> Topic:
        if wanted.name is None or wanted.topic_id != ZERO_UUID:
            return self.image.topic_by_id(wanted.topic_id)
        topic = self.image.topics.get(wanted.name)
        if topic is None:
            check_name(wanted.name)
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{wanted.name}' does not exist.")
        return topic

    def topic(self, topic: Topic) -> MetadataResponseTopic:
        """The row of a topic. A partition that is not open here has no leader: tools count it as unavailable."""
        return MetadataResponseTopic(
            name=topic.name,
            topic_id=topic.topic_id,
            is_internal=topic.is_internal,
            partitions=lazy_map(range(len(topic.partitions)), lambda index: self._partition(topic, index)),
            topic_authorized_operations=self._operations,
        )

    def _partition(self, topic: Topic, index: int) -> MetadataResponsePartition:
        state = topic.partitions[index]
        row = MetadataResponsePartition(
            error_code=ErrorCode.NONE,
            partition_index=index,
            leader_id=state.leader,
            leader_epoch=state.leader_epoch,
            replica_nodes=list(state.replicas),
            isr_nodes=list(state.isr),
        )
        if state is not self._reachability.whole and not self._reachability.is_whole(state):
            self._mark(row, topic.name, state)
        return row

    def _mark(self, row: MetadataResponsePartition, name: str, state: PartitionState) -> None:
        """Mark a partition without a leader or with offline replicas.

        Clients of version 0 fail at a broker that the response does not have; versions before 6 do not know
        LISTENER_NOT_FOUND.
        """
        reachability, index = self._reachability, row.partition_index
        error = reachability.leader_error(name, index, state)
        row.offline_replicas = reachability.offline_replicas(name, index, state)
        if error:
            row.error_code, row.leader_id = error if self._version >= 6 else ErrorCode.LEADER_NOT_AVAILABLE, -1
        if self._version == 0:
            row.replica_nodes = [broker for broker in state.replicas if broker in reachability.brokers]
            row.isr_nodes = [broker for broker in state.isr if broker in reachability.brokers]
            if not error and len(row.replica_nodes) < len(state.replicas):
                row.error_code = ErrorCode.REPLICA_NOT_AVAILABLE
        self.has_errors |= row.error_code != ErrorCode.NONE

"""DeleteTopics: delete topics with all their records, each with its own result.

v1 throttle   v3 TOPIC_DELETION_DISABLED   v4 flexible   v5 messages, quota errors (KIP-599)   v6 by topic id (KIP-516)
"""

from collections import Counter
from functools import partial

from headgate.gateway.api.authorization import AclOperation, AclResource, Authorization
from headgate.gateway.api.context import HandlerContext
from headgate.gateway.api.handler_registration import handles
from headgate.gateway.api.handlers.each import each_in_turns
from headgate.gateway.api.throttling import charge_partitions
from headgate.gateway.metadata.image import Image
from headgate.gateway.metadata.store import Change
from headgate.gateway.runtime.tasks import Outcome
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from headgate.protocol.wire import ZERO_UUID

Key = tuple[str | None, bytes]


def _authorize(authorization: Authorization) -> None:
    """Require DELETE on the cluster, or DELETE on each topic, and DESCRIBE on those that are named.

    Who may only DESCRIBE a topic learns that there is none. The name of a denied id needs DESCRIBE.
    """
    if authorization.holds_cluster(AclOperation.DELETE):
        return
    if authorization.context.version >= 6:
        authorization.split(
            "topics",
            "responses",
            lambda topic: (
                authorization.allows_topic(AclOperation.DELETE, "", topic.topic_id)
                if topic.name is None
                else _allows_name(authorization, topic.name)
            ),
            partial(_denied, authorization),
        )
    else:
        authorization.split("topic_names", "responses", partial(_allows_name, authorization))


def _allows_name(authorization: Authorization, name: str) -> bool:
    if not authorization.allows(AclOperation.DESCRIBE, AclResource.TOPIC, name):
        return False
    topics = authorization.context.broker.metadata.image.topics
    return name not in topics or authorization.allows(AclOperation.DELETE, AclResource.TOPIC, name)


def _denied(authorization: Authorization, topics: list[DeleteTopicState]) -> list[DeletableTopicResult]:
    names = authorization.context.broker.metadata.image.topic_names
    rows = []
    for topic in topics:
        name = topic.name or names[topic.topic_id]
        is_visible = topic.name is not None or authorization.shows(AclOperation.DESCRIBE, AclResource.TOPIC, name)
        rows.append(_refuse((name if is_visible else None, topic.topic_id), *DENIAL))
    return rows


DENIAL = ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.TOPIC_AUTHORIZATION_FAILED.message


@handles(DeleteTopicsRequest, versions="0-6", authorize=_authorize)
def delete_topics(request: DeleteTopicsRequest, context: HandlerContext) -> Outcome[DeleteTopicsResponse]:
    """Delete each topic, by name or since version 6 also by id."""
    if not context.broker.config.delete_topic_enable:
        code = ErrorCode.TOPIC_DELETION_DISABLED if context.version >= 3 else ErrorCode.INVALID_REQUEST
        raise KafkaError(code, "topics cannot be deleted: delete.topic.enable=false")
    states = request.topics if context.version >= 6 else [DeleteTopicState(name=name) for name in request.topic_names]
    image = context.broker.metadata.image
    wanted = Counter((state.name, state.topic_id) for state in states)
    counts = Counter(_resolved(key, image) for key in wanted)

    def answer(key: Key) -> tuple[DeletableTopicResult, Change]:
        context.broker.metadata.require_controller()
        if wanted[key] > 1 or counts[_resolved(key, image)] > 1:
            what = "id" if key[0] is None else "name"
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Duplicate topic {what}.")
        return _delete(*key, context)

    def respond(rows: list[DeletableTopicResult]) -> DeleteTopicsResponse:
        return DeleteTopicsResponse(responses=rows)

    return each_in_turns(list(wanted), answer, _refuse, respond, request.timeout_ms, context)


def _resolved(key: Key, image: Image) -> Key:
    """The same key for the name and the id of a topic; the key itself for an unknown topic."""
    name, topic_id = key
    known = image.topic_names.get(topic_id) if name is None else name
    return key if known is None else (known, ZERO_UUID)


def _delete(name: str | None, topic_id: bytes, context: HandlerContext) -> tuple[DeletableTopicResult, Change]:
    if name is None and topic_id == ZERO_UUID:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Neither topic name nor id were specified.")
    if name is not None and topic_id != ZERO_UUID:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "You may not specify both topic name and topic id.")
    image = context.broker.metadata.image
    topic = image.topic_by_id(topic_id) if name is None else image.topic(name)
    charge_partitions(context, len(topic.partitions))
    change = context.broker.metadata.delete_topic(topic.name)
    return DeletableTopicResult(name=topic.name, topic_id=topic.topic_id), change


def _refuse(key: Key, code: ErrorCode, message: str) -> DeletableTopicResult:
    name, topic_id = key
    return DeletableTopicResult(name=name, topic_id=topic_id, error_code=code, error_message=message)

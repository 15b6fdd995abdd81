"""DeleteTopics: remove topics with all their records, each with an outcome of its own.

v1 throttle   v3 TOPIC_DELETION_DISABLED   v4 flexible   v5 messages, quota errors (KIP-599)   v6 by topic id (KIP-516)
"""

from collections import Counter

from headgate.gateway.api.context import Context
from headgate.gateway.api.handlers import handles
from headgate.gateway.api.handlers.each import each_in_turns
from headgate.gateway.metadata.image import Image
from headgate.gateway.metadata.store import Change
from headgate.gateway.runtime.purgatory import Waiting
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from headgate.protocol.wire import ZERO_UUID

Key = tuple[str | None, bytes]


@handles(DeleteTopicsRequest, versions="0-6")
def delete_topics(request: DeleteTopicsRequest, context: Context) -> DeleteTopicsResponse | Waiting:
    """Delete each topic, by name or from v6 also by id."""
    if not context.broker.config.delete_topic_enable:
        code = ErrorCode.TOPIC_DELETION_DISABLED if context.version >= 3 else ErrorCode.INVALID_REQUEST
        raise KafkaError(code, "topics cannot be deleted: delete.topic.enable=false")
    states = request.topics if context.version >= 6 else [DeleteTopicState(name=name) for name in request.topic_names]
    image = context.broker.metadata.image
    wanted = Counter((state.name, state.topic_id) for state in states)
    meant = Counter(_meant(key, image) for key in wanted)

    def answer(key: Key) -> tuple[DeletableTopicResult, Change]:
        if wanted[key] > 1 or meant[_meant(key, image)] > 1:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "the request has the topic more than once")
        return _delete(*key, context)

    def respond(rows: list[DeletableTopicResult]) -> DeleteTopicsResponse:
        return DeleteTopicsResponse(responses=rows)

    response: DeleteTopicsResponse | Waiting = each_in_turns(
        list(wanted), answer, _refuse, respond, request.timeout_ms, context
    )
    return response


def _meant(key: Key, image: Image) -> Key:
    """One key for the name and the id of the same topic; the key as it is for an unknown topic."""
    name, topic_id = key
    known = image.topic_names.get(topic_id) if name is None else name
    return key if known is None else (known, ZERO_UUID)


def _delete(name: str | None, topic_id: bytes, context: Context) -> tuple[DeletableTopicResult, Change]:
    if (name is None) == (topic_id == ZERO_UUID):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "a topic is identified either by its name or by its id")
    image = context.broker.metadata.image
    topic = image.topic_by_id(topic_id) if name is None else image.topic(name)
    change = context.broker.metadata.delete_topic(topic.name)
    return DeletableTopicResult(name=topic.name, topic_id=topic.topic_id), change


def _refuse(key: Key, code: ErrorCode, message: str) -> DeletableTopicResult:
    name, topic_id = key
    return DeletableTopicResult(name=name, topic_id=topic_id, error_code=code, error_message=message)

"""DeleteTopics: delete topics, each with a result of its own.

v1 throttle   v4 flexible   v5 error messages, quota errors (KIP-599)   v6 by topic id (KIP-516)
"""

from headgate.protocol.schema import Message, Struct, array, int16, int32, nullable_string, string, uuid, v


class DeleteTopicState(Struct):
    """A topic by name, or by id if the name is null."""

    name: nullable_string = v("6+", default=None)
    topic_id: uuid = v("6+")


class DeleteTopicsRequest(Message, key=20, versions="0-6", flexible="4+"):
    """Delete `topics`; before v6 the field is `topic_names`."""

    topics: array[DeleteTopicState] = v("6+")
    topic_names: array[string] = v("0-5")
    timeout_ms: int32 = v("0+")


class DeletableTopicResult(Struct):
    """The result for a topic. `name` is null for an unknown id."""

    name: nullable_string = v("0+", nullable="6+")
    topic_id: uuid = v("6+")
    error_code: int16 = v("0+")
    error_message: nullable_string = v("5+", default=None)


class DeleteTopicsResponse(Message, key=20, response=True, versions="0-6", flexible="4+"):
    """One result for each topic of the request."""

    throttle_time_ms: int32 = v("1+")
    responses: array[DeletableTopicResult] = v("0+")

"""DeleteShareGroupOffsets: delete an empty share group's offsets of topics (KIP-932)."""

from headgate.protocol.schema import Message, Struct, array, int16, int32, nullable_string, string, uuid, v


class DeleteShareGroupOffsetsRequestTopic(Struct):
    """A topic."""

    topic_name: string = v("0+")


class DeleteShareGroupOffsetsRequest(Message, key=92, versions="0", flexible="0+"):
    """Delete the offsets of topics."""

    group_id: string = v("0+")
    topics: array[DeleteShareGroupOffsetsRequestTopic] = v("0+")


class DeleteShareGroupOffsetsResponseTopic(Struct):
    """The result for a topic."""

    topic_name: string = v("0+")
    topic_id: uuid = v("0+")
    error_code: int16 = v("0+")
    error_message: nullable_string = v("0+", default=None)


class DeleteShareGroupOffsetsResponse(Message, key=92, response=True, versions="0", flexible="0+"):
    """One result for each topic of the request; none with an error at the top."""

    throttle_time_ms: int32 = v("0+")
    error_code: int16 = v("0+")
    error_message: nullable_string = v("0+", default=None)
    responses: array[DeleteShareGroupOffsetsResponseTopic] = v("0+")

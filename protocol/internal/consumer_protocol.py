"""The consumer protocol: the messages of the protocol type "consumer" that members embed in JoinGroup and SyncGroup.

An int16, the version, precedes each message (KIP-62, KIP-429 cooperative rebalancing, KIP-792 generations, KIP-881
racks). A newer version only adds fields at the end. So a reader takes an unknown version for the newest that it knows,
and ignores the bytes after the known fields. Bytes after the fields of an older version are ignored too.

Some clients write a version without its fields: kafkajs 1 writes version 1 with the fields of version 0. Fields that a
later version adds, and the bytes lack, are at their defaults.

The broker reads these messages of classic groups for two purposes. It needs the topics of the members before it deletes
or expires their offsets. There Kafka reads the fields of version 0 alone, whatever the version and the later bytes are.
And it migrates groups between the protocols (KIP-848), for which it reads everything.
"""

from contextlib import suppress
from typing import TypeVar

from headgate.protocol.errors import MalformedRequest
from headgate.protocol.internal import version_prefix
from headgate.protocol.schema import Message, Struct, array, int32, nullable_blob, nullable_string, string, v

PROTOCOL_TYPE = "consumer"

_NO_KEY = -1  # the messages are not an API
_DATA = "a consumer's protocol data"

M = TypeVar("M", bound=Message)


class TopicPartition(Struct):
    """Partitions of a topic. Kafka's name is singular."""

    topic: string = v("0+")
    partitions: array[int32] = v("0+")


class ConsumerProtocolSubscription(Message, key=_NO_KEY, versions="0-3", flexible="none"):
    """The topics that a member subscribes to, and its partitions.   v1 owned partitions   v2 generation   v3 rack."""

    topics: array[string] = v("0+")
    user_data: nullable_blob = v("0+", default=None)
    owned_partitions: array[TopicPartition] = v("1+")
    generation_id: int32 = v("2+", default=-1)
    rack_id: nullable_string = v("3+", default=None)


class ConsumerProtocolAssignment(Message, key=_NO_KEY, versions="0-3", flexible="none"):
    """The partitions assigned to a member. All versions are equal."""

    assigned_partitions: array[TopicPartition] = v("0+")
    user_data: nullable_blob = v("0+", default=None)


def encode(message: ConsumerProtocolSubscription | ConsumerProtocolAssignment, version: int) -> bytes:
    """Return the bytes of a message in one version. Raises ValueError for a version that is not declared."""
    return version_prefix.encode(version, message, version)


def decode_topics(data: bytes | memoryview) -> list[str]:
    """Return the topics of a subscription in any version, a negative one too. Raises MalformedRequest."""
    version_prefix.read_prefix(data, _DATA)
    return version_prefix.decode_start(ConsumerProtocolSubscription, 0, data)[0].topics


def decode_subscription(data: bytes | memoryview) -> ConsumerProtocolSubscription:
    """Return the subscription in a member's metadata of a JoinGroup. Raises MalformedRequest."""
    return _decode(ConsumerProtocolSubscription, data)


def decode_assignment(data: bytes | memoryview) -> ConsumerProtocolAssignment:
    """Return the assignment of a member in a SyncGroup. Raises MalformedRequest."""
    return _decode(ConsumerProtocolAssignment, data)


def _decode(cls: type[M], data: bytes | memoryview) -> M:
    """Read the fields of the version, or of the newest known one; or those of an older one, if the bytes end there."""
    newest = version_prefix.read_prefix(data, _DATA)
    if newest < 0:
        raise MalformedRequest(f"{_DATA} has version {newest}")
    newest = min(newest, cls.versions.last)
    try:
        return version_prefix.decode_start(cls, newest, data)[0]
    except MalformedRequest:
        for version in reversed(range(newest)):
            with suppress(MalformedRequest):
                return version_prefix.decode(cls, version, data)
        raise

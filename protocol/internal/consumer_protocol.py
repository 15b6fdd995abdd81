"""The consumer protocol: the messages of the protocol type "consumer" that members embed in JoinGroup and SyncGroup.

An int16, the version, precedes each message (KIP-62, KIP-429 cooperative rebalancing, KIP-792 generations, KIP-881
racks). A newer version only adds fields at the end. So a reader takes an unknown version for the newest that it knows,
and ignores the bytes after the known fields. Bytes after the fields of an older version are ignored too.

The broker reads these messages of classic groups for two purposes. It needs the topics of the members before it deletes
or expires their offsets; and it migrates groups between the protocols (KIP-848).
"""

from headgate.protocol.errors import MalformedRequest
from headgate.protocol.internal import version_prefix
from headgate.protocol.schema import Message, Struct, array, int32, nullable_blob, nullable_string, string, v

PROTOCOL_TYPE = "consumer"

_NO_KEY = -1  # the messages are not an API


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


def decode_subscription(data: bytes | memoryview) -> ConsumerProtocolSubscription:
    """Return the subscription in a member's metadata of a JoinGroup. Raises MalformedRequest."""
    return version_prefix.decode_start(ConsumerProtocolSubscription, _readable_version(data), data)[0]


def decode_assignment(data: bytes | memoryview) -> ConsumerProtocolAssignment:
    """Return the assignment of a member in a SyncGroup. Raises MalformedRequest."""
    return version_prefix.decode_start(ConsumerProtocolAssignment, _readable_version(data), data)[0]


def _readable_version(data: bytes | memoryview) -> int:
    """Return the version of the data, or the newest declared one if that is lower. Raises MalformedRequest."""
    version = version_prefix.read_prefix(data, "a consumer's protocol data")
    if version < 0:
        raise MalformedRequest(f"a consumer's protocol data has version {version}")
    return min(version, ConsumerProtocolSubscription.versions.last)

"""What consumers tell each other through JoinGroup and SyncGroup: the embedded protocol of the type "consumer".

An int16, the version, and then a message (KIP-62, KIP-429 cooperative rebalancing, KIP-792 generations, KIP-881 racks).
A newer version only adds fields at the end, so one that is not known is read as the newest that is, and what follows is
left alone; an older writer's bytes may be read the same way by everybody.

The broker needs it where it looks into a classic group: for the topics that its members use, before it deletes or
expires their offsets, and for the migration between the protocols (KIP-848).
"""

import struct

from headgate.protocol import compiler
from headgate.protocol.errors import MalformedRequest
from headgate.protocol.schema import Message, Struct, array, int32, nullable_blob, nullable_string, string, v

PROTOCOL_TYPE = "consumer"

_NO_KEY = -1  # these are no API of their own


class TopicPartition(Struct):
    """Partitions of a topic, whatever Kafka's name of it says."""

    topic: string = v("0+")
    partitions: array[int32] = v("0+")


class ConsumerProtocolSubscription(Message, key=_NO_KEY, versions="0-3", flexible="none"):
    """What a member wants to read, and what it has. v1 owned partitions   v2 their generation   v3 rack."""

    topics: array[string] = v("0+")
    user_data: nullable_blob = v("0+", default=None)
    owned_partitions: array[TopicPartition] = v("1+")
    generation_id: int32 = v("2+", default=-1)
    rack_id: nullable_string = v("3+", default=None)


class ConsumerProtocolAssignment(Message, key=_NO_KEY, versions="0-3", flexible="none"):
    """What a member is to read. All versions are the same."""

    assigned_partitions: array[TopicPartition] = v("0+")
    user_data: nullable_blob = v("0+", default=None)


_INT16 = struct.Struct(">h")


def encode(message: ConsumerProtocolSubscription | ConsumerProtocolAssignment, version: int) -> bytes:
    """The bytes of one version."""
    out = bytearray(_INT16.pack(version))
    compiler.write(message, version, out, [])
    return bytes(out)


def decode_subscription(data: bytes | memoryview) -> ConsumerProtocolSubscription:
    """A member's metadata in a JoinGroup. Raises MalformedRequest."""
    return compiler.read(ConsumerProtocolSubscription, _version(data), data, _INT16.size)[0]


def decode_assignment(data: bytes | memoryview) -> ConsumerProtocolAssignment:
    """A member's assignment in a SyncGroup. Raises MalformedRequest."""
    return compiler.read(ConsumerProtocolAssignment, _version(data), data, _INT16.size)[0]


def _version(data: bytes | memoryview) -> int:
    """The version to read with: that of the data, or the newest that is known."""
    if len(data) < _INT16.size:
        raise MalformedRequest(
            f"a consumer's protocol data has {len(data)} bytes; it begins with its version, an int16"
        )
    version: int = _INT16.unpack_from(data)[0]
    if version < 0:
        raise MalformedRequest(f"a consumer's protocol data has version {version}")
    return min(version, ConsumerProtocolSubscription.versions.last)

"""Records of `__consumer_offsets`, in the layout of Apache Kafka's group coordinator.

A key is an int16, the type of the record, and then the key message in its version 0; a value is an int16, its version,
and then the value message. No value: a tombstone. Types and fields are those of the definitions in Kafka's
group-coordinator module (`common/message/*.json`, 4.1); the versions that are written are those that Kafka 4.1 writes.
So `kafka-dump-log --offsets-decoder` reads our logs, and we read Kafka's.

    type  record                                              since
    0, 1  an offset of a group; 0 is as old as 0.8.2
    2     a classic group: generation and members
    3-8   a consumer group (KIP-848): epoch, topics (not written since 4.1, KIP-1101), members, target, current state
    16    what a regular expression of a consumer group matched (KIP-848)

The types between and after belong to share groups (KIP-932) and streams groups (KIP-1071), which are not built yet.
"""

import struct
from typing import NamedTuple, TypeAlias

from headgate.protocol import compiler
from headgate.protocol.errors import MalformedRequest
from headgate.protocol.schema import Message, Struct, array, blob, int8, int32, int64, nullable_string, string, uuid, v
from headgate.protocol.wire import ZERO_UUID


class OffsetCommitKey(Message, key=1, versions="0", flexible="none", record=True):
    """Whose offset, and of which partition."""

    group: string = v("0")
    topic: string = v("0")
    partition: int32 = v("0")


class OffsetCommitValue(Message, key=1, versions="0-4", flexible="4+", record=True):
    """A committed offset.

    v1 a time of expiry of its own, as clients before OffsetCommit v5 may ask for it   v2 without   v3 leader epochs
    (KIP-320)   v4 flexible; topic ids (KIP-848)
    """

    offset: int64 = v("0+")
    leader_epoch: int32 = v("3+", default=-1)
    metadata: string = v("0+")
    commit_timestamp: int64 = v("0+")
    expire_timestamp: int64 = v("1", default=-1)
    topic_id: uuid = v("4+", tag=0)


class GroupMetadataKey(Message, key=2, versions="0", flexible="none", record=True):
    """Which classic group."""

    group: string = v("0")


class MemberMetadata(Struct):
    """A member of a classic group; subscription and assignment are between the members."""

    member_id: string = v("0+")
    group_instance_id: nullable_string = v("3+", default=None)
    client_id: string = v("0+")
    client_host: string = v("0+")
    rebalance_timeout: int32 = v("1+", default=-1)
    session_timeout: int32 = v("0+")
    subscription: blob = v("0+")
    assignment: blob = v("0+")


class GroupMetadataValue(Message, key=2, versions="0-4", flexible="4+", record=True):
    """A generation of a classic group.

    v1 rebalance timeouts (KIP-62)   v2 when it came to its state, for expiry (KIP-211)   v3 static members (KIP-345)
    v4 flexible; Kafka 4.1 reads it and writes v3
    """

    protocol_type: string = v("0+")
    generation: int32 = v("0+")
    protocol: nullable_string = v("0+")
    leader: nullable_string = v("0+")
    current_state_timestamp: int64 = v("2+", default=-1)
    members: array[MemberMetadata] = v("0+")


class ConsumerGroupMetadataKey(Message, key=3, versions="0", flexible="none", record=True):
    """Which consumer group."""

    group_id: string = v("0")


class ConsumerGroupMetadataValue(Message, key=3, versions="0", flexible="0+", record=True):
    """The epoch of a consumer group, and a hash of the topics that it was computed from (KIP-1101)."""

    epoch: int32 = v("0+")
    metadata_hash: int64 = v("0+", tag=0)


class ConsumerGroupPartitionMetadataKey(Message, key=4, versions="0", flexible="none", record=True):
    """Whose topics."""

    group_id: string = v("0")


class PartitionMetadata(Struct):
    """The racks that hold a partition; not written since Kafka 4.0."""

    partition: int32 = v("0+")
    racks: array[string] = v("0+")


class TopicMetadata(Struct):
    """A topic as the group knew it."""

    topic_id: uuid = v("0+")
    topic_name: string = v("0+")
    num_partitions: int32 = v("0+")
    partition_metadata: array[PartitionMetadata] = v("0+")


class ConsumerGroupPartitionMetadataValue(Message, key=4, versions="0", flexible="0+", record=True):
    """The topics that a group's epoch was computed from, before there was a hash of them."""

    topics: array[TopicMetadata] = v("0+")


class ConsumerGroupMemberMetadataKey(Message, key=5, versions="0", flexible="none", record=True):
    """Which member of a consumer group."""

    group_id: string = v("0")
    member_id: string = v("0")


class ClassicProtocol(Struct):
    """A protocol that a member speaks; its metadata is a ConsumerProtocolSubscription."""

    name: string = v("0+")
    metadata: blob = v("0+")


class ClassicMemberMetadata(Struct):
    """What is needed of a member of a consumer group that speaks the classic protocol."""

    session_timeout_ms: int32 = v("0+")
    supported_protocols: array[ClassicProtocol] = v("0+")


class ConsumerGroupMemberMetadataValue(Message, key=5, versions="0", flexible="0+", record=True):
    """What a member of a consumer group said of itself.

    `classic_member_metadata` is null for a member that speaks the consumer protocol. Say so: where nothing is said, all
    who read it take the default of Kafka's definition, which is an empty struct.
    """

    instance_id: nullable_string = v("0+")
    rack_id: nullable_string = v("0+")
    client_id: string = v("0+")
    client_host: string = v("0+")
    subscribed_topic_names: array[string] = v("0+")
    subscribed_topic_regex: nullable_string = v("0+")
    rebalance_timeout_ms: int32 = v("0+", default=-1)
    server_assignor: nullable_string = v("0+")
    classic_member_metadata: ClassicMemberMetadata | None = v("0+", tag=0)


class ConsumerGroupTargetAssignmentMetadataKey(Message, key=6, versions="0", flexible="none", record=True):
    """Whose target assignment."""

    group_id: string = v("0")


class ConsumerGroupTargetAssignmentMetadataValue(Message, key=6, versions="0", flexible="0+", record=True):
    """The epoch of the group that its target assignment was computed for."""

    assignment_epoch: int32 = v("0+")


class ConsumerGroupTargetAssignmentMemberKey(Message, key=7, versions="0", flexible="none", record=True):
    """Whose part of the target assignment."""

    group_id: string = v("0")
    member_id: string = v("0")


class TopicPartitions(Struct):
    """Partitions of a topic."""

    topic_id: uuid = v("0+")
    partitions: array[int32] = v("0+")


class ConsumerGroupTargetAssignmentMemberValue(Message, key=7, versions="0", flexible="0+", record=True):
    """What a member shall read in the end."""

    topic_partitions: array[TopicPartitions] = v("0+")


class ConsumerGroupCurrentMemberAssignmentKey(Message, key=8, versions="0", flexible="none", record=True):
    """Whose current assignment."""

    group_id: string = v("0")
    member_id: string = v("0")


STABLE = 0
UNREVOKED_PARTITIONS = 1
UNRELEASED_PARTITIONS = 2
UNKNOWN_STATE = 127


class ConsumerGroupCurrentMemberAssignmentValue(Message, key=8, versions="0", flexible="0+", record=True):
    """How far a member is on the way to its target; `state` is one of the constants above."""

    member_epoch: int32 = v("0+")
    previous_member_epoch: int32 = v("0+")
    state: int8 = v("0+")
    assigned_partitions: array[TopicPartitions] = v("0+")
    partitions_pending_revocation: array[TopicPartitions] = v("0+")


class ConsumerGroupRegularExpressionKey(Message, key=16, versions="0", flexible="none", record=True):
    """Which regular expression of which consumer group."""

    group_id: string = v("0")
    regular_expression: string = v("0")


class ConsumerGroupRegularExpressionValue(Message, key=16, versions="0", flexible="0+", record=True):
    """The topics that an expression matched, in which version of the metadata, and when."""

    topics: array[string] = v("0+")
    version: int64 = v("0+")
    timestamp: int64 = v("0+")


class UnknownType(NamedTuple):
    """A record of a type that is not known here: of a newer program, or of a kind of group that is not built yet."""

    type: int


Decoded: TypeAlias = tuple[Message, Message | None] | UnknownType

_LEGACY_OFFSET_COMMIT = 0
RECORDS: dict[int, tuple[type[Message], type[Message]]] = {
    key.api_key: (key, value)
    for key, value in (
        (OffsetCommitKey, OffsetCommitValue),
        (GroupMetadataKey, GroupMetadataValue),
        (ConsumerGroupMetadataKey, ConsumerGroupMetadataValue),
        (ConsumerGroupPartitionMetadataKey, ConsumerGroupPartitionMetadataValue),
        (ConsumerGroupMemberMetadataKey, ConsumerGroupMemberMetadataValue),
        (ConsumerGroupTargetAssignmentMetadataKey, ConsumerGroupTargetAssignmentMetadataValue),
        (ConsumerGroupTargetAssignmentMemberKey, ConsumerGroupTargetAssignmentMemberValue),
        (ConsumerGroupCurrentMemberAssignmentKey, ConsumerGroupCurrentMemberAssignmentValue),
        (ConsumerGroupRegularExpressionKey, ConsumerGroupRegularExpressionValue),
    )
}
# The old offsets have the fields of the new ones.
RECORDS[_LEGACY_OFFSET_COMMIT] = RECORDS[OffsetCommitKey.api_key]

_INT16, _INT32 = struct.Struct(">h"), struct.Struct(">i")
_OFFSET_KEY = _INT16.pack(OffsetCommitKey.api_key)

# An offset without metadata, without a topic id and with one: version, offset, epoch, length of the metadata,
# timestamp, tags, and the tag with its size. Nearly all are so, and a broker writes and reads very many.
_PLAIN = struct.Struct(">hqiBqB")
_WITH_ID = struct.Struct(">hqiBqBBB16s")
_NEWEST_OFFSET = 4
_NO_TEXT = 1  # a compact length
_ID_TAG, _ID_SIZE = 0, 16
_NEWEST_BYTES, _NO_TEXT_BYTES = b"\0\4", b"\1"
_PLAIN_END, _ID_END = b"\0", b"\1\0\x10"  # what follows the timestamp


def encode_key(key: Message) -> bytes:
    """The key of a record in the log."""
    if type(key) is OffsetCommitKey:
        group, topic = key.group.encode(), key.topic.encode()
        return b"".join(
            (_OFFSET_KEY, _INT16.pack(len(group)), group, _INT16.pack(len(topic)), topic, _INT32.pack(key.partition))
        )
    return _encode(key.api_key, key, 0)


def encode_value(value: Message) -> bytes:
    """The value of a record in the log, in the version that Kafka 4.1 would choose for it."""
    if type(value) is OffsetCommitValue and not value.metadata and value.expire_timestamp == -1:
        return _encode_short(value)
    version = _version(value)
    return _encode(version, value, version)


def decode(key: bytes | memoryview, value: bytes | memoryview | None) -> Decoded:
    """The messages in a record of the log.

    Raises MalformedRequest for what neither Kafka nor this program wrote.
    """
    kind = _prefix(key, "key")
    if kind not in RECORDS:
        return UnknownType(kind)
    key_class, value_class = RECORDS[kind]
    decoded_key = _read(key_class, 0, key)
    if value is None:
        return decoded_key, None
    return decoded_key, _read_value(value_class, value)


def decode_offset(data: bytes) -> OffsetCommitValue:
    """A committed offset from the value of its record. Raises MalformedRequest."""
    size = len(data)
    if size == _PLAIN.size:
        version, offset, epoch, text, timestamp, tags = _PLAIN.unpack(data)
        if (version, text, tags) == (_NEWEST_OFFSET, _NO_TEXT, 0):
            return OffsetCommitValue(offset, epoch, "", timestamp)
    elif size == _WITH_ID.size:
        version, offset, epoch, text, timestamp, *tags, topic_id = _WITH_ID.unpack(data)
        if (version, text, tags) == (_NEWEST_OFFSET, _NO_TEXT, [1, _ID_TAG, _ID_SIZE]):
            return OffsetCommitValue(offset, epoch, "", timestamp, -1, topic_id)
    value = _read_value(OffsetCommitValue, data)
    assert isinstance(value, OffsetCommitValue)
    return value


def check_offset(data: bytes) -> None:
    """Make sure that `decode_offset` can read this. Raises MalformedRequest."""
    if data[:2] == _NEWEST_BYTES and data[14:15] == _NO_TEXT_BYTES:
        end = data[23:]
        if end == _PLAIN_END or (len(data) == _WITH_ID.size and end[:3] == _ID_END):
            return
    decode_offset(data)


def _encode_short(value: OffsetCommitValue) -> bytes:
    offset, epoch, timestamp, topic_id = value.offset, value.leader_epoch, value.commit_timestamp, value.topic_id
    if value.unknown_tags:
        return _encode(_NEWEST_OFFSET, value, _NEWEST_OFFSET)
    if topic_id == ZERO_UUID:
        return _PLAIN.pack(_NEWEST_OFFSET, offset, epoch, _NO_TEXT, timestamp, 0)
    return _WITH_ID.pack(_NEWEST_OFFSET, offset, epoch, _NO_TEXT, timestamp, 1, _ID_TAG, _ID_SIZE, topic_id)


def _version(value: Message) -> int:
    """Kafka writes the newest, but for what only v1 of an offset has, and for classic groups."""
    if isinstance(value, OffsetCommitValue):
        return 4 if value.expire_timestamp == -1 else 1
    return 3 if isinstance(value, GroupMetadataValue) else 0


def _encode(prefix: int, message: Message, version: int) -> bytes:
    out = bytearray(_INT16.pack(prefix))
    compiler.write(message, version, out, [])
    return bytes(out)


def _prefix(data: bytes | memoryview, what: str) -> int:
    if len(data) < _INT16.size:
        raise MalformedRequest(f"the {what} of a record of a group has {len(data)} bytes; it begins with an int16")
    prefix: int = _INT16.unpack_from(data)[0]
    return prefix


def _read_value(message: type[Message], data: bytes | memoryview) -> Message:
    version = _prefix(data, "value")
    if version not in message.versions:
        raise MalformedRequest(f"a {message.__name__} has version {version}; {message.versions} are known here")
    return _read(message, version, data)


def _read(message: type[Message], version: int, data: bytes | memoryview) -> Message:
    read, end = compiler.read(message, version, data, _INT16.size)
    if end != len(data):
        raise MalformedRequest(f"{len(data) - end} bytes follow a {message.__name__}")
    return read

"""Records of `__consumer_offsets`, in the layout of Apache Kafka's group coordinator.

A key is an int16, the type of the record, and the key message in version 0. A value is an int16, its version, and the
value message. A null value is a tombstone. Types and fields are those of Kafka's group-coordinator module
(`common/message/*.json`, 4.1). Headgate writes the versions that Kafka 4.1 writes. So Headgate reads Kafka's logs, and
`kafka-dump-log --offsets-decoder` reads Headgate's.

    type  record                                              since
    0, 1  an offset of a group; 0 is the type of Kafka 0.8.2
    2     a classic group: generation and members
    3-8   a consumer group (KIP-848): epoch, topics (not written since 4.1, KIP-1101), members, target, current state
    16    the topics that a regular expression of a consumer group matched (KIP-848)

The other types belong to share groups (KIP-932) and streams groups (KIP-1071), which Headgate does not have.
"""

import struct
from typing import NamedTuple, TypeAlias

from headgate.protocol.internal import version_prefix
from headgate.protocol.schema import Message, Struct, array, blob, int8, int32, int64, nullable_string, string, uuid, v
from headgate.protocol.wire import ZERO_UUID


class OffsetCommitKey(Message, key=1, versions="0", flexible="none", record=True):
    """The group and the partition of an offset."""

    group: string = v("0")
    topic: string = v("0")
    partition: int32 = v("0")


class OffsetCommitValue(Message, key=1, versions="0-4", flexible="4+", record=True):
    """A committed offset.

    v1 a time of expiry of its own, for clients before OffsetCommit v5   v2 without one   v3 leader epochs (KIP-320)
    v4 flexible; topic ids (KIP-848)
    """

    offset: int64 = v("0+")
    leader_epoch: int32 = v("3+", default=-1)
    metadata: string = v("0+")
    commit_timestamp: int64 = v("0+")
    expire_timestamp: int64 = v("1", default=-1)
    topic_id: uuid = v("4+", tag=0)


class GroupMetadataKey(Message, key=2, versions="0", flexible="none", record=True):
    """A classic group."""

    group: string = v("0")


class MemberMetadata(Struct):
    """A member of a classic group. Only the members need to read `subscription` and `assignment`."""

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

    v1 rebalance timeouts (KIP-62)   v2 the time of the current state, for expiry (KIP-211)   v3 static members
    (KIP-345)   v4 flexible; Kafka 4.1 reads v4 and writes v3
    """

    protocol_type: string = v("0+")
    generation: int32 = v("0+")
    protocol: nullable_string = v("0+")
    leader: nullable_string = v("0+")
    current_state_timestamp: int64 = v("2+", default=-1)
    members: array[MemberMetadata] = v("0+")


class ConsumerGroupMetadataKey(Message, key=3, versions="0", flexible="none", record=True):
    """A consumer group."""

    group_id: string = v("0")


class ConsumerGroupMetadataValue(Message, key=3, versions="0", flexible="0+", record=True):
    """The epoch of a consumer group, and a hash of the topics at that epoch (KIP-1101)."""

    epoch: int32 = v("0+")
    metadata_hash: int64 = v("0+", tag=0)


class ConsumerGroupPartitionMetadataKey(Message, key=4, versions="0", flexible="none", record=True):
    """The group of the topics."""

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
    """The topics at a group's epoch, before a hash of the topics took their place."""

    topics: array[TopicMetadata] = v("0+")


class ConsumerGroupMemberMetadataKey(Message, key=5, versions="0", flexible="none", record=True):
    """A member of a consumer group."""

    group_id: string = v("0")
    member_id: string = v("0")


class ClassicProtocol(Struct):
    """A protocol that a member supports; `metadata` is a ConsumerProtocolSubscription."""

    name: string = v("0+")
    metadata: blob = v("0+")


class ClassicMemberMetadata(Struct):
    """The classic protocol's data of a member that uses this protocol in a consumer group."""

    session_timeout_ms: int32 = v("0+")
    supported_protocols: array[ClassicProtocol] = v("0+")


class ConsumerGroupMemberMetadataValue(Message, key=5, versions="0", flexible="0+", record=True):
    """The settings and the subscription of a member of a consumer group.

    `classic_member_metadata` is null for a member of the consumer protocol. A writer must set null: readers take a
    missing field for the default of Kafka's definition, an empty struct.
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
    """The group of a target assignment."""

    group_id: string = v("0")


class ConsumerGroupTargetAssignmentMetadataValue(Message, key=6, versions="0", flexible="0+", record=True):
    """The group epoch of the target assignment."""

    assignment_epoch: int32 = v("0+")


class ConsumerGroupTargetAssignmentMemberKey(Message, key=7, versions="0", flexible="none", record=True):
    """The member of a part of the target assignment."""

    group_id: string = v("0")
    member_id: string = v("0")


class TopicPartitions(Struct):
    """Partitions of a topic."""

    topic_id: uuid = v("0+")
    partitions: array[int32] = v("0+")


class ConsumerGroupTargetAssignmentMemberValue(Message, key=7, versions="0", flexible="0+", record=True):
    """The target assignment of a member."""

    topic_partitions: array[TopicPartitions] = v("0+")


class ConsumerGroupCurrentMemberAssignmentKey(Message, key=8, versions="0", flexible="none", record=True):
    """The member of a current assignment."""

    group_id: string = v("0")
    member_id: string = v("0")


STABLE = 0
UNREVOKED_PARTITIONS = 1
UNRELEASED_PARTITIONS = 2
UNKNOWN_STATE = 127


class ConsumerGroupCurrentMemberAssignmentValue(Message, key=8, versions="0", flexible="0+", record=True):
    """The current assignment of a member. `state`: one of the constants above."""

    member_epoch: int32 = v("0+")
    previous_member_epoch: int32 = v("0+")
    state: int8 = v("0+")
    assigned_partitions: array[TopicPartitions] = v("0+")
    partitions_pending_revocation: array[TopicPartitions] = v("0+")


class ConsumerGroupRegularExpressionKey(Message, key=16, versions="0", flexible="none", record=True):
    """A regular expression of a consumer group."""

    group_id: string = v("0")
    regular_expression: string = v("0")


class ConsumerGroupRegularExpressionValue(Message, key=16, versions="0", flexible="0+", record=True):
    """The topics that an expression matched, with the version of the metadata and the time in ms."""

    topics: array[string] = v("0+")
    version: int64 = v("0+")
    timestamp: int64 = v("0+")


class UnknownType(NamedTuple):
    """A record of an unknown type: of a newer program, or of a group type that Headgate does not have."""

    type: int


DecodedGroupRecord: TypeAlias = tuple[Message, Message | None] | UnknownType

_LEGACY_OFFSET_COMMIT = 0
_KEY, _VALUE = "the key of a record of a group", "the value of a record of a group"
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
# Both types have the same fields.
RECORDS[_LEGACY_OFFSET_COMMIT] = RECORDS[OffsetCommitKey.api_key]

_INT16, _INT32 = struct.Struct(">h"), struct.Struct(">i")
_OFFSET_KEY = _INT16.pack(OffsetCommitKey.api_key)

# An offset without metadata, without and with a topic id: version, offset, epoch, length of the metadata, timestamp,
# tags, and the tag with its size. Nearly all offsets have this form, and a broker writes and reads very many.
_PLAIN = struct.Struct(">hqiBqB")
_WITH_ID = struct.Struct(">hqiBqBBB16s")
_NEWEST_OFFSET = 4
_NO_TEXT = 1  # a compact length
_ID_TAG, _ID_SIZE = 0, 16
_NEWEST_BYTES, _NO_TEXT_BYTES = b"\0\4", b"\1"
_PLAIN_END, _ID_END = b"\0", b"\1\0\x10"  # the bytes after the timestamp


def encode_key(key: Message) -> bytes:
    if type(key) is OffsetCommitKey:
        group, topic = key.group.encode(), key.topic.encode()
        return b"".join(
            (_OFFSET_KEY, _INT16.pack(len(group)), group, _INT16.pack(len(topic)), topic, _INT32.pack(key.partition))
        )
    return version_prefix.encode(key.api_key, key, 0)


def encode_value(value: Message) -> bytes:
    """Return the value of a record, in the version that Kafka 4.1 writes."""
    if type(value) is OffsetCommitValue and not value.metadata and value.expire_timestamp == -1:
        return _encode_short(value)
    version = _version(value)
    return version_prefix.encode(version, value, version)


def decode(key: bytes | memoryview, value: bytes | memoryview | None) -> DecodedGroupRecord:
    """Return the messages of a record. Raises MalformedRequest for bytes that neither Kafka nor Headgate writes."""
    kind = version_prefix.read_prefix(key, _KEY)
    if kind not in RECORDS:
        return UnknownType(kind)
    key_class, value_class = RECORDS[kind]
    decoded_key = version_prefix.decode(key_class, 0, key)
    if value is None:
        return decoded_key, None
    return decoded_key, version_prefix.decode_versioned(value_class, value, _VALUE)


def decode_offset(data: bytes) -> OffsetCommitValue:
    """Return the committed offset in the value of a record. Raises MalformedRequest."""
    size = len(data)
    if size == _PLAIN.size:
        version, offset, epoch, text, timestamp, tags = _PLAIN.unpack(data)
        if (version, text, tags) == (_NEWEST_OFFSET, _NO_TEXT, 0):
            return OffsetCommitValue(offset, epoch, "", timestamp)
    elif size == _WITH_ID.size:
        version, offset, epoch, text, timestamp, *tags, topic_id = _WITH_ID.unpack(data)
        if (version, text, tags) == (_NEWEST_OFFSET, _NO_TEXT, [1, _ID_TAG, _ID_SIZE]):
            return OffsetCommitValue(offset, epoch, "", timestamp, -1, topic_id)
    return version_prefix.decode_versioned(OffsetCommitValue, data, _VALUE)


def check_offset(data: bytes) -> None:
    """Check that `decode_offset` can read the value. Raises MalformedRequest."""
    if data[:2] == _NEWEST_BYTES and data[14:15] == _NO_TEXT_BYTES:
        end = data[23:]
        if end == _PLAIN_END or (len(data) == _WITH_ID.size and end[:3] == _ID_END):
            return
    decode_offset(data)


def _encode_short(value: OffsetCommitValue) -> bytes:
    offset, epoch, timestamp, topic_id = value.offset, value.leader_epoch, value.commit_timestamp, value.topic_id
    if value.unknown_tags:
        return version_prefix.encode(_NEWEST_OFFSET, value, _NEWEST_OFFSET)
    if topic_id == ZERO_UUID:
        return _PLAIN.pack(_NEWEST_OFFSET, offset, epoch, _NO_TEXT, timestamp, 0)
    return _WITH_ID.pack(_NEWEST_OFFSET, offset, epoch, _NO_TEXT, timestamp, 1, _ID_TAG, _ID_SIZE, topic_id)


def _version(value: Message) -> int:
    """Return Kafka's version: 1 for an offset with a time of expiry, 3 for a classic group, else the newest."""
    if isinstance(value, OffsetCommitValue):
        return 4 if value.expire_timestamp == -1 else 1
    return 3 if isinstance(value, GroupMetadataValue) else 0

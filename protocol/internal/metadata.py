"""Records of the metadata log, in the layout of Apache Kafka's KRaft (KIP-631; `common/metadata/*.json`).

A record has no key. Its value is a frame: three unsigned varints (frame version 1, API key, version), then the message.
So Kafka's `kafka-dump-log --cluster-metadata-decoder` reads the log of Headgate.
"""

from typing import TypeAlias

from headgate.protocol import compiler
from headgate.protocol.errors import MalformedRequest
from headgate.protocol.schema import (
    Message,
    Struct,
    array,
    blob,
    boolean,
    float64,
    int8,
    int16,
    int32,
    int64,
    nullable_array,
    nullable_string,
    string,
    uint16,
    uuid,
    v,
)

FRAME_VERSION = 1

# Resource types of a ConfigRecord, as in DescribeConfigs.
TOPIC_RESOURCE = 2
BROKER_RESOURCE = 4
GROUP_RESOURCE = 32

# Types of Kafka's records that this module does not read. The records between a begin and an end are one change; an
# abort discards them (KIP-866).
BEGIN_TRANSACTION, END_TRANSACTION, ABORT_TRANSACTION = 23, 24, 25


class BrokerEndpoint(Struct):
    """An address at which a broker listens."""

    name: string = v("0+")
    host: string = v("0+")
    port: uint16 = v("0+")
    security_protocol: int16 = v("0+")


class BrokerFeature(Struct):
    """The levels of a feature that a broker supports."""

    name: string = v("0+")
    min_supported_version: int16 = v("0+")
    max_supported_version: int16 = v("0+")


class RegisterBrokerRecord(Message, key=0, versions="0-3", flexible="0+"):
    """A broker started. v1 controlled shutdown   v2 migration from ZooKeeper   v3 log directories (KIP-858)."""

    broker_id: int32 = v("0+")
    is_migrating_zk_broker: boolean = v("2+", default=False)
    incarnation_id: uuid = v("0+")
    broker_epoch: int64 = v("0+")
    end_points: array[BrokerEndpoint] = v("0+")
    features: array[BrokerFeature] = v("0+")
    rack: nullable_string = v("0+")
    fenced: boolean = v("0+", default=True)
    in_controlled_shutdown: boolean = v("1+", default=False)
    log_dirs: array[uuid] = v("3+", tag=0)


class TopicRecord(Message, key=2, versions="0", flexible="0+"):
    """A topic was created."""

    name: string = v("0+")
    topic_id: uuid = v("0+")


class PartitionRecord(Message, key=3, versions="0-2", flexible="0+"):
    """A partition was created, or has a new state. v1 log directories (KIP-858)   v2 eligible leaders (KIP-966)."""

    partition_id: int32 = v("0+", default=-1)
    topic_id: uuid = v("0+")
    replicas: array[int32] = v("0+")
    isr: array[int32] = v("0+")
    removing_replicas: array[int32] = v("0+")
    adding_replicas: array[int32] = v("0+")
    leader: int32 = v("0+", default=-1)
    leader_recovery_state: int8 = v("0+", tag=0)
    leader_epoch: int32 = v("0+", default=-1)
    partition_epoch: int32 = v("0+", default=-1)
    directories: array[uuid] = v("1+")
    eligible_leader_replicas: nullable_array[int32] = v("2+", tag=1, default=None)
    last_known_elr: nullable_array[int32] = v("2+", tag=2, default=None)


class ConfigRecord(Message, key=4, versions="0", flexible="0+"):
    """A config was set, or removed if `value` is null."""

    resource_type: int8 = v("0+")
    resource_name: string = v("0+")
    name: string = v("0+")
    value: nullable_string = v("0+")


class RemoveTopicRecord(Message, key=9, versions="0", flexible="0+"):
    """A topic was deleted, with its partitions and configs."""

    topic_id: uuid = v("0+")


class DelegationTokenRecord(Message, key=10, versions="0", flexible="0+"):
    """A delegation token was created, or has another end (KIP-48). Principals are as `User:alice`; times in ms."""

    owner: string = v("0+")
    requester: string = v("0+")
    renewers: array[string] = v("0+")
    issue_timestamp: int64 = v("0+")
    max_timestamp: int64 = v("0+")
    expiration_timestamp: int64 = v("0+")
    token_id: string = v("0+")


class UserScramCredentialRecord(Message, key=11, versions="0", flexible="0+"):
    """A user got a SCRAM credential (KIP-554). `mechanism`: 1 SCRAM-SHA-256, 2 SCRAM-SHA-512. The repr hides keys."""

    name: string = v("0+")
    mechanism: int8 = v("0+")
    salt: blob = v("0+")
    stored_key: blob = v("0+")
    server_key: blob = v("0+")
    iterations: int32 = v("0+")

    def __repr__(self) -> str:
        return f"UserScramCredentialRecord(name={self.name!r}, mechanism={self.mechanism}, [hidden])"


class FeatureLevelRecord(Message, key=12, versions="0", flexible="0+"):
    """A feature was finalized at a level; 0 means off."""

    name: string = v("0+")
    feature_level: int16 = v("0+")


class QuotaEntityData(Struct):
    """One type of a quota's entity (user, client-id, ip) and its name; null is the default of that type."""

    entity_type: string = v("0+")
    entity_name: nullable_string = v("0+")


class ClientQuotaRecord(Message, key=14, versions="0", flexible="0+"):
    """A quota of an entity was set, or removed (KIP-546)."""

    entity: array[QuotaEntityData] = v("0+")
    key: string = v("0+")
    value: float64 = v("0+")
    remove: boolean = v("0+")


class ProducerIdsRecord(Message, key=15, versions="0", flexible="0+"):
    """A broker got a block of producer ids; all ids below `next_producer_id` are taken (KIP-730)."""

    broker_id: int32 = v("0+")
    broker_epoch: int64 = v("0+", default=-1)
    next_producer_id: int64 = v("0+")


class RemoveUserScramCredentialRecord(Message, key=22, versions="0", flexible="0+"):
    """A SCRAM credential of a user was removed."""

    name: string = v("0+")
    mechanism: int8 = v("0+")


class AccessControlEntryRecord(Message, key=18, versions="0", flexible="0+"):
    """An ACL was created. Its numbers are those of DescribeAcls (`protocol.acls`)."""

    id: uuid = v("0+")
    resource_type: int8 = v("0+")
    resource_name: string = v("0+")
    pattern_type: int8 = v("0+")
    principal: string = v("0+")
    host: string = v("0+")
    operation: int8 = v("0+")
    permission_type: int8 = v("0+")


class RemoveAccessControlEntryRecord(Message, key=19, versions="0", flexible="0+"):
    """An ACL was deleted."""

    id: uuid = v("0+")


class RemoveDelegationTokenRecord(Message, key=26, versions="0", flexible="0+"):
    """A delegation token was deleted."""

    token_id: string = v("0+")


MetadataRecord: TypeAlias = (
    RegisterBrokerRecord
    | TopicRecord
    | PartitionRecord
    | ConfigRecord
    | RemoveTopicRecord
    | DelegationTokenRecord
    | UserScramCredentialRecord
    | FeatureLevelRecord
    | ClientQuotaRecord
    | ProducerIdsRecord
    | RemoveUserScramCredentialRecord
    | AccessControlEntryRecord
    | RemoveAccessControlEntryRecord
    | RemoveDelegationTokenRecord
)
RECORDS: dict[int, type[MetadataRecord]] = {
    record.api_key: record
    for record in (
        RegisterBrokerRecord,
        TopicRecord,
        PartitionRecord,
        ConfigRecord,
        RemoveTopicRecord,
        DelegationTokenRecord,
        UserScramCredentialRecord,
        FeatureLevelRecord,
        ClientQuotaRecord,
        ProducerIdsRecord,
        RemoveUserScramCredentialRecord,
        AccessControlEntryRecord,
        RemoveAccessControlEntryRecord,
        RemoveDelegationTokenRecord,
    )
}


def encode(record: MetadataRecord, version: int = 0) -> bytes:
    """Return the value of a record. Each API key and version is below 128, one byte as a varint."""
    out = bytearray((FRAME_VERSION, record.api_key, version))
    compiler.write(record, version, out, [])
    return bytes(out)


def decode(value: bytes) -> MetadataRecord:
    """Return the record in a value. Raises MalformedRequest for bytes that no version of Headgate writes."""
    frame_version, key, version, position = _read_frame(value)
    if frame_version != FRAME_VERSION:
        raise MalformedRequest(f"a metadata record has frame version {frame_version}, not {FRAME_VERSION}")
    record_class = RECORDS.get(key)
    if record_class is None or version not in record_class.versions:
        raise MalformedRequest(f"a metadata record has type {key}, version {version}, which is not known here")
    record, end = compiler.read(record_class, version, value, position)
    if end != len(value):
        raise MalformedRequest(f"{len(value) - end} bytes follow a metadata record of type {key}")
    return record


def record_type(value: bytes) -> int:
    """Return the type of any record of Apache Kafka's metadata log. Raises MalformedRequest."""
    _, position = _read_varint(value, 0)
    return _read_varint(value, position)[0]


def decode_known(value: bytes) -> MetadataRecord | None:
    """Return the record in a value of Apache Kafka's metadata log; None for an unknown type or version.

    Newer tagged fields of a record stay unread. Raises MalformedRequest for bytes that are no record.
    """
    frame_version, key, version, position = _read_frame(value)
    record_class = RECORDS.get(key)
    if frame_version != FRAME_VERSION or record_class is None or version not in record_class.versions:
        return None
    record, _ = compiler.read(record_class, version, value, position)
    return record


def _read_frame(value: bytes) -> tuple[int, int, int, int]:
    """Return frame version, API key and version, and the position after them. Raises MalformedRequest."""
    frame_version, position = _read_varint(value, 0)
    key, position = _read_varint(value, position)
    version, position = _read_varint(value, position)
    return frame_version, key, version, position


def _read_varint(value: bytes, position: int) -> tuple[int, int]:
    """Read an unsigned varint of at most two bytes, enough for any key or version. Raises MalformedRequest."""
    result = 0
    for shift in (0, 7):
        if position == len(value):
            raise MalformedRequest("a metadata record ends within its first three numbers")
        byte = value[position]
        position += 1
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            return result, position
    raise MalformedRequest("a metadata record begins with a number that is too large")

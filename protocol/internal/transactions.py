"""Records of `__transaction_state`, in the layout of Apache Kafka's transaction coordinator.

A key is an int16, its version, and the transactional id. A value is an int16, its version, and the value message. A
null value is a tombstone. The fields are those of Kafka's transaction-coordinator module
(`common/message/TransactionLog*.json`, 4.1); KIP-98, and KIP-890 for version 1.
"""

import functools
import struct
from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

from headgate.protocol.internal import version_prefix
from headgate.protocol.schema import Message, Struct, array, int8, int16, int32, int64, nullable_array, string, v

_LONG, _MANY = 127, 16
_CACHED_TOPICS = 1024
_KEY = struct.Struct(">hh")
_HEAD = struct.Struct(">hqhib")
_INDEXES = [struct.Struct(f">B{count}iB") for count in range(_MANY)]
_TAIL, _TAIL_WITHOUT_TAGS = struct.Struct(">qqBBBh"), struct.Struct(">qqB")

# The states of a transaction. `transaction_status` is an index of this tuple.
STATES = (
    "Empty",
    "Ongoing",
    "PrepareCommit",
    "PrepareAbort",
    "CompleteCommit",
    "CompleteAbort",
    "Dead",
    "PrepareEpochFence",
)


class TransactionLogKey(Message, key=0, versions="0", flexible="none", record=True):
    """A transactional id."""

    transactional_id: string = v("0")


class PartitionsSchema(Struct):
    """Partitions of a topic that a transaction has written to."""

    topic: string = v("0+")
    partition_ids: array[int32] = v("0+")


class TransactionLogValue(Message, key=0, versions="0-1", flexible="1+", record=True):
    """The state of a transactional producer.

    v1 flexible; producer ids and epoch before and after a bump (KIP-890)

    Without a transaction, `transaction_partitions` is null, and `transaction_start_timestamp_ms` is -1.
    """

    producer_id: int64 = v("0+")
    previous_producer_id: int64 = v("1+", tag=0, default=-1)
    next_producer_id: int64 = v("1+", tag=1, default=-1)
    producer_epoch: int16 = v("0+")
    next_producer_epoch: int16 = v("1+", tag=3, default=-1)
    transaction_timeout_ms: int32 = v("0+")
    transaction_status: int8 = v("0+")
    transaction_partitions: nullable_array[PartitionsSchema] = v("0+")
    transaction_last_update_timestamp_ms: int64 = v("0+")
    transaction_start_timestamp_ms: int64 = v("0+")
    client_transaction_version: int16 = v("1+", tag=2, default=0)


class UnknownVersion(NamedTuple):
    """A key of an unknown version: a newer program wrote it."""

    version: int


DecodedTransactionRecord: TypeAlias = tuple[TransactionLogKey, TransactionLogValue | None] | UnknownVersion


def encode_key(key: TransactionLogKey) -> bytes:
    name = key.transactional_id.encode()
    return _KEY.pack(0, len(name)) + name


def encode_value(value: TransactionLogValue, version: int = 0) -> bytes:
    """Return the value of a record.

    Kafka writes version 1 if the feature transaction.version is at level 2, else version 0.
    """
    return version_prefix.encode(version, value, version)


def encode_common(
    producer_id: int,
    producer_epoch: int,
    timeout_ms: int,
    status: int,
    partitions: Mapping[str, tuple[int, ...]],
    last_update_ms: int,
    start_ms: int,
    client_version: int,
) -> bytes | None:
    """`encode_value` in version 1 of one producer id and few partitions; None for long names or many partitions.

    A transaction writes at least three such records, and the general writer takes twice as long.
    """
    if len(partitions) >= _MANY:
        return None
    out = bytearray(_HEAD.pack(1, producer_id, producer_epoch, timeout_ms, status))
    out.append(len(partitions) + 1)
    for topic in partitions.items():
        row = _encode_topic(topic)
        if row is None:
            return None
        out += row
    if client_version:
        out += _TAIL.pack(last_update_ms, start_ms, 1, 2, 2, client_version)
    else:
        out += _TAIL_WITHOUT_TAGS.pack(last_update_ms, start_ms, 0)
    return bytes(out)


@functools.lru_cache(_CACHED_TOPICS)
def _encode_topic(topic: tuple[str, tuple[int, ...]]) -> bytes | None:
    """A name and its partitions: the records of a transaction repeat them, and so do transactions."""
    name, indexes = topic[0].encode(), topic[1]
    if len(name) >= _LONG or len(indexes) >= _MANY:
        return None
    return bytes((len(name) + 1,)) + name + _INDEXES[len(indexes)].pack(len(indexes) + 1, *indexes, 0)


def decode(key: bytes | memoryview, value: bytes | memoryview | None) -> DecodedTransactionRecord:
    """Return the messages of a record. Raises MalformedRequest for bytes that neither Kafka nor Headgate writes."""
    version = version_prefix.read_prefix(key, "the key of a transaction's record")
    if version not in TransactionLogKey.versions:
        return UnknownVersion(version)
    decoded_key = version_prefix.decode(TransactionLogKey, version, key)
    return decoded_key, None if value is None else decode_value(value)


def decode_value(data: bytes | memoryview) -> TransactionLogValue:
    """Return the value of a record. Raises MalformedRequest."""
    return version_prefix.decode_versioned(TransactionLogValue, data, "the value of a transaction's record")


def state_name(status: int) -> str:
    """Return Kafka's name of a `transaction_status`."""
    return STATES[status] if 0 <= status < len(STATES) else f"state {status}"

"""Records of `__transaction_state`, in the layout of Apache Kafka's transaction coordinator.

A key is an int16, its version, and then who: the transactional id. A value is an int16, its version, and then the value
message. No value: a tombstone. Fields are those of the definitions in Kafka's transaction-coordinator module
(`common/message/TransactionLog*.json`, 4.1); KIP-98, KIP-890 for version 1.
"""

import struct
from typing import NamedTuple, TypeAlias

from headgate.protocol import compiler
from headgate.protocol.errors import MalformedRequest
from headgate.protocol.schema import Message, Struct, array, int8, int16, int32, int64, nullable_array, string, v

# What a transaction is at; `transaction_status` is one of these.
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
    """Whose transactions."""

    transactional_id: string = v("0")


class PartitionsSchema(Struct):
    """Partitions of a topic that a transaction has written to."""

    topic: string = v("0+")
    partition_ids: array[int32] = v("0+")


class TransactionLogValue(Message, key=0, versions="0-1", flexible="1+", record=True):
    """Where a transactional producer is.

    `transaction_partitions` is null where there is no transaction; `transaction_start_timestamp_ms` is -1 then. v1
    flexible; the producer ids and the epoch before and after a bump (KIP-890), which version 0 says nothing of
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
    """A key of a version that is not known here: of a newer program."""

    version: int


Decoded: TypeAlias = tuple[TransactionLogKey, TransactionLogValue | None] | UnknownVersion

_INT16 = struct.Struct(">h")


def encode_key(key: TransactionLogKey) -> bytes:
    """The key of a record in the log."""
    return _encode(key, 0)


def encode_value(value: TransactionLogValue, version: int = 0) -> bytes:
    """The value of a record in the log.

    Kafka writes version 1 where the feature transaction.version is at 2, and 0 else.
    """
    return _encode(value, version)


def decode(key: bytes | memoryview, value: bytes | memoryview | None) -> Decoded:
    """The messages in a record of the log.

    Raises MalformedRequest for what neither Kafka nor this program wrote.
    """
    version = _version(key, "key")
    if version not in TransactionLogKey.versions:
        return UnknownVersion(version)
    who, end = compiler.read(TransactionLogKey, version, key, _INT16.size)
    _check_end(key, end, "TransactionLogKey")
    return who, None if value is None else decode_value(value)


def decode_value(data: bytes | memoryview) -> TransactionLogValue:
    """The value of a record. Raises MalformedRequest."""
    version = _version(data, "value")
    if version not in TransactionLogValue.versions:
        raise MalformedRequest(
            f"a TransactionLogValue has version {version}; {TransactionLogValue.versions} are known here"
        )
    value, end = compiler.read(TransactionLogValue, version, data, _INT16.size)
    _check_end(data, end, "TransactionLogValue")
    return value


def state_name(status: int) -> str:
    """What `transaction_status` stands for, in Kafka's own words."""
    return STATES[status] if 0 <= status < len(STATES) else f"state {status}"


def _encode(message: Message, version: int) -> bytes:
    out = bytearray(_INT16.pack(version))
    compiler.write(message, version, out, [])
    return bytes(out)


def _version(data: bytes | memoryview, what: str) -> int:
    if len(data) < _INT16.size:
        raise MalformedRequest(f"the {what} of a transaction's record has {len(data)} bytes; it begins with an int16")
    version: int = _INT16.unpack_from(data)[0]
    return version


def _check_end(data: bytes | memoryview, end: int, what: str) -> None:
    if end != len(data):
        raise MalformedRequest(f"{len(data) - end} bytes follow a {what}")

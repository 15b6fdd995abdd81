"""An internal topic: the log of a coordinator, with the settings that it is created and used with."""

from __future__ import annotations

import functools
from array import array
from collections.abc import Callable, Mapping
from logging import Logger
from typing import Any, NamedTuple

from headgate.gateway.coordinator.decision import Decision, ProducerIdAndEpoch
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.records import batch, control
from headgate.protocol.records.batch import Record

MAX_KEY_BYTES = 0x7FFF
"""The limit of a string in the key of a record."""
SHORT_KEY = MAX_KEY_BYTES // 4
"""So many characters always fit."""
SPLIT_BYTES = 1 << 19
"""The size at which a decision that need not be atomic goes on in another batch."""
_CACHED_HASHES = 4096
_LONGEST_CACHED = 256


class InternalTopic(NamedTuple):
    """An internal topic whose partitions are coordinated.

    key_name     what a key is the id of, for messages: "group"
    invalid_key  the error of a key that no record can hold
    encode_key, encode_value  the layout of the records
    partitions, replication_factor  of the topic when it is created, the latter at most the live brokers
    configs      of the topic when it is created; min.insync.replicas is at most the live brokers
    compression_codec  of the batches; a number of `protocol.records.compression`
    load_buffer_bytes  so much of a cold log is read at a time
    write_timeout_ms   so long a reply waits for the high watermark
    """

    name: str
    key_name: str
    invalid_key: ErrorCode
    encode_key: Callable[[Any], bytes]
    encode_value: Callable[[Any], bytes]
    partitions: int
    replication_factor: int
    configs: Mapping[str, str]
    compression_codec: int
    load_buffer_bytes: int
    write_timeout_ms: int
    logger: Logger

    def check_key(self, key: str) -> None:
        """Raises KafkaError(`invalid_key`) for a key that is too long."""
        if len(key.encode()) > MAX_KEY_BYTES:
            raise KafkaError(self.invalid_key, f"the id of a {self.key_name} has at most {MAX_KEY_BYTES} bytes")

    def encode(self, decision: Decision, now_ms: int) -> bytearray:
        """The batch of a decision: of its records, or of its marker. Several, if it has many and is not atomic.

        Raises what an encoder raises for a record that has no encoding.
        """
        if decision.producer is not None:
            return self._transactional(decision, decision.producer, now_ms)
        encode_key, encode_value, codec = self.encode_key, self.encode_value, self.compression_codec
        rows: list[Record] = []
        out, size = bytearray(), 0
        for key, value in decision.records:
            row = Record(-1, now_ms, encode_key(key), None if value is None else encode_value(value))
            size += len(row.key or b"") + len(row.value or b"")
            rows.append(row)
            if size > SPLIT_BYTES and not decision.is_atomic:
                out += batch.build(rows, compression=codec)
                rows, size = [], 0
        if rows:
            out += batch.build(rows, compression=codec)
        return out

    def _transactional(self, decision: Decision, producer: ProducerIdAndEpoch, now_ms: int) -> bytearray:
        """The records as part of a transaction, or the marker that ends it."""
        producer_id, producer_epoch = producer
        if decision.marker is not None:
            return control.build(
                decision.marker, producer_id=producer_id, producer_epoch=producer_epoch, timestamp=now_ms
            )
        rows = [
            Record(-1, now_ms, self.encode_key(key), None if value is None else self.encode_value(value))
            for key, value in decision.records
        ]
        return batch.build(
            rows,
            compression=self.compression_codec,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            is_transactional=True,
        )


def java_hash(text: str) -> int:
    """`String.hashCode` of Java: over the units of UTF-16, in 32 bits with a sign."""
    value = 0
    for unit in array("H", text.encode("utf-16", "surrogatepass")[2:]):
        value = (value * 31 + unit) & 0xFFFF_FFFF
    return value - (1 << 32) if value >> 31 else value


def partition_of(key: str, partitions: int) -> int:
    """The partition of a group or a transactional id. Source: GroupCoordinator.partitionFor, Utils.abs."""
    if len(key) > _LONGEST_CACHED:
        return _partition_of.__wrapped__(key, partitions)
    return _partition_of(key, partitions)


@functools.lru_cache(_CACHED_HASHES)
def _partition_of(key: str, partitions: int) -> int:
    value = java_hash(key)
    return (0 if value == -(1 << 31) else abs(value)) % partitions

"""An internal topic: the log of a coordinator, with the settings for its creation and its use."""

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
"""The limit of a string in a record's key, in bytes."""
SHORT_KEY = MAX_KEY_BYTES // 4
"""A key of at most so many characters always fits: UTF-8 has at most 4 bytes a character."""
SPLIT_BYTES = 1 << 19
"""The size in bytes at which a decision that need not be atomic continues in another batch."""
_CACHED_HASHES = 4096
_LONGEST_CACHED = 256


class InternalTopic(NamedTuple):
    """An internal topic whose partitions have coordinators.

    key_name     the kind of id that a key is, for messages: "group"
    invalid_key  the error for a key that no record can hold
    encode_key, encode_value  the layout of the records
    partitions, replication_factor, configs  used at the creation of the topic; replication_factor and the config
                 min.insync.replicas are 1 in a cluster of one broker
    compression_codec  of the batches; a number of `protocol.records.compression`
    load_buffer_bytes  the size of one read of a cold log
    write_timeout_ms   the longest wait of a reply for the high watermark
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
        """The batch of a decision's records or marker; several batches for many records that need not be atomic.

        Raises the encoder's exception for a record that has no encoding.
        """
        if len(decision.records) == 1 and not self.compression_codec:
            return self._one(decision, now_ms)
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

    def _one(self, decision: Decision, now_ms: int) -> bytearray:
        """The batch of a decision with one record, as most have."""
        (key, value), producer = decision.records[0], decision.producer
        record = self.encode_key(key), None if value is None else self.encode_value(value)
        if producer is None:
            return batch.build_one(now_ms, *record)
        return batch.build_one(
            now_ms,
            *record,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            is_transactional=True,
        )

    def _transactional(self, decision: Decision, producer: ProducerIdAndEpoch, now_ms: int) -> bytearray:
        """The records as part of a transaction, or the marker that ends the transaction."""
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
    """Java's `String.hashCode`: over the UTF-16 units, as a signed 32-bit number."""
    value = 0
    for unit in array("H", text.encode("utf-16", "surrogatepass")[2:]):
        value = (value * 31 + unit) & 0xFFFF_FFFF
    return value - (1 << 32) if value >> 31 else value


def partition_of(key: str, partitions: int) -> int:
    """The partition of a group id or a transactional id. Source: GroupCoordinator.partitionFor, Utils.abs."""
    if len(key) > _LONGEST_CACHED:
        return _partition_of.__wrapped__(key, partitions)
    return _partition_of(key, partitions)


@functools.lru_cache(_CACHED_HASHES)
def _partition_of(key: str, partitions: int) -> int:
    value = java_hash(key)
    return (0 if value == -(1 << 31) else abs(value)) % partitions

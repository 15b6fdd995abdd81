"""`/consumers`: groups whose members are clients of the 0.8 age: registrations, owners of partitions, offsets.

A node's name is the unencoded group id. So a group id with `/` cannot be in ZooKeeper.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple, Self

from headgate.gateway.zookeeper.layout.node import (
    MAX_INT32,
    child_number,
    child_path,
    decode_decimal,
    decode_fields,
    decode_text,
    encode_decimal,
    encode_object,
    number_child_path,
    topic_child_path,
)

CONSUMERS_PATH: Final = "/consumers"
MAX_OFFSET_BYTES: Final = 100
_is_offset: Final = re.compile(rb"[+-]?[0-9]+").fullmatch
STATIC, WHITE_LIST, BLACK_LIST = "static", "white_list", "black_list"


class ConsumerRegistration(NamedTuple):
    """A live member; the node is ephemeral. `subscription`: the number of streams by topic.

    With the pattern `white_list` or `black_list`, the one key of `subscription` is an expression of Java instead.
    """

    subscription: Mapping[str, int]
    pattern: str
    timestamp_ms: int

    @staticmethod
    def path(group: str, consumer_id: str) -> str:
        """Raises InvalidNode for an id that cannot be in ZooKeeper."""
        return child_path(ids_path(group), consumer_id)

    def encode(self) -> bytes:
        members = {
            "version": 1,
            "subscription": dict(self.subscription),
            "pattern": self.pattern,
            "timestamp": str(self.timestamp_ms),
        }
        return encode_object(members)

    @classmethod
    def decode(cls, group: str, consumer_id: str, data: bytes | None) -> Self:
        """Raises InvalidNode."""
        fields = decode_fields(cls.path(group, consumer_id), data)
        subscription = fields.mapping_of_integers("subscription")
        return cls(subscription, fields.text("pattern"), fields.timestamp_ms())


class PartitionOwner(NamedTuple):
    """The stream that reads a partition: the member's id, and the stream's number; the node is ephemeral."""

    consumer_id: str
    stream: int

    @staticmethod
    def path(group: str, topic: str, partition: int) -> str:
        """Raises InvalidNode."""
        return number_child_path(owners_path(group, topic), partition)

    def encode(self) -> bytes:
        return f"{self.consumer_id}-{self.stream}".encode()

    @classmethod
    def decode(cls, group: str, topic: str, partition: int, data: bytes | None) -> Self:
        """Raises InvalidNode."""
        path = cls.path(group, topic, partition)
        consumer_id, _, stream = decode_text(path, data).rpartition("-")
        child_path(path, consumer_id)
        return cls(consumer_id, decode_decimal(path, stream.encode(), low=0, high=MAX_INT32))


class ConsumerOffset(NamedTuple):
    """The committed offset of a group in a partition: the next one to read. Metadata are not kept."""

    offset: int

    @staticmethod
    def path(group: str, topic: str, partition: int) -> str:
        """Raises InvalidNode."""
        return number_child_path(offsets_path(group, topic), partition)

    def encode(self) -> bytes:
        return encode_decimal(self.offset)

    @classmethod
    def decode(cls, group: str, topic: str, partition: int, data: bytes | None) -> Self:
        """Leading zeros and a plus are allowed, as in Kafka: people write offsets by hand. Raises InvalidNode."""
        path = cls.path(group, topic, partition)
        if data is not None and len(data) <= MAX_OFFSET_BYTES and _is_offset(data):
            data = encode_decimal(int(data))
        return cls(decode_decimal(path, data))


def group_path(group: str) -> str:
    """The node of a group. Raises InvalidNode for a group id that cannot be in ZooKeeper."""
    return child_path(CONSUMERS_PATH, group)


def ids_path(group: str) -> str:
    """The parent of a group's members. Raises InvalidNode."""
    return f"{group_path(group)}/ids"


def owners_path(group: str, topic: str) -> str:
    """The parent of the owners of a topic's partitions. Raises InvalidNode."""
    return topic_child_path(f"{group_path(group)}/owners", topic)


def offsets_path(group: str, topic: str) -> str:
    """The parent of a group's offsets in a topic. Raises InvalidNode."""
    return topic_child_path(f"{group_path(group)}/offsets", topic)


def partition_of(parent: str, name: str) -> int:
    """The partition index in the name of a child of `owners_path` or `offsets_path`. Raises InvalidNode."""
    return child_number(parent, name)

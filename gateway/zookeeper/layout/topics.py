"""`/brokers/topics`: the assignment of each topic, and the leader and in-sync replicas of each partition.

`/headgate/deleted_topics`: notes of the topics that this broker has deleted, until no group has offsets of them.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any, Final, NamedTuple, Self

from headgate.gateway.zookeeper.layout.node import (
    MAX_INT64,
    NO_FIELDS,
    NodeFields,
    child_number,
    decode_fields,
    encode_object,
    number_child_path,
    shown,
    topic_child_path,
    with_unknown,
)

TOPICS_PATH: Final = "/brokers/topics"
DELETED_TOPICS_PATH: Final = "/headgate/deleted_topics"
_ID_BYTES: Final = 16
_NO_TOPIC_ID: Final = bytes(_ID_BYTES)


class ReplicaAssignment(NamedTuple):
    """The replicas of a partition, the preferred leader first; during a reassignment some are added or removed."""

    replicas: tuple[int, ...]
    adding_replicas: tuple[int, ...] = ()
    removing_replicas: tuple[int, ...] = ()


class TopicAssignment(NamedTuple):
    """A topic. `topic_id` is None if Kafka before 2.8, or one of its tools, created the topic.

    `unknown`: further fields of the node, which a later write keeps.
    """

    topic_id: bytes | None
    partitions: Mapping[int, ReplicaAssignment]
    unknown: Mapping[str, Any] = NO_FIELDS

    @staticmethod
    def path(topic: str) -> str:
        """Raises InvalidNode for a name that Kafka refuses."""
        return topic_child_path(TOPICS_PATH, topic)

    def encode(self) -> bytes:
        """Version 3. The partitions are in the order of their numbers, in Kafka in the order of its hash table."""
        partitions = sorted(self.partitions.items())
        members = {
            "partitions": {str(index): assignment.replicas for index, assignment in partitions},
            **({} if self.topic_id is None else {"topic_id": _encode_id(self.topic_id)}),
            "adding_replicas": {
                str(index): assignment.adding_replicas for index, assignment in partitions if assignment.adding_replicas
            },
            "removing_replicas": {
                str(index): assignment.removing_replicas
                for index, assignment in partitions
                if assignment.removing_replicas
            },
            "version": 3,
        }
        return with_unknown(members, self.unknown)

    @classmethod
    def decode(cls, topic: str, data: bytes | None) -> Self:
        """Versions 1 to 3. Raises InvalidNode."""
        fields = decode_fields(cls.path(topic), data)
        fields.integer("version", 1, low=1)
        adding, removing = (fields.mapping_of_replicas(f"{verb}_replicas") for verb in ("adding", "removing"))
        partitions = {
            index: ReplicaAssignment(replicas, adding.get(index, ()), removing.get(index, ()))
            for index, replicas in fields.mapping_of_replicas("partitions").items()
        }
        return cls(_decode_id(fields), partitions, fields.unknown())


class LeaderAndIsr(NamedTuple):
    """The leader of a partition (-1 without one), its epoch, and the in-sync replicas; written by the controller.

    `controller_epoch` belongs to the last writer. `leader_recovery_state` is 1 after an election from
    outside the in-sync replicas, until the leader has recovered (KIP-704).
    """

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    controller_epoch: int
    leader_recovery_state: int = 0
    unknown: Mapping[str, Any] = NO_FIELDS

    @staticmethod
    def path(topic: str, partition: int) -> str:
        """Raises InvalidNode for a name that Kafka refuses."""
        return f"{partition_path(topic, partition)}/state"

    def encode(self) -> bytes:
        members = {
            "controller_epoch": self.controller_epoch,
            "leader": self.leader,
            "version": 1,
            "leader_epoch": self.leader_epoch,
            "isr": self.isr,
            **({"leader_recovery_state": self.leader_recovery_state} if self.leader_recovery_state else {}),
        }
        return with_unknown(members, self.unknown)

    @classmethod
    def decode(cls, topic: str, partition: int, data: bytes | None) -> Self:
        """Raises InvalidNode."""
        fields = decode_fields(cls.path(topic, partition), data)
        fields.integer("version", 1, low=1)
        return cls(
            fields.integer("leader"),
            fields.integer("leader_epoch", low=0),
            fields.integers("isr"),
            fields.integer("controller_epoch", low=0),
            fields.integer("leader_recovery_state", 0, low=0, high=1),
            fields.unknown(),
        )


def partitions_path(topic: str) -> str:
    """The parent of a topic's partitions. Raises InvalidNode."""
    return f"{TopicAssignment.path(topic)}/partitions"


class DeletedTopic(NamedTuple):
    """The note of a deletion, written in the multi that deletes the topic: the topic's id, name, and the time.

    A topic that is missing without a note was not deleted by this broker.
    """

    topic_id: bytes
    topic: str
    timestamp_ms: int

    @staticmethod
    def path(topic_id: bytes) -> str:
        return f"{DELETED_TOPICS_PATH}/{_encode_id(topic_id)}"

    def encode(self) -> bytes:
        return encode_object({"version": 1, "topic": self.topic, "timestamp": self.timestamp_ms})

    @classmethod
    def decode(cls, name: str, data: bytes | None) -> Self:
        """Raises InvalidNode."""
        fields = decode_fields(f"{DELETED_TOPICS_PATH}/{name}", data)
        topic_id = _id_of(name)
        if topic_id is None:
            fields.fail(f"{shown(name)} is not an id of 16 bytes in base64")
        topic = fields.text("topic")
        TopicAssignment.path(topic)
        return cls(topic_id, topic, fields.integer("timestamp", low=0, high=MAX_INT64))


def partition_path(topic: str, partition: int) -> str:
    """The parent of a partition's state. Raises InvalidNode."""
    return number_child_path(partitions_path(topic), partition)


def partition_of(topic: str, name: str) -> int:
    """The partition index in the name of a child of a topic's `partitions`. Raises InvalidNode."""
    return child_number(partitions_path(topic), name)


def _encode_id(topic_id: bytes) -> str:
    return base64.urlsafe_b64encode(topic_id).rstrip(b"=").decode()


def _decode_id(fields: NodeFields) -> bytes | None:
    text = fields.text("topic_id", None)
    if text is None:
        return None
    topic_id = _id_of(text)
    if topic_id is None:
        fields.fail(f"`topic_id` {shown(text)} is not an id of 16 bytes in base64")
    return None if topic_id == _NO_TOPIC_ID else topic_id


def _id_of(text: str) -> bytes | None:
    """The id that a text encodes; None if the text is no id."""
    try:
        topic_id = base64.b64decode(f"{text}==", altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        return None
    return topic_id if len(topic_id) == _ID_BYTES and _encode_id(topic_id) == text else None

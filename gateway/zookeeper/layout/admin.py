"""Orders to the controller (`/admin`) and notifications of brokers.

Tools of Kafka before 3.0 write the orders if they run with `--zookeeper`; the controller deletes each completed order.
Brokers with an inter.broker.protocol.version below 2.7 report changed in-sync replicas to the controller in
`/isr_change_notification`. All brokers report failed disks in `/log_dir_event_notification`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple, Self

from headgate.gateway.zookeeper.layout.node import (
    NodeFields,
    decode_fields,
    encode_object,
    topic_child_path,
)

DELETE_TOPICS_PATH: Final = "/admin/delete_topics"
REASSIGN_PARTITIONS_PATH: Final = "/admin/reassign_partitions"
PREFERRED_REPLICA_ELECTION_PATH: Final = "/admin/preferred_replica_election"
ISR_CHANGES_PATH: Final = "/isr_change_notification"
ISR_CHANGE_PREFIX: Final = "isr_change_"
LOG_DIR_EVENTS_PATH: Final = "/log_dir_event_notification"
LOG_DIR_EVENT_PREFIX: Final = "log_dir_event_"
_LOG_DIR_FAILURE: Final = 1


class TopicDeletion(NamedTuple):
    """An order to delete a topic. The node has no data (3.9) or empty data (0.8.2), which no broker reads."""

    topic: str

    @staticmethod
    def path(topic: str) -> str:
        """Raises InvalidNode for a name that Kafka refuses."""
        return topic_child_path(DELETE_TOPICS_PATH, topic)

    def encode(self) -> None:
        """No data."""


class PartitionReassignments(NamedTuple):
    """An order to move partitions: the new replicas of each, the preferred leader first."""

    replicas: Mapping[tuple[str, int], tuple[int, ...]]

    @staticmethod
    def path() -> str:
        return REASSIGN_PARTITIONS_PATH

    def encode(self) -> bytes:
        partitions = [
            {"topic": topic, "partition": index, "replicas": replicas}
            for (topic, index), replicas in self.replicas.items()
        ]
        return encode_object({"version": 1, "partitions": partitions})

    @classmethod
    def decode(cls, data: bytes | None) -> Self:
        """Raises InvalidNode."""
        fields = decode_fields(REASSIGN_PARTITIONS_PATH, data)
        return cls({_partition(row): row.integers("replicas") for row in fields.objects("partitions")})


class PreferredReplicaElection(NamedTuple):
    """An order to give partitions back to their preferred leaders."""

    partitions: tuple[tuple[str, int], ...]

    @staticmethod
    def path() -> str:
        return PREFERRED_REPLICA_ELECTION_PATH

    def encode(self) -> bytes:
        return _encode_partitions(self.partitions)

    @classmethod
    def decode(cls, data: bytes | None) -> Self:
        """Raises InvalidNode."""
        return cls(_decode_partitions(PREFERRED_REPLICA_ELECTION_PATH, data))


class IsrChange(NamedTuple):
    """A notification: these partitions have other in-sync replicas. The node is sequential."""

    partitions: tuple[tuple[str, int], ...]

    @staticmethod
    def path() -> str:
        """ZooKeeper appends the number."""
        return f"{ISR_CHANGES_PATH}/{ISR_CHANGE_PREFIX}"

    def encode(self) -> bytes:
        return _encode_partitions(self.partitions)

    @classmethod
    def decode(cls, name: str, data: bytes | None) -> Self:
        """Raises InvalidNode."""
        return cls(_decode_partitions(f"{ISR_CHANGES_PATH}/{name}", data))


class LogDirFailure(NamedTuple):
    """A notification: a log directory of this broker has failed (KIP-112). The node is sequential."""

    broker_id: int

    @staticmethod
    def path() -> str:
        """ZooKeeper appends the number."""
        return f"{LOG_DIR_EVENTS_PATH}/{LOG_DIR_EVENT_PREFIX}"

    def encode(self) -> bytes:
        return encode_object({"version": 1, "broker": self.broker_id, "event": _LOG_DIR_FAILURE})

    @classmethod
    def decode(cls, name: str, data: bytes | None) -> Self:
        """Raises InvalidNode."""
        fields = decode_fields(f"{LOG_DIR_EVENTS_PATH}/{name}", data)
        return cls(fields.integer("broker", low=0))


def _encode_partitions(partitions: tuple[tuple[str, int], ...]) -> bytes:
    listed = [{"topic": topic, "partition": index} for topic, index in partitions]
    return encode_object({"version": 1, "partitions": listed})


def _decode_partitions(path: str, data: bytes | None) -> tuple[tuple[str, int], ...]:
    return tuple([_partition(row) for row in decode_fields(path, data).objects("partitions")])


def _partition(fields: NodeFields) -> tuple[str, int]:
    topic = fields.text("topic")
    topic_child_path(fields.path, topic)
    return topic, fields.integer("partition", low=0)

"""Orders to the controller (`/admin`).

Tools of Kafka before 3.0 write the orders if they run with `--zookeeper`; the controller deletes each completed order.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple, Self

from headgate.gateway.zookeeper.layout.node import NodeFields, decode_fields, encode_object, topic_child_path

DELETE_TOPICS_PATH: Final = "/admin/delete_topics"
REASSIGN_PARTITIONS_PATH: Final = "/admin/reassign_partitions"
PREFERRED_REPLICA_ELECTION_PATH: Final = "/admin/preferred_replica_election"


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
        return encode_partitions(self.partitions)

    @classmethod
    def decode(cls, data: bytes | None) -> Self:
        """Raises InvalidNode."""
        return cls(decode_partitions(PREFERRED_REPLICA_ELECTION_PATH, data))


def encode_partitions(partitions: tuple[tuple[str, int], ...]) -> bytes:
    listed = [{"topic": topic, "partition": index} for topic, index in partitions]
    return encode_object({"version": 1, "partitions": listed})


def decode_partitions(path: str, data: bytes | None) -> tuple[tuple[str, int], ...]:
    return tuple([_partition(row) for row in decode_fields(path, data).objects("partitions")])


def _partition(fields: NodeFields) -> tuple[str, int]:
    topic = fields.text("topic")
    topic_child_path(fields.path, topic)
    return topic, fields.integer("partition", low=0)

"""Log directories of brokers, with the replicas in them and their sizes: DescribeLogDirs, since Kafka 1.0."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from headgate.protocol.client.failure import Failure
from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from headgate.protocol.topic_partition import TopicPartition, by_topic
from headgate.tools.client.client import Client
from headgate.tools.client.cluster import Answers, AnswersAndFailures, Cluster

_TOO_OLD: Final = Failure(ErrorCode.NONE, "the broker has no DescribeLogDirs: Kafka has it since 1.0")
_NOTHING_SHOWN: Final = Failure(
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "the broker shows no log directory; the user needs Describe on the cluster"
)
"""Before version 3 an answer has no place for an error, and a refusal is an empty answer."""


class ReplicaSize(NamedTuple):
    """A replica in a log directory. `offset_lag`: records missing here. `is_future`: it moves to this directory."""

    partition: TopicPartition
    size_bytes: int
    offset_lag: int
    is_future: bool


class DirectoryDescription(NamedTuple):
    """A log directory of a broker. `failure`: it is offline. Sizes of the volume: None before Kafka 3.3."""

    path: str
    failure: Failure | None
    total_bytes: int | None
    usable_bytes: int | None
    is_cordoned: bool
    replicas: list[ReplicaSize]

    @property
    def size_bytes(self) -> int:
        """The bytes of all replicas of the answer."""
        return sum(replica.size_bytes for replica in self.replicas)


def describe_log_directories(
    cluster: Cluster, partitions: Iterable[TopicPartition] | None = None
) -> AnswersAndFailures[int, list[DirectoryDescription]]:
    """The log directories by broker, with these partitions or with all of them; and failures by broker.

    Raises ClientError.
    """
    topics = None
    if partitions is not None:
        topics = [
            DescribableLogDirTopic(name, [partition.number for partition in rows])
            for name, rows in by_topic(partitions).items()
        ]

    def ask(client: Client, nodes: list[int]) -> Answers[int, list[DirectoryDescription]]:
        if not client.serves(DescribeLogDirsRequest):
            yield nodes[0], _TOO_OLD
            return
        answer = client.ask(DescribeLogDirsRequest(topics=topics))
        if answer.error_code:
            yield nodes[0], Failure.of(answer.error_code)
        else:
            yield nodes[0], sorted(map(_directory, answer.results)) or _NOTHING_SHOWN

    return cluster.ask_all_brokers(ask)


def _directory(row: Any) -> DirectoryDescription:
    return DirectoryDescription(
        row.log_dir,
        Failure.of(row.error_code) if row.error_code else None,
        row.total_bytes if row.total_bytes >= 0 else None,
        row.usable_bytes if row.usable_bytes >= 0 else None,
        row.is_cordoned,
        [
            ReplicaSize(
                TopicPartition(topic.name, partition.partition_index),
                partition.partition_size,
                partition.offset_lag,
                partition.is_future_key,
            )
            for topic in row.topics
            for partition in topic.partitions
        ],
    )

"""Records a second of any Kafka: the growth of the end offsets of all partitions, between two surveys.

A survey asks each leader once for the ends of its partitions. Of a large cluster it is made less often, so that it
costs the brokers little.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from headgate.protocol.messages.list_offsets import LATEST
from headgate.protocol.topic_partition import TopicPartition
from headgate.tools.client.cluster import Cluster
from headgate.tools.groups.offsets import list_offsets

PARTITIONS_PER_S: Final = 1_000
MOST_TOPICS: Final = 10


class EndSurvey(NamedTuple):
    """The ends of partitions at a time; partitions whose leader does not answer are left out."""

    at_s: float
    ends: Mapping[TopicPartition, int]
    failed: int


def survey(cluster: Cluster, clock: Callable[[], float]) -> EndSurvey:
    """Ask for the ends of all partitions with a leader. Raises ClientError."""
    partitions = [
        TopicPartition(name, partition.partition_index)
        for name, topic in cluster.topics(None).items()
        for partition in topic.partitions
        if partition.leader_id >= 0
    ]
    found, failed = list_offsets(cluster, partitions, LATEST)
    return EndSurvey(clock(), found, len(failed))


def pause_s(partitions: int) -> float:
    """The pause after a survey of so many partitions."""
    return max(1.0, partitions / PARTITIONS_PER_S)


def growth(before: EndSurvey, after: EndSurvey) -> tuple[float, list[tuple[str, float]]]:
    """Records a second of all topics, and of the busiest topics. A topic that was made again counts from 0."""
    elapsed_s = max(0.001, after.at_s - before.at_s)
    by_topic: dict[str, float] = {}
    for partition, end in after.ends.items():
        grown = end - before.ends.get(partition, end)
        if grown > 0:
            by_topic[partition.topic] = by_topic.get(partition.topic, 0.0) + grown / elapsed_s
    busiest = sorted(by_topic.items(), key=lambda item: (-item[1], item[0]))
    return sum(by_topic.values()), busiest[:MOST_TOPICS]

"""A partition by topic and number, as all clients of a cluster name it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple


class TopicPartition(NamedTuple):
    """A partition by topic and number. It sorts by number, not by text, and its text is Kafka's `topic-0`."""

    topic: str
    number: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.number}"


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[TopicPartition]]:
    """Partitions by topic, without repetition: the shape of requests."""
    topics: defaultdict[str, list[TopicPartition]] = defaultdict(list)
    for partition in dict.fromkeys(partitions):
        topics[partition.topic].append(partition)
    return topics

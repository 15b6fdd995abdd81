"""The facts of a controller: stored partition states, and what is known about brokers. Immutable.

Stored are the topics and the state of each partition. Live brokers, failed replicas and stops are observed: the next
controller observes them again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple

from headgate.gateway.metadata.image import Image, PartitionState
from headgate.protocol.topic_partition import TopicPartition


class ListenerEndpoint(NamedTuple):
    """The advertised address of a listener. `security_protocol`: Kafka's number, 0 for PLAINTEXT."""

    host: str
    port: int
    security_protocol: int = 0


class LiveBroker(NamedTuple):
    """A registered broker. `epoch` grows with every registration; `endpoints` by listener."""

    epoch: int
    endpoints: Mapping[str, ListenerEndpoint] = MappingProxyType({})
    rack: str | None = None


class FailedReplica(NamedTuple):
    """A replica whose log directory has failed."""

    broker_id: int
    partition: TopicPartition


class ClusterView(NamedTuple):
    """The cluster as a controller knows it. `stopping`: brokers that asked for a controlled shutdown.

    `deposed`: partitions whose leader was restarted. The former process may have changed the in-sync set without the
    controller's knowledge, so the leader leads again only in a new leader epoch, whose write depends on the stored set.
    """

    image: Image
    brokers: Mapping[int, LiveBroker] = MappingProxyType({})
    failed: frozenset[FailedReplica] = frozenset()
    stopping: frozenset[int] = frozenset()
    deposed: frozenset[TopicPartition] = frozenset()

    def state(self, partition: TopicPartition) -> PartitionState | None:
        """The stored state of a partition; None if the partition does not exist."""
        topic = self.image.topics.get(partition.topic)
        if topic is None or not 0 <= partition.number < len(topic.partitions):
            return None
        return topic.partitions[partition.number]

    def online(self, partition: TopicPartition, replicas: Collection[int]) -> tuple[int, ...]:
        """Those of the replicas whose broker lives and whose log directory works."""
        live = [broker for broker in replicas if broker in self.brokers]
        if self.failed:
            live = [broker for broker in live if FailedReplica(broker, partition) not in self.failed]
        return tuple(live)

    def partitions(self) -> Iterator[tuple[TopicPartition, PartitionState]]:
        """All partitions with their states."""
        for topic in self.image.topics.values():
            for index, state in enumerate(topic.partitions):
                yield TopicPartition(topic.name, index), state

    def partitions_of(self, brokers: Collection[int]) -> Iterator[tuple[TopicPartition, PartitionState]]:
        """The partitions that have a replica on one of the brokers."""
        if brokers:
            wanted = set(brokers)
            yield from ((key, state) for key, state in self.partitions() if not wanted.isdisjoint(state.replicas))

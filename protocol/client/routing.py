"""Who answers a request: the leader, the coordinator or the controller, as the brokers name them. Sans-IO.

The `find_` methods are exchanges with any broker. They return routes: the keys by the node that answers for them, and
the keys without such a node, each with its failure.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from typing import TypeAlias, TypeVar

from headgate.protocol.client.connection import ClientConnection, Exchange
from headgate.protocol.client.failure import Failure
from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages.find_coordinator import Coordinator, FindCoordinatorRequest
from headgate.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from headgate.protocol.topic_partition import TopicPartition

ANY_BROKER = -1
_KEYS_AT_ONCE = 1000
_MANY_KEYS = 4  # the first version of FindCoordinator that asks for many keys
_NO_AUTO_CREATION = 4  # the first version of Metadata that can ask for a topic without creating it

K = TypeVar("K", bound=Hashable)
Routes: TypeAlias = tuple[dict[int, list[K]], dict[K, Failure]]


class Routing:
    """The cluster by the last answers of its brokers: addresses by node id, topics by name, leaders, the controller."""

    def __init__(self) -> None:
        self.addresses: dict[int, str] = {}
        self.topics: dict[str, MetadataResponseTopic] = {}
        self.controller = ANY_BROKER
        self.cluster_id: str | None = None
        self._leaders: dict[TopicPartition, int] = {}
        self._is_stale = False

    def expire(self) -> None:
        """Ask for each topic again before its next use: an answer has shown that a leader has moved."""
        self._is_stale = True

    def find_topics(self, connection: ClientConnection, names: Iterable[str]) -> Exchange[None]:
        """Ask for the topics that are not known."""
        unknown = [name for name in dict.fromkeys(names) if self._is_stale or name not in self.topics]
        if unknown:
            self._is_stale = False
            yield from self.refresh(connection, unknown)

    def refresh(self, connection: ClientConnection, names: Sequence[str] | None) -> Exchange[MetadataResponse]:
        """Ask for the brokers and for topics; None: all topics.

        An old broker creates each topic that Metadata names, so the request to an old broker names none and gets all.
        """
        version = connection.usable_version(MetadataRequest, newest=12, oldest=1)
        creates_nothing = version >= _NO_AUTO_CREATION or not names
        topics = [MetadataRequestTopic(name=name) for name in names or ()]
        answer: MetadataResponse = yield (
            MetadataRequest(
                topics=topics if names is not None and creates_nothing else None, allow_auto_topic_creation=False
            ),
            version,
        )
        self.addresses = {row.node_id: _address(row.host, row.port) for row in answer.brokers}
        self.cluster_id, self.controller = answer.cluster_id, answer.controller_id
        for topic in answer.topics:
            self.topics[topic.name or ""] = topic
            self._leaders |= {
                TopicPartition(topic.name or "", row.partition_index): row.leader_id for row in topic.partitions
            }
        return answer

    def find_leaders(
        self, connection: ClientConnection, partitions: Sequence[TopicPartition]
    ) -> Exchange[Routes[TopicPartition]]:
        """The routes to the leaders of partitions."""
        yield from self.find_topics(connection, (partition.topic for partition in partitions))
        nodes: defaultdict[int, list[TopicPartition]] = defaultdict(list)
        failed = {}
        for partition in partitions:
            leader = self.leader(partition)
            if isinstance(leader, Failure):
                failed[partition] = leader
            else:
                nodes[leader].append(partition)
        return nodes, failed

    def leader(self, partition: TopicPartition) -> int | Failure:
        """The node id of a partition's leader, as of the last answer about its topic."""
        topic = self.topics.get(partition.topic)
        if topic is None or topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return Failure(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "there is no such topic")
        if topic.error_code:
            return Failure.of(topic.error_code)
        node = self._leaders.get(partition)
        if node in self.addresses:
            return node
        if node is not None:
            return Failure(ErrorCode.NONE, "the partition has no leader at the moment")
        return Failure(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no such partition: the topic has {len(topic.partitions)}"
        )

    def find_coordinators(
        self, connection: ClientConnection, keys: Sequence[str], key_type: int
    ) -> Exchange[Routes[str]]:
        """The routes to the coordinators of groups or transactional ids."""
        version = connection.usable_version(FindCoordinatorRequest, newest=6)
        rows: list[Coordinator] = []
        if version >= _MANY_KEYS:
            for start in range(0, len(keys), _KEYS_AT_ONCE):
                wanted = list(keys[start : start + _KEYS_AT_ONCE])
                answer = yield FindCoordinatorRequest(key_type=key_type, coordinator_keys=wanted), version
                rows += answer.coordinators
        else:
            for key in keys:
                row = yield FindCoordinatorRequest(key=key, key_type=key_type), version
                rows.append(Coordinator(key, row.node_id, row.host, row.port, row.error_code, row.error_message))
        nodes: defaultdict[int, list[str]] = defaultdict(list)
        failed = {}
        for coordinator in rows:
            if coordinator.error_code:
                failed[coordinator.key] = Failure.of(coordinator.error_code, coordinator.error_message)
            else:
                self.addresses[coordinator.node_id] = _address(coordinator.host, coordinator.port)
                nodes[coordinator.node_id].append(coordinator.key)
        return nodes, failed

    def find_controller(self, connection: ClientConnection, keys: Sequence[K]) -> Exchange[Routes[K]]:
        """The route to the controller; to any broker if none is named."""
        yield from self.refresh(connection, [])
        return {self.controller if self.controller in self.addresses else ANY_BROKER: list(keys)}, {}


def _address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

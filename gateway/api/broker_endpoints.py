"""The brokers in responses: their addresses on the client's listener, and the partitions that the client can reach."""

from __future__ import annotations

from collections.abc import Container
from typing import NamedTuple

from headgate.gateway.api.context import HandlerContext
from headgate.gateway.metadata.image import PartitionState
from headgate.protocol.errors import ErrorCode
from headgate.protocol.topic_partition import TopicPartition


class Endpoint(NamedTuple):
    """One broker's address for clients of a listener."""

    node_id: int
    host: str
    port: int
    rack: str | None


def endpoints(context: HandlerContext) -> list[Endpoint]:
    """The live brokers that have the client's listener.

    None before the topics are known, as in Kafka: most clients ignore metadata without brokers, and ask again.
    """
    if not context.broker.metadata.knows_topics:
        return []
    config, listener = context.broker.config, context.client.listener
    live = []
    for node in context.broker.metadata.image.brokers.values():
        if node.node_id == config.node_id:
            live.append(own_endpoint(context))
        elif listener in node.endpoints:
            live.append(Endpoint(node.node_id, *node.endpoints[listener], node.rack))
    return live


def own_endpoint(context: HandlerContext) -> Endpoint:
    """This broker's advertised address, or else the address that the client connected to."""
    config, client = context.broker.config, context.client
    host, port = config.advertised_address(client.listener, client.local_host, client.local_port)
    return Endpoint(config.node_id, host, port, config.broker_rack)


def leader_of(context: HandlerContext, topic: str, index: int) -> tuple[int, int, Endpoint | None]:
    """A partition's leader, leader epoch, and leader endpoint for the client (KIP-951); -1, -1, None if unknown."""
    broker = context.broker
    known = broker.metadata.image.topics.get(topic)
    if known is None or not 0 <= index < len(known.partitions):
        return -1, -1, None
    state = known.partitions[index]
    if state.leader == broker.config.node_id and (topic, index) in broker.partitions.opening:
        return -1, -1, None
    leaders = [endpoint for endpoint in endpoints(context) if endpoint.node_id == state.leader]
    return state.leader, state.leader_epoch, leaders[0] if leaders else None


class Reachability:
    """The partitions and replicas that clients of a listener can reach at one moment."""

    def __init__(self, context: HandlerContext) -> None:
        partitions = context.broker.partitions
        self._node_id = context.broker.config.node_id
        self._alive = context.broker.metadata.image.brokers.keys()
        self.brokers = frozenset([endpoint.node_id for endpoint in endpoints(context)])
        """The live brokers that have the listener."""
        self._offline: Container[tuple[str, int]] = partitions.offline
        self._opening: Container[tuple[str, int]] = partitions.opening
        self._failed = context.broker.metadata.failed_replicas
        self._all_are_open = not (partitions.offline or partitions.opening or self._failed)
        self.whole: PartitionState | None = None
        """The last state that `is_whole` has found whole: equal states of a topic are one object."""

    def freeze(self, context: HandlerContext) -> None:
        """Copy the state of this broker's partitions: the rows of a response are made later."""
        self._offline = frozenset(context.broker.partitions.offline)
        self._opening = frozenset(context.broker.partitions.opening)

    def is_whole(self, state: PartitionState) -> bool:
        """Whether the leader and all replicas of a partition are certainly reachable."""
        if self._all_are_open and state.leader in self.brokers and self.brokers.issuperset(state.replicas):
            self.whole = state
            return True
        return False

    def leader_error(self, topic: str, index: int, state: PartitionState) -> ErrorCode:
        """The error of a partition without a leader for these clients, or NONE."""
        if state.leader not in self._alive:
            return ErrorCode.LEADER_NOT_AVAILABLE
        if state.leader not in self.brokers:
            return ErrorCode.LISTENER_NOT_FOUND
        key = topic, index
        is_closed = state.leader == self._node_id and (key in self._offline or key in self._opening)
        return ErrorCode.LEADER_NOT_AVAILABLE if is_closed else ErrorCode.NONE

    def offline_replicas(self, topic: str, index: int, state: PartitionState) -> list[int]:
        """The replicas on brokers that these clients cannot reach, and those whose log is offline."""
        reachable = self.brokers - {self._node_id} if (topic, index) in self._offline else self.brokers
        failed = self._failed.get(TopicPartition(topic, index), ())
        return [broker for broker in state.replicas if broker not in reachable or broker in failed]

"""The live brokers of the cluster, by their registrations."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Mapping
from typing import TYPE_CHECKING

from headgate.gateway.metadata.image import Node
from headgate.gateway.runtime.tasks import Task, gather
from headgate.gateway.zookeeper.layout.brokers import BROKER_IDS_PATH, BrokerRegistration
from headgate.gateway.zookeeper.layout.tree import read_cluster
from headgate.gateway.zookeeper.metadata.reading import StoreParts, read_node
from headgate.gateway.zookeeper.requests import children

if TYPE_CHECKING:
    from headgate.gateway.config import BrokerConfig


class LiveBrokers:
    """`epochs`: the epoch of each registered broker, which is the transaction of its registration, as in Kafka."""

    def __init__(self, parts: StoreParts) -> None:
        self.epochs: Mapping[int, int] = {}
        self._session = parts.session
        self._watches = parts.watches
        self._nodes = parts.nodes
        self._config = parts.config
        self._store = parts.store

    def refresh(self) -> Task[None]:
        """Read all registrations, and publish the brokers: a broker that was restarted has another epoch."""
        names = yield from children(self._session, BROKER_IDS_PATH, self._watches.note)
        parts = yield from gather([read_node(self._session, f"{BROKER_IDS_PATH}/{name}") for name in names])
        tree = dict(ChainMap(*parts))
        found = read_cluster(tree, bytes)
        self._nodes.unreadable.note(tree, found.invalid)
        self.epochs = {broker: tree[BrokerRegistration.path(broker)].czxid for broker in found.image.brokers}
        self._store.apply_brokers({**found.image.brokers, **own_node(self._config)})


def own_node(config: BrokerConfig) -> dict[int, Node]:
    """This broker, which is in its image before it is registered."""
    return {config.node_id: Node(config.node_id, config.broker_rack, {})}

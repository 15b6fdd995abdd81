"""The live brokers of the cluster, by their registrations."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Final

from headgate.gateway.controller.cluster_view import ListenerEndpoint, LiveBroker
from headgate.gateway.metadata import features
from headgate.gateway.metadata.image import Node
from headgate.gateway.runtime.tasks import Task, gather
from headgate.gateway.zookeeper.layout.brokers import BROKER_IDS_PATH, BrokerRegistration
from headgate.gateway.zookeeper.layout.owner import OWNERS_PATH
from headgate.gateway.zookeeper.layout.tree import read_cluster
from headgate.gateway.zookeeper.metadata.reading import StoreParts, read_node
from headgate.gateway.zookeeper.requests import children

if TYPE_CHECKING:
    from headgate.gateway.config import BrokerConfig


_SECURITY_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
"""By Kafka's numbers."""


class LiveBrokers:
    """`registered`: the registered brokers. A broker's epoch is the transaction of its registration, as in Kafka.

    `epochs`: those of the first read until the first refresh.
    """

    def __init__(self, parts: StoreParts) -> None:
        self.epochs = parts.nodes.broker_epochs
        self.registered: Mapping[int, LiveBroker] = {id_: LiveBroker(epoch) for id_, epoch in self.epochs.items()}
        self._session = parts.session
        self._watches = parts.watches
        self._nodes = parts.nodes
        self._config = parts.config
        self._store = parts.store

    def refresh(self) -> Task[None]:
        """Read all registrations, and publish the brokers: a broker that was restarted has another epoch."""
        processes = yield from children(self._session, OWNERS_PATH)  # a Headgate has its node before it registers
        names = yield from children(self._session, BROKER_IDS_PATH, self._watches.note)
        parts = yield from gather([read_node(self._session, f"{BROKER_IDS_PATH}/{name}") for name in names])
        tree = dict(ChainMap(*parts))
        found = read_cluster(tree, bytes)
        self._nodes.unreadable.note(tree, found.invalid)
        self.epochs = found.broker_epochs
        self.registered = {
            broker: _live_broker(epoch, BrokerRegistration.decode(broker, tree[BrokerRegistration.path(broker)].data))
            for broker, epoch in self.epochs.items()
        }
        self._store.apply_brokers({**found.image.brokers, **own_node(self._config)})
        self._check_features(set(names) - set(processes))

    def _check_features(self, kafkas: Collection[str]) -> None:
        """Log which features brokers of Apache Kafka lack, once for each set of such brokers."""
        levels = features.levels(self._store.planned)
        lacking = [f"--feature {name}=0" for name, level in levels.items() if level]
        if kafkas and lacking:
            self._nodes.unreadable.log_once(
                f"features of {sorted(kafkas)}",
                f"broker {', '.join(sorted(kafkas))} is of Apache Kafka, and cannot coordinate what clients do with a "
                f"feature that is on; switch it off: kafka-features.sh downgrade {' '.join(lacking)}",
            )


def _live_broker(epoch: int, found: BrokerRegistration) -> LiveBroker:
    endpoints = {
        listener: ListenerEndpoint(host, port, _SECURITY_PROTOCOLS.index(protocol))
        for listener, host, port, protocol in found.endpoints
    }
    return LiveBroker(epoch, endpoints, found.rack)


def own_node(config: BrokerConfig) -> dict[int, Node]:
    """This broker, which is in its image before it is registered."""
    return {config.node_id: Node(config.node_id, config.broker_rack, {})}

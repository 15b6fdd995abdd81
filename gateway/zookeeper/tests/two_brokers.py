"""Two brokers beside each other over one model of ZooKeeper. Broker 0 is the first controller."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from headgate.gateway.app.composition import BrokerParts
from headgate.gateway.controller.cluster_view import ClusterView, LiveBroker
from headgate.gateway.controller.orders import Sender, leader_and_isr
from headgate.gateway.metadata.records import partition_records
from headgate.gateway.metadata.store import Change
from headgate.gateway.zookeeper.store.metadata_store import ZooKeeperMetadataStore
from headgate.gateway.zookeeper.tests.model import ZooKeeperModel
from headgate.gateway.zookeeper.tests.whole_broker import WholeBroker


class TwoBrokers:
    """The brokers, each with its own clock."""

    def __init__(self, directory: Path, *, is_linked: bool = True, **settings: str) -> None:
        self.keeper = ZooKeeperModel()
        listening = dict[int, BrokerParts]()
        self.brokers = [
            WholeBroker(
                directory / str(number),
                self.keeper,
                listening if is_linked else {},
                node_id=str(number),
                **settings,
            )
            for number in range(2)
        ]
        self.settle()

    @property
    def stores(self) -> list[ZooKeeperMetadataStore]:
        found = []
        for broker in self.brokers:
            assert isinstance(broker.services.metadata, ZooKeeperMetadataStore)
            found.append(broker.services.metadata)
        return found

    def settle(self) -> None:
        """Let everything happen at all brokers."""
        for _ in range(2):
            for broker in self.brokers:
                broker.settle(1_000)

    def change(self, begin: Callable[[], Change]) -> Change:
        change = begin()
        self.settle()
        assert change.is_settled
        return change

    def take_lead(self, topic: str) -> None:
        """Order broker 1 to lead the first partition of a topic no more; nothing is stored."""
        image, broker = self.stores[0].image, self.brokers[1]
        found = image.topics[topic]
        moved = found.partitions[0]._replace(leader=0, leader_epoch=1, partition_epoch=9)
        image = image.apply_all(partition_records(found.topic_id, 0, [moved]))
        view = ClusterView(image, {0: LiveBroker(1), 1: LiveBroker(-1)})
        order = leader_and_isr(Sender(0, 9, "PLAINTEXT"), 1, None, view, 7)
        assert order is not None
        broker.handle(order, 7)
        broker.time.advance()

    def cut(self) -> None:
        """Cut the links between the brokers."""
        self.brokers[0].listening.clear()

    def kill_first(self) -> None:
        """Kill the first broker; ZooKeeper ends its session."""
        session = self.keeper.sessions.pop(0)
        broker = self.brokers.pop(0)
        broker.listening.pop(broker.port, None)
        broker.log_manager.abandon()
        self.keeper.expire(session.session_id)
        self.settle()

    def stop(self) -> None:
        while self.brokers:
            self.kill_first()

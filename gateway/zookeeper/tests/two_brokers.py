"""Two brokers beside each other over one model of ZooKeeper. Broker 0 is the first controller."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from headgate.gateway.metadata.store import Change
from headgate.gateway.runtime.tasks import Task
from headgate.gateway.zookeeper.metadata.differences import topic_records
from headgate.gateway.zookeeper.store.metadata_store import ZooKeeperMetadataStore
from headgate.gateway.zookeeper.tests.model import ZooKeeperModel
from headgate.gateway.zookeeper.tests.whole_broker import WholeBroker
from headgate.protocol.internal.metadata import ConfigRecord


class TwoBrokers:
    """The brokers, each with its own clock."""

    def __init__(self, directory: Path, **settings: str) -> None:
        self.keeper = ZooKeeperModel()
        self.brokers = [
            WholeBroker(directory / str(number), self.keeper, node_id=str(number), **settings) for number in range(2)
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

    def pass_topics_on(self) -> None:
        """Broker 1 gets the brokers and the topics of broker 0, as the controller sends them."""
        self.stores[1].apply_brokers(self.stores[0].image.brokers)
        self.brokers[1].services.tasks.start(self._pass_topics_on(*self.stores))
        self.settle()

    def _pass_topics_on(self, controller: ZooKeeperMetadataStore, other: ZooKeeperMetadataStore) -> Task[None]:
        yield from other.read_topic_configs(sorted(controller.image.topics.keys() - other.image.topics))
        for name in other.image.topics.keys() - controller.image.topics:
            yield from other.apply_order(topic_records(other.image.topics[name], None))
        for topic in controller.image.topics.values():
            records = topic_records(other.image.topics.get(topic.name), topic._replace(configs={}))
            yield from other.apply_order([record for record in records if not isinstance(record, ConfigRecord)])

    def kill_first(self) -> None:
        """Kill the first broker; ZooKeeper ends its session."""
        session = self.keeper.sessions.pop(0)
        self.brokers.pop(0).log_manager.abandon()
        self.keeper.expire(session.session_id)
        self.settle()

    def stop(self) -> None:
        while self.brokers:
            self.kill_first()

"""What a broker does only while it is the controller: topics, leader epochs, and the orders of tools."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headgate.gateway.zookeeper.controller.leader_epochs import LeaderEpochs
from headgate.gateway.zookeeper.controller.tool_orders import ORDERS, ToolOrders
from headgate.gateway.zookeeper.controller.topic_watcher import TopicWatcher
from headgate.gateway.zookeeper.metadata.config_watcher import ConfigWatcher
from headgate.gateway.zookeeper.metadata.reading import StoreParts
from headgate.protocol.errors import KafkaError

if TYPE_CHECKING:
    from headgate.gateway.metadata.store import Change


class ControllerTerm:
    """The time from an election to the next controller."""

    def __init__(self, parts: StoreParts, configs: ConfigWatcher, *, others_wrote: bool = False) -> None:
        """`others_wrote`: another controller may have written the topics that the image has."""
        self.leader_epochs = LeaderEpochs(parts)
        self.topics = TopicWatcher(parts, configs, self.leader_epochs, others_wrote=others_wrote)
        self.orders = ToolOrders(parts, self.leader_epochs)
        self._watches = parts.watches
        self._store = parts.store

    def begin(self) -> None:
        """Schedule the work that the first read of the cluster left open."""
        self.topics.begin(self._store.written_image)
        for path in ORDERS:
            self._watches.note(path)

    def brokers_changed(self) -> None:
        """Find the partitions that have lost their leader."""
        for topic in self._store.written_image.topics.values():
            self.leader_epochs.find_leaderless(topic)

    def go_on(self) -> None:
        """Raise some leader epochs. Once all partitions are led, the orders that waited for that are due."""
        if self.leader_epochs.raise_some():
            self.orders.all_are_led()

    def change_ended(self, change: Change, error: KafkaError | None, *, is_final: bool) -> bool:
        """Handle the end of a change. Returns whether it was a change of this term's own."""
        is_raising = self.leader_epochs.change_ended(change, error, is_final=is_final)
        return self.orders.change_ended(change, is_final=is_final) or is_raising

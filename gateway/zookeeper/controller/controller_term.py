"""The work of a broker while it is the controller: topics, elections of leaders, and the orders of tools."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headgate.gateway.runtime.tasks import Task
from headgate.gateway.zookeeper.controller.isr_change_watcher import IsrChangeWatcher
from headgate.gateway.zookeeper.controller.leader_elections import LeaderElections
from headgate.gateway.zookeeper.controller.live_brokers import LiveBrokers
from headgate.gateway.zookeeper.controller.log_dir_event_watcher import LogDirEventWatcher
from headgate.gateway.zookeeper.controller.order_sender import OrderSender
from headgate.gateway.zookeeper.controller.tool_orders import ORDERS, ToolOrders
from headgate.gateway.zookeeper.controller.topic_watcher import TopicWatcher
from headgate.gateway.zookeeper.layout.isr_changes import ISR_CHANGES_PATH
from headgate.gateway.zookeeper.layout.log_dir_events import LOG_DIR_EVENTS_PATH
from headgate.gateway.zookeeper.metadata.config_watcher import ConfigWatcher
from headgate.gateway.zookeeper.metadata.reading import StoreParts
from headgate.protocol.errors import KafkaError

if TYPE_CHECKING:
    from headgate.gateway.metadata.store import Change


TERM_PATHS: Final = (ISR_CHANGES_PATH, LOG_DIR_EVENTS_PATH, *ORDERS)
"""Where others ask the controller for something."""


class ControllerTerm:
    """The time from an election to the next controller."""

    def __init__(
        self, parts: StoreParts, configs: ConfigWatcher, brokers: LiveBrokers, *, others_wrote: bool = False
    ) -> None:
        """`others_wrote`: another controller may have written the topics that the image has."""
        self.elections = LeaderElections(parts)
        self.topics = TopicWatcher(parts, configs, brokers, self.elections, others_wrote=others_wrote)
        self.orders = ToolOrders(parts, self.elections)
        self.isr_changes = IsrChangeWatcher(parts, brokers, self.elections)
        self._sender = OrderSender(parts, self.elections)
        self.log_dir_events = LogDirEventWatcher(parts, self._sender.send_all)
        self.elections.view_changed = self._sender.view_changed
        self._brokers = brokers
        self._watches = parts.watches
        self._store = parts.store
        self._touch = parts.tasks.touch

    def begin(self) -> None:
        """Schedule the work that the first read of the cluster left open."""
        self.topics.begin(self._store.written_image)
        self.everything_was_read()
        for path in TERM_PATHS:
            self._watches.note(path)

    def carry_out(self, path: str) -> Task[None]:
        """Read one of TERM_PATHS, and carry out what is there."""
        if path == ISR_CHANGES_PATH:
            yield from self.isr_changes.refresh()
        elif path == LOG_DIR_EVENTS_PATH:
            yield from self.log_dir_events.refresh()
        else:
            yield from self.orders.carry_out(path)

    def everything_was_read(self) -> None:
        """The image has what ZooKeeper has: elections begin, unless they have begun."""
        if self.elections.machine is None:
            self.elections.begin(self._brokers.registered)

    def end(self) -> None:
        """Another broker is the controller, or this one stops."""
        self._sender.end()
        self.elections.end()

    def epoch_changed(self) -> None:
        """This broker was elected again. Brokers obey the newest controller epoch alone."""
        self._sender.end()
        self._sender.view_changed()

    @property
    def has_sent_orders(self) -> bool:
        """Whether every other broker has obeyed all orders."""
        return not self._sender.behind

    def brokers_changed(self) -> None:
        """Find the partitions that have lost or found a replica."""
        self.elections.set_brokers(self._brokers.registered)

    def go_on(self) -> bool:
        """Write some decisions. Once all partitions are led, the orders that waited for that are due.

        Returns whether there is more to decide.
        """
        has_more = self.elections.write_some()
        if self.elections.is_settled:
            self.orders.all_are_led()
            self._touch(self._store.waiters)
        return has_more

    def change_ended(self, change: Change, error: KafkaError | None, *, is_final: bool) -> bool:
        """Handle the end of a change. Returns whether it was a change of this term's own."""
        is_election = self.elections.change_ended(change, error, is_final=is_final)
        return self.orders.change_ended(change, is_final=is_final) or is_election

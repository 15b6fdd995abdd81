"""The orders of this controller to the other brokers: one task, and one link, for each registration of a broker.

A task sends the order that its queue (`gateway/controller/order_queue.py`) makes of the newest view, and waits for the
answer. It ends with the registration, or with the term. The first order of a task is full.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Final, NamedTuple, Protocol

from headgate.gateway.controller.cluster_view import ClusterView, LiveBroker
from headgate.gateway.controller.order_queue import Order, OrderQueue, OrderResult
from headgate.gateway.controller.orders import Sender
from headgate.gateway.runtime.broker_links import BrokerLink, LinkLost
from headgate.gateway.runtime.log_output import LimitedLog
from headgate.gateway.runtime.tasks import Changes, Running, Task, WaitList, sleep
from headgate.gateway.zookeeper.layout.brokers import BROKER_IDS_PATH
from headgate.gateway.zookeeper.layout.cluster import CONTROLLER_PATH
from headgate.gateway.zookeeper.metadata.reading import StoreParts
from headgate.protocol.errors import ErrorCode
from headgate.protocol.topic_partition import TopicPartition

logger = logging.getLogger("headgate.controller")

PAUSE_MS: Final = 500.0
"""The wait before an order that was refused is repeated."""
MADE_AT_ONCE: Final = 500
"""The most topics whose orders the loop makes itself: a full order takes about ten milliseconds for them."""
LINE_EVERY_MS: Final = 60_000.0
_STALE: Final = {ErrorCode.STALE_CONTROLLER_EPOCH: CONTROLLER_PATH, ErrorCode.STALE_BROKER_EPOCH: BROKER_IDS_PATH}
"""Refusals that mean that this broker knows too little of a node."""


class Elections(Protocol):
    """The elections, as the sender of orders sees them (`leader_elections.py`)."""

    @property
    def view(self) -> ClusterView | None:
        """The cluster as the controller knows it; None before everything was read."""

    def set_failed(self, broker_id: int, failed: Iterable[TopicPartition], works: Iterable[TopicPartition]) -> None:
        """Take over which replicas of a broker have failed."""


class _Recipient(NamedTuple):
    """The task of one registration."""

    epoch: int
    task: Running[None]


class OrderSender:
    """Sends orders from the begin of a term to its end."""

    def __init__(self, parts: StoreParts, elections: Elections) -> None:
        self._nodes = parts.nodes
        self._config = parts.config
        self._tasks = parts.tasks
        self._links = parts.links
        self._watches = parts.watches
        self._store = parts.store
        self._elections = elections
        self._recipients: dict[int, _Recipient] = {}
        self._queues: dict[int, OrderQueue] = {}
        self.behind = set[int]()
        """The brokers that have not obeyed all orders yet; the waiters of the store see the last one leave."""
        self._changed = WaitList()
        self._log = LimitedLog(logger, parts.clock, lines=1, interval_ms=LINE_EVERY_MS)

    def view_changed(self) -> None:
        """Send what is new to the brokers that live, and to no others."""
        view = self._elections.view
        brokers: Mapping[int, LiveBroker] = {} if view is None else view.brokers
        for broker_id, recipient in list(self._recipients.items()):
            if broker_id not in brokers or brokers[broker_id].epoch != recipient.epoch:
                del self._recipients[broker_id]
                recipient.task.cancel()
                self._note_followed(broker_id)
        for broker_id, broker in brokers.items():
            is_read = bool(broker.endpoints)  # of the first read only the epochs are kept
            if is_read and broker_id != self._config.node_id and broker_id not in self._recipients:
                task = self._tasks.start_later(self._serve(broker_id, broker))
                self._recipients[broker_id] = _Recipient(broker.epoch, task)
        self.behind.update(self._recipients)
        self._tasks.touch(self._changed)

    def send_all(self, broker_id: int) -> None:
        """Send a broker all its partitions once more: the answer names those that are offline."""
        if broker_id in self._queues:
            self._queues[broker_id].send_all()
            self._tasks.touch(self._changed)

    def end(self) -> None:
        """Send no further order of this controller epoch."""
        while self._recipients:
            self._recipients.popitem()[1].task.cancel()

    def _serve(self, broker_id: int, broker: LiveBroker) -> Task[None]:
        listener = self._config.inter_broker_listener
        endpoint = broker.endpoints.get(listener)
        if endpoint is None:
            logger.error("broker %d gets no orders: it has no listener %s, by which brokers reach each other here; "
                         "give all brokers the same inter.broker.listener.name", broker_id, listener)  # fmt: skip
            return
        client_id, timeout_ms = f"controller-{self._config.node_id}", self._config.controller_socket_timeout_ms
        link = self._links.open(broker_id, endpoint.host, endpoint.port, client_id, timeout_ms=timeout_ms)
        sender = Sender(self._config.node_id, self._nodes.controller_epoch, listener)
        try:
            while True:
                try:
                    yield from self._send_all(broker_id, sender, link)
                except LinkLost as lost:
                    self._log_problem(broker_id, lost)
                except Exception:
                    logger.exception("the orders to broker %d failed; they begin again", broker_id)
                yield sleep(self._tasks.scheduler, PAUSE_MS)
        finally:
            link.close()

    def _send_all(self, broker_id: int, sender: Sender, link: BrokerLink) -> Task[None]:
        """Send orders, the first one full. Raises LinkLost before the first one."""
        versions = yield link.versions()
        queue = OrderQueue(sender, broker_id, {key: served.last for key, served in versions.items()})
        self._queues[broker_id] = queue
        changes = Changes((self._changed,))
        while True:
            view = self._elections.view
            order = None if view is None else (yield from self._next(queue, view))
            if order is None:
                if view is self._elections.view:
                    self._note_followed(broker_id)
                    yield changes
                continue
            try:
                response = yield link.ask(order.request, order.version)
            except LinkLost as lost:
                queue.lost()
                self._log_problem(broker_id, lost)
                continue
            yield from self._obeyed(broker_id, queue.answered(response))

    def _note_followed(self, broker_id: int) -> None:
        self.behind.discard(broker_id)
        if not self.behind:
            self._tasks.touch(self._store.waiters)

    def _next(self, queue: OrderQueue, view: ClusterView) -> Task[Order | None]:
        """The next order. A thread makes those of many topics: a view never changes."""
        if len(view.image.topics) <= MADE_AT_ONCE:
            return queue.next(view)
        order: Order | None = yield partial(self._tasks.scheduler.in_thread, partial(queue.next, view))
        return order

    def _obeyed(self, broker_id: int, result: OrderResult) -> Task[None]:
        view = self._elections.view
        if result.error is not ErrorCode.NONE:
            self._log_problem(broker_id, f"{result.error.name} in broker {broker_id}'s answer")
            if result.error in _STALE:
                self._watches.note(_STALE[result.error])
            yield sleep(self._tasks.scheduler, PAUSE_MS)
        elif result.failed or (view is not None and view.failed):
            self._elections.set_failed(broker_id, result.failed, result.followed)

    def _log_problem(self, broker_id: int, reason: object) -> None:
        self._log.warning(f"broker {broker_id}", "an order to broker %d is repeated until it is answered: %s",
                          broker_id, reason)  # fmt: skip

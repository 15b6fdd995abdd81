"""Histories of orders: controllers follow each other, and their orders are lost, doubled, late, or without an answer.

Topics come and go, brokers lead and follow, the broker restarts. At the end the newest controller has an answer to each
order: then the broker has the image of the controller, and a log for each of its replicas. Planted mistakes must be
found.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any, Final

import pytest

from headgate.gateway.controller import received_orders
from headgate.gateway.controller.cluster_view import ClusterView, ListenerEndpoint, LiveBroker
from headgate.gateway.controller.order_queue import Order, OrderQueue
from headgate.gateway.controller.orders import Sender
from headgate.gateway.metadata.image import Image, PartitionState
from headgate.gateway.metadata.records import partition_records
from headgate.gateway.runtime.tasks import as_task
from headgate.gateway.zookeeper.layout.topics import ReplicaAssignment, TopicAssignment
from headgate.gateway.zookeeper.store import controller_orders
from headgate.gateway.zookeeper.store.controller_orders import ControllerOrders
from headgate.gateway.zookeeper.store.tests.obeying_broker import OWN, ObeyingBroker
from headgate.protocol.internal.metadata import MetadataRecord, RemoveTopicRecord, TopicRecord
from headgate.protocol.schema import Message
from headgate.protocol.tests.examples import share

NAMES: Final = ("a", "b")
STEPS: Final = 60
MISTAKEN: Final = 400
"""The histories in which a planted mistake must be found."""
NEWEST: Final = {4: 7, 5: 4, 6: 8}


class FakeController:
    """A controller with the orders for one broker. An old one keeps its view, and goes on."""

    def __init__(self, epoch: int, view: ClusterView) -> None:
        self.epoch = epoch
        self.view = view
        self.register()

    def register(self) -> None:
        """Begin anew: the broker has another registration."""
        self.queue = OrderQueue(Sender(1, self.epoch, "PLAINTEXT"), OWN, NEWEST)


class History:
    """The cluster, its controllers, one broker, and the orders on their ways."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.broker = ObeyingBroker(self._read_topic)
        self.ids = 0
        self.controllers = [FakeController(1, ClusterView(Image.empty(), self._brokers()))]
        self.late: list[Order] = []

    def run(self) -> None:
        """Do anything in any order, and then let the newest controller bring its orders to an end."""
        actions = (self.create, self.delete, self.change, self.elect, self.restart, self.see, self.send, self.arrive)
        for action in self.random.choices(actions, (4, 2, 8, 1, 1, 2, 24, 6), k=STEPS):
            action()
        self.end()

    @property
    def newest(self) -> FakeController:
        return self.controllers[-1]

    def _brokers(self) -> dict[int, LiveBroker]:
        epochs = {1: 1, 2: 1, OWN: self.broker.epoch}
        endpoints = {"PLAINTEXT": ListenerEndpoint("host", 9092)}
        return {broker: LiveBroker(epoch, endpoints) for broker, epoch in epochs.items()}

    def _read_topic(self, name: str) -> bytes | None:
        topic = self.newest.view.image.topics.get(name)
        if topic is None:
            return None
        replicas = {index: ReplicaAssignment(state.replicas) for index, state in enumerate(topic.partitions)}
        return TopicAssignment(topic.topic_id, replicas).encode()

    # The cluster

    def _write(self, records: Sequence[MetadataRecord]) -> None:
        view = self.newest.view
        self.newest.view = view._replace(image=view.image.apply_all(records))

    def create(self) -> None:
        name = self.random.choice(NAMES)
        if name not in self.newest.view.image.topics:
            self.ids += 1
            topic_id = self.ids.to_bytes(16, "big")
            states = [
                PartitionState(-1, -1, replicas, (), -1) for replicas in self.random.choices([(1, OWN), (1, 2)], k=2)
            ]
            self._write([TopicRecord(name=name, topic_id=topic_id), *partition_records(topic_id, 0, states)])

    def delete(self) -> None:
        topic = self.newest.view.image.topics.get(self.random.choice(NAMES))
        if topic is not None:
            self._write([RemoveTopicRecord(topic_id=topic.topic_id)])

    def change(self) -> None:
        """Elect a leader, move a replica, or change the set of in-sync replicas alone."""
        topic = self.newest.view.image.topics.get(self.random.choice(NAMES))
        if topic is not None:
            index, is_moved, is_elected = (
                self.random.randrange(2),
                self.random.random() < 0.3,
                self.random.random() < 0.6,
            )
            state = topic.partitions[index]
            replicas = ((1, 2) if OWN in state.replicas else (1, OWN)) if is_moved else state.replicas
            epoch = state.leader_epoch + (is_moved or is_elected or state.leader_epoch < 0)
            leader = self.random.choice((*replicas, -1)) if epoch > state.leader_epoch else state.leader
            changed = PartitionState(leader, epoch, replicas, replicas[epoch % 2 :], state.partition_epoch + 1)
            self._write(partition_records(topic.topic_id, index, (changed,)))

    def elect(self) -> None:
        """Another controller reads the cluster; the old one may not know of it yet."""
        self.controllers.append(FakeController(self.newest.epoch + 1, self.newest.view))
        self.see()

    def restart(self) -> None:
        self.broker.epoch += 1
        self.broker.restart()

    def see(self) -> None:
        """The controller sees the registrations."""
        if self.newest.view.brokers[OWN].epoch != self.broker.epoch:
            self.newest.view = self.newest.view._replace(brokers=self._brokers())
            self.newest.register()

    # Orders

    def send(self) -> None:
        """Send the next order: most arrive, some more than once or late; of others the answer is lost."""
        controller = self.random.choice((*self.controllers[-2:], self.newest))
        order = controller.queue.next(controller.view)
        if order is None:
            return
        fate = self.random.random()
        if fate < 0.4:
            self.late.append(order)
        if fate < 0.2:
            controller.queue.lost()
        else:
            self._deliver(controller, order, is_answered=fate < 0.9)

    def arrive(self) -> None:
        """An order arrives that was sent over a connection which has ended."""
        if self.late:
            order = self.late.pop(self.random.randrange(len(self.late)))
            self._obey(order)

    def _deliver(self, controller: FakeController, order: Order, *, is_answered: bool) -> None:
        response = self._obey(order)
        if is_answered:
            controller.queue.answered(response)
        else:
            controller.queue.lost()

    def _obey(self, order: Order) -> Message:
        before = self.broker.image
        response: Message = self.broker.ask(order.request, order.version)
        for topic in self.broker.image.topics.values():
            known = before.topics.get(topic.name)
            if known is not None and known.topic_id == topic.topic_id:
                for old, new in zip(known.partitions, topic.partitions, strict=False):
                    assert (new.leader_epoch, new.partition_epoch) >= (old.leader_epoch, old.partition_epoch)
        return response

    def end(self) -> None:
        for topic in self.newest.view.image.topics.values():  # the controller elects leaders of all partitions
            states = [state._replace(leader_epoch=max(0, state.leader_epoch)) for state in topic.partitions]
            self._write(partition_records(topic.topic_id, 0, states))
        self.see()
        for _ in range(20):
            order = self.newest.queue.next(self.newest.view)
            if order is None:
                break
            self._deliver(self.newest, order, is_answered=True)
        else:
            raise AssertionError("the newest controller is refused again and again")
        view = self.newest.view
        assert self.broker.image.topics == view.image.topics
        wanted = {key for key, state in view.partitions() if OWN in state.replicas}
        assert self.broker.logs <= wanted
        assert {key for key in wanted if self.broker.hosts(*key)} <= self.broker.logs


def run(histories: int) -> None:
    for seed in range(histories):
        History(seed).run()


@pytest.mark.slow
def test_any_history_ends_with_the_controllers_image() -> None:
    run(share(300))


@pytest.mark.slow
@pytest.mark.parametrize(
    "place, name, mistake",
    [
        (received_orders, "_steps_back", lambda before, after: False),
        (controller_orders, "missing_topics", lambda image, topics: {}),
        (controller_orders, "plan_topic", lambda image, topic, deleted: received_orders.plan_topic(image, topic, ())),
        (controller_orders, "_may_be", lambda nodes, name, topic_id: False),
        (ControllerOrders, "_check_epoch", lambda self, request: None),
        (ControllerOrders, "_remove_strays", lambda self: as_task(None)),
    ],
)
def test_planted_mistakes_are_found(
    place: object, name: str, mistake: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(place, name, mistake)
    with pytest.raises(AssertionError):
        run(MISTAKEN)

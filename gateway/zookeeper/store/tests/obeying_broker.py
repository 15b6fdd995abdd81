"""A broker that obeys orders: `ControllerOrders` and the handlers, over a store and replicas that are simple values."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, Final, cast

from headgate.gateway.config import BrokerConfig
from headgate.gateway.metadata.image import FailedReplicas, Image, Node
from headgate.gateway.runtime.tasks import NEVER, Changes, Task, Tasks, WaitList, as_task
from headgate.gateway.runtime.tests.fake_scheduler import ManualTime
from headgate.gateway.tests.builders import handler_of, over_the_wire
from headgate.gateway.zookeeper.session import KeeperError, NodeData, Stat
from headgate.gateway.zookeeper.store.controller_orders import ControllerOrders
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.internal.metadata import MetadataRecord, RemoveTopicRecord
from headgate.protocol.schema import Message

OWN: Final = 3
STAT: Final = Stat(0, 0, 0, 0, 0, 0, 0, 0)


class ObeyingBroker:
    """The broker that obeys: its store, its replicas, and its view of ZooKeeper."""

    def __init__(self, read_topic: Callable[[str], bytes | None] = lambda _: None) -> None:
        """`read_topic`: the data of a topic's node in ZooKeeper; None without the node."""
        self.image = self.written_image = Image.empty()
        self.logs = set[tuple[str, int]]()
        self.failed: Collection[tuple[str, int]] = ()
        self.knows_topics = False
        self.failed_replicas: FailedReplicas = {}
        self.epoch = 1
        self.is_controller, self.controller_epoch, self.waiters = False, -1, WaitList()
        self._read_topic = read_topic
        self.checks = 0
        self.unread: list[str] = []  # topics whose configs are to be read later
        self.configured: list[str] = []  # topics whose configs were read before their records were applied
        self.is_hung = self.is_silent = False  # a change does not settle; ZooKeeper does not answer
        self.stopped: list[tuple[tuple[str, int], int]] = []
        self.time = ManualTime()
        self.tasks = Tasks(self.time.clock, self.time.make_scheduler(self.time.clock, 1, lambda: None))
        self.restart()

    def restart(self) -> None:
        """Start again: the logs stay, the image is empty until the first orders."""
        self.image = self.written_image = Image.empty()
        me = cast("Any", self)
        config = BrokerConfig.load(f"node.id={OWN}")
        self.orders = ControllerOrders(me, me, me, self.tasks, config, lambda: self.epoch)

    def hosts(self, name: str, index: int) -> bool:
        topic = self.image.topics.get(name)
        return topic is not None and index < len(topic.partitions) and OWN in topic.partitions[index].replicas

    # The store

    def apply_brokers(self, brokers: Mapping[int, Node]) -> None:
        self.image = self.written_image = self.image._replace(brokers=brokers)

    def set_failed_replicas(self, failed: FailedReplicas) -> None:
        self.failed_replicas = failed

    def check_controller(self) -> None:
        self.checks += 1

    def end_term(self) -> None:
        self.is_controller = False
        self.tasks.touch(self.waiters)

    def note_topics_known(self) -> None:
        self.knows_topics = True

    def apply_order(self, records: Sequence[MetadataRecord]) -> Task[None]:
        for record in records:
            if isinstance(record, RemoveTopicRecord):
                name = self.image.topic_names[record.topic_id]
                self.logs -= {key for key in self.logs if key[0] == name}
        self.image = self.written_image = self.image.apply_all(records)
        for name, topic in self.image.topics.items():
            self.logs |= {(name, index) for index in range(len(topic.partitions)) if self.hosts(name, index)}
        while self.is_hung:
            yield Changes([self.waiters], NEVER)

    def settle(self) -> None:
        """Let the changes settle."""
        self.is_hung = False
        self.tasks.touch(self.waiters)
        self.time.advance()

    def read_topic_configs(self, names: Sequence[str]) -> Task[None]:
        while self.is_silent:
            yield Changes((), NEVER)
        self.configured += [name for name in names if name not in self.image.topics]

    def schedule_topic_configs(self, names: Sequence[str]) -> None:
        self.unread += names

    # The replicas

    def stop(self, key: tuple[str, int], leader_epoch: int) -> None:
        self.stopped.append((key, leader_epoch))

    def delete(self, key: tuple[str, int]) -> Task[None]:
        if self.hosts(*key):
            raise KafkaError(ErrorCode.FENCED_LEADER_EPOCH, "the image has a replica here")
        self.logs.discard(key)
        return as_task(None)

    # The session

    def get_many(self, paths: Sequence[str], resume: Callable[[Any], None]) -> None:
        if self.is_silent:
            return
        found = (self._read_topic(path.rpartition("/")[2]) for path in paths)
        resume([KeeperError.NO_NODE if data is None else NodeData(data, STAT) for data in found])

    # Requests

    def begin(self, request: Message, version: int) -> list[Message]:
        """Begin to answer a request. The response is in the list once it is sent."""
        received = over_the_wire(request, version)
        context = cast("Any", SimpleNamespace(broker=SimpleNamespace(controller_orders=self.orders), version=version))
        responses: list[Message] = []

        def done(result: Message | Exception) -> None:
            if isinstance(result, KafkaError):
                result = received.error_response(version, result.code, result.message)
            if isinstance(result, Exception):
                raise result
            responses.append(over_the_wire(result, version))

        self.tasks.start(cast("Any", handler_of(received, version)(received, context)), done)
        self.time.advance()
        return responses

    def ask(self, request: Message, version: int) -> Any:
        """The response, which needs no time."""
        (response,) = self.begin(request, version)
        return response

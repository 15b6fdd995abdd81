"""The orders of the cluster's controller to this broker: LeaderAndIsr, UpdateMetadata and StopReplica.

Refused are orders of an older controller than the newest one known, orders to an earlier registration of this broker,
and all orders while this broker is the controller. The others are obeyed one after the other: each is planned upon the
image that the one before has left (`gateway/controller/received_orders.py`), and ends when its effect is there.

The first orders of a controller, and the first ones after a registration, are full: a topic that the full
UpdateMetadata does not name is gone, and so is the log of a partition without a replica here. ZooKeeper is
asked before: the order may be a late copy, and the controller may be unable to read the node of a topic.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from headgate.gateway.controller.orders import has_left
from headgate.gateway.controller.received_orders import (
    NO_ID,
    OrderedTopic,
    existing_partitions,
    failed_replicas,
    in_pieces,
    is_fenced,
    live_brokers,
    missing_topics,
    new_internal_topics,
    ordered_stops,
    ordered_topics,
    plan_topic,
    with_all_partitions,
    with_ids,
    with_leaders,
    without_id,
)
from headgate.gateway.metadata.image import COORDINATOR_TOPICS, Image, Node, Topic
from headgate.gateway.runtime.tasks import PAUSE, Changes, Lock, Task, gather, within
from headgate.gateway.zookeeper.controller.live_brokers import own_node
from headgate.gateway.zookeeper.layout.node import InvalidNode
from headgate.gateway.zookeeper.layout.topics import TopicAssignment
from headgate.gateway.zookeeper.layout.tree import ZNode
from headgate.gateway.zookeeper.metadata.reading import read_many
from headgate.gateway.zookeeper.requests import Failed
from headgate.gateway.zookeeper.session import Session
from headgate.gateway.zookeeper.store.metadata_store import ZooKeeperMetadataStore
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.internal.metadata import MetadataRecord, RemoveTopicRecord, TopicRecord
from headgate.protocol.messages.leader_and_isr import FULL, INCREMENTAL, LeaderAndIsrRequest
from headgate.protocol.messages.stop_replica import StopReplicaRequest
from headgate.protocol.messages.update_metadata import UpdateMetadataRequest
from headgate.protocol.topic_partition import TopicPartition

if TYPE_CHECKING:
    from headgate.gateway.config import BrokerConfig
    from headgate.gateway.runtime.tasks import Tasks

logger = logging.getLogger("headgate.zookeeper")

READ_WITHIN_MS: Final = 5_000.0
"""The longest wait of an order for ZooKeeper: without configs, a topic begins with the defaults of the broker."""
TERM_ENDS_WITHIN_MS: Final = 10_000.0
"""The longest wait for the end of this broker's own term, after another controller has sent an order."""
DELETED_AT_ONCE: Final = 64
RECORDS_AT_ONCE: Final = 256
"""About the number of records in one change: the loop needs some milliseconds for them."""
UNKNOWN_EPOCH: Final = -1
_NO_ANSWER: Final = (Failed, TimeoutError)

T = TypeVar("T")
AnyOrder = LeaderAndIsrRequest | UpdateMetadataRequest | StopReplicaRequest
Order = TypeVar("Order", LeaderAndIsrRequest, UpdateMetadataRequest, StopReplicaRequest)
Errors = dict[TopicPartition, ErrorCode]
"""The partitions of an order that have an error."""


class Replicas(Protocol):
    """The replicas of this broker, see `gateway.replication.replica_manager`.

    `existing`: (topic, index) of the ordered partitions that may have a log here already.
    """

    existing: Collection[tuple[str, int]]

    @property
    def failed(self) -> Collection[tuple[str, int]]:
        """(topic, index) of the replicas that other brokers have to replace."""

    @property
    def logs(self) -> Collection[tuple[str, int]]:
        """(topic, index) of all logs in the log directories, open or not."""

    def stop(self, key: tuple[str, int], leader_epoch: int) -> None:
        """Stop the fetches of a followed partition until the leader epoch is higher."""

    def delete(self, key: tuple[str, int]) -> Task[None]:
        """Delete the log of a partition that has no replica here, if there is one. Raises KafkaError."""


class ControllerOrders:
    """Obeys orders. Each task raises KafkaError for an order that is refused as a whole."""

    def __init__(
        self,
        store: ZooKeeperMetadataStore,
        session: Session,
        replicas: Replicas,
        tasks: Tasks,
        config: BrokerConfig,
        own_epoch: Callable[[], int],
    ) -> None:
        """`own_epoch`: the epoch of this broker's registration, UNKNOWN_EPOCH before the first one."""
        self._store = store
        self._session = session
        self._replicas = replicas
        self._tasks = tasks
        self._config = config
        self._own_epoch = own_epoch
        self._epoch = UNKNOWN_EPOCH  # the highest controller epoch of an obeyed order
        self._deleted = set[bytes]()  # ids of the topics that the controller with that epoch has deleted
        self._lock = Lock(tasks.scheduler)

    def leader_and_isr(self, request: LeaderAndIsrRequest) -> Task[Errors]:
        """Lead and follow the partitions of the order, once their logs are there."""
        return self._obey(request, self._leader_and_isr)

    def update_metadata(self, request: UpdateMetadataRequest) -> Task[None]:
        """Know the partitions and the live brokers of the order."""
        return self._obey(request, self._update_metadata)

    def stop_replica(self, request: StopReplicaRequest) -> Task[Errors]:
        """Stop the replicas of the order; the files of deleted ones are gone then."""
        return self._obey(request, self._stop_replica)

    def _obey(self, request: Order, carry_out: Callable[[Order], Task[T]]) -> Task[T]:
        turn = self._lock.turn()
        try:
            yield turn.acquire
            yield from self._admit(request)
            return (yield from carry_out(request))
        finally:
            turn.release()

    def follow(self, old: Image, new: Image, names: Iterable[str]) -> None:
        """As the controller, delete the logs of replicas that have left this broker: no other broker orders that."""
        if not self._store.is_controller:
            return
        left = [partition for name in names for partition in self._left(old.topics.get(name), new.topics.get(name))]
        if left:
            self._tasks.start_later(self._delete(left))

    def _left(self, before: Topic | None, after: Topic | None) -> Iterator[TopicPartition]:
        if before is None or after is None or before.topic_id != after.topic_id:
            return
        node_id = self._config.node_id
        for index, (old, new) in enumerate(zip(before.partitions, after.partitions, strict=False)):
            if old is not new and has_left(node_id, old, new):
                yield TopicPartition(after.name, index)

    # Admission

    def _admit(self, request: AnyOrder) -> Task[None]:
        """Check the epochs of an order. Another controller ends the term of this broker first. Raises KafkaError."""
        if request.is_kraft_controller:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "a KRaft controller cannot command a broker with ZooKeeper")
        own_epoch = self._own_epoch()
        if UNKNOWN_EPOCH < request.broker_epoch < own_epoch:
            message = f"the order is for the broker epoch {request.broker_epoch}, but {own_epoch} is the present one"
            raise KafkaError(ErrorCode.STALE_BROKER_EPOCH, message)
        self._check_epoch(request)
        if self._store.is_controller:
            yield from self._end_own_term(request)
        if request.controller_epoch > self._epoch:
            self._epoch = request.controller_epoch
            self._deleted.clear()

    def _check_epoch(self, request: AnyOrder) -> None:
        known = max(self._epoch, self._store.controller_epoch)
        if request.controller_epoch < known or (self._store.is_controller and request.controller_epoch == known):
            message = f"controller {request.controller_id} has the epoch {request.controller_epoch}, but the epoch of"
            raise KafkaError(ErrorCode.STALE_CONTROLLER_EPOCH, f"{message} the newest controller is {known}")

    def _end_own_term(self, request: AnyOrder) -> Task[None]:
        """Wait until this broker has seen in ZooKeeper that it is no longer the controller."""
        deadline_ms = self._tasks.monotonic_ms() + TERM_ENDS_WITHIN_MS
        changes = Changes([self._store.waiters], deadline_ms)
        self._store.check_controller()
        while self._store.is_controller and (yield changes) is not None:
            pass
        self._check_epoch(request)
        if self._store.is_controller:
            message = f"broker {self._config.node_id} is the controller until ZooKeeper says that another one is"
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, message)

    # Orders

    def _leader_and_isr(self, request: LeaderAndIsrRequest) -> Task[Errors]:
        topics = yield from ordered_topics(request)
        listener, node_id = self._config.inter_broker_listener, self._config.node_id
        self._publish(with_leaders(self._store.image.brokers, request, listener))
        self._replicas.existing = existing_partitions(request)
        try:
            errors = yield from self._apply(topics)
        finally:
            self._replicas.existing = ()
        failed = self._replicas.failed
        for topic in topics:
            for index, state in topic.states.items():
                if node_id not in state.replicas:
                    errors.setdefault(TopicPartition(topic.name, index), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
                elif (topic.name, index) in failed:
                    errors.setdefault(TopicPartition(topic.name, index), ErrorCode.KAFKA_STORAGE_ERROR)
            yield PAUSE
        return errors

    def _update_metadata(self, request: UpdateMetadataRequest) -> Task[None]:
        topics = yield from ordered_topics(request)
        self._publish(live_brokers(request))
        if request.type == FULL:
            yield from self._remove_missing(topics)
        yield from self._apply(topics)
        self._store.set_failed_replicas((yield from failed_replicas(request, self._store.failed_replicas)))
        if request.type != INCREMENTAL:  # the full one is yet to come, or was there; Kafka 3.9 names no type
            self._store.note_topics_known()
        if request.type == FULL:
            yield from self._remove_strays()

    def _publish(self, brokers: Mapping[int, Node]) -> None:
        self._store.apply_brokers({**brokers, **own_node(self._config)})

    def _apply(self, topics: list[OrderedTopic]) -> Task[Errors]:
        """Apply the states of partitions, in several changes if they are many."""
        image = self._store.written_image
        found = yield from self._read_nodes(sorted(without_id(image, topics) | new_internal_topics(image, topics)))
        nodes = {name: node for name, node in (found or {}).items() if node is not None}
        ids = {name: node.topic_id for name, node in nodes.items() if node.topic_id}
        counts = {name: len(node.partitions) for name, node in nodes.items() if name in COORDINATOR_TOPICS}
        errors, wanted, new = Errors(), list[list[MetadataRecord]](), list[str]()
        for topic in with_all_partitions(with_ids(image, topics, ids), counts):
            plan = yield from plan_topic(image, topic, self._deleted)
            errors |= {TopicPartition(topic.name, index): error for index, error in plan.errors.items()}
            wanted.append(plan.records)
            new += [record.name for record in plan.records if isinstance(record, TopicRecord)]
            self._deleted |= {record.topic_id for record in plan.records if isinstance(record, RemoveTopicRecord)}
            self._deleted |= {topic.topic_id} if topic.is_deleted and topic.topic_id != NO_ID else set()
            yield PAUSE
        yield from self._read_configs(new)
        yield from self._apply_records(wanted)
        return errors

    def _remove_missing(self, topics: Iterable[OrderedTopic]) -> Task[None]:
        """Remove the topics that a full order does not have. A topic stays if ZooKeeper may have its node."""
        missing = missing_topics(self._store.written_image, topics)
        nodes = yield from self._read_nodes(list(missing))
        if nodes is not None:
            gone = [topic_id for name, topic_id in missing.items() if not _may_be(nodes, name, topic_id)]
            yield from self._apply_records([RemoveTopicRecord(topic_id=topic_id)] for topic_id in gone)

    def _apply_records(self, wanted: Iterable[list[MetadataRecord]]) -> Task[None]:
        for records in in_pieces(wanted, RECORDS_AT_ONCE):
            yield from self._store.apply_order(records)
            yield PAUSE

    def _remove_strays(self) -> Task[None]:
        """Delete the logs of other partitions than those of this broker: they went while the broker was away.

        A log stays if ZooKeeper has its replica, or may have it: a partition without an elected leader is in no order.
        """
        image = self._store.written_image
        logs = map(TopicPartition._make, self._replicas.logs)
        strays = sorted(partition for partition in logs if not self._has_replica(image, partition))
        nodes = yield from self._read_nodes(sorted({stray.topic for stray in strays}))
        gone = [] if nodes is None else [stray for stray in strays if not self._may_have(nodes, stray)]
        for stray in gone:
            logger.warning("%s has no replica on this broker any more; removing the log", stray)
        yield from self._delete(gone)

    def _has_replica(self, image: Image, partition: TopicPartition) -> bool:
        states = image.topics[partition.topic].partitions if partition.topic in image.topics else ()
        return partition.number < len(states) and self._config.node_id in states[partition.number].replicas

    def _may_have(self, nodes: Mapping[str, TopicAssignment | None], stray: TopicPartition) -> bool:
        """Whether ZooKeeper may have a replica of the partition on this broker."""
        node = nodes.get(stray.topic)
        if node is None:
            return stray.topic in nodes
        assignment = node.partitions.get(stray.number)
        return assignment is not None and self._config.node_id in assignment.replicas

    def _stop_replica(self, request: StopReplicaRequest) -> Task[Errors]:
        errors, deleted = Errors(), list[TopicPartition]()
        for partition, stop in ordered_stops(request).items():
            if is_fenced(self._store.image, partition, stop):
                errors[partition] = ErrorCode.FENCED_LEADER_EPOCH
            elif stop.is_deleted:
                deleted.append(partition)
            else:
                self._replicas.stop(partition, stop.leader_epoch)
            yield PAUSE
        return errors | (yield from self._delete(deleted))

    def _delete(self, partitions: Sequence[TopicPartition]) -> Task[Errors]:
        errors = Errors()
        for first in range(0, len(partitions), DELETED_AT_ONCE):
            piece = partitions[first : first + DELETED_AT_ONCE]
            codes = yield from gather([self._delete_log(partition) for partition in piece])
            errors |= {partition: code for partition, code in zip(piece, codes, strict=True) if code}
            yield PAUSE
        return errors

    def _delete_log(self, partition: TopicPartition) -> Task[ErrorCode]:
        try:
            yield from self._replicas.delete(partition)
        except KafkaError as error:
            logger.warning("the log of %s stays: %s", partition, error.message)
            return error.code
        return ErrorCode.NONE

    # ZooKeeper

    def _read_nodes(self, names: Sequence[str]) -> Task[dict[str, TopicAssignment | None] | None]:
        """The existing nodes of these topics, None for an unreadable one; None without an answer in time."""
        paths = {TopicAssignment.path(name): name for name in names}
        try:
            tree = (yield from self._in_time(read_many(self._session, list(paths)))) if paths else {}
        except _NO_ANSWER:
            return None
        return {name: _decode(name, tree[path]) for path, name in paths.items() if path in tree}

    def _read_configs(self, names: Sequence[str]) -> Task[None]:
        """Read the configs of new topics: a partition must not be led with the defaults of the broker meanwhile."""
        try:
            if names:
                yield from self._in_time(self._store.read_topic_configs(names))
        except _NO_ANSWER:
            logger.warning("%d new topics have the broker's defaults until ZooKeeper answers", len(names))
            self._store.schedule_topic_configs(names)

    def _in_time(self, task: Task[T]) -> Task[T]:
        """The result of a read; an order does not wait longer. Raises one of _NO_ANSWER."""
        return within(self._tasks, task, self._tasks.monotonic_ms() + READ_WITHIN_MS, TimeoutError)


def _may_be(nodes: Mapping[str, TopicAssignment | None], name: str, topic_id: bytes) -> bool:
    """Whether the node of a name may be the node of this topic."""
    node = nodes.get(name)
    return name in nodes and (node is None or node.topic_id in {None, topic_id})


def _decode(name: str, node: ZNode) -> TopicAssignment | None:
    try:
        return TopicAssignment.decode(name, node.data)
    except InvalidNode:  # the controller logs such a node
        return None

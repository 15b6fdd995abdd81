"""The coordinator runtime: the coordinators of one internal topic, one for each partition that this broker leads.

A key (the id of a group or of a transaction) belongs to the partition that Java's hash of the key gives, as in Kafka:
so Headgate and Kafka read each other's data directories. The broker creates the topic when a client first asks for a
coordinator.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from typing import Any, Generic, TypeVar

from headgate.gateway.coordinator.coordinator import Coordinator, Perform
from headgate.gateway.coordinator.decision import Decision, Ticket
from headgate.gateway.coordinator.gathering import gather_replies
from headgate.gateway.coordinator.internal_topic import SHORT_KEY, InternalTopic, partition_of
from headgate.gateway.coordinator.shard import CoordinatorShard
from headgate.gateway.coordinator.shard_loader import CoordinatorServices
from headgate.gateway.metadata.image import Image
from headgate.gateway.metadata.new_topics import configured_factor
from headgate.gateway.metadata.store import Change, MetadataStore
from headgate.gateway.replication.replica import Replica
from headgate.gateway.replication.replica_manager import ReplicaManager
from headgate.gateway.runtime.tasks import Outcome
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.schema import Struct

S = TypeVar("S", bound=CoordinatorShard)
R = TypeVar("R", bound=Struct)
A = TypeVar("A")
MIN_ISR = "min.insync.replicas"


class CoordinatorRuntime(Generic[S]):
    """The coordinators of one internal topic on this broker.

    make_shard  returns an empty shard
    node_id     the id of this broker
    perform     carries out the effects of decisions
    """

    def __init__(
        self,
        topic: InternalTopic,
        make_shard: Callable[[], S],
        services: CoordinatorServices,
        metadata: MetadataStore,
        partitions: ReplicaManager,
        node_id: int,
        perform: Perform = lambda _, __: None,
    ) -> None:
        self._topic = topic
        self._make_shard = make_shard
        self._services = services
        self._metadata = metadata
        self._partitions = partitions
        self._node_id = node_id
        self._perform = perform
        self._coordinators: dict[int, Coordinator[S]] = {}
        self._count = 0
        self._refusal = ""  # the last reason why the topic was not created

    # Requests

    def submit(
        self,
        key: str,
        decide: Callable[[S, Ticket], Decision],
        failure_response: Callable[[ErrorCode], R] | None = None,
    ) -> Outcome[R]:
        """Have the key's shard decide; return the decided reply, or a task that waits for the reply.

        `failure_response` makes the response of a failed write. With it a small write may wait for the end of the turn;
        the handler is then registered with `stages=True`.

        An empty key is a key like any other: where Kafka refuses an empty id, the handler does.

        Raises KafkaError: the error for a too long key, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR,
        COORDINATOR_LOAD_IN_PROGRESS, and the decided error.
        """
        index = self.index_of(key)
        coordinator = self._coordinators.get(index) or self._open_late(index)
        return coordinator.submit(key, decide, failure_response)

    def submit_to(
        self,
        index: int,
        key: str,
        decide: Callable[[S, Ticket], Decision],
        failure_response: Callable[[ErrorCode], R] | None = None,
    ) -> Outcome[R]:
        """`submit` to the shard of a partition: WriteTxnMarkers names the log of the transaction, not a key.

        Raises KafkaError as `submit` does; UNKNOWN_TOPIC_OR_PARTITION if the partition does not exist.
        """
        if not 0 <= index < self._count:
            message = f"{self._topic.name} has {self._count} partitions, not {index}"
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message)
        coordinator = self._coordinators.get(index) or self._open_late(index)
        return coordinator.submit(key, decide, failure_response)

    def gather(
        self,
        keys: Sequence[str],
        decide: Callable[[S, str, Ticket], Decision],
        assemble: Callable[[list[Any]], Outcome[A]],
    ) -> Outcome[A]:
        """Have the shards of many keys decide: see `gather_replies`."""

        def ask(key: str) -> Outcome[Struct]:
            return self.submit(key, lambda shard, ticket: decide(shard, key, ticket))

        return gather_replies(keys, ask, assemble)

    def leader_of(self, key: str) -> int:
        """The id of the broker that coordinates a key.

        Raises KafkaError: the error for a too long key, COORDINATOR_NOT_AVAILABLE.
        """
        index = self.index_of(key)
        return self._metadata.image.topics[self._topic.name].partitions[index].leader

    def coordinates(self, key: str) -> bool:
        """Whether this broker coordinates a key. True as well before the topic exists: any broker may be the one."""
        if not self._count:
            return True
        states = self._metadata.image.topics[self._topic.name].partitions
        return states[partition_of(key, self._count)].leader == self._node_id

    @property
    def coordinates_all(self) -> bool:
        """Whether no other broker coordinates a key, now or once it is back: this one leads every partition."""
        topic = self._metadata.image.topics.get(self._topic.name)
        states = () if topic is None else topic.partitions
        return self._metadata.knows_topics and all(state.leader == self._node_id for state in states)

    @property
    def are_committed(self) -> bool:
        """Whether all in-sync replicas have everything that the shards here have replayed."""
        return all(one.committed_shard is one.shard for one in self._coordinators.values())

    @property
    def loading_count(self) -> int:
        """The partitions of this broker whose keys have to wait: their log is being opened, or replayed."""
        opening, name = self._partitions.opening, self._topic.name
        of_logs = sum((name, index) in opening for index in range(self._count))
        return of_logs + sum(one.shard is None for one in self._coordinators.values())

    def shards(self) -> Iterator[S]:
        """The shards of this broker. Raises KafkaError(COORDINATOR_LOAD_IN_PROGRESS) while a shard is being loaded."""
        for topic, index in self._partitions.opening:
            if topic == self._topic.name and self._count:
                raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, f"the log of {topic}-{index} is being opened")
        for coordinator in self._coordinators.values():
            if coordinator.shard is None:
                raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, f"{coordinator.replica!r} is being loaded")
            yield coordinator.shard

    def loaded_shards(self) -> list[S]:
        """The shards of this broker that are loaded."""
        return [coordinator.shard for coordinator in self._coordinators.values() if coordinator.shard is not None]

    def shard_of(self, index: int) -> S | None:
        """The shard of a partition; None while it is being loaded, or if another broker has it."""
        coordinator = self._coordinators.get(index)
        return None if coordinator is None else coordinator.shard

    def index_of(self, key: str) -> int:
        """The partition of a key.

        Raises KafkaError: the error of a key that is too long, COORDINATOR_NOT_AVAILABLE while the topic is created.
        """
        if len(key) > SHORT_KEY:
            self._topic.check_key(key)
        if not self._count:
            self._make_topic()
        return partition_of(key, self._count)

    def _open_late(self, index: int) -> Coordinator[S]:
        """The coordinator of a partition that was damaged or offline, and may be available by now."""
        name = self._topic.name
        if self._metadata.image.topics[name].partitions[index].leader != self._node_id:
            message = f"this broker does not lead the partition of the {self._topic.key_name}"
            raise KafkaError(ErrorCode.NOT_COORDINATOR, message)
        try:
            return self._open(index)
        except KafkaError as error:
            is_opening = (name, index) in self._partitions.opening
            code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if is_opening else ErrorCode.COORDINATOR_NOT_AVAILABLE
            raise KafkaError(code, error.message) from error

    # The topic

    def prepare(self) -> Change | None:
        """Create the topic if it does not exist; return the metadata change for which the caller waits."""
        if self._count:
            return None
        with suppress(KafkaError):
            self._make_topic()
        return self._metadata.submit(()) if not self._count else None

    def _make_topic(self) -> None:
        """Raises KafkaError(COORDINATOR_NOT_AVAILABLE) also while the topic is being created: clients retry."""
        if not self._metadata.knows_topics:
            message = "the controller has not sent the topics of the cluster yet; ask again"
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, message)
        if self._topic.name not in self._metadata.planned.topics:
            self._create_topic()
        if not self._count:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"{self._topic.name} is being created")

    def _create_topic(self) -> None:
        topic, configs = self._topic, dict(self._topic.configs)
        factor = configured_factor(self._metadata.image, topic.replication_factor)
        if MIN_ISR in configs:
            configs[MIN_ISR] = str(min(int(configs[MIN_ISR]), factor))
        try:
            self._metadata.create_on_demand(topic.name, topic.partitions, factor, configs)
        except (KafkaError, OSError) as error:
            if str(error) != self._refusal:
                self._refusal = str(error)
                topic.logger.error("%s cannot be created: %s", topic.name, error)
            message = f"{topic.name} cannot be created; see the log of the broker"
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, message) from error

    def follow(self, old: Image, new: Image, names: Collection[str]) -> None:
        """Follow a change of the metadata, after `partitions`."""
        if self._topic.name in names:
            self._follow(new)

    def _follow(self, image: Image) -> None:
        """Keep a coordinator for each partition that this broker leads, and for no other."""
        topic = image.topics.get(self._topic.name)
        states = () if topic is None else topic.partitions
        # A group's partition depends on the number. Partitions that the controller has not sent yet have no replicas
        self._count = len(states) if all(state.replicas for state in states) else 0
        for index in list(self._coordinators):
            if index >= len(states) or not self._is_same(index):
                self._coordinators.pop(index).close()
        for index, state in enumerate(states):
            if state.leader == self._node_id and index not in self._coordinators:
                with suppress(KafkaError):  # the partition is offline; the log manager has logged that
                    self._open(index)

    def came_online(self, topic: str, index: int) -> None:
        """Open the coordinator of a partition whose log is open at last."""
        if topic == self._topic.name and index not in self._coordinators:
            self._open(index)

    def log_was_truncated(self, replica: Replica) -> None:
        """Load the shard of a partition again, as its log was truncated, unless another broker may lead it next."""
        index, coordinator = replica.index, self._coordinators.get(replica.index)
        if coordinator is not None and coordinator.replica is replica:
            if self._is_same(index):
                coordinator.log_was_truncated()
            else:
                self._coordinators.pop(index).close()

    def _is_same(self, index: int) -> bool:
        try:
            return self._partitions.get(self._topic.name, index) is self._coordinators[index].replica
        except KafkaError:
            return False

    def _open(self, index: int) -> Coordinator[S]:
        replica = self._partitions.get(self._topic.name, index)
        coordinator = self._coordinators[index] = Coordinator(
            replica, self._services, self._topic, self._make_shard, self._loaded, self._perform
        )
        return coordinator

    def _loaded(self, coordinator: Coordinator[S]) -> None:
        """A hook for subclasses: a shard was loaded."""

    def start(self) -> None:
        """Load the shards. The scheduler must run: threads read bytes that are not in the page cache."""
        self._follow(self._metadata.image)

    def stop(self) -> None:
        for coordinator in self._coordinators.values():
            coordinator.close()

"""The metadata of one node that stands alone: the image is the replay of `__headgate_metadata-0`.

Every change is one batch in that log and on disk before anybody sees it; one that could not be written is not in the
log either. While a thread waits for the disk (see `journal.py`), the image is the one before, and further changes are
planned upon those that are under way: whoever made one waits for `pending`. A cluster will have the same operations and
the same image, made from ZooKeeper.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import partial
from random import Random
from typing import TYPE_CHECKING

from headgate.gateway.config import dynamic as dynamic_configs
from headgate.gateway.config import groups as group_configs
from headgate.gateway.config import topics as topic_configs
from headgate.gateway.metadata.image import Image, Node, PartitionState, Topic, changed_topics
from headgate.gateway.metadata.journal import LOG_CONFIG, Journal
from headgate.gateway.metadata.records import config_records, partition_records
from headgate.gateway.metadata.registration import raised
from headgate.gateway.metadata.snapshot import NO_SNAPSHOT, load
from headgate.gateway.metadata.topics import (
    METADATA_TOPIC,
    METADATA_TOPIC_ID,
    Assignments,
    assigned_partitions,
    check_new,
    collision_key,
    new_partitions,
    new_topic_id,
)
from headgate.gateway.runtime.clock import Clock
from headgate.gateway.runtime.waiting import WaitList
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.internal.metadata import (
    BROKER_RESOURCE,
    GROUP_RESOURCE,
    TOPIC_RESOURCE,
    ConfigRecord,
    FeatureLevelRecord,
    MetadataRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from headgate.storage.directory.stores import Stores
from headgate.storage.disk.checkpoint import TopicPartition
from headgate.storage.errors import StorageError

if TYPE_CHECKING:
    from headgate.gateway.config import BrokerConfig
    from headgate.gateway.runtime.scheduler import Scheduler
    from headgate.storage.config import LogConfig
    from headgate.storage.directory.store import Store
    from headgate.storage.log.log import Log

logger = logging.getLogger("headgate.metadata")

PRODUCER_IDS_A_BLOCK = 1000
_KINDS = {TOPIC_RESOURCE: "topic", BROKER_RESOURCE: "broker", GROUP_RESOURCE: "group"}

Changed = Callable[[Image, Image, Collection[str]], None]
Prepare = Callable[[Image, Image, Collection[str], Callable[[], None]], None]


class Change:
    """Records that are being written, and the image that they make. `error` says why they could not be.

    Once written it is prepared, then settled: changes are so in their order, whatever each of them takes.
    """

    __slots__ = ("error", "image", "is_begun", "is_prepared", "is_settled", "is_written", "records")

    def __init__(self, records: list[MetadataRecord], image: Image) -> None:
        self.records = records
        self.image = image
        self.error: KafkaError | None = None
        self.is_written = self.is_begun = self.is_prepared = self.is_settled = False


class LocalMetadata:
    """The image of the moment, and the operations that change it."""

    def __init__(
        self,
        store: Store | Stores,
        config: BrokerConfig,
        clock: Clock,
        random: Random,
        recorded: Image | None = None,
        scheduler: Scheduler | None = None,
    ) -> None:
        """`recorded` is what the log says, if it was read already. Raises StorageError if it cannot be understood.

        Without a scheduler changes are on disk, and in the image, when an operation returns.
        """
        self._config = config
        self._clock = clock
        self._random = random
        log = store.logs.get((METADATA_TOPIC, 0))
        if log is None:
            check_fresh(store)
            log = store.create(METADATA_TOPIC, 0, METADATA_TOPIC_ID, LOG_CONFIG)
        log.config = LOG_CONFIG
        self._journal = Journal(log, scheduler)
        self._pending: deque[Change] = deque()
        self._listeners: list[Changed] = []
        self.waiters = WaitList()
        self.settled: Callable[[], None] = _nobody
        """Called when a change that was pending has ended, well or not: has `waiters` touched."""
        self.prepare: Prepare = lambda _old, _new, _names, done: done()
        """Called as `on_change` has it when a change is on the disk, and with what to call when it may be seen."""
        self._is_settling = False
        recorded = recorded or load(log).image
        brokers = {config.node_id: Node(config.node_id, config.broker_rack, {})}
        self.image = recorded._replace(cluster_id=store.cluster_id, controller_id=config.node_id, brokers=brokers)
        self.written_image = self.image
        """The image of all that is in the log, of which a part may not be seen yet."""
        self._collisions = {collision_key(name): name for name in self.image.topics}
        config.change(*self.image.broker_configs(config.node_id))

    @property
    def journal(self) -> Journal:
        """The metadata log."""
        return self._journal

    @property
    def removed_unseen(self) -> set[bytes]:
        """The ids of topics whose deletion is in the log, and is not seen yet."""
        written = (change for change in self._pending if change.is_written and change.error is None)
        records = (record for change in written for record in change.records)
        return {record.topic_id for record in records if isinstance(record, RemoveTopicRecord)}

    @property
    def end_offset(self) -> int:
        """How many records there are in the metadata log; it grows with every change."""
        return self._journal.end_offset

    @property
    def pending(self) -> Change | None:
        """The last change that is being written: what was planned until now is there, or not, when it has ended."""
        return next((change for change in reversed(self._pending) if change.error is None), None)

    @property
    def planned(self) -> Image:
        """The image as it will be, if all that is pending succeeds: what a further change is checked against."""
        pending = self.pending
        return self.image if pending is None else pending.image

    def on_change(self, callback: Changed) -> None:
        """Have `callback(old, new, names)` called after every change; in other topics than these nothing changed."""
        self._listeners.append(callback)

    def log_config(self, name: str) -> LogConfig:
        """The settings of a topic's logs; those of the broker for a topic that is not known."""
        topic = self.image.topics.get(name)
        return self._config.log_config({} if topic is None else topic.configs)

    # Topics

    def create_topic(
        self,
        name: str,
        partitions: int = -1,
        replication_factor: int = -1,
        configs: Mapping[str, str | None] | None = None,
        assignments: Assignments | None = None,
        *,
        validate_only: bool = False,
    ) -> Topic:
        """Make a topic; -1 stands for the broker's default. Returns it, also if it was only to be validated.

        Raises KafkaError: INVALID_TOPIC_EXCEPTION, TOPIC_ALREADY_EXISTS, INVALID_PARTITIONS, POLICY_VIOLATION,
        INVALID_REPLICATION_FACTOR, INVALID_REPLICA_ASSIGNMENT, INVALID_REQUEST, INVALID_CONFIG, KAFKA_STORAGE_ERROR.
        """
        check_new(name, self.planned, self._collisions)
        topic_configs.check(configs or {})
        states = self._place(partitions, replication_factor, assignments or {})
        topic_id = new_topic_id(self._random, self.planned.topic_names)
        records: list[MetadataRecord] = [TopicRecord(name=name, topic_id=topic_id)]
        records += partition_records(topic_id, 0, states)
        records += config_records(name, configs or {})
        return self._change(records, validate_only).topics[name]

    def _place(self, partitions: int, replication_factor: int, assignments: Assignments) -> list[PartitionState]:
        if assignments:
            if partitions != -1 or replication_factor != -1:
                raise KafkaError(
                    ErrorCode.INVALID_REQUEST,
                    "with an assignment of replicas, the numbers of partitions and of replicas must be -1",
                )
            return assigned_partitions(self.planned, 0, assignments)
        count = self._config.num_partitions if partitions == -1 else partitions
        factor = self._default_factor() if replication_factor == -1 else replication_factor
        return new_partitions(self.planned, 0, count, factor)

    def _default_factor(self) -> int:
        """A default that was written for a cluster does not keep a node that stands alone from working."""
        return min(self._config.default_replication_factor, len(self.image.brokers))

    def delete_topic(self, name: str) -> None:
        """Remove a topic with everything in it.

        Raises KafkaError: UNKNOWN_TOPIC_OR_PARTITION, TOPIC_DELETION_DISABLED, KAFKA_STORAGE_ERROR.
        """
        topic = self.planned.topic(name)
        if not self._config.delete_topic_enable:
            raise KafkaError(ErrorCode.TOPIC_DELETION_DISABLED, "topics are not deleted: delete.topic.enable is false")
        self._change([RemoveTopicRecord(topic_id=topic.topic_id)])

    def create_partitions(
        self, name: str, total: int, assignments: Assignments | None = None, *, validate_only: bool = False
    ) -> Topic:
        """Raise the number of a topic's partitions to `total`. `assignments` has the new ones by their index.

        Raises KafkaError: UNKNOWN_TOPIC_OR_PARTITION, INVALID_PARTITIONS, INVALID_REPLICA_ASSIGNMENT, POLICY_VIOLATION,
        INVALID_REPLICATION_FACTOR, KAFKA_STORAGE_ERROR.
        """
        topic = self.planned.topic(name)
        present = len(topic.partitions)
        if total <= present:
            raise KafkaError(
                ErrorCode.INVALID_PARTITIONS, f"{name!r} has {present} partitions; more can be had, not {total}"
            )
        factor = len(topic.partitions[0].replicas)
        if assignments is None:
            states = new_partitions(self.planned, present, total - present, factor)
        else:
            states = assigned_partitions(self.planned, present, assignments)
            if len(states) != total - present or len(states[0].replicas) != factor:
                raise KafkaError(
                    ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                    f"{total - present} new partitions with {factor} replicas each must be assigned",
                )
        return self._change(partition_records(topic.topic_id, present, states), validate_only).topics[name]

    def change_topic_configs(
        self, name: str, changes: Mapping[str, str | None], *, validate_only: bool = False
    ) -> Topic:
        """Set configs of a topic; None takes one away.

        Raises KafkaError: UNKNOWN_TOPIC_OR_PARTITION, INVALID_CONFIG, KAFKA_STORAGE_ERROR.
        """
        topic = self.planned.topic(name)
        topic_configs.check({config: value for config, value in changes.items() if value is not None})
        after = {config: value for config, value in {**topic.configs, **changes}.items() if value is not None}
        topic_configs.check(after)
        return self._change(config_records(name, changes), validate_only).topics[name]

    def change_group_configs(
        self, group_id: str, changes: Mapping[str, str | None], *, validate_only: bool = False
    ) -> None:
        """Set configs of a group, which need not exist; None takes one away.

        Raises KafkaError: INVALID_CONFIG, KAFKA_STORAGE_ERROR.
        """
        own = self.planned.configs.get((GROUP_RESOURCE, group_id), {})
        group_configs.check(
            self._config, {config: value for config, value in {**own, **changes}.items() if value is not None}
        )
        self._change(config_records(group_id, changes, GROUP_RESOURCE), validate_only)

    def change_broker_configs(
        self, node_id: int | None, changes: Mapping[str, str | None], *, validate_only: bool = False
    ) -> None:
        """Set configs of one broker, or with None of all of them; None takes one away.

        Raises KafkaError: INVALID_REQUEST, INVALID_CONFIG, KAFKA_STORAGE_ERROR.
        """
        name = "" if node_id is None else str(node_id)
        records = config_records(name, changes, BROKER_RESOURCE)
        of_all, own = self.planned.apply_all(records).broker_configs(self._config.node_id)
        dynamic_configs.check(self._config, changes, of_all, own)
        self._change(records, validate_only)

    # Features and producer ids

    def set_features(self, levels: Mapping[str, int]) -> None:
        """Finalize features at these levels; 0 means off. Raises KafkaError(KAFKA_STORAGE_ERROR)."""
        self._change([FeatureLevelRecord(name=name, feature_level=level) for name, level in levels.items()])

    def next_producer_id_block(self) -> tuple[int, int]:
        """The first of a block of producer ids that nobody ever had, and how many there are (KIP-730).

        The block is on disk as taken when `pending` has succeeded: until then none of its ids may be told, and if it
        fails, none ever. Raises KafkaError(KAFKA_STORAGE_ERROR).
        """
        first = self.planned.next_producer_id
        taken = ProducerIdsRecord(broker_id=self._config.node_id, next_producer_id=first + PRODUCER_IDS_A_BLOCK)
        self._change([taken])
        return first, PRODUCER_IDS_A_BLOCK

    # Leader epochs: see `registration`

    @property
    def directory(self) -> str:
        """The directory of the metadata log."""
        return self._journal.directory

    def register(self, record: RegisterBrokerRecord) -> None:
        """Write the registration of this start, and apply it: before anything is served.

        Raises KafkaError(KAFKA_STORAGE_ERROR), and then nothing has changed.
        """
        self._journal.append([record], self._clock.now_ms())
        self.image = self.written_image = self.image.apply(record)

    def raise_leader_epochs(self, latest_epochs: Mapping[TopicPartition, int]) -> Change | None:
        """Raise the leader epochs of these partitions, each above the latest epoch of its log.

        Returns the change while it is pending. Partitions that are deleted by now are passed over. Raises
        KafkaError(KAFKA_STORAGE_ERROR).
        """
        self._change(raised(self.planned, latest_epochs))
        return self.pending

    def renew_image(self) -> None:
        """Drop what is kept with the image, as answers to Metadata: other partitions are served now."""
        self.image = self.image._replace()

    # Changing

    def _change(self, records: list[MetadataRecord], validate_only: bool = False) -> Image:
        """The image with these records: as it is, or will be when `pending` has succeeded."""
        new = self.planned.apply_all(records)
        if validate_only or not records:
            return new
        change = Change(records, new)
        self._note_names(records, self.planned)
        self._pending.append(change)
        try:
            self._journal.submit(records, self._clock.now_ms(), partial(self._written, change))
        except KafkaError as error:
            self._written(change, error)
        if change.error is not None:
            raise change.error
        return new

    def _written(self, change: Change, error: KafkaError | None) -> None:
        """A change has been written, or could not be: then none behind it is, as they were planned upon it."""
        change.error, change.is_written = error, True
        if error is None:
            self.written_image = change.image
        else:
            self._collisions = {collision_key(name): name for name in self.planned.topics}
        self._settle()

    def _settle(self) -> None:
        """Let those be seen that are written and prepared, in their order: each was planned upon those before it."""
        if self._is_settling:
            return
        self._is_settling = True
        try:
            while self._pending and self._is_ready(self._pending[0]):
                try:
                    self._end(self._pending.popleft())
                except Exception:  # a fault of ours, and none of those behind it
                    logger.exception("a change of the metadata was not followed by all")
        finally:
            self._is_settling = False

    def _is_ready(self, change: Change) -> bool:
        if change.is_written and not change.is_begun and change.error is None:
            change.is_begun = True
            names = changed_topics(change.records, self.image, change.image)
            try:
                self.prepare(self.image, change.image, names, partial(self._prepared, change))
            except Exception:  # a fault of ours must not keep all further changes waiting
                logger.exception("a change of the metadata could not be prepared; it is seen all the same")
                change.is_prepared = True
        return change.is_written and (change.is_prepared or change.error is not None)

    def _prepared(self, change: Change) -> None:
        change.is_prepared = True
        self._settle()

    def _end(self, change: Change) -> None:
        change.is_settled = True
        try:
            if change.error is None:
                self._apply(change)
        finally:
            self.settled()

    def _apply(self, change: Change) -> None:
        old, new = self.image, change.image
        self.image = new
        configs = new.broker_configs(self._config.node_id)
        if configs != old.broker_configs(self._config.node_id):
            self._config.change(*configs)
        for line in _told(change.records, old):
            logger.info("%s", line)
        names = changed_topics(change.records, old, new)
        for listener in self._listeners:
            listener(old, new, names)

    def _note_names(self, records: Iterable[MetadataRecord], planned: Image) -> None:
        for record in records:
            if isinstance(record, TopicRecord):
                self._collisions[collision_key(record.name)] = record.name
            elif isinstance(record, RemoveTopicRecord):
                self._collisions.pop(collision_key(planned.topic_names[record.topic_id]), None)


def _told(records: Iterable[MetadataRecord], old: Image) -> Iterator[str]:
    """What the log says of a change. Of settings that are not a topic's only the names: one may be a secret."""
    for record in records:
        if isinstance(record, TopicRecord):
            yield f"created topic {record.name}"
        elif isinstance(record, RemoveTopicRecord):
            yield f"deleted topic {old.topic_names[record.topic_id]}"
        elif isinstance(record, ConfigRecord):
            kind = _KINDS.get(record.resource_type, str(record.resource_type))
            value = f" to {record.value!r}" if record.resource_type == TOPIC_RESOURCE else ""
            done = "removed" if record.value is None else f"set{value}"
            yield f"{record.name} of {kind} {record.resource_name or '(all)'} was {done}"


def _nobody() -> None:
    """Nobody waits."""


class Recorded:
    """What the metadata log says, read once: recovery wants the settings of topics before there is a broker."""

    def __init__(self, config: BrokerConfig) -> None:
        self._config = config
        self.image: Image | None = None
        self.snapshot = NO_SNAPSHOT
        """The snapshot that was read, with the log behind it."""
        self.removed: set[bytes] = set()
        """The ids of topics that were deleted."""

    def settings(self, log: Log) -> Callable[[str], LogConfig]:
        """Read the log; the settings of a topic by its name. Raises StorageError if it cannot be understood."""
        self.image, self.removed, self.snapshot, _ = load(log)
        self._config.change(*self.image.broker_configs(self._config.node_id))
        topics = self.image.topics

        def of(name: str) -> LogConfig:
            topic = topics.get(name)
            return self._config.log_config({} if topic is None else topic.configs)

        return of

    def has_partition(self, name: str, index: int) -> bool:
        """Whether there is this partition."""
        topic = None if self.image is None else self.image.topics.get(name)
        return topic is not None and index < len(topic.partitions)

    def topic_id(self, name: str) -> bytes | None:
        """The id of the topic that has a name, if there is one."""
        topic = None if self.image is None else self.image.topics.get(name)
        return None if topic is None else topic.topic_id


def check_fresh(store: Store | Stores) -> None:
    """A new metadata log is for a new directory: beside partitions it would disown them all."""
    damaged = store.failed.get((METADATA_TOPIC, 0))
    if damaged is not None:
        raise damaged
    if isinstance(store, Stores) and store.refused:
        raise StorageError(
            f"no log {METADATA_TOPIC}-0 is in {store.directory}; it may be in {', '.join(store.refused)}, which cannot"
            " be used: mend that directory, and start again"
        )
    known = len(store)
    if known:
        raise StorageError(
            f"{store.directory} holds {known} partitions but no log {METADATA_TOPIC}-0, which knows their topics: it is"
            " another program's directory, or that log was lost; restore it from a copy, or choose another log.dirs"
        )

"""External changes in ZooKeeper, applied to the store: topics, partitions, configs, and the orders of tools.

A fired watch names a path. The watcher reads the path again, with a new watch, and passes the differences to the store.

- Tools before 2.8 create topics without an id. The watcher writes an id to ZooKeeper before it publishes the topic.
- A topic whose nodes vanish without a deletion order stays, with one log line: an emptied ZooKeeper must not lead to
  emptied disks.
- An unreadable node (by name or content) is logged once and skipped; the last known state stays. The same applies to a
  topic with the id of another topic: its node is a copy.
- Configs that this version refuses are skipped, with one log line; they stay in ZooKeeper.
- `/config/changes` has notifications in three formats. They are deleted after 15 minutes, as by Kafka's brokers.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from operator import itemgetter
from random import Random
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from headgate.gateway.metadata.image import Image, Topic
from headgate.gateway.metadata.new_topics import new_topic_id
from headgate.gateway.metadata.records import config_records
from headgate.gateway.runtime.clock import Clock
from headgate.gateway.runtime.tasks import Task, gather
from headgate.gateway.zookeeper.layout.admin import (
    DELETE_TOPICS_PATH,
    PREFERRED_REPLICA_ELECTION_PATH,
    REASSIGN_PARTITIONS_PATH,
    PartitionReassignments,
    PreferredReplicaElection,
)
from headgate.gateway.zookeeper.layout.cluster import (
    CONTROLLER_PATH,
    OWN_FEATURES_PATH,
    PRODUCER_IDS_PATH,
    ProducerIdBlock,
)
from headgate.gateway.zookeeper.layout.configs import (
    CONFIG_CHANGES_PATH,
    CONFIG_PATH,
    TOPICS,
    ConfigChange,
    ConfigEntity,
)
from headgate.gateway.zookeeper.layout.node import InvalidNode
from headgate.gateway.zookeeper.layout.topics import TOPICS_PATH, DeletedTopic, TopicAssignment
from headgate.gateway.zookeeper.layout.tree import ClusterTree, TopicNodes, copied, read_cluster
from headgate.gateway.zookeeper.metadata import orders, plans
from headgate.gateway.zookeeper.metadata.cluster_nodes import ClusterNodes
from headgate.gateway.zookeeper.metadata.differences import Touched, changed_configs, topic_records
from headgate.gateway.zookeeper.metadata.orders import OrderDecision
from headgate.gateway.zookeeper.metadata.reading import CONFIGURED, NodesByPath, Watches, read_node, read_topic
from headgate.gateway.zookeeper.metadata.served_image import (
    accepted_group_configs,
    accepted_topic_configs,
    served_topic,
)
from headgate.gateway.zookeeper.requests import Failed, children, delete, exists, get, multi, remove
from headgate.gateway.zookeeper.session import Refused, Session
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.internal.metadata import (
    GROUP_RESOURCE,
    FeatureLevelRecord,
    MetadataRecord,
    ProducerIdsRecord,
    RemoveTopicRecord,
)

if TYPE_CHECKING:
    from headgate.gateway.config import BrokerConfig
    from headgate.gateway.metadata.store import Change

logger = logging.getLogger("headgate.zookeeper")

Order = TypeVar("Order")
T = TypeVar("T")

PUBLISHED_AT_ONCE: Final = 64
"""About the largest number of partitions, or other entities, in one published change."""
NOTIFICATION_MS: Final = 15 * 60 * 1000
_ORDERS: Final = (DELETE_TOPICS_PATH, REASSIGN_PARTITIONS_PATH, PREFERRED_REPLICA_ELECTION_PATH)
_DIRECTORIES: Final = (CONFIG_CHANGES_PATH, TOPICS_PATH, *CONFIGURED)
_TOPIC_CONFIGS: Final = f"{CONFIG_PATH}/{TOPICS}/"
_SINGLES: Final = (PRODUCER_IDS_PATH, OWN_FEATURES_PATH)


class ImageStore(Protocol):
    """The part of the store that the watcher uses."""

    @property
    def written_image(self) -> Image:
        """The image of everything that is known to be in ZooKeeper."""

    @property
    def planned(self) -> Image:
        """The image after all pending changes."""

    def apply_external(self, records: Sequence[MetadataRecord]) -> None:
        """Apply changes that other programs have written to ZooKeeper."""

    def delete_topic(self, name: str) -> Change:
        """Delete a topic. Raises KafkaError."""

    def submit(self, records: Sequence[MetadataRecord]) -> Change:
        """Submit a change. Raises KafkaError."""


class MetadataWatcher:
    """Keeps the store's image and the known nodes up to date with ZooKeeper."""

    def __init__(
        self,
        session: Session,
        watches: Watches,
        nodes: ClusterNodes,
        config: BrokerConfig,
        random: Random,
        clock: Clock,
        store: ImageStore,
    ) -> None:
        self.leaderless: dict[tuple[str, int], None] = {}
        """Partitions that this broker has to lead, but does not lead yet."""
        self.has_last_block = False
        """Whether the last block of producer ids was this broker's at the last read."""
        self._session = session
        self._watches = watches
        self._nodes = nodes
        self._config = config
        self._random = random
        self._clock = clock
        self._store = store
        self._given_up: dict[tuple[str, int], int] = {}  # partitions without a leader -> their partition epochs
        self._watched = set[str]()  # topics whose assignment has a watch
        self._with_states = set[str]()  # topics to read with all partitions, also if their assignment is the same
        self._notifications: dict[str, int] = {}  # name -> when it was created, in ms
        self._records: list[MetadataRecord] = []  # differences that are not published yet
        self._refreshed: list[str] = []  # topics that were read since the last publication
        self._logged = set[str]()
        self._topics_read: list[tuple[int, str, ClusterTree]] = []  # (czxid, name, part), not published yet
        self._czxids: dict[str, int] = {}  # of the topics that were read
        self._ordered: dict[Change, str] = {}  # changes that carry out an order -> path of the order
        self._deletions = set[bytes]()  # ids of topics whose deletion was given up, but may have taken effect
        self._postponed = set[str]()  # paths of orders that wait until all partitions are led

    def begin(self) -> None:
        """Schedule the work that the first read of the cluster left open."""
        image = self._store.written_image
        self._watched.update(image.topics)
        for topic in sorted(image.topics.values(), key=lambda topic: not topic.is_internal):
            self._find_leaderless(topic)
        self._log_foreign(image)
        for path in _ORDERS:
            self._watches.note(path)

    def _log_foreign(self, image: Image) -> None:
        names = [
            f"{topic.name}-{index}"
            for topic in image.topics.values()
            for index in range(len(topic.partitions))
            if (topic.name, index) not in self.leaderless
        ]
        if names:
            logger.warning(
                "%d partitions have no copy in sync on this broker, and have no leader (%s): their brokers are gone",
                len(names), ", ".join(names[:5]) + (", ..." if len(names) > 5 else ""),
            )  # fmt: skip

    # Scheduling of refreshes

    def schedule_full_refresh(self, *, with_states: bool = False) -> None:
        """Schedule a read of every path, as all watches are lost. `with_states`: states of partitions included."""
        names = self._store.written_image.topics
        self._watched.clear()
        if with_states:
            self._with_states.update(names)
        for path in (CONTROLLER_PATH, *_SINGLES, *_DIRECTORIES, *_ORDERS, *(f"{TOPICS_PATH}/{name}" for name in names)):
            self._watches.note(path)

    def schedule_refresh(self, subjects: Touched) -> None:
        """Schedule a read of these subjects: a change of them may be in ZooKeeper, in full or in part."""
        self._with_states |= subjects.topics
        for name in subjects.topics:
            self._watches.note(f"{TOPICS_PATH}/{name}")
        for path in _paths(_entities(subjects)):
            self._watches.note(path)
        for path in _SINGLES if subjects.has_others else ():
            self._watches.note(path)

    def note_possible_deletions(self, records: Iterable[MetadataRecord]) -> None:
        """Note the deletions of a change that may have taken effect: they may explain a missing or recreated topic."""
        self._deletions |= {record.topic_id for record in records if isinstance(record, RemoveTopicRecord)}

    def deleted_without_note(self, records: Iterable[MetadataRecord], image: Image) -> Task[list[Topic]]:
        """The topics of a deletion in doubt that are gone from ZooKeeper without a deletion note."""
        before = self._store.written_image
        gone = [
            before.topics[before.topic_names[record.topic_id]]
            for record in records
            if isinstance(record, RemoveTopicRecord)
            and record.topic_id in before.topic_names
            and record.topic_id not in image.topic_names
        ]
        notes = yield from gather([exists(self._session, DeletedTopic.path(topic.topic_id)) for topic in gone])
        return [topic for topic, note in zip(gone, notes, strict=True) if note is None]

    def read_subjects(self, image: Image, subjects: Touched) -> Task[Image]:
        """The image with the present state of these subjects in ZooKeeper, leaders included.

        The differences are published later, by a scheduled refresh. An unreadable subject keeps its known state. Raises
        InvalidNode for an unreadable topic that the image does not have.
        """
        self.schedule_refresh(subjects)
        for name in sorted(subjects.topics):
            part = yield from self._read_topic(name)
            found = part.image.topics.get(name)
            invalid = _error_of_topic(name, part)
            if invalid is None:
                self._nodes.put_topic(name, part, ConfigEntity(TOPICS, name))
                image = _with_topic(image, name, found)
            elif name not in image.topics:
                raise invalid
        for entity in _entities(subjects):
            part = yield from self._read_configs(f"{CONFIG_PATH}/{entity.entity_path}")
            self._nodes.put_configs(entity, part)
            if part.invalid:
                continue
            configs = {key: value for key, value in image.configs.items() if key != _resource(entity)}
            image = image._replace(configs=configs | dict(part.image.configs))
        if subjects.has_others:
            part = yield from self._read_singles()
            invalid_paths = {error.path for error in part.invalid}
            if OWN_FEATURES_PATH not in invalid_paths:
                image = image._replace(features=part.image.features)
            if PRODUCER_IDS_PATH not in invalid_paths:
                image = image._replace(next_producer_id=part.image.next_producer_id)
        return image

    def refresh(self, paths: Iterable[str]) -> Task[None]:
        """Read these paths again, publish the differences, and carry out orders."""
        ordered = [path for path in paths if path in _ORDERS]
        subjects = {path: None for path in paths if path not in _ORDERS and path not in _SINGLES}
        for path in [path for path in subjects if path in _DIRECTORIES]:
            del subjects[path]
            subjects |= dict.fromkeys((yield from self._try(path, self._changed_below(path))) or ())
        # A topic and its configs are one subject: they must be published together
        subjects = dict.fromkeys([path.replace(_TOPIC_CONFIGS, f"{TOPICS_PATH}/") for path in subjects])
        for chunk in self._chunks(subjects):
            try:
                yield from gather([self._try(path, self._refresh(path)) for path in chunk])
            finally:
                self._publish()  # `_nodes` has the nodes that were read before an error
        if any(path in _SINGLES for path in paths):
            yield from self._try(PRODUCER_IDS_PATH, self._refresh_singles())
        for path in ordered:
            yield from self._try(path, self._ORDERED[path](self))

    def _try(self, path: str, steps: Task[T]) -> Task[T | None]:
        """Run steps about one path. A final failure or a fault is logged and gives None, so that the rest goes on."""
        try:
            return (yield from steps)
        except Failed as error:
            if not error.is_final:
                raise
            self._nodes.unreadable.name_failed(error)
        except KafkaError:
            raise
        except Exception as error:  # noqa: BLE001  a fault of one subject must not stop the others
            self._nodes.unreadable.name(path, f"{type(error).__name__}: {error}", error=error)
        return None

    def _changed_below(self, path: str) -> Task[Iterable[str]]:
        """The paths below a directory that may have changed."""
        if path == TOPICS_PATH:
            return (yield from self._new_topics())
        if path == CONFIG_CHANGES_PATH:
            return (yield from self._changed_configs())
        return (yield from self._all_configs(path))

    def _chunks(self, subjects: Iterable[str]) -> Iterator[list[str]]:
        """Paths in chunks of about PUBLISHED_AT_ONCE partitions."""
        topics, chunk, size = self._store.written_image.topics, list[str](), 0
        for path in subjects:
            topic = topics.get(path.removeprefix(f"{TOPICS_PATH}/"))
            chunk.append(path)
            size += 1 if topic is None else len(topic.partitions)
            if size >= PUBLISHED_AT_ONCE:
                yield chunk
                chunk, size = [], 0
        if chunk:
            yield chunk

    def _publish(self) -> None:
        """Publish all differences as one change: each change copies the names of all topics."""
        self._apply_topics()
        found, self._records = self._records, []
        refreshed, self._refreshed = self._refreshed, []
        if found:
            self._store.apply_external(found)
        image = self._store.written_image
        for name in refreshed:
            if name in image.topics:
                self._find_leaderless(image.topics[name])

    def _refresh(self, path: str) -> Task[None]:
        if path.startswith(f"{TOPICS_PATH}/"):
            yield from self._refresh_topic(path.removeprefix(f"{TOPICS_PATH}/"))
        elif path.startswith(f"{CONFIG_PATH}/"):
            yield from self._refresh_configs(path)

    # Topics

    def _new_topics(self) -> Task[Iterator[str]]:
        """The paths of topics that are new, or whose nodes are gone."""
        names = yield from children(self._session, TOPICS_PATH, self._watches.note)
        known = self._store.written_image.topics
        new = set(names) - (self._watched & known.keys())
        return (f"{TOPICS_PATH}/{name}" for name in new.union(known.keys() - names))

    def _refresh_topic(self, name: str) -> Task[None]:
        self._watched.discard(name)
        known, reads_states = self._nodes.topic(name), name in self._with_states
        if known is not None and not reads_states and name in self._store.written_image.topics:
            found = yield from get(self._session, f"{TOPICS_PATH}/{name}", self._watches.note)
            if found is not None and found.stat.version == known.version and _is_same_topic(name, found.data, known):
                self._watched.add(name)
                yield from self._refresh_configs(f"{_TOPIC_CONFIGS}{name}")
                return
        part = yield from self._read_topic(name)
        self._with_states.discard(name)
        if _error_of_topic(name, part) is not None:
            return
        if name not in part.topics:
            self._nodes.put_topic(name, part, ConfigEntity(TOPICS, name))
            yield from self._topic_is_missing(name)
            return
        if name in part.without_id:
            part = yield from self._give_id(name, part)
            if name not in part.topics or name in part.without_id:
                self._with_states.add(name)  # another program or controller has written: read again
                return
        topic, before = part.image.topics[name], self._store.written_image.topics.get(name)
        if before is not None and before.topic_id != topic.topic_id and not (yield from self._was_deleted(before)):
            self._nodes.put_topic(name, part, ConfigEntity(TOPICS, name))
            self._nodes.unreadable.log_once(
                f"id of {name}",
                f"ZooKeeper's {TOPICS_PATH}/{name}: the id of the topic was {before.topic_id.hex()}, and is another "
                "without a deletion; the broker still serves the topic: write its id again, or delete and recreate it",
            )
            return
        yield from self._void_deletion(topic)
        self._topics_read.append((self._czxids[name], name, part))

    def _apply_topics(self) -> None:
        """Apply the topics that were read. Of several new topics with one id, only the oldest node counts."""
        read, self._topics_read = self._topics_read, []
        names: dict[bytes, str] = {}
        for _, name, part in sorted(read, key=itemgetter(0, 1)):
            keeper = names.setdefault(part.image.topics[name].topic_id, name)
            if keeper == name:
                self._apply_topic(name, part)
            else:
                self._nodes.unreadable.note((), [copied(name, keeper)])

    def _apply_topic(self, name: str, part: ClusterTree) -> None:
        before = self._store.written_image.topics.get(name)
        self._nodes.put_topic(name, part, ConfigEntity(TOPICS, name))
        topic = served_topic(part.image.topics[name], before, self._config, self._nodes.unreadable)
        if before is not None and before.topic_id == topic.topic_id and len(topic.partitions) < len(before.partitions):
            self._log_once(f"topic {name} has {len(topic.partitions)} partitions in ZooKeeper and had "
                            f"{len(before.partitions)}: the others stay")  # fmt: skip
            topic = topic._replace(partitions=topic.partitions + before.partitions[len(topic.partitions) :])
        self._records += topic_records(before, topic)
        self._refreshed.append(name)

    def _read_topic(self, name: str) -> Task[ClusterTree]:
        """Read a topic. Unreadable configs keep their known values."""
        tree: NodesByPath = yield from read_topic(self._session, name, self._watches.note)
        node = tree.get(f"{TOPICS_PATH}/{name}")
        (self._watched.discard if node is None else self._watched.add)(name)
        self._czxids[name] = 0 if node is None else node.czxid
        known = self._store.written_image.topics.get(name)
        is_deleted = known is not None and (yield from self._was_deleted(known))
        part = self._parse(tree, partial(self._topic_id, name, tree, is_deleted=is_deleted))
        if known is None or all(error.path != f"{_TOPIC_CONFIGS}{name}" for error in part.invalid):
            return part
        topics = {key: topic._replace(configs=known.configs) for key, topic in part.image.topics.items()}
        return part._replace(image=part.image._replace(topics=topics))

    def _parse(self, tree: NodesByPath, new_topic_id: Callable[[], bytes] = bytes) -> ClusterTree:
        """Parse nodes, and log the unreadable ones."""
        part = read_cluster(tree, new_topic_id, self._keeps_id)
        self._nodes.unreadable.note(tree, part.invalid)
        return part

    def _keeps_id(self, topic_id: bytes, names: Sequence[str]) -> str:
        return self._store.written_image.topic_names.get(topic_id, names[0])

    def _was_deleted(self, topic: Topic) -> Task[bool]:
        """Whether a deletion that was given up has taken effect: its note stays until the image has lost the topic."""
        if topic.topic_id not in self._deletions:
            return False
        return (yield from exists(self._session, DeletedTopic.path(topic.topic_id))) is not None

    def _void_deletion(self, topic: Topic) -> Task[None]:
        """Forget a doubtful deletion of a topic that exists: it failed, or the topic was written again afterwards."""
        if topic.topic_id in self._deletions:
            self._deletions.discard(topic.topic_id)
            yield from delete(self._session, DeletedTopic.path(topic.topic_id))

    def _topic_id(self, name: str, tree: NodesByPath, *, is_deleted: bool) -> bytes:
        """The id for a topic that has none in ZooKeeper: the known one, unless the topic was deleted and recreated.

        Tools before 2.8 drop the id when they add partitions. A recreated topic has no partition states.
        """
        image = self._store.written_image
        known = image.topics.get(name)
        is_new = not any(path.endswith("/state") for path in tree)
        if known is None or (is_new and is_deleted):
            return new_topic_id(self._random, image.topic_names)
        return known.topic_id

    def _give_id(self, name: str, part: ClusterTree) -> Task[ClusterTree]:
        cluster = self._nodes.tree(part.image)._replace(topics=part.topics, without_id=part.without_id)
        for operations in plans.give_topic_ids(cluster):
            results = yield from multi(self._session, operations)
            if not isinstance(results, Refused):
                logger.info("topic %s has an id in ZooKeeper now: %s", name, part.image.topics[name].topic_id.hex())
            else:
                self._watches.note(CONTROLLER_PATH if results.place == 0 else f"{TOPICS_PATH}/{name}")
        return (yield from self._read_topic(name))

    def _topic_is_missing(self, name: str) -> Task[None]:
        before = self._store.written_image.topics.get(name)
        if before is None:
            return
        if (yield from self._was_deleted(before)):
            self._deletions.discard(before.topic_id)
            self._records.append(RemoveTopicRecord(topic_id=before.topic_id))
        else:
            self._log_once(
                f"topic {name} is gone from ZooKeeper without an order to delete it: the broker still serves the topic "
                "and keeps its data; delete it with kafka-topics, or write its nodes again"
            )

    def _find_leaderless(self, topic: Topic) -> None:
        """Add the topic's partitions that this broker has to lead, but does not lead yet, to `leaderless`."""
        nodes, node_id = self._nodes.topic(topic.name), self._config.node_id
        if nodes is None or topic.name in self._nodes.deleting:
            return
        for index, state in enumerate(topic.partitions):
            if state.leader != node_id and self._given_up.get((topic.name, index)) != state.partition_epoch:
                found = nodes.states.get(index)
                kept = state._replace(leader=-1 if found is None else found.leader)
                if plans.may_lead(kept, node_id, {node_id}):
                    self.leaderless[topic.name, index] = None

    def give_up_leader(self, name: str, index: int) -> None:
        """Leave a partition without a leader until its node changes: its next leader epoch cannot be written."""
        del self.leaderless[name, index]
        topic = self._store.written_image.topics.get(name)
        if topic is not None:
            self._given_up[name, index] = topic.partitions[index].partition_epoch

    # Configs

    def _changed_configs(self) -> Task[Iterator[str]]:
        """The paths of configs with a notification since the last read."""
        names = yield from children(self._session, CONFIG_CHANGES_PATH, self._watches.note)
        new = [name for name in names if name not in self._notifications]
        found = yield from gather(
            [self._try(f"{CONFIG_CHANGES_PATH}/{name}", self._read_notification(name)) for name in new]
        )
        self._notifications = {name: self._notifications[name] for name in names if name in self._notifications}
        yield from self._purge()
        entities = {entity for entity in found if entity is not None}
        return (f"{CONFIG_PATH}/{entity.entity_path}" for entity in entities)

    def know_notification(self, path: str) -> None:
        """Skip a notification that this broker has written: it knows the configs."""
        self._notifications[path.removeprefix(f"{CONFIG_CHANGES_PATH}/")] = self._clock.now_ms()

    def _read_notification(self, name: str) -> Task[ConfigEntity | None]:
        found = yield from get(self._session, f"{CONFIG_CHANGES_PATH}/{name}")
        if found is None:
            return None
        self._notifications[name] = found.stat.ctime_ms
        try:
            return ConfigChange.decode(name, found.data).entity
        except InvalidNode as error:
            self._nodes.unreadable.name(error.path, error.reason)
            return None

    def _purge(self) -> Task[None]:
        """Delete old notifications, as every broker does."""
        before_ms = self._clock.now_ms() - NOTIFICATION_MS
        old = [name for name, created_ms in self._notifications.items() if created_ms < before_ms]
        paths = [f"{CONFIG_CHANGES_PATH}/{name}" for name in old]
        yield from gather([self._try(path, remove(self._session, path)) for path in paths])
        for name in old:
            del self._notifications[name]

    def _all_configs(self, parent: str) -> Task[set[str]]:
        names = yield from children(self._session, parent)
        entity_type = parent.removeprefix(f"{CONFIG_PATH}/")
        known = (_entity(*key) for key in self._store.written_image.configs)
        gone = _paths(entity for entity in known if entity.entity_type == entity_type)
        return {f"{parent}/{name}" for name in names}.union(gone)

    def _read_configs(self, path: str) -> Task[ClusterTree]:
        return self._parse((yield from read_node(self._session, path)))

    def _refresh_configs(self, path: str) -> Task[None]:
        try:
            entity = ConfigEntity.of(path.removeprefix(f"{CONFIG_PATH}/"))
        except InvalidNode as error:
            self._nodes.unreadable.name(path, error.reason)
            return
        if entity.entity_type != TOPICS and entity.entity_type not in plans.ENTITY_TYPES.values():
            return
        part = yield from self._read_configs(path)
        self._nodes.put_configs(entity, part)
        if part.invalid:
            return
        image = self._store.written_image
        found = part.configs.get(entity)
        configs: Mapping[str, str] = {} if found is None else found.configs.configs
        if entity.entity_type == TOPICS:
            topic = image.topics.get(entity.name or "")
            if topic is None:
                return
            changed = changed_configs(
                topic.configs, accepted_topic_configs(topic.name, configs, self._nodes.unreadable)
            )
            self._records += config_records(topic.name, changed)
        else:
            key = _resource(entity)
            if key[0] == GROUP_RESOURCE:
                configs = accepted_group_configs(self._config, key[1], configs, self._nodes.unreadable)
            self._records += config_records(key[1], changed_configs(image.configs.get(key, {}), configs), key[0])

    # Single nodes

    def _read_singles(self) -> Task[ClusterTree]:
        """Read the nodes of producer ids and features."""
        tree: NodesByPath = {}
        for path in _SINGLES:
            tree |= yield from read_node(self._session, path)
        part = self._parse(tree)
        self._nodes.put_versions(part)
        if all(error.path != PRODUCER_IDS_PATH for error in part.invalid) and PRODUCER_IDS_PATH in tree:
            block = ProducerIdBlock.decode(tree[PRODUCER_IDS_PATH].data)
            self.has_last_block = block is not None and block.broker_id == self._config.node_id
        return part

    def _refresh_singles(self) -> Task[None]:
        part = yield from self._read_singles()
        image, found = self._store.written_image, part.image
        levels = {name: level for name, level in found.features.items() if image.features.get(name) != level}
        records: list[MetadataRecord] = [
            FeatureLevelRecord(name=name, feature_level=level) for name, level in levels.items()
        ]
        if found.next_producer_id > image.next_producer_id:
            records.append(ProducerIdsRecord(broker_id=-1, next_producer_id=found.next_producer_id))
        if records:
            self._store.apply_external(records)

    # Orders of tools

    def _delete_topics(self) -> Task[None]:
        names = yield from children(self._session, DELETE_TOPICS_PATH, self._watches.note)
        self._put_deleting(names)
        for name in names:
            if name in self._store.planned.topics:
                try:
                    self._ordered[self._store.delete_topic(name)] = DELETE_TOPICS_PATH
                    continue
                except KafkaError as error:
                    if error.code is not ErrorCode.TOPIC_DELETION_DISABLED:
                        raise
                    logger.error("topic %s is not deleted, as ordered in ZooKeeper: %s", name, error.message)
            elif name in self._store.written_image.topics:
                continue  # a pending change deletes the topic
            yield from remove(self._session, f"{DELETE_TOPICS_PATH}/{name}")
            self._put_deleting([topic for topic in self._nodes.deleting if topic != name])

    def _put_deleting(self, names: Sequence[str]) -> None:
        """Store the deletion orders. Topics whose order was withdrawn need a leader again."""
        gone = self._nodes.deleting - set(names)
        self._nodes.put_deleting(names)
        topics = self._store.written_image.topics
        for name in gone & topics.keys():
            self._find_leaderless(topics[name])

    def _reassign(self) -> Task[None]:
        yield from self._do_order(REASSIGN_PARTITIONS_PATH, PartitionReassignments.decode, orders.reassign)

    def _elect_preferred(self) -> Task[None]:
        path = PREFERRED_REPLICA_ELECTION_PATH
        yield from self._do_order(path, PreferredReplicaElection.decode, orders.elect_preferred)

    def _do_order(
        self, path: str, decode: Callable[[bytes | None], Order], decide: Callable[[Image, int, Order], OrderDecision]
    ) -> Task[None]:
        """Carry out an order, and delete its node once nothing is left to do."""
        if (yield from exists(self._session, path, self._watches.note)) is None:
            return
        found = yield from get(self._session, path)
        if found is None or self.leaderless or path in self._ordered.values():
            self._postponed.update([path] if found is not None else ())
            return
        try:
            decision = decide(self._store.planned, self._config.node_id, decode(found.data))
        except InvalidNode as error:
            decision = OrderDecision([], [str(error)])
        if decision.records:
            self._ordered[self._store.submit(decision.records)] = path
            return
        for refusal in decision.refusals:
            logger.error("an order in ZooKeeper's %s is refused: %s", path, refusal)
        yield from remove(self._session, path, found.stat.version)

    def change_ended(self, change: Change, *, is_final: bool) -> bool:
        """Handle the end of a change. Returns whether an order caused it; the order is read again unless `is_final`."""
        path = self._ordered.pop(change, None)
        if path is not None and not is_final:
            self._watches.note(path)
        return path is not None

    def all_are_led(self) -> None:
        """Every partition has its leader: schedule the orders that waited for the leaders."""
        postponed, self._postponed = self._postponed, set()
        for path in postponed:
            self._watches.note(path)

    _ORDERED: Final[Mapping[str, Callable[[MetadataWatcher], Task[None]]]] = {
        DELETE_TOPICS_PATH: _delete_topics,
        REASSIGN_PARTITIONS_PATH: _reassign,
        PREFERRED_REPLICA_ELECTION_PATH: _elect_preferred,
    }

    # Log lines

    def _log_once(self, sentence: str) -> None:
        if sentence not in self._logged and len(self._logged) < 10_000:
            self._logged.add(sentence)
            logger.error("%s", sentence)


def _with_topic(image: Image, name: str, topic: Topic | None) -> Image:
    topics, names = dict(image.topics), dict(image.topic_names)
    old = topics.pop(name, None)
    if old is not None:
        del names[old.topic_id]
    if topic is not None:
        topics[name] = topic
        names[topic.topic_id] = name
    return image._replace(topics=topics, topic_names=names)


def _is_same_topic(name: str, data: bytes | None, known: TopicNodes) -> bool:
    """Whether the assignment is unchanged. The version is no proof: a recreated topic may have the same version."""
    try:
        return TopicAssignment.decode(name, data) == known.assignment
    except InvalidNode:
        return False


def _error_of_topic(name: str, part: ClusterTree) -> InvalidNode | None:
    """The error that makes a topic unreadable; errors of its configs do not count."""
    path = f"{TOPICS_PATH}/{name}"
    return next((error for error in part.invalid if error.path == path or error.path.startswith(f"{path}/")), None)


def _paths(entities: Iterable[ConfigEntity]) -> Iterator[str]:
    """The config paths of the entities whose names ZooKeeper can have."""
    for entity in entities:
        with suppress(InvalidNode):
            yield f"{CONFIG_PATH}/{entity.entity_path}"


def _entities(subjects: Touched) -> list[ConfigEntity]:
    return [_entity(*key) for key in sorted(subjects.resources)]


def _entity(resource_type: int, name: str) -> ConfigEntity:
    return ConfigEntity(plans.ENTITY_TYPES[resource_type], name or None)


def _resource(entity: ConfigEntity) -> tuple[int, str]:
    resource_types = {kind: resource_type for resource_type, kind in plans.ENTITY_TYPES.items()}
    return resource_types[entity.entity_type], entity.name or ""

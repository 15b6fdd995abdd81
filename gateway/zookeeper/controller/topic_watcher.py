"""Topics in ZooKeeper, as the controller reads them: a topic with its partitions and configs is one subject.

- Tools before 2.8 create topics without an id. The watcher writes an id to ZooKeeper before it publishes the topic.
- A topic whose nodes vanish without a deletion order stays, with one log line: an emptied ZooKeeper must not lead to
  emptied disks.
- A topic with the id of another topic is unreadable: its node is a copy.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from operator import itemgetter

from headgate.gateway.metadata.image import Image, Topic
from headgate.gateway.metadata.new_topics import new_topic_id
from headgate.gateway.runtime.tasks import Task, gather
from headgate.gateway.zookeeper.controller.leader_elections import LeaderElections
from headgate.gateway.zookeeper.controller.live_brokers import LiveBrokers
from headgate.gateway.zookeeper.layout.cluster import CONTROLLER_PATH
from headgate.gateway.zookeeper.layout.configs import CONFIG_PATH, TOPICS, ConfigEntity
from headgate.gateway.zookeeper.layout.node import InvalidNode
from headgate.gateway.zookeeper.layout.topics import TOPICS_PATH, DeletedTopic, TopicAssignment
from headgate.gateway.zookeeper.layout.tree import ClusterTree, TopicNodes, copied, read_cluster
from headgate.gateway.zookeeper.metadata import plans
from headgate.gateway.zookeeper.metadata.config_watcher import ConfigWatcher
from headgate.gateway.zookeeper.metadata.differences import topic_records
from headgate.gateway.zookeeper.metadata.reading import NodesByPath, StoreParts, read_topic
from headgate.gateway.zookeeper.metadata.served_image import served_topic
from headgate.gateway.zookeeper.requests import children, delete, exists, get, multi
from headgate.gateway.zookeeper.session import Refused
from headgate.protocol.internal.metadata import MetadataRecord, RemoveTopicRecord

logger = logging.getLogger("headgate.zookeeper")

TOPIC_CONFIGS = f"{CONFIG_PATH}/{TOPICS}/"


class TopicWatcher:
    """Reads topics. `records`: differences that are not published yet."""

    def __init__(
        self,
        parts: StoreParts,
        configs: ConfigWatcher,
        brokers: LiveBrokers,
        elections: LeaderElections,
        *,
        others_wrote: bool,
    ) -> None:
        """`others_wrote`: another controller may have deleted any topic of the image."""
        self.records: list[MetadataRecord] = []
        self._session = parts.session
        self._watches = parts.watches
        self._nodes = parts.nodes
        self._config = parts.config
        self._random = parts.random
        self._store = parts.store
        self._configs = configs
        self._brokers = brokers
        self._elections = elections
        self._others_wrote = others_wrote
        self._watched = set[str]()  # topics whose assignment has a watch
        self._with_states = set[str]()  # topics to read with all partitions, also if their assignment is the same
        self._refreshed: list[str] = []  # topics that were read since the last publication
        self._logged = set[str]()
        self._topics_read: list[tuple[int, str, ClusterTree]] = []  # (czxid, name, part), not published yet
        self._czxids: dict[str, int] = {}  # of the topics that were read
        self._deletions = set[bytes]()  # ids of topics whose deletion was given up, but may have taken effect

    def begin(self, image: Image) -> None:
        """Take over the topics of an image, which were read with watches."""
        self._watched.update(image.topics)

    def schedule_full_refresh(self, *, with_states: bool) -> None:
        """Schedule a read of every topic. `with_states`: states of partitions included."""
        names = self._store.written_image.topics
        self._watched.clear()
        self._with_states.update(names if with_states else ())
        for name in names:
            self._watches.note(f"{TOPICS_PATH}/{name}")

    def schedule_refresh(self, names: Iterable[str]) -> None:
        """Schedule a read of these topics with the states of their partitions."""
        for name in names:
            self._with_states.add(name)
            self._watches.note(f"{TOPICS_PATH}/{name}")

    def read_into(self, image: Image, name: str) -> Task[Image]:
        """The image with the present state of a topic, leaders included; an unreadable topic keeps its known state.

        Raises InvalidNode for an unreadable topic that the image does not have.
        """
        part = yield from self._read_topic(name)
        invalid = _error_of_topic(name, part)
        if invalid is None:
            self._nodes.put_topic(name, part, ConfigEntity(TOPICS, name))
            return _with_topic(image, name, part.image.topics.get(name))
        if name not in image.topics:
            raise invalid
        return image

    def take_records(self) -> list[MetadataRecord]:
        """Take the differences of all topics that were read since the last call."""
        self._apply_topics()
        records, self.records = self.records, []
        return records

    def published(self, records: Iterable[MetadataRecord]) -> None:
        """These differences are in the image: find the partitions without a leader."""
        refreshed, self._refreshed = self._refreshed, []
        self._elections.replay(records)
        self._elections.read(refreshed)

    def new_paths(self) -> Task[Iterator[str]]:
        """The paths of topics that are new, or whose nodes are gone."""
        names = yield from children(self._session, TOPICS_PATH, self._watches.note)
        known = self._store.written_image.topics
        new = [name for name in names if name not in known or name not in self._watched]
        gone = known.keys() - names
        return (f"{TOPICS_PATH}/{name}" for name in (*new, *(name for name in known if name in gone)))

    def refresh(self, name: str) -> Task[None]:
        self._watched.discard(name)
        known, reads_states = self._nodes.topic(name), name in self._with_states
        if known is not None and not reads_states and name in self._store.written_image.topics:
            found = yield from get(self._session, f"{TOPICS_PATH}/{name}", self._watches.note)
            if found is not None and found.stat.version == known.version and _is_same_topic(name, found.data, known):
                self._watched.add(name)
                yield from self._configs.refresh(f"{TOPIC_CONFIGS}{name}")
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
        topic = served_topic(part, name, before, self._config, self._nodes.unreadable, self._brokers.epochs)
        if before is not None and before.topic_id == topic.topic_id and len(topic.partitions) < len(before.partitions):
            self._log_once(f"topic {name} has {len(topic.partitions)} partitions in ZooKeeper and had "
                            f"{len(before.partitions)}: the others stay")  # fmt: skip
            topic = topic._replace(partitions=topic.partitions + before.partitions[len(topic.partitions) :])
        self.records += topic_records(before, topic)
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
        if known is None or all(error.path != f"{TOPIC_CONFIGS}{name}" for error in part.invalid):
            return part
        topics = {key: topic._replace(configs=known.configs) for key, topic in part.image.topics.items()}
        return part._replace(image=part.image._replace(topics=topics))

    def _parse(self, tree: NodesByPath, new_topic_id: Callable[[], bytes]) -> ClusterTree:
        """Parse nodes, and log the unreadable ones."""
        part = read_cluster(tree, new_topic_id, self._keeps_id)
        self._nodes.unreadable.note(tree, part.invalid)
        return part

    def _keeps_id(self, topic_id: bytes, names: Sequence[str]) -> str:
        return self._store.written_image.topic_names.get(topic_id, names[0])

    def _was_deleted(self, topic: Topic) -> Task[bool]:
        """Whether a deletion that was given up has taken effect: its note stays until the image has lost the topic."""
        if topic.topic_id not in self._deletions and not self._others_wrote:
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
            self.records.append(RemoveTopicRecord(topic_id=before.topic_id))
        else:
            self._log_once(
                f"topic {name} is gone from ZooKeeper without an order to delete it: the broker still serves the topic "
                "and keeps its data; delete it with kafka-topics, or write its nodes again"
            )

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

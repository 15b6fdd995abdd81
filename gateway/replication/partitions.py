"""All partitions that this broker has, kept in step with the cluster's image."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator
from typing import NamedTuple

from gateway.config import BrokerConfig
from gateway.metadata.image import INTERNAL_TOPICS, Image, Topic
from gateway.replication.partition import Partition
from gateway.replication.writer import Disk
from gateway.waiting import Purgatory
from protocol.errors import ErrorCode, KafkaError
from storage.config import LogConfig
from storage.files import parent
from storage.log import Log
from storage.stores import Stores

logger = logging.getLogger("headgate.replication")


class Retried(NamedTuple):
    """How many partitions could be made now that could not be made before, and how many still not."""

    made: int
    refused: int


class Partitions:
    """(topic, index) -> Partition. Follows the image: makes logs for what appears in it, removes those of what goes.

    A partition whose log is not open yet is in `opening`; it has no leader until `opened` is called for it.
    """

    def __init__(self, store: Stores, config: BrokerConfig, purgatory: Purgatory, disk: Disk | None = None) -> None:
        self._store = store
        self._config = config
        self._purgatory = purgatory
        self._disk = disk
        self._disks: dict[str, Disk] = {}  # of each log directory that is in use: one may be slow, and no other
        self._partitions: dict[tuple[str, int], Partition] = {}
        self._offline: dict[tuple[str, int], KafkaError] = {}
        self._elsewhere: dict[tuple[str, int], int] = {}  # led by this node
        self._names: dict[bytes, str] = {}
        self._image = Image.empty()
        self._opening: set[tuple[str, int]] = set()
        self._doomed: dict[tuple[str, int], bytes] = {}  # deleted, with this topic, while they were being opened
        self._unmade: set[tuple[str, int]] = set()  # new ones that could not be made yet
        self._tell = self._advanced  # one for all of them
        self._on_open: list[Callable[[str, int], None]] = []
        self.hold_messages = False
        """Whether a log that was ever opened may hold messages of magic 0 and 1, which have to be converted."""
        self._full: dict[str, KafkaError] = {}  # directories without room, and what producers are told
        self._failed: dict[str, KafkaError] = {}  # the same of those whose disks are gone
        self.disk_failed: Callable[[str, object], None] = lambda _, __: None
        """Called with a log directory and each error of a write or a sync in it."""

    def __iter__(self) -> Iterator[Partition]:
        return iter(self._partitions.values())

    def __len__(self) -> int:
        return len(self._partitions)

    def get(self, topic: str, index: int) -> Partition:
        """The partition, of which this broker is the leader.

        Raises KafkaError: UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER, also while its log is being opened,
        KAFKA_STORAGE_ERROR for a damaged one.
        """
        partition = self._partitions.get((topic, index))
        if partition is None:
            raise self._absent(topic, index)
        return partition

    @property
    def directories(self) -> list[str]:
        """The log directories that are in use."""
        return [store.directory for store in self._store]

    @property
    def refused_directories(self) -> Collection[str]:
        """The log directories that could not be taken at the start."""
        return self._store.refused

    def space(self, directory: str) -> tuple[int, int]:
        """Bytes of the volume with a log directory, and those of them that are left. Raises OSError."""
        return self._store.files.space(directory)

    def refuse_writes(self, directory: str, reason: KafkaError | None) -> None:
        """Have clients produce nothing into a log directory, or again; what the broker writes itself is written."""
        if reason is None:
            self._full.pop(directory, None)
        else:
            self._full[directory] = reason
        self._check_all()

    def set_offline(self, directory: str, reason: KafkaError | None) -> None:
        """Have nothing at all written into a log directory, or again."""
        if reason is None:
            self._failed.pop(directory, None)
        else:
            self._failed[directory] = reason
        self._check_all()

    @property
    def offline_directories(self) -> Collection[str]:
        """The log directories whose disks are gone since the start."""
        return self._failed.keys()

    def _check_all(self) -> None:
        self._store.low = frozenset((*self._full, *self._failed))
        for partition in self._partitions.values():
            self._check_room(partition)

    def _check_room(self, partition: Partition) -> None:
        directory = parent(partition.log.directory)
        full = None if partition.topic in INTERNAL_TOPICS else self._full.get(directory)
        partition.read_only = self._failed.get(directory, full)

    def _absent(self, topic: str, index: int) -> KafkaError:
        leader = self._elsewhere.get((topic, index))
        if leader is not None:
            led = f"node {leader} leads it" if leader >= 0 else "it has no leader at present"
            return KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{topic}-{index}: {led}")
        if (topic, index) in self._opening:
            return KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"the log of {topic}-{index} is being opened")
        offline = self._offline.get((topic, index))
        if offline is not None:  # a copy: each raise would add to the traceback of the one that is kept
            return KafkaError(offline.code, offline.message)
        return KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {topic}-{index}")

    def retry(self, image: Image, is_over: Callable[[], bool] = lambda: False) -> Retried:
        """Try again to make what could not be made: the reason may have been a moment without room or descriptors.

        It ends as soon as `is_over`; the next call goes on where this one ended. What could not be opened is another's
        to try (`gateway.opening`); what is in a refused directory stays there.
        """
        store, failed = self._store, self._store.failed
        made = refused = 0
        for key in [key for key in self._offline if key not in failed]:
            topic = image.topics.get(key[0])
            may_be_made = key in self._unmade or key in store or not store.refused
            if topic is None or not may_be_made or key[1] >= len(topic.partitions):
                continue
            self._offline[key] = self._offline.pop(key)  # behind those that were not tried yet
            self._put_one(topic, key[1], self._config.log_config(topic.configs))
            made, refused = made + (key not in self._offline), refused + (key in self._offline)
            if is_over():
                break
        return Retried(made, refused)

    def on_open(self, callback: Callable[[str, int], None]) -> None:
        """Have `callback(topic, index)` called when a partition has come online after the broker."""
        self._on_open.append(callback)

    @property
    def opening(self) -> Collection[tuple[str, int]]:
        """The partitions, by topic and index, that are this broker's and whose logs are not open yet."""
        return self._opening

    def opened(self, keys: Collection[tuple[str, int]]) -> None:
        """The logs of these are open now, or stay closed."""
        for key in keys:
            self._opening.discard(key)
            if not self._opening:
                self._opening.clear()  # it has room for all of them until then
            name, index = key
            if key in self._doomed:
                self._delete_log(name, index, self._doomed.pop(key))
            topic = self._image.topics.get(name)
            if topic is not None and index < len(topic.partitions):
                self._put_one(topic, index, self._config.log_config(topic.configs))
                if key in self._partitions:
                    for callback in self._on_open:
                        callback(name, index)

    @property
    def offline(self) -> Collection[tuple[str, int]]:
        """The partitions, by topic and index, that are this broker's and cannot be opened."""
        return self._offline.keys()

    def topic_name(self, topic_id: bytes) -> str:
        """The name behind an id; raises KafkaError(UNKNOWN_TOPIC_ID)."""
        try:
            return self._names[topic_id]
        except KeyError:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, "no topic has that id") from None

    def start(self, image: Image) -> None:
        """Have the partitions of the image that a broker starts with: none of them is new."""
        self._image = image
        for topic in image.topics.values():
            self._put(topic)

    def follow(self, old: Image, new: Image, names: Collection[str]) -> None:
        """Bring the partitions of these topics in step with a changed image."""
        self._image = new
        for name in names:
            before, after = old.topics.get(name), new.topics.get(name)
            if before is not None and (after is None or after.topic_id != before.topic_id):
                self._remove(before)
            if after is not None and after is not before:
                known = len(before.partitions) if before is not None and before.topic_id == after.topic_id else 0
                self._unmade.update((name, index) for index in range(known, len(after.partitions)))
                self._put(after)
        node_id = self._config.node_id
        if old.broker_configs(node_id) != new.broker_configs(node_id):  # they stand in for what a topic does not set
            for topic in new.topics.values():
                self._put(topic)

    def _put(self, topic: Topic) -> None:
        log_config = self._config.log_config(topic.configs)
        self._names[topic.topic_id] = topic.name
        for index in range(len(topic.partitions)):
            self._put_one(topic, index, log_config)

    def _put_one(self, topic: Topic, index: int, log_config: LogConfig) -> None:
        key, state = (topic.name, index), topic.partitions[index]
        if state.leader != self._config.node_id:
            self._leave(topic.name, index, state.leader)
            return
        self._elsewhere.pop(key, None)
        if key in self._store.unopened:
            self._opening.add(key)
            return
        partition = self._partitions.get(key)
        if partition is not None and partition.log.topic_id not in (None, topic.topic_id):
            self._forget(key)
            partition = None
        partition = partition or self._open(topic, index, log_config)
        if partition is not None:
            partition.configure(log_config)
            partition.leader_epoch = state.leader_epoch
            partition.replicas, partition.isr = state.replicas, state.isr

    def _leave(self, topic: str, index: int, leader: int) -> None:
        """Serve no more what another broker leads; its log stays. Who waits for it is told."""
        self._elsewhere[topic, index] = leader
        self._offline.pop((topic, index), None)
        self._opening.discard((topic, index))
        partition = self._partitions.pop((topic, index), None)
        if partition is not None:
            self._purgatory.touch(partition.waiters)

    def _open(self, topic: Topic, index: int, log_config: LogConfig) -> Partition | None:
        """The partition over its log, or None if it cannot be had: then the others go on, and `get` says why."""
        key = topic.name, index
        try:
            log = self._log(topic, index, log_config)
        except KafkaError as error:
            if key not in self._offline:
                logger.error("%s-%d is offline: %s", topic.name, index, error.message)
            self._offline[key] = error
            return None
        self._offline.pop(key, None)
        self.hold_messages = self.hold_messages or log.holds_messages
        partition = Partition(topic.name, index, log, topic.partitions[index].leader_epoch, self._tell)
        partition.disk = self._disk_of(log)
        partition.validate = self._config.headgate_validate_records
        if self._full or self._failed:
            self._check_room(partition)
        self._partitions[log.key] = partition
        return partition

    def _disk_of(self, log: Log) -> Disk | None:
        first, directory = self._disk, parent(log.directory)
        if first is None or directory in self._disks:
            return self._disks.get(directory)
        disk = self._disks[directory] = Disk(first.clock, first.scheduler) if self._disks else first
        disk.failed = lambda error: self.disk_failed(directory, error)
        return disk

    def _log(self, topic: Topic, index: int, log_config: LogConfig) -> Log:
        log = self._store.logs.get((topic.name, index))
        is_lost = log is None  # if it should have been there
        if log is not None and log.topic_id is not None and log.topic_id != topic.topic_id:
            # The topic was deleted and made anew, and the broker died before the end of the deletion; or the metadata
            # log is an older one than this.
            self._store.clear(topic.name, index, log.topic_id)
            log = None
        if log is None:
            log = self._make(topic, index, log_config, is_lost)
        self._unmade.discard((topic.name, index))
        if log.topic_id == topic.topic_id:
            log.topic_id = topic.topic_id  # one object for all partitions of the topic
        return log

    def _make(self, topic: Topic, index: int, log_config: LogConfig, is_lost: bool) -> Log:
        """A new log. One that should have been there may be somewhere else; else it is lost, which has to be told."""
        key = topic.name, index
        if key not in self._unmade and key not in self._store:
            self._store.check_not_refused(*key)
            lost = self._store.high_watermarks().get(key, 0) if is_lost and key not in self._offline else 0
            if lost:
                logger.error("%s-%d begins anew: its directory is gone, with offsets up to %d", *key, lost)
        now_ms = 0 if self._disk is None else self._disk.clock.now_ms()
        return self._store.create(*key, topic.topic_id, log_config, now_ms)

    def _remove(self, topic: Topic) -> None:
        self._names.pop(topic.topic_id, None)
        self._store.removed.add(topic.topic_id)
        for index in range(len(topic.partitions)):
            self._drop(topic.name, index, topic.topic_id)

    def _drop(self, topic: str, index: int, topic_id: bytes) -> None:
        """Serve a partition no more, and delete its log. If that fails, its topic id keeps it from coming back."""
        key = topic, index
        self._forget(key)
        if self._store.unopened.get(key) is not None:  # a thread has it, maybe for the second time
            self._doomed[key] = topic_id
        elif key in self._store:
            self._delete_log(topic, index, topic_id)

    def _forget(self, key: tuple[str, int]) -> None:
        partition = self._partitions.pop(key, None)
        self._offline.pop(key, None)
        self._elsewhere.pop(key, None)
        self._unmade.discard(key)
        self._opening.discard(key)
        if partition is not None:
            self._purgatory.touch(partition.waiters)

    def _delete_log(self, topic: str, index: int, topic_id: bytes) -> None:
        try:
            if self._store.may_go((topic, index), topic_id):
                self._store.delete(topic, index, remove=False)  # large files take long: `Upkeep` does it in a thread
            else:
                logger.error("%s-%d is of another topic than the one that is deleted; it stays", topic, index)
        except KafkaError as error:
            logger.error("the log of %s-%d is left behind: %s", topic, index, error.message)
        except OSError as error:
            logger.error("the log of %s-%d is left behind: %s", topic, index, error)

    def _advanced(self, partition: Partition) -> None:
        self._purgatory.touch(partition.waiters)

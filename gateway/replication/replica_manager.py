"""All partitions that this broker hosts, kept in step with the cluster's image.

Each partition is in one state; `partition_states.py` has the states and the transitions. This module causes the
transitions: by the image, by threads that open and create logs, by the repair of a log. The image alone gives a role:
this broker leads a partition as its `leader`, and follows as one of its other `replicas`. `leadership.py` serves the
led partitions, `followership.py` the followed ones; `replica.py` and `follower.py` have the work on one partition,
`directory_status.py` the status of a log directory.

A new partition is created before its image becomes visible (`prepare`): so no client gets CREATING unless it guesses
the name. But a disk that hangs delays no change for longer than `PREPARE_MS`. A deleted partition is gone at once; a
thread renames its directory.

One thread for each log directory works on files (`partition_file_tasks.py`). The result for a topic that is created
again does not depend on the speeds of the threads. All work begins in order: so the old partition has left the log
manager when the new one gets its place. In the same directory the creation follows the renaming. In different
directories both are independent: if a stop comes between them, the next start finds both, and knows from their ids
which one was deleted. Only one partition of a name is created at a time, as its directory is not yet known: the next
one is CREATING, and `queued`, until then.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice, zip_longest
from typing import TYPE_CHECKING, NamedTuple

from headgate.gateway.config import BrokerConfig
from headgate.gateway.metadata.image import Image, Topic
from headgate.gateway.metadata.image import PartitionState as PartitionRegistration
from headgate.gateway.replication.append_queue import DiskMonitor
from headgate.gateway.replication.directory_status import DirectoryStatus
from headgate.gateway.replication.events import ReplicationEvents
from headgate.gateway.replication.fetching.replica_fetchers import ReplicaFetchers
from headgate.gateway.replication.follower import Follower
from headgate.gateway.replication.followership import Followership
from headgate.gateway.replication.leadership import Leadership
from headgate.gateway.replication.partition_file_tasks import FileTask, PartitionFileTasks
from headgate.gateway.replication.partition_states import PartitionState, PartitionStates, Unavailable, unknown
from headgate.gateway.replication.replica import Replica
from headgate.gateway.runtime.tasks import Changes, Task, Tasks, WaitList
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.storage.config import LogConfig
from headgate.storage.directory.log_manager import LogManager
from headgate.storage.directory.partition_files import PartitionCreation, PartitionDeletion
from headgate.storage.files import HeldFiles, parent
from headgate.storage.log.log import Log
from headgate.storage.recovery.sync_failure_repair import needing_repair

if TYPE_CHECKING:
    from headgate.gateway.runtime.scheduler import Scheduler

logger = logging.getLogger("headgate.replication")

# The number of partitions created or deleted in one turn of the loop: to begin and to end one takes 10 us or more.
AT_ONCE = 64
# The longest wait of a metadata change for the files of its new partitions; later changes wait with it.
PREPARE_MS = 5_000.0
_LOADING = Unavailable(PartitionState.LOADING)

MakeDisk = Callable[[Callable[[object], None]], DiskMonitor]
"""Makes the monitor of a log directory's disk; the monitor passes each error to the function."""


class _Begun(NamedTuple):
    """The creation of a partition, and its topic."""

    topic: Topic
    creation: PartitionCreation

    @property
    def directory(self) -> str:
        return self.creation.directory

    def run(self) -> None:
        self.creation.run()


class Retried(NamedTuple):
    """The numbers of partitions that a retry could create, and still could not create."""

    made: int
    refused: int


class ReplicaManager:
    """(topic, index) -> Replica. Follows the image: creates logs for new partitions, removes logs of deleted ones."""

    def __init__(
        self,
        log_manager: LogManager,
        config: BrokerConfig,
        tasks: Tasks,
        make_disk: MakeDisk,
        scheduler: Scheduler,
        events: ReplicationEvents,
        fetchers: ReplicaFetchers,
    ) -> None:
        """Work on files is done at once until `go_on_in_threads`, then in threads."""
        self._log_manager = log_manager
        self._files = PartitionFileTasks(scheduler)
        self._config = config
        self._tasks = tasks
        self.events = events
        self._states = PartitionStates()
        self.online: Mapping[tuple[str, int], Replica] = self._states.online
        """`led`, by topic and index. The mapping stays the same object, and follows every change."""
        self.directories: Mapping[str, DirectoryStatus] = {
            one.directory: DirectoryStatus(
                one.directory, make_disk(partial(self._disk_failed, one.directory)), self._directory_changed
            )
            for one in log_manager
        }
        """The log directories in use, by path."""
        self._names: dict[bytes, str] = {}
        self._image = Image.empty()
        self._is_following = False
        self.existing: Collection[tuple[str, int]] = ()
        """(topic, index) of partitions that may have a log here although the image until now lacks them.

        Such a log may lie in a refused directory: an empty one must not take its place.
        """
        self.leadership = Leadership(self._states, self.directories, config, tasks, events, log_manager.high_watermark)
        self.followership = Followership(self._states, self.directories, log_manager, config, tasks, fetchers)
        self._files_changed = WaitList()
        """Touched when the files of partitions were opened, created or renamed."""
        self.replicated_bytes_out = 0
        """The bytes that followers were answered with."""

    def __iter__(self) -> Iterator[Replica]:
        """The replicas of this broker: the online ones, then the others."""
        return iter(self._states)

    def __len__(self) -> int:
        return len(self.online)

    @property
    def led(self) -> Collection[Replica]:
        """The replicas of the partitions that this broker leads."""
        return self.online.values()

    @property
    def high_watermarks(self) -> dict[tuple[str, int], int]:
        """The present high watermark of each replica."""
        return {replica.log.key: replica.high_watermark for replica in self}

    def get(self, topic: str, index: int) -> Replica:
        """The replica of a partition that this broker leads.

        Raises KafkaError: UNKNOWN_TOPIC_OR_PARTITION; NOT_LEADER_OR_FOLLOWER, also while the log is being opened or
        created; KAFKA_STORAGE_ERROR for a damaged log.
        """
        replica = self.online.get((topic, index))
        if replica is None:
            found = self._states.unavailable((topic, index))
            raise unknown(topic, index) if found is None else found.refusal(topic, index)
        return replica

    def hosted(self, topic: str, index: int) -> Replica | None:
        """The replica of a partition on this broker, led or followed; None if there is none, or if it is not open."""
        return self._states.replica((topic, index))

    def of_log(self, log: Log) -> Replica | None:
        """The replica of a log; None for the metadata log, or a partition without a replica here."""
        replica = self._states.replica(log.key)
        return replica if replica is not None and replica.log is log else None

    # Log directories

    @property
    def held(self) -> HeldFiles:
        """The files that slices of unsent responses keep open."""
        return self._log_manager.held

    @property
    def refused_directories(self) -> Collection[str]:
        """The log directories that were refused at the start."""
        return self._log_manager.refused

    def space(self, directory: str) -> tuple[int, int]:
        """(size, free bytes) of the volume with a log directory. Raises OSError."""
        return self._log_manager.files.space(directory)

    def _disk_failed(self, directory: str, error: object) -> None:
        for listener in self.events.disk_failed:
            listener(directory, error)

    def disk_recovered(self, directory: str) -> None:
        """Notify the listeners: the directory's disk accepts all writes again, or one of its logs was repaired."""
        for listener in self.events.disk_recovered:
            listener(directory)

    def _directory_changed(self, status: DirectoryStatus) -> None:
        for replica in self:
            if parent(replica.log.directory) == status.path:
                self.leadership.check_writable(replica)
        self.followership.directory_changed(status.path)
        self.note_failures()

    # Unavailable partitions

    @property
    def opening(self) -> Collection[tuple[str, int]]:
        """(topic, index) of the partitions that this broker will serve once their log or leader epoch is ready."""
        return self._states.within(
            PartitionState.LOADING,
            PartitionState.CREATING,
            PartitionState.AWAITING_EPOCH,
            PartitionState.BECOMING_LEADER,
        )

    @property
    def offline(self) -> Collection[tuple[str, int]]:
        """(topic, index) of this broker's partitions that cannot be opened or created."""
        return self._states.within(PartitionState.OFFLINE, PartitionState.RETRYING)

    @property
    def failed(self) -> Collection[tuple[str, int]]:
        """(topic, index) of the replicas that other brokers have to replace.

        A log that takes no records is no reason if its replica is the last of its in-sync set: consumers are served.
        """
        unserved = PartitionState.OFFLINE, PartitionState.RETRYING, PartitionState.AWAITING_EPOCH
        found, node_id = self._states.within(*unserved), self._config.node_id
        directories = {status.path for status in self.directories.values() if status.is_failed}
        unsynced = [self.of_log(log) for directory in self._log_manager for log in needing_repair(directory.pool)]
        if not directories and not unsynced:
            return found
        refusing = [replica for replica in self if directories and parent(replica.log.directory) in directories]
        refusing += [replica for replica in unsynced if replica is not None]
        return {*found, *(replica.log.key for replica in refusing if {*replica.isr} - {node_id})}

    def note_failures(self) -> None:
        """Notify the listeners: other replicas may have failed than before."""
        for listener in self.events.replicas_failed:
            listener()

    def topic_name(self, topic_id: bytes) -> str:
        """The name of the topic with an id; raises KafkaError(UNKNOWN_TOPIC_ID)."""
        try:
            return self._names[topic_id]
        except KeyError:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, "no topic has that id") from None

    # Following the image

    def start(self, image: Image, *, epochs_are_raised: bool = True) -> None:
        """Host the partitions of the image at the start of the broker: none of them is new.

        `epochs_are_raised`: this start has raised all leader epochs, so the epochs in logs are of the past.
        """
        self._image, self.leadership.epochs_are_raised = image, epochs_are_raised
        self._follow_brokers(image)
        for topic in image.topics.values():
            self._put(topic, _all_known)

    def go_on_in_threads(self) -> None:
        """Have threads work on files from now on: the scheduler runs."""
        self._files.go_on_in_threads()

    def prepare(self, old: Image, new: Image, names: Collection[str]) -> Task[None]:
        """Create the logs that `follow` will need for these topics. Failures end the task too.

        After `PREPARE_MS` the task ends in any case: clients then get CREATING, and retry.
        """
        works = list[FileTask]()
        for name in names:
            before, topic = old.topics.get(name), new.topics.get(name)
            if topic is not None:
                is_known = self._known(before, topic)
                changed = (index for index in _changed(before, topic) if not is_known(index))
                wanted = [index for index in changed if self._is_to_be_created(topic, index)]
                works += self._create([(topic, index) for index in wanted], is_new=True)
        yield from self._files.ended(works, PREPARE_MS)

    def follow(self, old: Image, new: Image, names: Collection[str]) -> None:
        """Bring the partitions of these topics in step with a changed image."""
        self._image, self._is_following = new, True
        self._follow_brokers(new)
        try:
            self._follow(old, new, names)
        finally:
            self._is_following = False

    def _follow_brokers(self, image: Image) -> None:
        self.leadership.in_sync_replicas.set_live(image.brokers.keys())
        self.followership.follow_brokers(image.brokers)

    def _follow(self, old: Image, new: Image, names: Collection[str]) -> None:
        for name in names:
            before, after = old.topics.get(name), new.topics.get(name)
            if before is not None and (after is None or after.topic_id != before.topic_id):
                self._remove(before)
            if after is not None and after is not before:
                self._put(after, self._known(before, after), before)
        node_id = self._config.node_id
        if old.broker_configs(node_id) != new.broker_configs(node_id):  # the defaults of topics
            for topic in new.topics.values():
                self._put(topic, _all_known)

    def opened(self, keys: Collection[tuple[str, int]]) -> None:
        """Host partitions whose logs were opened, or cannot be opened."""
        for key in keys:
            try:
                self._opened(key)
            except Exception:  # an exception here must not affect the other partitions
                logger.exception("%s-%d was opened, but cannot be served", *key)
        self._tasks.touch(self._files_changed)

    def _opened(self, key: tuple[str, int]) -> None:
        name, index = key
        found = self._states.unavailable(key)
        deleted = None if found is None else found.deleted_topic_id
        if found is not None and found.state in (PartitionState.LOADING, PartitionState.DELETING):
            self._states.move(key, None)
        if deleted is not None:
            self._delete([key], deleted)
        topic = self._image.topics.get(name)
        if topic is not None and index < len(topic.partitions):
            if self._put_one(topic, index, self._config.log_config(topic.configs)):
                self._create([(topic, index)], is_new=deleted is not None)
            elif key in self.online:
                self._came_online(key)

    def _came_online(self, key: tuple[str, int]) -> None:
        for listener in self.events.online:
            listener(*key)

    def _hosts(self, state: PartitionRegistration) -> bool:
        """Whether this broker has a replica of the partition."""
        node_id = self._config.node_id
        return state.leader == node_id or node_id in state.replicas

    def _known(self, before: Topic | None, after: Topic) -> Callable[[int], bool]:
        """Whether this broker had a replica of the topic's partition with an index before a change."""
        is_same, existing = before is not None and before.topic_id == after.topic_id, self.existing
        states = before.partitions if before is not None and is_same else ()
        return lambda index: (after.name, index) in existing or (index < len(states) and self._hosts(states[index]))

    def _put(self, topic: Topic, is_known: Callable[[int], bool], before: Topic | None = None) -> None:
        """Host the partitions of a topic; those that are not known are new. `before`: the topic until now."""
        log_config = self._config.log_config(topic.configs)
        self._names[topic.topic_id] = topic.name
        missing = [(topic, index) for index in _changed(before, topic) if self._put_one(topic, index, log_config)]
        if missing:
            self._create([row for row in missing if is_known(row[1])], is_new=False)
            self._create([row for row in missing if not is_known(row[1])], is_new=True)

    def _put_one(self, topic: Topic, index: int, log_config: LogConfig) -> bool:
        """Host a partition as far as it exists; true if its log has to be created."""
        key, state = (topic.name, index), topic.partitions[index]
        if not self._hosts(state):
            self._leave(key, state.leader)
            return False
        replica = self._states.replica(key)
        if replica is not None:
            if replica.log.topic_id in (None, topic.topic_id):
                self._apply(replica, topic, log_config)
                return False
            self._forget(key)
        found = self._states.unavailable(key)
        if key in self._log_manager.unopened:
            deleted = None if found is None else found.deleted_topic_id
            self._states.move(key, _LOADING if deleted is None else _LOADING._replace(deleted_topic_id=deleted))
            return False
        log, failed = self._log_manager.logs.get(key), self._log_manager.failed.get(key)
        if log is not None and log.topic_id in (None, topic.topic_id):
            self._serve(topic, index, log, log_config)
        elif failed is not None:
            error = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(failed))  # the opening has logged it
            self._states.move(key, Unavailable(PartitionState.OFFLINE, topic.topic_id, error=error))
        elif found is None or found.topic_id != topic.topic_id:  # else the partition is being created or retried
            return self._is_to_be_created(topic, index)
        return False

    def _serve(self, topic: Topic, index: int, log: Log, log_config: LogConfig) -> None:
        """Lead or follow a partition whose log exists, and which has no replica so far."""
        leads = topic.partitions[index].leader == self._config.node_id
        (self.leadership if leads else self.followership).serve(topic, index, log, log_config)

    def _apply(self, replica: Replica, topic: Topic, log_config: LogConfig) -> None:
        """Apply the image's state to a partition with a replica, whose role may change."""
        leader, key = topic.partitions[replica.index].leader, replica.log.key
        leads, follower = leader == self._config.node_id, replica if isinstance(replica, Follower) else None
        if leads and follower is None:
            self.leadership.apply(replica, topic, log_config)
        elif leads and follower is not None:
            self.followership.lead(follower, self._lead)
        elif follower is not None:
            self.followership.apply(follower, topic, log_config)
        else:
            self._log_manager.keep_high_watermark(key, replica.high_watermark)
            self.followership.serve(topic, replica.index, replica.log, log_config)
            self._resign(replica, key)

    def _resign(self, replica: Replica, key: tuple[str, int]) -> None:
        """End the role of a replica: whatever waits for it ends."""
        found = self._states.unavailable(key)
        assert found is not None, "another state has begun"
        replica.resign(found.refusal(*key))

    def _lead(self, log: Log) -> None:
        """Lead a partition that this broker has followed."""
        topic, index = self._image.topics[log.topic], log.partition
        self.leadership.serve(topic, index, log, self._config.log_config(topic.configs))
        if log.key in self.online and not self._is_following:
            self._came_online(log.key)

    def _is_to_be_created(self, topic: Topic, index: int) -> bool:
        key, log_manager = (topic.name, index), self._log_manager
        if not self._hosts(topic.partitions[index]) or self._states.replica(key) or key in log_manager.unopened:
            return False
        log = log_manager.logs.get(key)
        return key not in log_manager.failed and (log is None or log.topic_id not in (None, topic.topic_id))

    def _refuse(self, topic: Topic, index: int, error: KafkaError, *, is_new: bool = False) -> None:
        """Take a partition offline: the others are served, and `get` raises the error."""
        key = topic.name, index
        before = self._states.unavailable(key)
        if before is None or before.error is None:
            logger.error("%s-%d is offline: %s", *key, error.message)
        self._states.move(key, Unavailable(PartitionState.OFFLINE, topic.topic_id, is_new, error))

    def _leave(self, key: tuple[str, int], leader: int) -> None:
        """End the role in a partition; the log stays. Whatever waits for it ends."""
        replica = self._states.replica(key)
        self._forget(key)
        self._states.move(key, Unavailable(PartitionState.REMOTE, leader=leader))
        if replica is not None:
            self._log_manager.keep_high_watermark(key, replica.high_watermark)
            self._resign(replica, key)

    def _forget(self, key: tuple[str, int]) -> None:
        """Stop serving a partition. Waiting fetches are woken; appends fail once the log is gone."""
        replica = self._states.replica(key)
        if replica is not None:
            self._states.move(key, None)
            if isinstance(replica, Follower):
                self.followership.end(replica)
            replica.notify()
            if replica.uncommitted:
                self._tasks.scheduler.call_soon(replica.fail_lost_appends)

    # Creating

    def _create(
        self,
        wanted: Sequence[tuple[Topic, int]],
        *,
        is_new: bool,
        state: PartitionState = PartitionState.CREATING,
    ) -> list[FileTask]:
        """Have the logs of partitions created, `AT_ONCE` in one turn."""
        lost = set()
        for topic, index in wanted:
            key = topic.name, index
            before = self._states.unavailable(key)
            if before is None and not is_new and key not in self._log_manager:
                lost.add(key)
            error = None if before is None else before.error
            self._states.move(key, Unavailable(state, topic.topic_id, is_new, error))
        return [
            self._files.add(partial(self._begin_some, wanted[first : first + AT_ONCE], lost), self._created)
            for first in range(0, len(wanted), AT_ONCE)
        ]

    def _begin_some(self, wanted: Iterable[tuple[Topic, int]], lost: Collection[tuple[str, int]]) -> list[_Begun]:
        begun = []
        for topic, index in wanted:
            try:
                creation = self._begin_creation(topic, index, lost)
            except Exception:
                logger.exception("%s-%d cannot be created", topic.name, index)
                self._give_up(topic, index)
            else:
                if creation is not None:
                    begun.append(_Begun(topic, creation))
        return begun

    def _wanted(self, key: tuple[str, int], topic: Topic) -> Unavailable | None:
        """The record of the partition, if it is still unavailable and of this topic."""
        found = self._states.unavailable(key)
        return found if found is not None and found.topic_id == topic.topic_id else None

    def _give_up(self, topic: Topic, index: int) -> None:
        """Leave a partition to a later retry: no thread has worked on it, or an exception came between."""
        found = self._wanted((topic.name, index), topic)
        if found is not None and found.state in (PartitionState.CREATING, PartitionState.RETRYING):
            error = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{topic.name}-{index} could not be created yet")
            self._refuse(topic, index, error, is_new=found.is_new)

    def _begin_creation(self, topic: Topic, index: int, lost: Collection[tuple[str, int]]) -> PartitionCreation | None:
        """Begin a new log. A log that should exist may be in a refused directory; else its loss is logged."""
        key = topic.name, index
        found = self._wanted(key, topic)
        if found is None:  # the partition was deleted meanwhile
            return None
        if self._log_manager.is_creating(key):
            self._states.move(key, found._replace(queued=topic))
            return None
        try:
            if not found.is_new:
                self._log_manager.check_not_refused(*key)
                offset = self._log_manager.high_watermark(key) if key in lost else 0
                if offset:
                    logger.error("%s-%d starts empty: its directory is gone, with offsets up to %d", *key, offset)
            return self._log_manager.begin_creation(
                key, topic.topic_id, self._config.log_config(topic.configs), self._now_ms(), self._avoided()
            )
        except KafkaError as error:
            self._refuse(topic, index, error, is_new=found.is_new)
            return None

    def _now_ms(self) -> int:
        return next(iter(self.directories.values())).disk.clock.now_ms()

    def _avoided(self) -> Collection[str]:
        return [status.path for status in self.directories.values() if status.is_avoided]

    def _created(self, ended: Iterable[_Begun]) -> None:
        for topic, creation in ended:
            try:
                self._end_creation(topic, creation)
            except Exception:  # an exception here must not affect the other partitions
                logger.exception("%s-%d was created, but cannot be served", *creation.key)
            if not self._files.is_over:
                self._give_up(topic, creation.key[1])
                self._create_queued(creation.key)
        self._tasks.touch(self._files_changed)

    def _end_creation(self, topic: Topic, creation: PartitionCreation) -> None:
        """Serve a created log, or record the failure. The topic may have changed or been deleted meanwhile."""
        key, index = creation.key, creation.key[1]
        found = self._wanted(key, topic)
        try:
            log = self._log_manager.end_creation(creation)
        except KafkaError as error:
            self._disk_failed(creation.directory, error)
            if found is not None and creation.error is not None:  # without an error no thread ran the creation
                self._refuse(topic, index, error, is_new=found.is_new)
            return
        if found is not None:
            present = self._image.topics.get(topic.name)
            is_known = present is not None and present.topic_id == topic.topic_id and index < len(present.partitions)
            known = present if present is not None and is_known else topic
            self._serve(known, index, log, self._config.log_config(known.configs))
            if is_known and key in self.online and not self._is_following:
                self._came_online(key)
        elif topic.topic_id in self._log_manager.removed:
            self._delete([key], topic.topic_id)

    def _create_queued(self, key: tuple[str, int]) -> None:
        """Create the partition that waited for the creation of an older one of its name."""
        found = self._states.unavailable(key)
        if found is not None and found.queued is not None:
            self._create([(found.queued, key[1])], is_new=found.is_new, state=found.state)

    def retry(self) -> Task[Retried]:
        """Try again to create some of the offline partitions: the disk may have been full for a moment.

        The next call continues where this one ended. The task ends after `PREPARE_MS` at the latest.
        `gateway.maintenance.log_loading` retries logs that could not be opened; partitions in a refused directory stay
        offline.
        """
        log_manager, topics = self._log_manager, self._image.topics
        offline = (key for key in self._states.within(PartitionState.OFFLINE) if key not in log_manager.failed)
        keys = list(islice((key for key in offline if key[0] in topics and self._may_be_created(key)), AT_ONCE))
        new, old = list[tuple[Topic, int]](), list[tuple[Topic, int]]()
        for name, index in keys:
            log = log_manager.logs.get((name, index))
            if log is not None and log.topic_id in (None, topics[name].topic_id):  # the log exists: serving it failed
                self.opened([(name, index)])
            else:
                (new if self._is_new((name, index)) else old).append((topics[name], index))
        works = self._create(new, is_new=True, state=PartitionState.RETRYING)
        works += self._create(old, is_new=False, state=PartitionState.RETRYING)
        yield from self._files.ended(works, PREPARE_MS)
        offline_now = self.offline
        refused = sum(key in offline_now for key in keys)
        return Retried(len(keys) - refused, refused)

    def _may_be_created(self, key: tuple[str, int]) -> bool:
        return self._is_new(key) or key in self._log_manager or not self._log_manager.refused

    def _is_new(self, key: tuple[str, int]) -> bool:
        found = self._states.unavailable(key)
        return found is not None and found.is_new

    # Orders beside the image

    @property
    def logs(self) -> Collection[tuple[str, int]]:
        """(topic, index) of the partitions that have a log here, open or not."""
        log_manager = self._log_manager
        return {*log_manager.logs, *log_manager.failed, *log_manager.unopened}

    def stop(self, key: tuple[str, int], leader_epoch: int = -1) -> None:
        """Stop the fetches of a followed partition until its leader epoch is above this one and the present one.

        The log stays open. StopReplica without a deletion asks for this.
        """
        self.followership.stop(key, leader_epoch)

    def leave(self) -> None:
        """Join no further in-sync set: this broker will stop."""
        self.followership.leave()

    def delete(self, key: tuple[str, int]) -> Task[None]:
        """Delete the log of a partition of which the image has no replica here, if there is one.

        StopReplica with a deletion asks for this, also for a stray log. The task ends when the files are renamed.
        Raises KafkaError: FENCED_LEADER_EPOCH while the image has a replica here, KAFKA_STORAGE_ERROR if the files
        cannot be renamed.
        """
        log_manager, changes = self._log_manager, Changes((self._files_changed,))
        self._check_unwanted(key)
        while log_manager.unopened.get(key) is not None or log_manager.is_creating(key):
            yield changes
            self._check_unwanted(key)
        if key in log_manager:
            deletions = self._begin_deletions([key], None)
            yield self._files.add_begun(deletions, self._deleted).ended
            if not all(deletion.is_moved for deletion in deletions):
                message = f"the log of {key[0]}-{key[1]} cannot be renamed; see the broker's log"
                raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, message)
        while log_manager.is_deleting(key):  # its topic was deleted before
            yield changes

    def _check_unwanted(self, key: tuple[str, int]) -> None:
        name, index = key
        topic = self._image.topics.get(name)
        if topic is not None and index < len(topic.partitions) and self._hosts(topic.partitions[index]):
            message = f"{name}-{index} has a replica on this broker: the order to delete it is older than the metadata"
            raise KafkaError(ErrorCode.FENCED_LEADER_EPOCH, message)

    # Deleting

    def _remove(self, topic: Topic) -> None:
        self._names.pop(topic.topic_id, None)
        self._log_manager.removed.add(topic.topic_id)
        keys, others = list[tuple[str, int]](), list[tuple[str, int]]()
        for index in range(len(topic.partitions)):
            key = topic.name, index
            self._forget(key)
            self._states.move(key, None)
            log = self._log_manager.logs.get(key)
            if log is not None and log.topic_id == topic.topic_id:
                keys.append(key)
            elif self._log_manager.unopened.get(key) is not None:  # a thread opens it, perhaps for the second time
                self._states.move(key, Unavailable(PartitionState.DELETING, deleted_topic_id=topic.topic_id))
            else:
                others.append(key)  # no thread may open these from now on
        self._delete(others, topic.topic_id)
        for first in range(0, len(keys), AT_ONCE):
            self._delete_later(keys[first : first + AT_ONCE], topic.topic_id)

    def _delete(self, keys: Sequence[tuple[str, int]], topic_id: bytes) -> None:
        """Delete these logs. Logs that cannot be renamed now go at the next start, by their topic ids."""
        deletions = self._begin_deletions(keys, topic_id)
        if deletions:
            self._files.add_begun(deletions, self._deleted)

    def _delete_later(self, keys: Sequence[tuple[str, int]], topic_id: bytes) -> None:
        """`_delete` in a later turn, for many logs that nothing else will touch."""
        self._files.add(partial(self._begin_deletions, keys, topic_id), self._deleted)

    def _begin_deletions(self, keys: Sequence[tuple[str, int]], topic_id: bytes | None) -> list[PartitionDeletion]:
        begun = (self._log_manager.begin_deletion(key, topic_id) for key in keys)
        return [deletion for deletion in begun if deletion is not None]

    def _deleted(self, deletions: Sequence[PartitionDeletion]) -> None:
        for deletion in deletions:
            self._log_manager.end_deletion(deletion)
        self._tasks.touch(self._files_changed)


def _changed(before: Topic | None, after: Topic) -> Iterable[int]:
    """The partitions whose state or configs may differ: in a topic with thousands, a change has some of them."""
    if before is None or before.topic_id != after.topic_id or before.configs != after.configs:
        return range(len(after.partitions))
    pairs = enumerate(zip_longest(before.partitions, after.partitions))
    return [index for index, (old, new) in pairs if old is not new and old != new]


def _all_known(_index: int) -> bool:
    """Every partition of the topic had a replica here before."""
    return True

"""All partitions that this broker has, kept in step with the cluster's image.

A partition is in one state, and a key that is in none is no partition:

    state      its log                               `get` raises                 what comes next
    served     is open                               nothing                      deleted; led elsewhere: ELSEWHERE
    OPENING    is there, and will be opened          NOT_LEADER_OR_FOLLOWER       `opened`: served, or OFFLINE
    MAKING     is being made by a thread             NOT_LEADER_OR_FOLLOWER       made: served; refused: OFFLINE
    RAISING    lost what clients may have read       NOT_LEADER_OR_FOLLOWER       a higher leader epoch: served
    OFFLINE    is damaged, or could not be made      KAFKA_STORAGE_ERROR          `retry`: RETRYING
    RETRYING   is being made once more               KAFKA_STORAGE_ERROR          made: served; refused: OFFLINE
    ELSEWHERE  stays here, and another node leads    NOT_LEADER_OR_FOLLOWER       led here: any of the above
    LEAVING    was deleted while a thread opens it   UNKNOWN_TOPIC_OR_PARTITION   `opened`: deleted

What is new is made before the image that has it is anybody's to see (`prepare`), so that nobody meets MAKING who does
not guess the name; but a disk that hangs keeps no change from being seen for longer than `PREPARE_MS`. What is deleted
is no partition any more from then on; its directory is renamed by a thread.

Files are worked on by a thread for each log directory (`file_work.py`), and what becomes of a topic that is made anew
does not depend on which of them is quicker. All is begun in the order it came, so that the old partition has left the
store when the new one gets its place. If that is in the same directory, it comes behind the renaming there. If it is
not, the one has nothing to do with the other: should a stop come between them, the next start finds both, and knows by
their ids which was deleted. Of one name one partition is made at a time, as nobody knows yet where it will be: the next
one is MAKING until that is known.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, islice
from typing import TYPE_CHECKING, NamedTuple

from headgate.gateway.config import BrokerConfig
from headgate.gateway.metadata.image import INTERNAL_TOPICS, Image, Topic
from headgate.gateway.replication.append_queue import DiskMonitor
from headgate.gateway.replication.file_tasks import CountdownLatch, FileTaskQueue
from headgate.gateway.replication.replica import Replica
from headgate.gateway.replication.unavailable import Unavailable, UnavailablePartitions, UnavailableState, unknown
from headgate.gateway.runtime.purgatory import Purgatory
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.storage.config import LogConfig
from headgate.storage.directory.log_manager import LogManager
from headgate.storage.directory.partition_files import PartitionCreation, PartitionDeletion
from headgate.storage.files import HeldFiles, parent
from headgate.storage.log.log import Log

if TYPE_CHECKING:
    from headgate.gateway.runtime.scheduler import Scheduler

logger = logging.getLogger("headgate.replication")

# Partitions that are made, or deleted, between two looks of the loop: to begin and to take up one takes 10 us or more.
AT_ONCE = 64
# So long a change of the metadata waits for the files of its new partitions, and those behind it with it.
PREPARE_MS = 5_000.0
_OPENING = Unavailable(UnavailableState.OPENING)


class _New(NamedTuple):
    """A partition that is being made, of which topic."""

    topic: Topic
    making: PartitionCreation

    @property
    def directory(self) -> str:
        return self.making.directory

    def run(self) -> None:
        self.making.run()


class Retried(NamedTuple):
    """How many partitions could be made now that could not be made before, and how many still not."""

    made: int
    refused: int


class ReplicaManager:
    """(topic, index) -> Partition. Follows the image: makes logs for what appears in it, removes those of what goes.

    A partition whose log is not open yet is in `opening`; it has no leader until `opened` is called for it.
    """

    def __init__(
        self,
        store: LogManager,
        config: BrokerConfig,
        purgatory: Purgatory,
        disk: DiskMonitor | None = None,
        scheduler: Scheduler | None = None,
    ) -> None:
        """With a scheduler, files are made and renamed in threads once `start` was called; else at once."""
        self._store = store
        self._scheduler = scheduler
        self._files = FileTaskQueue()
        self._config = config
        self._purgatory = purgatory
        self._disk = disk
        self._disks: dict[str, DiskMonitor] = {}  # of each log directory that is in use: one may be slow, and no other
        self._partitions: dict[tuple[str, int], Replica] = {}
        self._withheld: dict[tuple[str, int], Replica] = {}  # those that are RAISING
        self._absent = UnavailablePartitions()
        self._behind: dict[tuple[str, int], Topic] = {}  # whose partition is to be made after an older one
        self._names: dict[bytes, str] = {}
        self._image = Image.empty()
        self._is_following = False
        self._tell = self._advanced  # one for all of them
        self._on_open: list[Callable[[str, int], None]] = []
        self._epochs_are_raised = True
        self.epoch_is_due: Callable[[], None] = lambda: None
        """Called when a partition needs a higher leader epoch: see `withheld`."""
        self.has_legacy_format = False
        """Whether a log that was ever opened may hold messages of magic 0 and 1, which have to be converted."""
        self.rooms: dict[str, tuple[int, int]] = {}
        """What `gateway.maintenance.disk_space` told of the log directories when last asked, which waits for no
        disk.
        """
        self._full: dict[str, KafkaError] = {}  # directories without room, and what producers are told
        self._failed: dict[str, KafkaError] = {}  # the same of those whose disks are gone
        self._hung: set[str] = set()
        self.disk_failed: Callable[[str, object], None] = lambda _, __: None
        """Called with a log directory and each error of a write or a sync in it."""
        self.disk_is_back: Callable[[str], None] = lambda _: None
        """Called with a log directory that takes everything again, or of which a log was mended."""

    def __iter__(self) -> Iterator[Replica]:
        """Those that are served, then those that are withheld."""
        return chain(self._partitions.values(), self._withheld.values())

    def __len__(self) -> int:
        return len(self._partitions)

    @property
    def high_watermarks(self) -> dict[tuple[str, int], int]:
        """Those of now, of all whose logs are open."""
        return {partition.log.key: partition.high_watermark for partition in self}

    def get(self, topic: str, index: int) -> Replica:
        """The partition, of which this broker is the leader.

        Raises KafkaError: UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER, also while its log is being opened or
        made, KAFKA_STORAGE_ERROR for a damaged one.
        """
        partition = self._partitions.get((topic, index))
        if partition is None:
            absent = self._absent.get((topic, index))
            raise unknown(topic, index) if absent is None else absent.refusal(topic, index)
        return partition

    def of_log(self, log: Log) -> Replica | None:
        """The partition whose log this is, served or withheld; None for the metadata log, or one led elsewhere."""
        partition = self._partitions.get(log.key) or self._withheld.get(log.key)
        return partition if partition is not None and partition.log is log else None

    # Leader epochs

    def withhold(self, partition: Replica) -> None:
        """Serve a partition no more until its leader epoch is higher: its log lost what clients may have read."""
        key = partition.log.key
        if self._partitions.pop(key, None) is not None:
            self._withhold(partition)
            self._purgatory.touch(partition.waiters)

    def _withhold(self, partition: Replica) -> None:
        key = partition.log.key
        self._withheld[key] = partition
        self._absent.put(key, Unavailable(UnavailableState.RAISING))
        self._check_room(partition)
        logger.warning("%s-%d is not served until it has a leader epoch above %d", *key, partition.latest_epoch)
        self.epoch_is_due()

    @property
    def withheld(self) -> dict[tuple[str, int], int]:
        """The partitions that need a higher leader epoch, each with the epoch that it has to be above."""
        return {key: partition.latest_epoch for key, partition in self._withheld.items()}

    def _release(self, partition: Replica) -> None:
        """Serve it again, under the epoch that it has now."""
        key = partition.log.key
        del self._withheld[key]
        self._absent.drop(key)
        self._partitions[key] = partition
        self._check_room(partition)
        logger.warning("%s-%d is served again, in leader epoch %d", *key, partition.leader_epoch)
        self._purgatory.touch(partition.waiters)

    @property
    def held(self) -> HeldFiles:
        """The files that pieces keep open, of answers that were not sent yet."""
        return self._store.held

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

    def set_hung(self, directory: str, *, is_hung: bool) -> None:
        """The disk of a log directory does not answer: as long as there is another one, that gets what is new."""
        (self._hung.add if is_hung else self._hung.discard)(directory)
        self._look_for_room()

    @property
    def offline_directories(self) -> Collection[str]:
        """The log directories whose disks are gone since the start."""
        return self._failed.keys()

    def _look_for_room(self) -> None:
        self._store.low = frozenset((*self._full, *self._failed, *self._hung))

    def _check_all(self) -> None:
        self._look_for_room()
        for partition in self:
            self._check_room(partition)

    def _check_room(self, partition: Replica) -> None:
        directory = parent(partition.log.directory)
        full = None if partition.topic in INTERNAL_TOPICS else self._full.get(directory)
        reason = self._failed.get(directory, full)
        if partition.log.key in self._withheld:
            reason = Unavailable(UnavailableState.RAISING).refusal(*partition.log.key)
        partition.read_only = reason

    def on_open(self, callback: Callable[[str, int], None]) -> None:
        """Have `callback(topic, index)` called when a partition has come online after the broker."""
        self._on_open.append(callback)

    @property
    def opening(self) -> Collection[tuple[str, int]]:
        """The partitions, by topic and index, that are this broker's and have no leader yet, but soon."""
        return self._absent.within(UnavailableState.OPENING, UnavailableState.MAKING, UnavailableState.RAISING)

    @property
    def offline(self) -> Collection[tuple[str, int]]:
        """The partitions, by topic and index, that are this broker's and cannot be opened or made."""
        return self._absent.within(UnavailableState.OFFLINE, UnavailableState.RETRYING)

    def topic_name(self, topic_id: bytes) -> str:
        """The name behind an id; raises KafkaError(UNKNOWN_TOPIC_ID)."""
        try:
            return self._names[topic_id]
        except KeyError:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, "no topic has that id") from None

    # Following the image

    def start(self, image: Image, *, epochs_are_raised: bool = True) -> None:
        """Have the partitions of the image that a broker starts with: none of them is new.

        `epochs_are_raised`: this start has raised all leader epochs, so that one that a log knows belongs to the past.
        """
        self._image, self._epochs_are_raised = image, epochs_are_raised
        for topic in image.topics.values():
            self._put(topic, known=len(topic.partitions))
        self._files.go_on_in_threads(self._scheduler)

    def prepare(self, old: Image, new: Image, names: Collection[str], done: Callable[[], None]) -> None:
        """Make the logs of what `follow` will find new in these topics, and call `done` then, whatever became of it.

        Where that takes long `done` is called before, too: clients meet MAKING then, and come again.
        """
        together = CountdownLatch(done)
        for name in names:
            topic = new.topics.get(name)
            if topic is not None:
                indexes = range(_known(old.topics.get(name), topic), len(topic.partitions))
                wanted = [index for index in indexes if self._is_to_be_made(topic, index)]
                self._make([(topic, index) for index in wanted], is_new=True, together=together)
        together.all_added(self._scheduler, PREPARE_MS)

    def follow(self, old: Image, new: Image, names: Collection[str]) -> None:
        """Bring the partitions of these topics in step with a changed image."""
        self._image, self._is_following = new, True
        try:
            self._follow(old, new, names)
        finally:
            self._is_following = False

    def _follow(self, old: Image, new: Image, names: Collection[str]) -> None:
        for name in names:
            before, after = old.topics.get(name), new.topics.get(name)
            if before is not None and (after is None or after.topic_id != before.topic_id):
                self._remove(before)
            if after is not None and after is not before:
                self._put(after, _known(before, after))
        node_id = self._config.node_id
        if old.broker_configs(node_id) != new.broker_configs(node_id):  # they stand in for what a topic does not set
            for topic in new.topics.values():
                self._put(topic, known=len(topic.partitions))

    def opened(self, keys: Collection[tuple[str, int]]) -> None:
        """The logs of these are open now, or stay closed."""
        for key in keys:
            try:
                self._opened(key)
            except Exception:  # a fault of ours, which those behind it may not have
                logger.exception("%s-%d was opened, and cannot be taken up", *key)

    def _opened(self, key: tuple[str, int]) -> None:
        name, index = key
        absent = self._absent.get(key)
        if absent is not None and absent.state in (UnavailableState.OPENING, UnavailableState.LEAVING):
            self._absent.drop(key)
        is_doomed = absent is not None and absent.doomed is not None
        if absent is not None and absent.doomed is not None:
            self._delete([key], absent.doomed)
        topic = self._image.topics.get(name)
        if topic is not None and index < len(topic.partitions):
            if self._put_one(topic, index, self._config.log_config(topic.configs)):
                self._make([(topic, index)], is_new=is_doomed)
            elif key in self._partitions:
                self._came_online(key)

    def _came_online(self, key: tuple[str, int]) -> None:
        for callback in self._on_open:
            callback(*key)

    def _put(self, topic: Topic, known: int) -> None:
        """Have its partitions; those from the number `known` on were not there before."""
        log_config = self._config.log_config(topic.configs)
        self._names[topic.topic_id] = topic.name
        missing = [(topic, index) for index in range(len(topic.partitions)) if self._put_one(topic, index, log_config)]
        if missing:
            self._make([row for row in missing if row[1] < known], is_new=False)
            self._make([row for row in missing if row[1] >= known], is_new=True)

    def _put_one(self, topic: Topic, index: int, log_config: LogConfig) -> bool:
        """Have a partition as far as it is there; whether its log is to be made."""
        key, state = (topic.name, index), topic.partitions[index]
        if state.leader != self._config.node_id:
            self._leave(key, state.leader)
            return False
        partition = self._partitions.get(key) or self._withheld.get(key)
        if partition is not None and partition.log.topic_id in (None, topic.topic_id):
            self._set(partition, topic, log_config)
            return False
        self._forget(key)
        absent = self._absent.get(key)
        if key in self._store.unopened:
            is_doomed = absent is not None and absent.doomed is not None
            self._absent.put(
                key, Unavailable(UnavailableState.OPENING, doomed=absent.doomed) if absent and is_doomed else _OPENING
            )
            return False
        log, failed = self._store.logs.get(key), self._store.failed.get(key)
        if log is not None and log.topic_id in (None, topic.topic_id):
            self._serve(topic, index, log, log_config)
        elif failed is not None:
            error = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(failed))  # whoever opened it has told the log
            self._absent.put(key, Unavailable(UnavailableState.OFFLINE, topic.topic_id, error=error))
        elif absent is None or absent.topic_id != topic.topic_id:  # else it is being made, or will be tried again
            return self._is_to_be_made(topic, index)
        return False

    def _is_to_be_made(self, topic: Topic, index: int) -> bool:
        key, store = (topic.name, index), self._store
        if topic.partitions[index].leader != self._config.node_id or key in self._partitions or key in store.unopened:
            return False
        log = store.logs.get(key)
        return key not in store.failed and (log is None or log.topic_id not in (None, topic.topic_id))

    def _set(self, partition: Replica, topic: Topic, log_config: LogConfig) -> None:
        state = topic.partitions[partition.index]
        is_raised = state.leader_epoch > partition.latest_epoch
        partition.configure(log_config)
        if partition.leader_epoch != state.leader_epoch:
            partition.leader_epoch = state.leader_epoch
            self._purgatory.touch(partition.waiters)
        partition.replicas, partition.isr = state.replicas, state.isr
        if is_raised and partition.log.key in self._withheld:
            self._release(partition)

    def _serve(self, topic: Topic, index: int, log: Log, log_config: LogConfig) -> None:
        """Its log is there, and it is served from now on."""
        if log.topic_id == topic.topic_id:
            log.share_topic_id(topic.topic_id)
        self.has_legacy_format = self.has_legacy_format or log.has_legacy_format
        partition = Replica(topic.name, index, log, topic.partitions[index].leader_epoch, self._tell)
        partition.disk = self._disk_of(log)
        partition.validate = self._config.headgate_validate_records
        if self._full or self._failed:
            self._check_room(partition)
        self._absent.drop(log.key)
        if self._has_later_epoch(partition):
            self._withhold(partition)
        else:
            self._partitions[log.key] = partition
        self._set(partition, topic, log_config)

    def _has_later_epoch(self, partition: Replica) -> bool:
        """Whether the log knows the leader epoch of the metadata, or a later one: another history has written it."""
        log = partition.log
        return log.epochs.latest >= partition.leader_epoch + (not self._epochs_are_raised)

    def _disk_of(self, log: Log) -> DiskMonitor | None:
        first, directory = self._disk, parent(log.directory)
        if first is None or directory in self._disks:
            return self._disks.get(directory)
        disk = self._disks[directory] = DiskMonitor(first.clock, first.scheduler) if self._disks else first
        disk.failed = lambda error: self.disk_failed(directory, error)
        return disk

    def _refuse(self, topic: Topic, index: int, error: KafkaError, *, is_new: bool = False) -> None:
        """It cannot be had: then the others go on, and `get` says why."""
        key = topic.name, index
        before = self._absent.get(key)
        if before is None or before.error is None:
            logger.error("%s-%d is offline: %s", *key, error.message)
        self._absent.put(key, Unavailable(UnavailableState.OFFLINE, topic.topic_id, is_new, error))

    def _leave(self, key: tuple[str, int], leader: int) -> None:
        """Serve no more what another broker leads; its log stays. Who waits for it is told."""
        self._forget(key)
        self._absent.put(key, Unavailable(UnavailableState.ELSEWHERE, leader=leader))

    def _forget(self, key: tuple[str, int]) -> None:
        partition = self._partitions.pop(key, None) or self._withheld.pop(key, None)
        if partition is not None:
            self._purgatory.touch(partition.waiters)

    # Making

    def _make(
        self,
        wanted: Sequence[tuple[Topic, int]],
        *,
        is_new: bool,
        state: UnavailableState = UnavailableState.MAKING,
        together: CountdownLatch | None = None,
    ) -> None:
        """Have the logs of these made, some at a time."""
        lost = set()
        for topic, index in wanted:
            before = self._absent.get((topic.name, index))
            if before is None and not is_new and (topic.name, index) not in self._store:
                lost.add((topic.name, index))
            error = None if before is None else before.error
            self._absent.put((topic.name, index), Unavailable(state, topic.topic_id, is_new, error))
        for first in range(0, len(wanted), AT_ONCE):
            begin = partial(self._begin_some, wanted[first : first + AT_ONCE], lost)
            self._files.add(begin, self._made, together)

    def _begin_some(self, wanted: Iterable[tuple[Topic, int]], lost: Collection[tuple[str, int]]) -> list[_New]:
        begun = []
        for topic, index in wanted:
            try:
                making = self._begin_creation(topic, index, lost)
            except Exception:
                logger.exception("%s-%d cannot be made", topic.name, index)
                self._give_up(topic, index)
            else:
                if making is not None:
                    begun.append(_New(topic, making))
        return begun

    def _give_up(self, topic: Topic, index: int) -> None:
        """Have a partition tried again later that nobody came to: no thread, or a fault of ours."""
        absent = self._absent.get((topic.name, index))
        if (
            absent is not None
            and absent.topic_id == topic.topic_id
            and absent.state in (UnavailableState.MAKING, UnavailableState.RETRYING)
        ):
            error = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{topic.name}-{index} could not be made yet")
            self._refuse(topic, index, error, is_new=absent.is_new)

    def _begin_creation(self, topic: Topic, index: int, lost: Collection[tuple[str, int]]) -> PartitionCreation | None:
        """A new log. One that should have been there may be somewhere else; else it is lost, which has to be told."""
        key = topic.name, index
        absent = self._absent.get(key)
        if absent is None or absent.topic_id != topic.topic_id:  # it was deleted meanwhile
            return None
        if self._store.is_creating(key):
            self._behind[key] = topic
            return None
        try:
            if not absent.is_new:
                self._store.check_not_refused(*key)
                offset = self._store.high_watermark(key) if key in lost else 0
                if offset:
                    logger.error("%s-%d begins anew: its directory is gone, with offsets up to %d", *key, offset)
            now_ms = 0 if self._disk is None else self._disk.clock.now_ms()
            return self._store.begin_creation(key, topic.topic_id, self._config.log_config(topic.configs), now_ms)
        except KafkaError as error:
            self._refuse(topic, index, error, is_new=absent.is_new)
            return None

    def _made(self, ended: Iterable[_New]) -> None:
        for topic, making in ended:
            try:
                self._take_up(topic, making)
            except Exception:  # a fault of ours, which those behind it may not have
                logger.exception("%s-%d was made, and cannot be taken up", *making.key)
            if not self._files.is_over:
                self._give_up(topic, making.key[1])
                self._make_next(making.key)

    def _take_up(self, topic: Topic, making: PartitionCreation) -> None:
        """A log was made, or could not be. What its topic has met meanwhile stands in the image, or in `removed`."""
        key, index = making.key, making.key[1]
        absent = self._absent.get(key)
        is_wanted = absent is not None and absent.topic_id == topic.topic_id
        try:
            log = self._store.end_creation(making)
        except KafkaError as error:
            self.disk_failed(making.directory, error)
            if is_wanted and absent is not None and making.error is not None:  # else no thread came to it
                self._refuse(topic, index, error, is_new=absent.is_new)
            return
        if is_wanted:
            present = self._image.topics.get(topic.name)
            is_known = present is not None and present.topic_id == topic.topic_id and index < len(present.partitions)
            known = present if present is not None and is_known else topic
            self._serve(known, index, log, self._config.log_config(known.configs))
            if is_known and not self._is_following:
                self._came_online(key)
        elif topic.topic_id in self._store.removed:
            self._delete([key], topic.topic_id)

    def _make_next(self, key: tuple[str, int]) -> None:
        """Make what came behind an older partition of its name."""
        topic, absent = self._behind.pop(key, None), self._absent.get(key)
        if topic is not None and absent is not None and absent.topic_id == topic.topic_id:
            self._make([(topic, key[1])], is_new=absent.is_new, state=absent.state)

    def retry(self, done: Callable[[Retried], None] = lambda _: None) -> None:
        """Try again to make some of what could not be made: the reason may have been a moment without room.

        The next call goes on where this one ended; `done` is called at its end, or where that takes long before. What
        could not be opened is another's to try (`gateway.maintenance.log_loading`); what is in a refused directory
        stays there.
        """
        store, topics = self._store, self._image.topics
        offline = (key for key in self._absent.within(UnavailableState.OFFLINE) if key not in store.failed)
        keys = list(islice((key for key in offline if key[0] in topics and self._may_be_made(key)), AT_ONCE))
        new, old = list[tuple[Topic, int]](), list[tuple[Topic, int]]()
        for name, index in keys:
            log = store.logs.get((name, index))
            if log is not None and log.topic_id in (None, topics[name].topic_id):  # a fault of ours, and not the disk's
                self.opened([(name, index)])
            else:
                (new if self._is_new((name, index)) else old).append((topics[name], index))

        def ended() -> None:
            offline = self.offline
            refused = sum(key in offline for key in keys)
            done(Retried(len(keys) - refused, refused))

        together = CountdownLatch(ended)
        self._make(new, is_new=True, state=UnavailableState.RETRYING, together=together)
        self._make(old, is_new=False, state=UnavailableState.RETRYING, together=together)
        together.all_added(self._scheduler, PREPARE_MS)

    def _may_be_made(self, key: tuple[str, int]) -> bool:
        return self._is_new(key) or key in self._store or not self._store.refused

    def _is_new(self, key: tuple[str, int]) -> bool:
        absent = self._absent.get(key)
        return absent is not None and absent.is_new

    # Deleting

    def _remove(self, topic: Topic) -> None:
        self._names.pop(topic.topic_id, None)
        self._store.removed.add(topic.topic_id)
        keys, others = list[tuple[str, int]](), list[tuple[str, int]]()
        for index in range(len(topic.partitions)):
            key = topic.name, index
            self._forget(key)
            self._absent.drop(key)
            log = self._store.logs.get(key)
            if log is not None and log.topic_id == topic.topic_id:
                keys.append(key)
            elif self._store.unopened.get(key) is not None:  # a thread has it, maybe for the second time
                self._absent.put(key, Unavailable(UnavailableState.LEAVING, doomed=topic.topic_id))
            else:
                others.append(key)  # what nobody has yet, nobody may get
        self._delete(others, topic.topic_id)
        for first in range(0, len(keys), AT_ONCE):
            self._delete_later(keys[first : first + AT_ONCE], topic.topic_id)

    def _delete(self, keys: Sequence[tuple[str, int]], topic_id: bytes) -> None:
        """Have no logs of these any more. What cannot be renamed now goes at the next start, by its topic id."""
        deletions = self._begin_deletions(keys, topic_id)
        if deletions:
            self._files.add_begun(deletions, self._deleted)

    def _delete_later(self, keys: Sequence[tuple[str, int]], topic_id: bytes) -> None:
        """The same when its turn has come: for many that nobody else will take."""
        self._files.add(partial(self._begin_deletions, keys, topic_id), self._deleted)

    def _begin_deletions(self, keys: Sequence[tuple[str, int]], topic_id: bytes) -> list[PartitionDeletion]:
        begun = (self._store.begin_deletion(key, topic_id) for key in keys)
        return [deletion for deletion in begun if deletion is not None]

    def _deleted(self, deletions: Sequence[PartitionDeletion]) -> None:
        for deletion in deletions:
            self._store.end_deletion(deletion)

    def _advanced(self, partition: Replica) -> None:
        self._purgatory.touch(partition.waiters)


def _known(before: Topic | None, after: Topic) -> int:
    """How many partitions of a topic there were before."""
    return len(before.partitions) if before is not None and before.topic_id == after.topic_id else 0

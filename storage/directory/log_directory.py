"""A data directory: its lock, its identity, its checkpoints, and the logs of all partitions in it.

The states of logs stand in `log_states.py`, the work of threads on files in `log_opening.py` and `partition_files.py`;
several directories are one in `log_manager.py`.
"""

from __future__ import annotations

import contextlib
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from random import Random
from typing import NamedTuple

from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.storage.directory.kafka_directory import CLUSTER_METADATA
from headgate.storage.directory.log_opening import ConfigOf, LogOpening
from headgate.storage.directory.log_states import LogState, LogStates
from headgate.storage.directory.partition_files import PartitionCreation, PartitionDeletion, Place
from headgate.storage.disk import checkpoint, layout
from headgate.storage.disk.checkpoint import (
    CLEANED_OFFSETS,
    HIGH_WATERMARKS,
    RECOVERY_POINTS,
    START_OFFSETS,
    OffsetCheckpoint,
    TopicPartition,
    offsets_of,
    run_all,
)
from headgate.storage.disk.layout import Meta
from headgate.storage.disk.pool import Pool
from headgate.storage.errors import BadFile, NotALog, StorageError
from headgate.storage.files import Files, Lock, parent
from headgate.storage.log.log import Log, LogConfig
from headgate.storage.recovery.recovery_input import RecoveryInput, bytes_to_scan

logger = logging.getLogger("headgate.storage")

LOCK = ".lock"
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
MANY_LOGS = 32


class Configs(NamedTuple):
    """Where the settings of topics are recorded: `known_by(log)` finds them in the log of the partition `first`."""

    first: TopicPartition
    known_by: Callable[[Log], ConfigOf]


class LogDirectory:
    """The logs of one data directory. Each partition is in one state of `log_states.py`.

    `leaving` counts deleted partitions whose directories are still to be renamed: a name may have come and gone again
    meanwhile.
    """

    def __init__(self, directory: str, pool: Pool, lock: Lock, meta: Meta, config: LogConfig, random: Random) -> None:
        """Use `LogDirectory.open`."""
        self.directory = directory
        self.pool = pool
        self.meta = meta
        self.config = config
        self._states = LogStates()
        self.logs: Mapping[TopicPartition, Log] = self._states.logs
        """The open logs."""
        self.failed: Mapping[TopicPartition, StorageError] = self._states.failed
        """The partitions that stay closed, and why."""
        self.unopened: Mapping[TopicPartition, LogOpening | None] = self._states.unopened
        """The partitions that are not open yet, with their openings if they were begun."""
        self._lent: dict[TopicPartition, Log] = {}  # deleted while a thread was at their files
        self.leaving: Counter[TopicPartition] = Counter()
        self.refused_creation_ms: int | None = None
        """When the disk last refused a new partition, by the clock of callers; None if it took one since."""
        self.removed: set[bytes] = set()
        """The ids of topics that are recorded as deleted: only logs of these topics may be removed."""
        self._forget: Callable[[], None] | None = None  # see `Place.forget`: until it was run
        self._lock = lock
        self._random = random
        self._high_watermarks: dict[TopicPartition, int] = {}
        self._recovery_points: dict[TopicPartition, int] = {}
        self._start_offsets: dict[TopicPartition, int] = {}
        self._cleaned_offsets: dict[TopicPartition, int] = {}
        self._checkpoints = {
            name: OffsetCheckpoint(pool.files, f"{directory}/{name}")
            for name in (HIGH_WATERMARKS, START_OFFSETS, RECOVERY_POINTS, CLEANED_OFFSETS)
        }
        self._was_clean = False
        self._is_open = True

    @classmethod
    def open(
        cls,
        directory: str,
        *,
        files: Files,
        node_id: int,
        config: LogConfig,
        now_ms: int,
        random: Random,
        cluster_id: str | None = None,
        configs: Configs | None = None,
    ) -> LogDirectory:
        """Take a data directory, made if it is not there, and open every log in it at once.

        `config` is for logs until they get their own; `configs` finds these for recovery, which makes indexes as the
        settings of a topic want them. A damaged partition is reported and stays in `failed`; others
        open. Raises DirectoryLocked, naming the other process; StorageError for the directory of another node or
        cluster; OSError.
        """
        store = cls.take(directory, files=files, node_id=node_id, config=config, random=random, cluster_id=cluster_id)
        try:
            store.open_all(now_ms, configs)
        except BaseException:
            store.abandon()
            raise
        return store

    @classmethod
    def take(
        cls,
        directory: str,
        *,
        files: Files,
        node_id: int,
        config: LogConfig,
        random: Random,
        cluster_id: str | None = None,
        pool: Pool | None = None,
    ) -> LogDirectory:
        """Take a data directory, made if it is not there, and open no log yet: all of them are in `unopened`.

        Raises DirectoryLocked, naming the other process; StorageError for the directory of another node or cluster;
        OSError.
        """
        directory = directory.rstrip("/")
        if not files.exists(directory):
            files.make_directories(directory)
            files.sync_directory(parent(directory))
        lock = files.lock(f"{directory}/{LOCK}")
        try:
            meta = layout.own(files, directory, node_id, cluster_id, random)
            store = cls(directory, pool or Pool(files), lock, meta, config, random)
            store._look_around()
        except BaseException:
            lock.release()
            raise
        return store

    def __repr__(self) -> str:
        return f"LogDirectory({self.directory}, {len(self.logs)} logs)"

    @property
    def cluster_id(self) -> str:
        """The cluster to which the directory belongs, 22 characters."""
        return self.meta.cluster_id

    @property
    def was_clean(self) -> bool:
        """Whether the last stop was clean: no log has lost anything since."""
        return self._was_clean

    def __contains__(self, key: TopicPartition) -> bool:
        """Whether the directory has this partition, open or not."""
        return key in self._states

    def __len__(self) -> int:
        """How many partitions there are, open or not."""
        return len(self._states)

    def _path(self, name: str) -> str:
        return f"{self.directory}/{name}"

    def _look_around(self) -> None:
        files = self.pool.files
        names = files.list(self.directory)
        self._was_clean = CLEAN_SHUTDOWN in names
        self._recovery_points = self._read_checkpoint(RECOVERY_POINTS)
        self._start_offsets = self._read_checkpoint(START_OFFSETS)
        self._high_watermarks = self._read_checkpoint(HIGH_WATERMARKS)
        self._cleaned_offsets = self._read_checkpoint(CLEANED_OFFSETS)
        files.remove(self._path(CLEAN_SHUTDOWN))
        files.sync_directory(self.directory)
        for key in self._partitions(names):
            self._states.move(key, LogState.UNOPENED)
        if self.unopened and not self._was_clean:
            sentence = "%s: the last stop was not in order, or left a log closed; what was not flushed is looked at"
            logger.info(sentence, self.directory)

    # Opening

    def open_all(self, now_ms: int, configs: Configs | None = None) -> None:
        """Open every log that is not yet open, at once; that of `configs` first."""
        config_of: ConfigOf = self._default_config
        if configs is not None and configs.first in self.unopened:
            log = self.open_now(configs.first, self.config, now_ms)
            if log is not None:
                config_of = configs.known_by(log)
        for key in list(self.unopened):
            self.open_now(key, config_of(key[0]), now_ms)

    def open_now(self, key: TopicPartition, config: LogConfig, now_ms: int) -> Log | None:
        """Open one log at once; None if it stays closed."""
        opening = self.begin_opening(key, config, now_ms)
        opening.run()
        self.end_opening(opening)
        return self.logs.get(key)

    @property
    def refused(self) -> list[TopicPartition]:
        """The partitions of `failed` that the system refused: unlike damage, that may be over in a moment."""
        return [key for key, error in self.failed.items() if isinstance(error.__cause__, OSError)]

    def allow_retry(self, key: TopicPartition) -> None:
        """Put a partition of `refused` back among the unopened ones, to try again."""
        self._states.move(key, LogState.UNOPENED)

    def bytes_to_scan(self, key: TopicPartition) -> int:
        """How much of an unopened log has to be read at most, as its directory looks; in any thread. Raises OSError."""
        found = self._found(key)
        return 0 if self._was_clean else bytes_to_scan(found, self.pool.files.list(found.directory))

    def begin_opening(self, key: TopicPartition, config: LogConfig, now_ms: int) -> LogOpening:
        """Begin to open a log of `unopened`. The opening is to be run in any thread, and handed to `end_opening`."""
        opening = LogOpening(self.pool.files, self._found(key), config, self._random, now_ms)
        self._states.move(key, opening)
        return opening

    def end_opening(self, opening: LogOpening) -> None:
        """An opening was run: its log is one of `logs` now, or of `failed`.

        An opening that was broken off stays in `unopened`, and can be begun again. A directory that holds no log is in
        none of them.
        """
        key = opening.found.topic, opening.found.index
        if self.unopened.get(key) is not opening:
            return
        if opening.log is not None:
            opening.log.move_to(self.pool)
            self._states.move(opening.log.key, opening.log)
            if key in self._cleaned_offsets:
                opening.log.compacted.note_end(self._cleaned_offsets[key])
        elif isinstance(opening.error, NotALog):
            self._states.move(key, LogState.NONE)  # it is nobody's partition, and `create` will not make one there
        elif opening.error is not None:
            self._states.move(key, opening.error)
        else:
            self._was_clean = self._was_clean and not opening.has_begun  # it may have begun to repair something
            self._states.move(key, LogState.UNOPENED)

    def _found(self, key: TopicPartition) -> RecoveryInput:
        return RecoveryInput(
            *key,
            directory=self._path(layout.partition_name(*key)),
            start_offset=self._start_offsets.get(key, 0),
            recovery_point=self._recovery_points.get(key, 0),
            is_clean=self._was_clean,
            high_watermark=self._high_watermarks.get(key, 0),
        )

    def _default_config(self, topic: str) -> LogConfig:
        return self.config

    def _partitions(self, names: Mapping[str, int]) -> list[TopicPartition]:
        """The partitions with directories. Directories of deleted partitions are noted to be removed."""
        keys = []
        for name in sorted(name for name, size in names.items() if size < 0):
            key = layout.parse_partition(name)
            if layout.is_deleted(name):
                self.pool.pending_deletions.add(self._path(name), is_directory=True)
            elif key is not None and key[0] == CLUSTER_METADATA:
                continue  # Apache Kafka's, in a directory that was adopted: never opened, and never changed
            elif key is None:
                logger.warning("%s is not a partition's directory; left alone", self._path(name))
            else:
                keys.append(key)
        return keys

    def _read_checkpoint(self, name: str) -> dict[TopicPartition, int]:
        try:
            return checkpoint.read_offsets(self.pool.files, self._path(name))
        except BadFile as error:
            logger.error("%s; all that it says is taken as 0, so that logs are scanned from their start", error)
            return {}

    # Changing

    def create(self, topic: str, partition: int, topic_id: bytes, config: LogConfig, now_ms: int = 0) -> Log:
        """A new partition's empty log, at once. Nothing is synced: its names are on the disk after its first flush.

        Raises KafkaError as `begin_creation` and `end_creation` do.
        """
        key = topic, partition
        creation = PartitionCreation(key, topic_id, config, now_ms, [self.begin_creation(key, topic_id)])
        creation.run()
        return self.end_creation(creation)

    def begin_creation(self, key: TopicPartition, topic_id: bytes) -> Place:
        """What a `PartitionCreation` has to know of this directory. An open log of another topic is retired.

        Raises KafkaError: TOPIC_ALREADY_EXISTS, KAFKA_STORAGE_ERROR for one that is damaged or not yet open.
        """
        topic, partition = key
        if key in self.failed:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(self.failed[key]))
        if key in self.unopened:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"an older log of {topic}-{partition} is being opened")
        self._check_not_lent(key)
        log = self.logs.get(key)
        if self.is_creating(key) or (log is not None and log.topic_id in (None, topic_id)):
            raise KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"there is a log of {topic}-{partition} already")
        if log is not None:
            self._retire(key)
            self._check_not_lent(key)
        points = (self._recovery_points, self._start_offsets, self._high_watermarks, self._cleaned_offsets)
        is_known = any(offsets.get(key, 0) for offsets in points)
        # What is no longer known here may still be on the disk.
        if is_known or (self._forget is None and any(each.is_pending for each in self._checkpoints.values())):
            self._forget = self.begin_checkpoint(offsets_of(self.logs, self._high_watermarks))
        self._states.move(key, LogState.CREATING)
        return self._place()

    def is_creating(self, key: TopicPartition) -> bool:
        """Whether a partition of this name was begun to be created here."""
        return key in self._states.creating

    def cancel_creation(self, key: TopicPartition) -> None:
        """A partition that was begun to be created here will not be here."""
        if self.is_creating(key):
            self._states.move(key, LogState.NONE)

    def _place(self) -> Place:
        return Place(self.directory, self.pool, self._random, self.removed, self._forget)

    def end_creation(self, creation: PartitionCreation) -> Log:
        """A `PartitionCreation` was run, and ended in this directory: its log is one of `logs` now.

        Raises KafkaError(KAFKA_STORAGE_ERROR) if the disk refused, or if it was not run.
        """
        self.cancel_creation(creation.key)
        for pool, path in creation.cleared:
            pool.pending_deletions.add(path, creation.config.file_delete_delay_ms, is_directory=True)
        log = creation.log
        if log is None:
            topic, partition = creation.key
            message = f"{topic}-{partition} was not made, as the broker stops"
            raise creation.error or KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, message)
        if self._forget is creation.places[creation.number].forget:
            self._forget = None  # it was run
        self._states.move(log.key, log)
        return log

    def _check_not_lent(self, key: TopicPartition) -> None:
        """A thread that still works with the names of a deleted log would meet the files of the new one."""
        if self._lent:
            self._lent = {lent: log for lent, log in self._lent.items() if log.exclusive_operations}
        if key in self._lent:
            message = f"a thread is at the files of an older log of {key[0]}-{key[1]}"
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, message)

    def delete(self, topic: str, partition: int, *, remove: bool = True) -> None:
        """Delete a partition, a damaged one too: its directory is renamed, then removed, with all else that is deleted.

        With `remove` false the removal is left to the owner of `pool.pending_deletions`, after file.delete.delay.ms.
        Slices that were planned before stay readable. Raises KafkaError: UNKNOWN_TOPIC_OR_PARTITION,
        KAFKA_STORAGE_ERROR, also while the log is being opened.
        """
        path = self._path(layout.deleted_name(topic, partition, self._random))
        log = self._take_away(topic, partition, path)
        delay_ms = (self.config if log is None else log.config).file_delete_delay_ms
        self.pool.pending_deletions.add(path, delay_ms, is_directory=True)
        if remove:
            self.remove_deleted()

    def quarantine_log(self, topic: str, partition: int) -> str:
        """Have this partition no more, and keep its files in the directory that is returned.

        Raises KafkaError as `delete` does.
        """
        path = self._path(layout.stray_name(topic, partition, self._random))
        self._take_away(topic, partition, path)
        return path

    def _take_away(self, topic: str, partition: int, path: str) -> Log | None:
        """Give a partition's directory another name. Returns the log, if that was open."""
        key = topic, partition
        if self.unopened.get(key) is not None:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"the log of {topic}-{partition} is being opened")
        if key not in self:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no log of {topic}-{partition}")
        try:
            self.pool.files.rename(self._path(layout.partition_name(topic, partition)), path)
        except OSError as error:
            raise KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR, f"{topic}-{partition} cannot be deleted: {error}"
            ) from error
        return self._retire(key)

    def begin_deletion(self, key: TopicPartition, topic_id: bytes) -> PartitionDeletion:
        """Have a partition no more, as the topic of this id was deleted. The deletion renames its directory.

        The deletion is to be run in any thread before another partition of the name is created, and handed to
        `end_deletion`. Slices that were planned before stay readable. Not while the log is being opened.
        """
        assert self.unopened.get(key) is None, f"{key} is being opened"
        path = self._path(layout.deleted_name(*key, self._random))
        log = self._retire(key)
        delay_ms = (self.config if log is None else log.config).file_delete_delay_ms
        self.leaving[key] += 1
        return PartitionDeletion(key, topic_id, self._place(), path, delay_ms)

    def end_deletion(self, deletion: PartitionDeletion) -> None:
        """A deletion was run: the directory is removed after file.delete.delay.ms."""
        self.leaving[deletion.key] -= 1
        if not self.leaving[deletion.key]:
            del self.leaving[deletion.key]
        if deletion.is_moved:
            self.pool.pending_deletions.add(deletion.path, deletion.delay_ms, is_directory=True)

    def _retire(self, key: TopicPartition) -> Log | None:
        """Know nothing of a partition any more. Returns its log, if that was open."""
        log = self._states.move(key, LogState.NONE)
        if log is not None:
            log.retire()
            if log.exclusive_operations:
                self._lent[key] = log
        return log

    def remove_deleted(self) -> None:
        """Remove all deleted files without delay. A file that cannot be removed stays in `pool.pending_deletions`."""
        removal = self.pool.pending_deletions.take(0.0, at_once=True)
        if removal is not None:
            removal.run()
            self.pool.pending_deletions.take_back(removal, 0.0)

    def high_watermark(self, key: TopicPartition) -> int:
        """The high watermark of a partition in the last checkpoint; 0 if the checkpoint lacks it."""
        return self._high_watermarks.get(key, 0)

    def high_watermarks(self) -> dict[TopicPartition, int]:
        """The high watermarks of the last checkpoint."""
        return dict(self._high_watermarks)

    def checkpoint(self, high_watermarks: Mapping[TopicPartition, int]) -> None:
        """Write recovery points, log starts and high watermarks; those of closed and unopened partitions stay.

        Raises OSError.
        """
        self.begin_checkpoint(high_watermarks)()

    def begin_checkpoint(self, high_watermarks: Mapping[TopicPartition, int]) -> Callable[[], None]:
        """Begin to write the checkpoints of this moment; any thread runs the function, which raises OSError."""
        self._high_watermarks = {**self._of_closed(self._high_watermarks), **high_watermarks}
        started = {key: log.start_offset for key, log in self.logs.items() if log.has_own_start}
        for key, offset in started.items():  # a start behind it is taken for damage: see `recovery`
            self._high_watermarks[key] = max(offset, self._high_watermarks.get(key, 0))
        self._start_offsets = {**self._of_closed(self._start_offsets), **started}
        high_watermarks_first = (
            self._checkpoints[HIGH_WATERMARKS].begin(self._high_watermarks),
            self._checkpoints[START_OFFSETS].begin(self._start_offsets),
        )
        begun: list[Callable[[], None]] = [partial(_run_in_order, high_watermarks_first), self._begin_recovery_points()]
        compacted = {key: log.compacted for key, log in self.logs.items() if log.was_compacted}
        cleaned = {key: done.offset for key, done in compacted.items() if done.offset >= 0}
        cleaned = {**self._of_closed(self._cleaned_offsets), **cleaned}
        checkpoint_of_cleaned = self._checkpoints[CLEANED_OFFSETS]
        if cleaned or self._cleaned_offsets or checkpoint_of_cleaned.is_pending:
            begun.append(checkpoint_of_cleaned.begin(cleaned))
        self._cleaned_offsets = cleaned

        begun += [_begin_epochs(log) for log in self.logs.values() if log.epochs.is_stale]

        return partial(run_all, begun)  # each is true without the others

    def _begin_recovery_points(self) -> Callable[[], None]:
        self._forget = None  # what was deleted since it was begun stands in it
        points = {key: log.recovery_point for key, log in self.logs.items()}
        self._recovery_points = {**self._of_closed(self._recovery_points), **points}
        return self._checkpoints[RECOVERY_POINTS].begin(self._recovery_points)

    def _of_closed(self, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        return {**offsets_of(self.failed, offsets), **offsets_of(self.unopened, offsets)}

    def write_recovery_points(self) -> None:
        """Write the recovery points of this moment: before a log is cut below its own. Raises OSError."""
        self._begin_recovery_points()()

    def close(self, high_watermarks: Mapping[TopicPartition, int] | None = None) -> None:
        """Make everything durable, and mark the directory as cleanly left if every log could be opened and closed.

        A log that was not opened yet is as the stop before this one left it. `high_watermarks`: the present ones, if
        they may differ from the last checkpoint.
        """
        if not self._is_open:
            return
        self._is_open = False
        try:
            for opening in [opening for opening in self.unopened.values() if opening is not None]:
                self.end_opening(opening)
            is_clean = self._close_logs() and not self.failed and (self._was_clean or not self.unopened)
            self.checkpoint(offsets_of(self.logs, {**self._high_watermarks, **(high_watermarks or {})}))
            if is_clean:
                self.pool.files.write(self._path(CLEAN_SHUTDOWN), b"", sync=True)
                self.pool.files.sync_directory(self.directory)
                logger.info("%s is left cleanly: the next start reads through no log", self.directory)
        except OSError as error:  # as on a full disk: all that was taken is in the logs
            logger.error("%s cannot be left cleanly, so that the next start scans: %s", self.directory, error)
        finally:
            self._lock.release()

    def abandon(self) -> None:
        """Release the directory and leave everything as it is."""
        self._is_open = False
        for log in self.logs.values():
            log.close_files()
        self._lock.release()

    def _close_logs(self) -> bool:
        """Finish, flush and close all logs; whether none had an error."""
        unsynced = []
        errors = 0
        for log in self.logs.values():
            try:
                if log.finish():
                    unsynced.append(log)
            except KafkaError as error:
                errors += 1
                logger.error("%s; the next start scans it", error.message)
        try:
            self._flush(unsynced)
        except (KafkaError, OSError) as error:
            errors += 1
            logger.error("%s; the next start scans", error)
        for log in self.logs.values():
            log.close_files()
        return not errors

    def _flush(self, logs: Sequence[Log]) -> None:
        """Flush logs; many of them by one sync of the whole file system, which is quicker than a few for each."""
        if len(logs) <= MANY_LOGS:
            for log in logs:
                log.flush()
            return
        self.pool.files.sync_all(self.directory)
        for log in logs:
            log.flushed()


def _run_in_order(works: Iterable[Callable[[], None]]) -> None:
    for work in works:
        work()


def _begin_epochs(log: Log) -> Callable[[], None]:
    write = log.epochs.begin_write()

    def write_if_there() -> None:
        if not log.is_retired:
            with contextlib.suppress(FileNotFoundError):  # deleted in this moment
                write()

    return write_if_there

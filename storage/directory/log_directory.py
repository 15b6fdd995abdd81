"""A log directory: its lock, its identity, its checkpoints, and the logs of all partitions in it.

`log_states.py` has the states of logs; `log_opening.py` and `partition_files.py` have the work of threads on files;
`log_manager.py` combines several directories.
"""

from __future__ import annotations

import contextlib
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum, auto
from functools import partial
from random import Random

from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.storage.directory.kafka_directory import CLUSTER_METADATA
from headgate.storage.directory.log_opening import LogOpening
from headgate.storage.directory.log_states import LogPhase, LogStates
from headgate.storage.directory.partition_files import CreationTarget, PartitionCreation, PartitionDeletion
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
from headgate.storage.log import closing, flushing
from headgate.storage.log.log import Log, LogConfig
from headgate.storage.recovery.recovery_input import RecoveryInput, bytes_to_scan
from headgate.storage.segment.replacement import NOTHING

logger = logging.getLogger("headgate.storage")

LOCK = ".lock"
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
MANY_LOGS = 32


class _Use(Enum):
    LOCKED = auto()
    CLAIMED = auto()
    RELEASED = auto()


class LogDirectory:
    """The logs of one log directory. Each partition is in one state of `log_states.py`.

    `deleting` counts the deleted partitions with a directory that is not yet renamed, by name: a partition may be
    deleted again under the same name before the first rename.
    """

    def __init__(self, directory: str, pool: Pool, lock: Lock, meta: Meta, config: LogConfig, random: Random) -> None:
        """Use `LogDirectory.take`."""
        self.directory = directory
        self.pool = pool
        self.meta = meta
        self.config = config
        self._states = LogStates()
        self.logs: Mapping[TopicPartition, Log] = self._states.logs
        self.failed: Mapping[TopicPartition, StorageError] = self._states.failed
        """The partitions that could not be opened, with their errors."""
        self.unopened: Mapping[TopicPartition, LogOpening | None] = self._states.unopened
        """The partitions that are not yet open, with their openings if begun."""
        self._deleted_in_use: dict[TopicPartition, Log] = {}  # logs deleted while a thread used their files
        self.deleting: Counter[TopicPartition] = Counter()
        self.refused_creation_ms: int | None = None
        """The time when the disk last refused a new partition, by the callers' clock; None after a success."""
        self.removed: set[bytes] = set()
        """The ids of topics that are recorded as deleted; only logs of these topics may be removed."""
        self._forget: Callable[[], None] | None = None  # the outstanding `CreationTarget.forget`
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
        self.was_clean = False
        """Whether the last stop was clean, so that no log has lost anything since."""
        self._use = _Use.LOCKED

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
        """Take a log directory: lock it, creating a missing one, and check whose it is. All partitions are `unopened`.

        Nothing else is written before `claim`: a start may still be refused. Raises DirectoryLocked, naming the other
        process; StorageError for the directory of another node or cluster; OSError.
        """
        directory = directory.rstrip("/")
        if not files.exists(directory):
            files.make_directories(directory)
            files.sync_directory(parent(directory))
        lock = files.lock(f"{directory}/{LOCK}")
        try:
            meta = layout.identify(files, directory, node_id, cluster_id, random)
            log_directory = cls(directory, pool or Pool(files), lock, meta, config, random)
            log_directory._read_directory()
        except BaseException:
            lock.release()
            raise
        return log_directory

    def claim(self, cluster_id: str | None = None) -> LogDirectory:
        """Begin to use the directory: write the identity of a new one, and remove the mark of the last clean stop.

        `cluster_id`: the cluster's, where another broker may have created the cluster since `take`. Returns itself.
        Raises OSError, WrongDirectory.
        """
        files = self.pool.files
        if cluster_id not in (None, self.cluster_id):
            known = self.meta  # others may know the directory by its id already
            self.meta = layout.identify(files, self.directory, known.node_id, cluster_id, self._random)
            self.meta = self.meta._replace(directory_id=known.directory_id)
        layout.own(files, self.directory, self.meta)
        files.remove(self._path(CLEAN_SHUTDOWN))
        files.sync_directory(self.directory)
        self._use = _Use.CLAIMED
        return self

    def __repr__(self) -> str:
        return f"LogDirectory({self.directory}, {len(self.logs)} logs)"

    @property
    def cluster_id(self) -> str:
        """The id of the cluster to which the directory belongs, 22 characters."""
        return self.meta.cluster_id

    @property
    def process_id(self) -> int:
        """The process that has the lock: this one."""
        return self._lock.process_id

    def __contains__(self, key: TopicPartition) -> bool:
        """Whether the directory has this partition, open or not."""
        return key in self._states

    def __len__(self) -> int:
        """The number of partitions, open or not."""
        return len(self._states)

    def _path(self, name: str) -> str:
        return f"{self.directory}/{name}"

    def _read_directory(self) -> None:
        files = self.pool.files
        names = files.list(self.directory)
        self.was_clean = CLEAN_SHUTDOWN in names
        self._recovery_points = self._read_checkpoint(RECOVERY_POINTS)
        self._start_offsets = self._read_checkpoint(START_OFFSETS)
        self._high_watermarks = self._read_checkpoint(HIGH_WATERMARKS)
        self._cleaned_offsets = self._read_checkpoint(CLEANED_OFFSETS)
        for key in self._partitions(names):
            self._states.move(key, LogPhase.UNOPENED)
        if self.unopened and not self.was_clean:
            sentence = "%s: the last stop was not clean, or left a log closed; recovery checks what was not flushed"
            logger.info(sentence, self.directory)

    # Opening

    def open_now(self, key: TopicPartition, config: LogConfig, now_ms: int) -> Log | None:
        """Open one log at once; None if that fails."""
        opening = self.begin_opening(key, config, now_ms)
        opening.run()
        self.end_opening(opening)
        return self.logs.get(key)

    @property
    def refused(self) -> list[TopicPartition]:
        """The partitions of `failed` that failed with an error of the system. Unlike damage, it may soon be over."""
        return [key for key, error in self.failed.items() if isinstance(error.__cause__, OSError)]

    def allow_retry(self, key: TopicPartition) -> None:
        """Put a partition of `refused` back into `unopened`, for another attempt."""
        self._states.move(key, LogPhase.UNOPENED)

    def bytes_to_scan(self, key: TopicPartition) -> int:
        """The maximum number of bytes that the opening of a log scans; for any thread. Raises OSError."""
        recovery = self._recovery_input(key)
        return 0 if self.was_clean else bytes_to_scan(recovery, self.pool.files.list(recovery.directory))

    def begin_opening(self, key: TopicPartition, config: LogConfig, now_ms: int) -> LogOpening:
        """Begin to open a log of `unopened`. Any thread runs the opening; `end_opening` ends it."""
        opening = LogOpening(self.pool.files, self._recovery_input(key), config, self._random, now_ms)
        self._states.move(key, opening)
        return opening

    def end_opening(self, opening: LogOpening) -> None:
        """End an opening after its run: the partition moves to `logs` or `failed`.

        After an interrupted run the partition stays in `unopened`, for another opening. A directory that holds no log
        is no longer a partition.
        """
        key = opening.recovery.topic, opening.recovery.index
        if self.unopened.get(key) is not opening:
            return
        if opening.log is not None:
            opening.log.move_to(self.pool)
            self._states.move(opening.log.key, opening.log)
            cleaned_offset = self._cleaned_offsets.get(key, NOTHING)
            if cleaned_offset != NOTHING or opening.log.config.is_compacted:  # later rounds may be unknown after a kill
                opening.log.segments.compacted.note_end(cleaned_offset)
        elif isinstance(opening.error, NotALog):
            self._states.move(key, LogPhase.NONE)  # this is no partition; `create` will refuse this name
        elif opening.error is not None:
            self._states.move(key, opening.error)
        else:
            self.was_clean = self.was_clean and not opening.has_begun  # the opening may have changed files
            self._states.move(key, LogPhase.UNOPENED)

    def _recovery_input(self, key: TopicPartition) -> RecoveryInput:
        return RecoveryInput(
            *key,
            directory=self._path(layout.partition_name(*key)),
            start_offset=self._start_offsets.get(key, 0),
            recovery_point=self._recovery_points.get(key, 0),
            is_clean=self.was_clean,
            high_watermark=self._high_watermarks.get(key, 0),
        )

    def _partitions(self, names: Mapping[str, int]) -> list[TopicPartition]:
        """The partitions with directories. Directories of deleted partitions become pending deletions."""
        keys = []
        for name in sorted(name for name, size in names.items() if size < 0):
            key = layout.parse_partition(name)
            if layout.is_deleted(name):
                self.pool.pending_deletions.add(self._path(name), is_directory=True)
            elif key is not None and key[0] == CLUSTER_METADATA:
                continue  # Apache Kafka's metadata log in an adopted directory is never opened and never changed
            elif key is None:
                logger.warning("%s is not a partition's directory; it stays unchanged", self._path(name))
            else:
                keys.append(key)
        return keys

    def _read_checkpoint(self, name: str) -> dict[TopicPartition, int]:
        try:
            return checkpoint.read_offsets(self.pool.files, self._path(name))
        except BadFile as error:
            logger.error("%s; its offsets are taken as 0, so that logs are scanned from their start", error)
            return {}

    # Changing

    def create(self, topic: str, partition: int, topic_id: bytes, config: LogConfig, now_ms: int = 0) -> Log:
        """Create a partition at once. Returns its empty log. Nothing is synced; the first flush syncs the names too.

        Raises KafkaError as `begin_creation` and `end_creation` do.
        """
        key = topic, partition
        creation = PartitionCreation(key, topic_id, config, now_ms, [self.begin_creation(key, topic_id)])
        creation.run()
        return self.end_creation(creation)

    def begin_creation(self, key: TopicPartition, topic_id: bytes) -> CreationTarget:
        """Prepare a `PartitionCreation` in this directory. An open log of another topic with this name is retired.

        Raises KafkaError: TOPIC_ALREADY_EXISTS, or KAFKA_STORAGE_ERROR if an older log is damaged or not yet open.
        """
        topic, partition = key
        if key in self.failed:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(self.failed[key]))
        if key in self.unopened:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"an older log of {topic}-{partition} is being opened")
        self._check_not_in_use(key)
        log = self.logs.get(key)
        if self.is_creating(key) or (log is not None and log.topic_id in (None, topic_id)):
            raise KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"there is a log of {topic}-{partition} already")
        if log is not None:
            self._retire(key)
            self._check_not_in_use(key)
        points = (self._recovery_points, self._start_offsets, self._high_watermarks, self._cleaned_offsets)
        is_known = any(offsets.get(key, 0) for offsets in points)
        # The checkpoint file on the disk may still name a partition that is gone from memory.
        if is_known or (self._forget is None and any(each.is_pending for each in self._checkpoints.values())):
            self._forget = self.begin_checkpoint(offsets_of(self.logs, self._high_watermarks))
        self._states.move(key, LogPhase.CREATING)
        return self._creation_target()

    def is_creating(self, key: TopicPartition) -> bool:
        """Whether a partition of this name is being created here."""
        return key in self._states.creating

    def cancel_creation(self, key: TopicPartition) -> None:
        """Cancel the creation of a partition here, if one was begun."""
        if self.is_creating(key):
            self._states.move(key, LogPhase.NONE)

    def _creation_target(self) -> CreationTarget:
        return CreationTarget(self.directory, self.pool, self._random, self.removed, self._forget)

    def end_creation(self, creation: PartitionCreation) -> Log:
        """End a `PartitionCreation` that ran in this directory: its log joins `logs`, and is returned.

        Raises KafkaError(KAFKA_STORAGE_ERROR) if the disk refused, or if the creation was not run.
        """
        self.cancel_creation(creation.key)
        for pool, path in creation.cleared:
            pool.pending_deletions.add(path, creation.config.file_delete_delay_ms, is_directory=True)
        log = creation.log
        if log is None:
            topic, partition = creation.key
            message = f"{topic}-{partition} was not created, as the broker stops"
            raise creation.error or KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, message)
        if self._forget is creation.targets[creation.number].forget:
            self._forget = None  # the creation has run it
        self._states.move(log.key, log)
        return log

    def _check_not_in_use(self, key: TopicPartition) -> None:
        """Raise KafkaError while a thread uses a deleted log: it would use the new log's files of the same names."""
        if self._deleted_in_use:
            self._deleted_in_use = {
                deleted: log for deleted, log in self._deleted_in_use.items() if log.lock.is_exclusive
            }
        if key in self._deleted_in_use:
            message = f"a thread still uses the files of an older log of {key[0]}-{key[1]}"
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, message)

    def delete(self, topic: str, partition: int, *, remove: bool = True) -> None:
        """Delete a partition, even a damaged one: rename its directory, then remove it with all pending deletions.

        With `remove` false, the owner of `pool.pending_deletions` removes it after file.delete.delay.ms. Slices that
        were planned before stay readable. Raises KafkaError: UNKNOWN_TOPIC_OR_PARTITION, KAFKA_STORAGE_ERROR, also
        while the log is being opened.
        """
        path = self._path(layout.deleted_name(topic, partition, self._random))
        log = self._rename_and_retire(topic, partition, path)
        delay_ms = (self.config if log is None else log.config).file_delete_delay_ms
        self.pool.pending_deletions.add(path, delay_ms, is_directory=True)
        if remove:
            self.remove_deleted()

    def quarantine_log(self, topic: str, partition: int) -> str:
        """Quarantine a partition: rename its directory, and serve it no longer. Returns the new path.

        Raises KafkaError as `delete` does.
        """
        path = self._path(layout.stray_name(topic, partition, self._random))
        self._rename_and_retire(topic, partition, path)
        return path

    def _rename_and_retire(self, topic: str, partition: int, path: str) -> Log | None:
        """Rename a partition's directory, and retire its log. Returns the log if it was open. Raises KafkaError."""
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

    def begin_deletion(self, key: TopicPartition, topic_id: bytes | None) -> PartitionDeletion:
        """Begin to delete a partition of the topic with this id; None: of any topic. Its log must not be opening.

        Any thread runs the deletion, before the creation of another partition of the name; `end_deletion` ends it.
        Slices that were planned before stay readable.
        """
        assert self.unopened.get(key) is None, f"{key} is being opened"
        path = self._path(layout.deleted_name(*key, self._random))
        log = self._retire(key)
        delay_ms = (self.config if log is None else log.config).file_delete_delay_ms
        self.deleting[key] += 1
        return PartitionDeletion(key, topic_id, self._creation_target(), path, delay_ms)

    def end_deletion(self, deletion: PartitionDeletion) -> None:
        """End a deletion after its run: the directory is removed after file.delete.delay.ms."""
        self.deleting[deletion.key] -= 1
        if not self.deleting[deletion.key]:
            del self.deleting[deletion.key]
        if deletion.is_moved:
            self.pool.pending_deletions.add(deletion.path, deletion.delay_ms, is_directory=True)

    def _retire(self, key: TopicPartition) -> Log | None:
        """Retire a partition. Returns its log if it was open."""
        log = self._states.move(key, LogPhase.NONE)
        if log is not None:
            log.retire()
            if log.lock.is_exclusive:
                self._deleted_in_use[key] = log
        return log

    def remove_deleted(self) -> None:
        """Remove all pending deletions without delay. A file that cannot be removed stays pending."""
        removal = self.pool.pending_deletions.take(0.0, at_once=True)
        if removal is not None:
            removal.run()
            self.pool.pending_deletions.end_removal(removal, 0.0)

    def high_watermark(self, key: TopicPartition) -> int:
        """The last known high watermark of a partition without a replica, at first the checkpoint's; 0 if unknown."""
        return self._high_watermarks.get(key, 0)

    def keep_high_watermark(self, key: TopicPartition, offset: int) -> None:
        """Keep the high watermark of a partition whose replica ends, for the next replica and for checkpoints."""
        log = self.logs.get(key)
        if log is not None:
            self._high_watermarks[log.key] = offset

    def high_watermarks(self) -> dict[TopicPartition, int]:
        """The last known high watermarks of partitions without a replica."""
        return dict(self._high_watermarks)

    def checkpoint(self, high_watermarks: Mapping[TopicPartition, int]) -> None:
        """Write the checkpoints: recovery points, start offsets, high watermarks; failed and unopened logs keep theirs.

        Raises OSError.
        """
        self.begin_checkpoint(high_watermarks)()

    def begin_checkpoint(self, high_watermarks: Mapping[TopicPartition, int]) -> Callable[[], None]:
        """Begin to write the present checkpoints. Any thread runs the returned function, which raises OSError."""
        before = self._high_watermarks
        kept = {key: before[key] for key in self.logs if key in before and key not in high_watermarks}
        self._high_watermarks = {**self._of_closed(before), **kept, **high_watermarks}
        started = {key: log.start_offset for key, log in self.logs.items() if log.has_own_start}
        for key, offset in started.items():  # recovery takes a start offset above the high watermark for damage
            self._high_watermarks[key] = max(offset, self._high_watermarks.get(key, 0))
        self._start_offsets = {**self._of_closed(self._start_offsets), **started}
        high_watermarks_first = (
            self._checkpoints[HIGH_WATERMARKS].begin(self._high_watermarks),
            self._checkpoints[START_OFFSETS].begin(self._start_offsets),
        )
        begun: list[Callable[[], None]] = [partial(_run_in_order, high_watermarks_first), self.begin_recovery_points()]
        compacted = {key: log.segments.compacted for key, log in self.logs.items() if log.segments.were_compacted}
        cleaned = {key: done.offset for key, done in compacted.items() if done.offset >= 0}
        cleaned = {**self._of_closed(self._cleaned_offsets), **cleaned}
        checkpoint_of_cleaned = self._checkpoints[CLEANED_OFFSETS]
        if cleaned or self._cleaned_offsets or checkpoint_of_cleaned.is_pending:
            begun.append(checkpoint_of_cleaned.begin(cleaned))
        self._cleaned_offsets = cleaned

        begun += [_begin_epochs(log) for log in self.logs.values() if log.epochs.is_stale]

        return partial(run_all, begun)  # each checkpoint is valid without the others

    def begin_recovery_points(self) -> Callable[[], None]:
        """Begin to write the present recovery points. Any thread runs the returned function, which raises OSError."""
        self._forget = None  # this checkpoint drops all deleted partitions too
        points = {key: log.recovery_point for key, log in self.logs.items()}
        self._recovery_points = {**self._of_closed(self._recovery_points), **points}
        return self._checkpoints[RECOVERY_POINTS].begin(self._recovery_points)

    def _of_closed(self, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        return {**offsets_of(self.failed, offsets), **offsets_of(self.unopened, offsets)}

    def write_recovery_points(self) -> None:
        """Write the present recovery points, before a log is cut below its own. Raises OSError."""
        self.begin_recovery_points()()

    def close(self, high_watermarks: Mapping[TopicPartition, int] | None = None) -> None:
        """Flush and checkpoint all logs; mark the stop as clean if every log could be opened and closed.

        A log that was not opened is as the previous stop left it. `high_watermarks`: the present ones, if they may
        differ from the last checkpoint. A directory that was not claimed is only released.
        """
        if self._use is _Use.LOCKED:
            self.abandon()
        if self._use is _Use.RELEASED:
            return
        self._use = _Use.RELEASED
        try:
            for opening in [opening for opening in self.unopened.values() if opening is not None]:
                self.end_opening(opening)
            is_clean = self._close_logs() and not self.failed and (self.was_clean or not self.unopened)
            self.checkpoint(offsets_of(self.logs, {**self._high_watermarks, **(high_watermarks or {})}))
            if is_clean:
                self.pool.files.write(self._path(CLEAN_SHUTDOWN), b"", sync=True)
                self.pool.files.sync_directory(self.directory)
                logger.info("%s is closed cleanly: the next start scans no log", self.directory)
        except OSError as error:  # for example on a full disk: all appended records are in the logs
            logger.error("%s cannot be closed cleanly, so the next start scans its logs: %s", self.directory, error)
        finally:
            self._lock.release()

    def abandon(self) -> None:
        """Release the directory without a flush or a checkpoint, as after a kill."""
        self._use = _Use.RELEASED
        for log in self.logs.values():
            log.close_files()
        self._lock.release()

    def _close_logs(self) -> bool:
        """Finish, flush and close all logs. Returns whether there was no error."""
        unsynced = []
        errors = 0
        for log in self.logs.values():
            try:
                if closing.finish(log):
                    unsynced.append(log)
            except KafkaError as error:
                errors += 1
                logger.error("%s; the next start scans this log", error.message)
        try:
            self._flush(unsynced)
        except (KafkaError, OSError) as error:
            errors += 1
            logger.error("%s; the next start scans the logs", error)
        for log in self.logs.values():
            log.close_files()
        return not errors

    def _flush(self, logs: Sequence[Log]) -> None:
        """Flush logs. Many logs share one sync of the whole file system, which is faster than some syncs for each."""
        if len(logs) <= MANY_LOGS:
            for log in logs:
                flushing.flush(log)
            return
        self.pool.files.sync_all(self.directory)
        for log in logs:
            flushing.note_all_synced(log)


def _run_in_order(works: Iterable[Callable[[], None]]) -> None:
    for work in works:
        work()


def _begin_epochs(log: Log) -> Callable[[], None]:
    write = log.epochs.begin_write()

    def write_if_there() -> None:
        if not log.is_retired:
            with contextlib.suppress(FileNotFoundError):  # the log is deleted at this moment
                write()

    return write_if_there

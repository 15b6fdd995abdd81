"""The log manager: all log directories of a broker as one.

Each `LogDirectory` has its own lock, identity and checkpoints. A partition is in exactly one of them. A new partition
goes to the directory with the fewest partitions, if possible not to an avoided one or one that just refused a
partition. A directory that the system refuses takes only its own partitions offline, unless it is the only one. Its
partitions are unknown here, so no partition that may be there is created again.

`log_directory.py` has the work of one directory. The broker, not this module, knows the health of the disks.
"""

from __future__ import annotations

import logging
from collections import ChainMap, Counter
from collections.abc import Callable, Collection, Container, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from random import Random
from typing import TypeVar

from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.storage.config import LogConfig
from headgate.storage.directory import stray_logs
from headgate.storage.directory.log_directory import LogDirectory
from headgate.storage.directory.log_opening import LogOpening
from headgate.storage.directory.partition_files import CreationTarget, PartitionCreation, PartitionDeletion, log_stray
from headgate.storage.disk import layout
from headgate.storage.disk.checkpoint import TopicPartition, offsets_of, run_all
from headgate.storage.disk.pool import HELD_SHARE, MAX_INDEX_BYTES, MAX_OPEN_SEGMENTS, Pool
from headgate.storage.errors import BadFile, DirectoryLocked, StorageError, WrongDirectory
from headgate.storage.files import Files, HeldFiles, parent
from headgate.storage.log.log import Log

logger = logging.getLogger("headgate.storage")

T = TypeVar("T")

# After a refusal a directory gets no new partitions for this time, if there is another one.
REFUSAL_MS = 60_000


class LogManager:
    """The directories that could be taken. `refused`: path -> error of the others."""

    def __init__(self, log_directories: Sequence[LogDirectory], refused: Mapping[str, Exception] | None = None) -> None:
        """Use `LogManager.take`. There is at least one."""
        self._directories = tuple(log_directories)
        self.held = self._directories[0].pool.held
        """The count of files that slices keep open, over all log directories."""
        self.refused = dict(refused or {})
        self.removed: set[bytes] = set()
        """The ids of topics that are recorded as deleted; only logs of these topics may be removed."""
        for log_directory in self._directories:
            log_directory.removed = self.removed
        self.being_created: Counter[bytes] = Counter()
        """The number of partitions that are being created, by topic id, deleted topics included."""

    @classmethod
    def take(
        cls,
        paths: Sequence[str],
        *,
        files: Files,
        node_id: int,
        config: LogConfig,
        random: Random,
        cluster_id: str | None = None,
    ) -> LogManager:
        """Take log directories: lock them, creating missing ones, and check whose they are. Opens no log.

        Nothing else is written before `claim`: a start may still be refused. Raises DirectoryLocked; WrongDirectory for
        a directory of another node or cluster; OSError or StorageError if no directory can be used.
        """
        cluster_id = cluster_id or _common_cluster(files, paths)
        open_files = min(MAX_OPEN_SEGMENTS, files.open_limit() // 2)
        held = HeldFiles(max(1, open_files // HELD_SHARE))
        open_segments = (open_files - held.limit) // len(paths)
        log_directories: list[LogDirectory] = []
        refused: dict[str, Exception] = {}
        try:
            for path in paths:
                pool = Pool(files, open_segments, MAX_INDEX_BYTES // len(paths), held)
                try:
                    log_directory = LogDirectory.take(
                        path, files=files, node_id=node_id, config=config, random=random, cluster_id=cluster_id,
                        pool=pool,
                    )  # fmt: skip
                except (DirectoryLocked, WrongDirectory):
                    raise
                except (OSError, StorageError) as error:
                    refused[path] = error
                    continue
                cluster_id = log_directory.cluster_id
                log_directories.append(log_directory)
        except BaseException:
            for log_directory in log_directories:
                log_directory.abandon()
            raise
        if not log_directories:
            raise next(iter(refused.values()))
        for path, reason in refused.items():
            _log_refusal(path, reason)
        return cls(log_directories, refused)

    def claim(self, cluster_id: str | None = None) -> LogManager:
        """Begin to use the directories, as `LogDirectory.claim`: every check of a start has passed. Returns itself.

        A directory that the system refuses joins `refused`, unless a log in it is open. Raises OSError, WrongDirectory.
        """
        for log_directory in self._directories:
            try:
                log_directory.claim(cluster_id)
            except OSError as error:
                if log_directory.logs or len(self._directories) == 1:
                    raise
                self._drop(log_directory, error)
        return self

    def _drop(self, log_directory: LogDirectory, error: OSError) -> None:
        self._directories = tuple(other for other in self._directories if other is not log_directory)
        self.refused[log_directory.directory] = error
        log_directory.abandon()
        _log_refusal(log_directory.directory, error)

    def __repr__(self) -> str:
        return f"LogManager({', '.join(map(repr, self._directories))})"

    def __iter__(self) -> Iterator[LogDirectory]:
        return iter(self._directories)

    def __contains__(self, key: TopicPartition) -> bool:
        """Whether one of the directories has this partition, open or not."""
        return any(key in log_directory for log_directory in self._directories)

    def __len__(self) -> int:
        """The number of partitions, open or not."""
        return sum(map(len, self._directories))

    @property
    def cluster_id(self) -> str:
        """The id of the cluster to which the directories belong, 22 characters."""
        return self._directories[0].cluster_id

    @property
    def was_clean(self) -> bool:
        """Whether the last stop was clean in all directories, so that no log has lost anything."""
        return not self.refused and all(log_directory.was_clean for log_directory in self._directories)

    @property
    def directory(self) -> str:
        """The paths of the directories, separated by commas, for messages."""
        return ",".join(log_directory.directory for log_directory in self._directories)

    @property
    def files(self) -> Files:
        """The file system seam of the directories."""
        return self._directories[0].pool.files

    @property
    def logs(self) -> Mapping[TopicPartition, Log]:
        return self._all([log_directory.logs for log_directory in self._directories])

    @property
    def failed(self) -> Mapping[TopicPartition, StorageError]:
        """The partitions that could not be opened, with their errors."""
        return self._all([log_directory.failed for log_directory in self._directories])

    @property
    def unopened(self) -> Mapping[TopicPartition, LogOpening | None]:
        """The partitions that are not yet open, with their openings if begun."""
        return self._all([log_directory.unopened for log_directory in self._directories])

    def _all(self, maps: Sequence[Mapping[TopicPartition, T]]) -> Mapping[TopicPartition, T]:
        if len(maps) == 1:
            return maps[0]
        return ChainMap(*maps)  # type: ignore[arg-type]  # which are only read

    def directory_of(self, key: TopicPartition) -> LogDirectory | None:
        """The directory that has a partition, open or not; None if there is none."""
        for log_directory in self._directories:
            if key in log_directory:
                return log_directory
        return None

    def topic_ids(self, names: Container[str]) -> dict[str, bytes]:
        """The ids of these topics by name, if they have a log here, open or not, with an id."""
        found: dict[str, bytes] = {}
        for log_directory in self._directories:
            for topic, partition in (*log_directory.logs, *log_directory.unopened):
                if topic in names and topic not in found:
                    path = f"{log_directory.directory}/{layout.partition_name(topic, partition)}"
                    with suppress(OSError, BadFile):
                        topic_id = layout.read_topic_id(log_directory.pool.files, path)
                        found |= {} if topic_id is None else {topic: topic_id}
        return found

    # Opening

    @property
    def duplicates(self) -> dict[TopicPartition, list[LogDirectory]]:
        """The partitions of which several directories have a log, and these directories."""
        holders: dict[TopicPartition, list[LogDirectory]] = {}
        for log_directory in self._directories:
            for key in [*log_directory.logs, *log_directory.unopened]:
                holders.setdefault(key, []).append(log_directory)
        return {key: several for key, several in holders.items() if len(several) > 1}

    def check_duplicates(self, topic_id_of: Callable[[str], bytes | None]) -> None:
        """Check that `resolve_duplicates` can do its work. Raises StorageError if several logs would remain."""
        self._plan_duplicates(topic_id_of)

    def resolve_duplicates(self, topic_id_of: Callable[[str], bytes | None]) -> None:
        """Resolve duplicates, so that each partition is in one directory. `topic_id_of(topic)`: the present topic's id.

        Of several logs of one name, logs of deleted topics and unused logs are removed. Such a log comes from a
        directory that was absent when the topic was deleted, or that could not complete a creation. A log of another
        topic that is not in `removed` is quarantined. Raises StorageError if several logs remain, and then changes
        nothing; KafkaError if one cannot be deleted.
        """
        for clear in self._plan_duplicates(topic_id_of):
            clear()

    def _plan_duplicates(self, topic_id_of: Callable[[str], bytes | None]) -> list[Callable[[], None]]:
        plan: list[Callable[[], None]] = []
        for (topic, partition), several in self.duplicates.items():
            plan += self._keep_one(topic, partition, several, topic_id_of(topic))
        return plan

    def _keep_one(
        self, topic: str, partition: int, several: Sequence[LogDirectory], topic_id: bytes | None
    ) -> list[Callable[[], None]]:
        plan: list[Callable[[], None]] = []
        kept: dict[str, LogDirectory] = {}
        for log_directory in several:
            path = f"{log_directory.directory}/{layout.partition_name(topic, partition)}"
            known = None
            with suppress(OSError, BadFile):
                known = layout.read_topic_id(log_directory.pool.files, path)
            if known in (None, topic_id) or (topic_id is None and known not in self.removed):
                kept[path] = log_directory
            else:
                plan.append(partial(self._clear, log_directory, topic, partition, known))
        if topic_id is not None:
            plan += [partial(_remove_unused, kept.pop(path), path, topic, partition) for path in _unused(kept)]
        if len(kept) > 1:
            raise StorageError(
                f"one partition is in two log directories, {' and '.join(kept)}; move the unwanted one elsewhere, and"
                " start again"
            )
        return plan

    def open_now(self, key: TopicPartition, config: LogConfig, now_ms: int) -> Log | None:
        """Open one log at once; None if that fails, or if there is no such partition."""
        log_directory = self.directory_of(key)
        return None if log_directory is None else log_directory.open_now(key, config, now_ms)

    # Logs of other topics

    def remove_strays(self, is_known: Callable[[str, int], bool]) -> None:
        """As `stray_logs.remove`. A new partition may still take the name of a stray log that stays."""
        stray_logs.remove(self._directories, is_known, self.removed.__contains__)

    def _clear(self, log_directory: LogDirectory, topic: str, partition: int, topic_id: bytes) -> None:
        """Clear a name in one directory, where the log belongs to another topic than the present one of the name."""
        path = f"{log_directory.directory}/{layout.partition_name(topic, partition)}"
        if topic_id in self.removed:
            logger.warning("%s belongs to a deleted topic of that name; removing the directory", path)
            log_directory.delete(topic, partition, remove=False)
        else:
            log_stray(path, topic_id, log_directory.quarantine_log(topic, partition))

    # Changing

    def create(self, topic: str, partition: int, topic_id: bytes, config: LogConfig, now_ms: int = 0) -> Log:
        """Create a partition at once, as `begin_creation` says. Returns its empty log. Raises KafkaError."""
        creation = self.begin_creation((topic, partition), topic_id, config, now_ms)
        creation.run()
        return self.end_creation(creation)

    def begin_creation(
        self,
        key: TopicPartition,
        topic_id: bytes,
        config: LogConfig,
        now_ms: int = 0,
        avoided: Collection[str] = (),
    ) -> PartitionCreation:
        """Begin to create a partition in the directory with the fewest partitions, or in another one if that refuses.

        `avoided` directories come last. Any thread runs the creation, after all earlier work in its first directory;
        `end_creation` ends it. Raises KafkaError as `LogDirectory.begin_creation` does.
        """
        creation = PartitionCreation(key, topic_id, config, now_ms, self._targets(key, topic_id, now_ms, avoided))
        self.being_created[topic_id] += 1
        return creation

    def _targets(
        self, key: TopicPartition, topic_id: bytes, now_ms: int, avoided: Collection[str]
    ) -> list[CreationTarget]:
        log_directory = self.directory_of(key)
        if log_directory is not None:
            return [log_directory.begin_creation(key, topic_id)]
        first, *others = sorted(self._directories, key=lambda log_directory: _rank(log_directory, now_ms, avoided))
        # Work in another directory has no order with this creation: a deletion of the name there could take the new
        # partition with it.
        log_directories = [first, *(log_directory for log_directory in others if key not in log_directory.deleting)]
        targets: list[CreationTarget] = []
        try:
            targets += [log_directory.begin_creation(key, topic_id) for log_directory in log_directories]
        finally:
            for log_directory in log_directories[len(targets) and 1 :]:
                # The partition counts in the first directory, where it probably will be.
                log_directory.cancel_creation(key)
        return targets

    def end_creation(self, creation: PartitionCreation) -> Log:
        """Add the log of a finished `PartitionCreation` to `logs`, and return it.

        Raises KafkaError as `LogDirectory.end_creation` does.
        """
        self.being_created[creation.topic_id] -= 1
        if not self.being_created[creation.topic_id]:
            del self.being_created[creation.topic_id]
        log_directories = {log_directory.directory: log_directory for log_directory in self._directories}
        tried = [log_directories[target.directory] for target in creation.targets[: creation.number + 1]]
        for log_directory in tried[:-1]:
            log_directory.refused_creation_ms = creation.now_ms
            log_directory.cancel_creation(creation.key)
        if creation.log is not None:
            tried[-1].refused_creation_ms = None
        elif (
            len(tried) < len(creation.targets)
            and creation.error is not None
            and isinstance(creation.error.__cause__, OSError)
        ):
            tried[-1].refused_creation_ms = creation.now_ms
        return tried[-1].end_creation(creation)

    def is_creating(self, key: TopicPartition) -> bool:
        """Whether a partition of this name, of any topic id, is being created."""
        return any(log_directory.is_creating(key) for log_directory in self._directories)

    def begin_deletion(self, key: TopicPartition, topic_id: bytes | None) -> PartitionDeletion | None:
        """As `LogDirectory.begin_deletion`; None if no directory has the partition, or if it is being created."""
        log_directory = self.directory_of(key)
        if log_directory is None or log_directory.is_creating(key):
            return None
        return log_directory.begin_deletion(key, topic_id)

    def is_deleting(self, key: TopicPartition) -> bool:
        """Whether a log of this name is being renamed for its deletion."""
        return any(key in log_directory.deleting for log_directory in self._directories)

    def end_deletion(self, deletion: PartitionDeletion) -> None:
        """As `LogDirectory.end_deletion`."""
        for log_directory in self._directories:
            if log_directory.directory == parent(deletion.path):
                log_directory.end_deletion(deletion)

    def delete(self, topic: str, partition: int, *, remove: bool = True) -> None:
        """Delete a partition in any directory. Raises KafkaError as `LogDirectory.delete` does."""
        log_directory = self.directory_of((topic, partition)) or self._directories[0]
        log_directory.delete(topic, partition, remove=remove)

    def check_not_refused(self, topic: str, partition: int) -> None:
        """Raise KafkaError(KAFKA_STORAGE_ERROR) if a missing partition may be in a refused directory."""
        if self.refused:
            raise KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR,
                f"{topic}-{partition} is in none of {self.directory}; it may be in {', '.join(self.refused)}, which"
                " cannot be used: repair it and restart the broker",
            )

    def remove_deleted(self) -> None:
        """As `LogDirectory.remove_deleted`, in any thread."""
        for log_directory in self._directories:
            log_directory.remove_deleted()

    # Checkpoints

    def high_watermark(self, key: TopicPartition) -> int:
        """As `LogDirectory.high_watermark`."""
        return max(log_directory.high_watermark(key) for log_directory in self._directories)

    def keep_high_watermark(self, key: TopicPartition, offset: int) -> None:
        """As `LogDirectory.keep_high_watermark`."""
        for log_directory in self._directories:
            log_directory.keep_high_watermark(key, offset)

    def high_watermarks(self) -> dict[TopicPartition, int]:
        """The high watermarks of the last checkpoint."""
        return {
            key: offset
            for log_directory in self._directories
            for key, offset in log_directory.high_watermarks().items()
        }

    def checkpoint(self, high_watermarks: Mapping[TopicPartition, int]) -> None:
        """Write the checkpoints of each directory, even if one of them fails. Raises OSError."""
        run_all(
            [
                partial(log_directory.checkpoint, offsets_of(log_directory.logs, high_watermarks))
                for log_directory in self._directories
            ]
        )

    def close(self, high_watermarks: Mapping[TopicPartition, int] | None = None) -> None:
        """Close each directory, even if one of them fails. Raises OSError, KafkaError, StorageError."""
        closing = [partial(log_directory.close, high_watermarks) for log_directory in self._directories]
        run_all(closing, (OSError, KafkaError, StorageError))

    def abandon(self) -> None:
        """Release the directories without a flush or a checkpoint, as after a kill."""
        for log_directory in self._directories:
            log_directory.abandon()


def _log_refusal(path: str, reason: Exception) -> None:
    logger.error("the log directory %s cannot be used; its partitions stay offline: %s", path, reason)


def _rank(log_directory: LogDirectory, now_ms: int, avoided: Collection[str]) -> tuple[bool, bool, int]:
    """The rank of a directory for a new partition; the lowest is the best."""
    refused_ms = log_directory.refused_creation_ms
    has_refused = refused_ms is not None and abs(now_ms - refused_ms) < REFUSAL_MS
    return has_refused, log_directory.directory in avoided, len(log_directory)


def _common_cluster(files: Files, paths: Sequence[str]) -> str | None:
    """The cluster id of the first directory with an identity, None if there is none.

    New directories join this cluster; the others must match it.
    """
    for path in paths:
        with suppress(OSError, BadFile):  # `LogDirectory.take` reports the error
            meta = layout.read_meta(files, path.rstrip("/"))
            if meta is not None:
                return meta.cluster_id
    return None


def _unused(kept: Mapping[str, LogDirectory]) -> list[str]:
    """The directories of one partition that were never written to, but not all of `kept`.

    Such a directory exists if a creation failed there, the partition was then created in another directory, and a power
    cut brought the first directory back.
    """
    unused = [path for path, log_directory in kept.items() if _is_new(log_directory.pool.files, path)]
    return unused if len(unused) < len(kept) else unused[1:]


def _remove_unused(log_directory: LogDirectory, path: str, topic: str, partition: int) -> None:
    logger.warning("%s is empty, and the partition is in another log directory; removing the directory", path)
    log_directory.delete(topic, partition, remove=False)


def _is_new(files: Files, path: str) -> bool:
    try:
        return layout.holds_nothing(files.list(path))
    except OSError:  # the directory stays, and its opening reports the error
        return False

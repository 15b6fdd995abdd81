"""The creation and deletion of a partition: its log directory begins and ends them, any thread runs them in between.

The thread uses only the files of this one partition, as in an opening. Operations on one name in one log directory must
run one after another: a new partition takes the name that a deleted one leaves.

    creation    clear the name, drop the name from the checkpoints, make the directory, partition.metadata, .log
    deletion    one rename to *-delete; the content is removed later (`storage.disk.pending_deletions`)

The topic id of a log names its topic. Only logs of deleted topics are removed; other logs in the way are quarantined
(*-stray), or stay. `log_manager.py` decides on the directory of a partition.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Container, Sequence
from random import Random
from typing import NamedTuple

from headgate.protocol.errors import ErrorCode, KafkaError, without_frames
from headgate.storage.config import LogConfig
from headgate.storage.disk import layout
from headgate.storage.disk.checkpoint import TopicPartition
from headgate.storage.disk.pool import Pool
from headgate.storage.errors import BadFile
from headgate.storage.files import Files
from headgate.storage.log.log import Log
from headgate.storage.segment.segment import Segment

logger = logging.getLogger("headgate.storage")


class CreationTarget(NamedTuple):
    """A log directory in which a partition may be created."""

    directory: str
    pool: Pool
    random: Random
    removed: Container[bytes]
    """The ids of deleted topics."""
    forget: Callable[[], None] | None
    """Drops an older partition of that name from the checkpoints, before the creation. Raises OSError."""


class PartitionCreation:
    """A partition that is being created.

    After `run` either `log` is set, created in `targets[number]`, or `error`. Before, neither is set.
    """

    __slots__ = ("cleared", "config", "error", "key", "log", "now_ms", "number", "targets", "topic_id")

    def __init__(
        self, key: TopicPartition, topic_id: bytes, config: LogConfig, now_ms: int, targets: Sequence[CreationTarget]
    ) -> None:
        """Use `LogManager.begin_creation`.

        `run` tries the first of `targets` first, and the others if the disk refuses.
        """
        self.key = key
        self.topic_id = topic_id
        self.config = config
        self.now_ms = now_ms
        self.targets = targets
        self.number = 0
        self.log: Log | None = None
        self.error: KafkaError | None = None
        self.cleared: list[tuple[Pool, str]] = []
        """Renamed directories of deleted topics, to be removed."""

    @property
    def directory(self) -> str:
        """The log directory of the present attempt, or of the created partition."""
        return self.targets[self.number].directory

    def run(self) -> None:
        """Create the partition. `error` is set if that fails."""
        for number, target in enumerate(self.targets):
            self.number = number
            directory = f"{target.directory}/{layout.partition_name(*self.key)}"
            try:
                self.log, self.error = self._make(target, directory), None
            except KafkaError as error:
                self.error = without_frames(error)
            except OSError as error:
                message = f"{self.key[0]}-{self.key[1]} cannot be created: {error}"
                self.error = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, message)
                self.error.__cause__ = without_frames(error)
                is_last = target is self.targets[-1]
                # If the directory is left here, the partition must not be created in a second one.
                if not is_last and not target.pool.files.exists(directory):
                    logger.warning("%s-%d is created in another log directory: %s", *self.key, message)
                    continue
            except Exception as error:  # a bug; later creations of the same thread must still run
                logger.exception("%s-%d cannot be created", *self.key)
                self.error = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{directory} cannot be created: {error!r}")
            return

    def _make(self, target: CreationTarget, directory: str) -> Log:
        files = target.pool.files
        self._clear(target, directory)
        if target.forget is not None:
            target.forget()
        try:
            files.make_directories(directory)
            layout.write_topic_id(files, directory, self.topic_id)
            segments = [Segment.create(target.pool, directory, 0, self.now_ms)]
        except Exception:
            with contextlib.suppress(OSError):  # the next start would take an incomplete directory for a partition
                files.remove_tree(directory)
            raise
        arguments = *self.key, self.topic_id, self.config, segments, target.random
        return Log(target.pool, directory, *arguments, names_unsynced=True)

    def _clear(self, target: CreationTarget, directory: str) -> None:
        """Clear the name of the directory. Raises KafkaError if it holds other files but none of a log; OSError."""
        files = target.pool.files
        try:
            sizes = files.list(directory)
        except FileNotFoundError:  # after any other error the content is unknown
            return
        if layout.is_no_partition(sizes):
            message = f"{directory} holds other files, but none of a log; move the directory away"
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, message)
        if layout.holds_nothing(sizes):
            return
        known = _topic_id(files, directory)
        if known is not None and known in target.removed:
            path = f"{target.directory}/{layout.deleted_name(*self.key, target.random)}"
            logger.warning("%s belongs to a deleted topic of that name; removing the directory", directory)
            files.rename(directory, path)
            self.cleared.append((target.pool, path))
        else:
            path = f"{target.directory}/{layout.stray_name(*self.key, target.random)}"
            files.rename(directory, path)
            log_stray(directory, known, path)


class PartitionDeletion:
    """The deletion of a partition that is no longer served. After `run` its directory is at `path`, if `is_moved`."""

    __slots__ = ("_files", "_name", "_removed", "_topic_id", "delay_ms", "directory", "is_moved", "key", "path")

    def __init__(
        self, key: TopicPartition, topic_id: bytes | None, target: CreationTarget, path: str, delay_ms: float
    ) -> None:
        """Use `LogManager.begin_deletion`. `topic_id` is the id of the deleted topic; None: whatever the log has."""
        self.key = key
        self.path = path
        self.delay_ms = delay_ms
        self.is_moved = False
        self._topic_id = topic_id
        self.directory = target.directory
        self._name = f"{target.directory}/{layout.partition_name(*key)}"
        self._files = target.pool.files
        self._removed = target.removed

    def run(self) -> None:
        """Rename the directory. A failure is logged; at the next start the topic id shows that the log was deleted."""
        try:
            known = None if self._topic_id is None else _topic_id(self._files, self._name)
            if known in (None, self._topic_id) or known in self._removed:
                self._files.rename(self._name, self.path)
                self.is_moved = True
            else:
                logger.error("%s belongs to another topic than the deleted one; the directory stays", self._name)
        except OSError as error:
            logger.error("the log of %s-%d stays on the disk, as it cannot be deleted: %s", *self.key, error)


def log_stray(directory: str, topic_id: bytes | None, path: str) -> None:
    """Log the new path of a stray log that was in the way of a new partition."""
    whose = "without a topic id" if topic_id is None else f"with the topic id {layout.format_id(topic_id)}"
    logger.error(
        "%s, %s, is in the way of another topic of that name; the metadata do not say that its own topic was deleted:"
        " the log was copied there, or the metadata log is an older copy. The log is not served, and kept in %s",
        directory, whose, path,
    )  # fmt: skip


def _topic_id(files: Files, directory: str) -> bytes | None:
    """The topic id of a partition; None if the file is missing or damaged. Raises OSError."""
    with contextlib.suppress(BadFile):
        return layout.read_topic_id(files, directory)
    return None

"""The creation of a partition, and its deletion: begun and ended by its log directory, run in between by any thread.

As in an opening, the thread touches the files of this one partition and nothing else. Several of the same name in one
log directory have to follow each other: the directory that one leaves becomes another's.

    creation    clear the way, forget what checkpoints say of the name, directory, partition.metadata, .log
    deletion    one rename to *-delete; the content is removed later (`storage.disk.pending_deletions`)

Nothing is deleted that may belong to somebody: the topic id of a log says whose it is. Only logs of deleted topics are
removed; others in the way are quarantined (*-stray), or stay.

Which directory a partition goes to is decided by `log_manager.py`.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Container, Sequence
from random import Random
from typing import NamedTuple

from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.storage.config import LogConfig
from headgate.storage.disk import layout
from headgate.storage.disk.checkpoint import TopicPartition
from headgate.storage.disk.pool import Pool
from headgate.storage.errors import BadFile
from headgate.storage.files import Files
from headgate.storage.log.log import Log
from headgate.storage.segment.segment import Segment

logger = logging.getLogger("headgate.storage")


class Place(NamedTuple):
    """A log directory in which a partition may be created."""

    directory: str
    pool: Pool
    random: Random
    removed: Container[bytes]
    """The ids of topics that were deleted."""
    forget: Callable[[], None] | None
    """Removes an older partition of that name from the checkpoints, before there is a new one. Raises OSError."""


class PartitionCreation:
    """A partition that is being created. Afterwards `log` is set, in the place of `number`, or `error`, or neither."""

    __slots__ = ("cleared", "config", "error", "key", "log", "now_ms", "number", "places", "topic_id")

    def __init__(
        self, key: TopicPartition, topic_id: bytes, config: LogConfig, now_ms: int, places: Sequence[Place]
    ) -> None:
        """Use `LogManager.begin_creation`.

        The first of `places` is tried first, the others where the disk refuses.
        """
        self.key = key
        self.topic_id = topic_id
        self.config = config
        self.now_ms = now_ms
        self.places = places
        self.number = 0
        self.log: Log | None = None
        self.error: KafkaError | None = None
        self.cleared: list[tuple[Pool, str]] = []
        """Directories that were in the way, and are to be removed."""

    @property
    def directory(self) -> str:
        """The log directory in which the partition is, or is tried."""
        return self.places[self.number].directory

    def run(self) -> None:
        """Create the partition. `error` says what went wrong."""
        for number, place in enumerate(self.places):
            self.number = number
            directory = f"{place.directory}/{layout.partition_name(*self.key)}"
            try:
                self.log, self.error = self._make(place, directory), None
            except KafkaError as error:
                self.error = error
            except OSError as error:
                message = f"{self.key[0]}-{self.key[1]} cannot be made: {error}"
                self.error = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, message)
                self.error.__cause__ = error
                is_last = place is self.places[-1]
                # What is left must not be found beside another directory of the partition.
                if not is_last and not place.pool.files.exists(directory):
                    logger.warning("%s-%d is made in another directory: %s", *self.key, message)
                    continue
            except Exception as error:  # a fault of ours, which those behind it may not have
                logger.exception("%s-%d cannot be made", *self.key)
                self.error = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{directory} cannot be made: {error!r}")
            return

    def _make(self, place: Place, directory: str) -> Log:
        files = place.pool.files
        self._clear(place, directory)
        if place.forget is not None:
            place.forget()
        try:
            files.make_directories(directory)
            layout.write_topic_id(files, directory, self.topic_id)
            segments = [Segment.create(place.pool, directory, 0, self.now_ms)]
        except Exception:
            with contextlib.suppress(OSError):  # half of it would be taken for a partition by the next start
                files.remove_tree(directory)
            raise
        its = *self.key, self.topic_id, self.config, segments, place.random
        return Log(place.pool, directory, *its, names_unsynced=True)

    def _clear(self, place: Place, directory: str) -> None:
        """Have nothing in the way. Raises KafkaError if the directory holds something else than a log; OSError."""
        files = place.pool.files
        try:
            sizes = files.list(directory)
        except FileNotFoundError:  # any other error tells nothing of what is there
            return
        if layout.is_no_partition(sizes):
            message = f"{directory} holds other files, and nothing of a log; move it away"
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, message)
        if layout.holds_nothing(sizes):
            return
        known = _topic_id(files, directory)
        if known is not None and known in place.removed:
            path = f"{place.directory}/{layout.deleted_name(*self.key, place.random)}"
            logger.warning("%s belongs to a topic of that name that was deleted; it goes now", directory)
            files.rename(directory, path)
            self.cleared.append((place.pool, path))
        else:
            path = f"{place.directory}/{layout.stray_name(*self.key, place.random)}"
            files.rename(directory, path)
            log_stray(directory, known, path)


class PartitionDeletion:
    """The deletion of a partition that is served no more. Afterwards its directory is at `path`, if `is_moved`."""

    __slots__ = ("_files", "_name", "_removed", "_topic_id", "delay_ms", "directory", "is_moved", "key", "path")

    def __init__(self, key: TopicPartition, topic_id: bytes, place: Place, path: str, delay_ms: float) -> None:
        """Use `LogManager.begin_deletion`: `topic_id` is of the topic that was deleted."""
        self.key = key
        self.path = path
        self.delay_ms = delay_ms
        self.is_moved = False
        self._topic_id = topic_id
        self.directory = place.directory
        """The log directory in which the partition is."""
        self._name = f"{place.directory}/{layout.partition_name(*key)}"
        self._files = place.pool.files
        self._removed = place.removed

    def run(self) -> None:
        """Rename the directory. A failure is logged; the topic id keeps the partition from coming back."""
        try:
            known = _topic_id(self._files, self._name)
            if known in (None, self._topic_id) or known in self._removed:
                self._files.rename(self._name, self.path)
                self.is_moved = True
            else:
                logger.error("%s is of another topic than the one that is deleted; it stays", self._name)
        except OSError as error:
            logger.error("the log of %s-%d is left behind: it cannot be deleted: %s", *self.key, error)


def log_stray(directory: str, topic_id: bytes | None, path: str) -> None:
    """Log where a log is kept that was in the way."""
    whose = "of which no topic is known" if topic_id is None else f"with the topic id {layout.format_id(topic_id)}"
    logger.error(
        "%s, %s, is in the way of another topic of that name, and nothing says that its own was deleted, as if it had"
        " been copied there, or the metadata log were an older one: it is not served, and kept in %s",
        directory, whose, path,
    )  # fmt: skip


def _topic_id(files: Files, directory: str) -> bytes | None:
    """The id of a partition's topic; None if that is not recorded. Raises OSError."""
    with contextlib.suppress(BadFile):
        return layout.read_topic_id(files, directory)
    return None

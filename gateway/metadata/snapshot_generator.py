"""Writes snapshots of the metadata log while the broker runs, and deletes the replaced files.

    1  between two changes    roll the log; take the image of its end, and the ids of deleted topics
    2  a thread, in slices    encode the image; find the deleted topics that still have a directory
    3  a thread               write <name>.tmp, sync it, rename it, sync the directory
    4  between two changes    delete the segments before the snapshot, and older snapshots

After an early end, even by a crash, the log is readable: until step 4 the log has everything that the snapshot has.
After an error all steps are tried again later. Step 3 makes the name of the new segment durable as well: no power cut
leaves a snapshot without the log after it.

A snapshot has the ids of deleted topics, because a start deletes a directory without a topic only if the metadata have
the deletion of the directory's topic (`storage/directory/stray_logs.py`). An id is forgotten once no log directory has
a partition with that id, and none can appear:

- all log directories of the configuration are in use, and can be listed (else every id is kept);
- no directory of a partition has the id, and a sync has made the names durable (`stray_logs.topic_ids_steps`);
- no thread creates a partition with that id (`LogManager.being_created`);
- the replicas have followed the deletion (`MetadataLogStore.removed_unseen` has the ids of other deletions).

So there are no more such ids than directories, as long as all log directories are in use.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from enum import Enum, auto
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from headgate.gateway.metadata.image import Image
from headgate.gateway.metadata.metadata_log import LEADER_EPOCH
from headgate.gateway.metadata.records import image_records
from headgate.gateway.metadata.snapshot import Snapshot, among, is_due, name_of
from headgate.gateway.runtime.clock import Clock
from headgate.gateway.runtime.tasks import SingleTask, Task, sleep
from headgate.protocol.internal import metadata_snapshot
from headgate.protocol.steps import Steps
from headgate.storage.cleanup.retention import begin_segment_deletion
from headgate.storage.directory import stray_logs
from headgate.storage.directory.log_manager import LogManager
from headgate.storage.disk import checkpoint
from headgate.storage.errors import StorageError
from headgate.storage.files import Files
from headgate.storage.log import rolling, segment_deletion
from headgate.storage.log.log import Log
from headgate.storage.log.log_lock import DELETE_SEGMENTS, ROLL, ROLLING
from headgate.storage.log.segment_deletion import SegmentDeletion

if TYPE_CHECKING:
    from headgate.gateway.metadata.metadata_log_store import MetadataLogStore
    from headgate.gateway.runtime.scheduler import Scheduler

logger = logging.getLogger("headgate.metadata")

START_DELAY_MS = 5_000.0
"""A start has more urgent work than a snapshot."""
RETRY_MS = 60_000.0
"""The pause after an error."""


class _Taken(NamedTuple):
    """The content of a snapshot. `removed`: deleted topics that may be forgotten; `kept`: the others."""

    end_offset: int
    image: Image
    removed: frozenset[bytes]
    kept: frozenset[bytes]


class _Encoded(NamedTuple):
    """The bytes of a snapshot file, and the deleted topics that the file leaves out."""

    end_offset: int
    data: bytes
    forgotten: frozenset[bytes]


class _Phase(Enum):
    NEW = auto()
    STARTED = auto()
    STOPPED = auto()


class SnapshotGenerator:
    """Checks after each change whether a snapshot is due. Writes one snapshot at a time."""

    def __init__(
        self,
        log_manager: LogManager,
        metadata: MetadataLogStore,
        snapshot: Snapshot,
        clock: Clock,
        scheduler: Scheduler,
    ) -> None:
        """`snapshot`: the snapshot that this start has read. Nothing happens before `start`."""
        self._log_manager = log_manager
        self._metadata = metadata
        self._metadata_log = metadata.metadata_log
        self._log: Log = metadata.metadata_log.log
        self._clock = clock
        self._scheduler = scheduler
        self.snapshot = snapshot
        """The newest snapshot on the disk."""
        self._has_leftovers = bool(snapshot.name)  # until the first deletion: a crash may have left old files
        self._work = SingleTask()
        self._phase = _Phase.NEW
        self._has_warned = False

    def start(self) -> None:
        """Check after a short delay, and then after each change: a start that read a long log needs a snapshot."""
        self._scheduler.call_after(START_DELAY_MS, self._begin)

    def _begin(self) -> None:
        if self._phase is _Phase.NEW:
            self._phase = _Phase.STARTED
            self._begin_due_work()

    def follow(self, _old: Image, _new: Image, _names: Collection[str]) -> None:
        """Check whether a snapshot is due: a listener of the metadata."""
        self._begin_due_work()

    def stop(self) -> None:
        """Begin no more work: the broker stops."""
        self._phase = _Phase.STOPPED

    def _begin_due_work(self) -> None:
        if self._phase is _Phase.STARTED:
            self._work.start(self._do_due_work)

    @property
    def _is_over(self) -> bool:
        return self._phase is _Phase.STOPPED or self._scheduler.is_over

    def _do_due_work(self) -> Task[None]:
        """Write snapshots and delete the files that they replace, until nothing is due. After an error try later."""
        while not self._is_over:
            try:
                if self._has_leftovers:
                    yield partial(self._metadata_log.between_writes, self._delete_replaced())
                    self._has_leftovers = False
                elif is_due(self._bytes_since(), self.snapshot.size):
                    yield from self._write_snapshot()
                else:
                    return
            except Exception as error:  # noqa: BLE001  logged, only once as a warning until the next snapshot
                if self._is_over:
                    return
                level, self._has_warned = (logging.DEBUG if self._has_warned else logging.WARNING), True
                message = "no snapshot of the metadata can be written now, so the next start takes longer: %s"
                logger.log(level, message, error)
                yield sleep(self._scheduler, RETRY_MS)

    def _bytes_since(self) -> int:
        return sum(segment.size for segment in self._log.segments.since(self.snapshot.end_offset))

    def _write_snapshot(self) -> Task[None]:
        """Steps 1 to 3."""
        taken = yield partial(self._metadata_log.between_writes, self._roll())
        if self._is_over:
            return
        # A directory out of use may come back with partitions of a topic that was deleted meanwhile.
        log_manager = None if self._log_manager.refused else self._log_manager
        steps = _encode_steps(taken, log_manager, self._clock.now_ms())
        del taken  # the image is free once it is encoded
        encoded = yield partial(self._scheduler.in_slices, steps)
        if self._is_over:
            return
        name = name_of(encoded.end_offset)
        path = f"{self._log.directory}/{name}"
        yield partial(self._scheduler.in_thread, partial(checkpoint.replace, self._log.pool.files, path, encoded.data))
        self.snapshot = Snapshot(name, encoded.end_offset, len(encoded.data))
        self._log_manager.removed.difference_update(encoded.forgotten)
        logger.info(
            "wrote a snapshot of the metadata up to offset %d, %d bytes", encoded.end_offset, self.snapshot.size
        )
        self._has_leftovers, self._has_warned = True, False

    def _roll(self) -> Task[_Taken]:
        """Step 1: take the content of the snapshot; a thread rolls the log."""
        log = self._log
        self._check(ROLL)
        removed, unseen = frozenset(self._log_manager.removed), frozenset(self._metadata.removed_unseen)
        kept = unseen | removed.intersection(self._log_manager.being_created)
        taken = _Taken(log.end_offset, self._metadata.written_image, removed - kept, kept)
        log.lock.acquire(ROLLING)
        try:
            yield partial(self._scheduler.in_thread, partial(_roll, log, self._clock.now_ms()))
        finally:
            log.lock.release(ROLLING)
        return taken

    def _delete_replaced(self) -> Task[None]:
        """Step 4: have the log begin at the segment with the snapshot's end; a thread deletes the files before."""
        log = self._log
        self._check(DELETE_SEGMENTS)
        log.advance_start(log.segments.since(self.snapshot.end_offset)[0].base_offset)
        expired = begin_segment_deletion(log, self._clock.now_ms(), log.end_offset)
        delete = partial(_delete, log.pool.files, log.directory, expired, self.snapshot)
        try:
            yield partial(self._scheduler.in_thread, delete)
        finally:
            if expired is not None:
                segment_deletion.end(log, expired)

    def _check(self, operation: int) -> None:
        """Raises StorageError if the broker stops, or if the log does not allow an operation now."""
        if self._is_over or not self._log.lock.may(operation):
            raise StorageError("the log waits for its repair")


def _roll(log: Log, now_ms: int) -> None:
    """Begin a segment at the end of the log, if none begins there. Raises OSError."""
    if log.segments.active.base_offset < log.end_offset:
        rolling.roll(log, now_ms)


def _encode_steps(taken: _Taken, log_manager: LogManager | None, now_ms: int) -> Steps[_Encoded]:
    present = taken.removed
    if taken.removed and log_manager is not None:
        try:
            present = taken.removed & (yield from stray_logs.topic_ids_steps(log_manager))
        except OSError as error:
            logger.warning("a log directory cannot be listed, so all ids of deleted topics are kept: %s", error)
    records = image_records(taken.image, present | taken.kept)
    data = yield from metadata_snapshot.encode_steps(records, LEADER_EPOCH, now_ms)
    return _Encoded(taken.end_offset, bytes(data), taken.removed - present)


def _delete(files: Files, directory: str, expired: SegmentDeletion | None, snapshot: Snapshot) -> None:
    """Delete the segments before a snapshot, and the other snapshots. Raises OSError."""
    if expired is not None:
        expired.rename_files()
    for other in among(files.list(directory)):
        if other.name != snapshot.name:
            files.remove(f"{directory}/{other.name}")

"""The metadata log: one batch a change, so that a change is stored as a whole or not at all.

A thread writes and syncs, so that the loop never waits for the disk. Changes that are submitted
meanwhile share the next write and its sync.
"""

from __future__ import annotations

import errno
import logging
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from headgate.gateway.runtime.tasks import SingleTask, Task
from headgate.protocol.errors import ErrorCode, KafkaError, MalformedRequest, without_frames
from headgate.protocol.internal.metadata import MetadataRecord, decode, encode
from headgate.protocol.records import batch
from headgate.protocol.records.batch import Record
from headgate.protocol.steps import Steps
from headgate.storage.config import LogConfig
from headgate.storage.errors import StorageError
from headgate.storage.log import appending, flushing
from headgate.storage.log.flush import Flush
from headgate.storage.log.log import Log
from headgate.storage.log.pending_write import PendingWrite

if TYPE_CHECKING:
    from headgate.gateway.runtime.scheduler import Scheduler

logger = logging.getLogger("headgate.metadata")

_READ_BYTES = 1 << 20
LEADER_EPOCH = 0  # no other node ever writes this log

# No record ever expires, and the largest change is one batch.
LOG_CONFIG = LogConfig(retention_ms=-1, retention_bytes=-1, max_message_bytes=64 << 20, segment_bytes=256 << 20)


FEW_RECORDS = 100
"""A thread encodes a change with more records: each record takes some microseconds."""
_ROWS_A_STEP = 10

WriteCallback = Callable[[KafkaError | None], None]


class _Submitted:
    """A change that waits to be written. `batch` is None until the change is encoded."""

    __slots__ = ("batch", "now_ms", "records", "resume")

    def __init__(self, records: Sequence[MetadataRecord], now_ms: int, resume: WriteCallback) -> None:
        self.records = records
        self.now_ms = now_ms
        self.resume = resume
        self.batch = encoded_batch(records, now_ms) if len(records) <= FEW_RECORDS else None

    def steps(self) -> Steps[memoryview]:
        """Encode the change, in slices."""
        rows = []
        for number, record in enumerate(self.records):
            rows.append(_row(record, self.now_ms))
            if not number % _ROWS_A_STEP:
                yield
        return memoryview(batch.build(rows))


class _Writing(NamedTuple):
    """A write with its sync."""

    staged: PendingWrite
    flush: Flush

    def run(self) -> None:
        """Write and sync, in any thread. Raises OSError."""
        self.staged.write()
        self.flush.run()


class MetadataLog:
    """Metadata records in a storage log."""

    def __init__(self, log: Log, scheduler: Scheduler) -> None:
        self._log = log
        self._scheduler = scheduler
        self._queue: deque[_Submitted] = deque()
        self._between: deque[tuple[Task[Any], Callable[[Any], None]]] = deque()
        self._writer = SingleTask()

    @property
    def log(self) -> Log:
        """The storage log with the records. Only this object appends to it."""
        return self._log

    @property
    def directory(self) -> str:
        return self._log.directory

    @property
    def end_offset(self) -> int:
        """The offset after the last record."""
        return self._log.end_offset

    def append(self, records: Sequence[MetadataRecord], now_ms: int) -> None:
        """Write one change; the change is on the disk when this returns.

        Raises KafkaError(KAFKA_STORAGE_ERROR), and then the change is not in the log. After a failed sync nothing is
        written until the log was repaired.
        """
        log = self._log
        self._check()
        if log.names_unsynced:  # the flush takes descriptors: without any, nothing is written yet
            flushing.flush(log)
        appending.stage(log, encoded_batch(records, now_ms), LEADER_EPOCH, now_ms)
        writing = self._begin_write()
        failure = None
        try:
            writing.run()
        except OSError as error:
            failure = without_frames(error)
        self._end_write(writing, failure)

    def _check(self) -> None:
        """Raises KafkaError while the log needs repair after a failed sync."""
        error = self._log.sync_error
        if error is not None:
            message = f"metadata cannot be changed since a sync to disk failed: {error.message}"
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, message)

    def _begin_write(self) -> _Writing:
        """The write and sync of all staged batches. Raises KafkaError, and then no staged batch is in the log."""
        log = self._log
        staged = appending.begin_write(log)
        assert staged is not None, "no batch is empty"
        try:
            return _Writing(staged, flushing.begin(log))
        except OSError as error:
            with suppress(KafkaError):
                appending.end_write(log, staged, error)
            raise log.disk_error(error) from error

    def _end_write(self, writing: _Writing, failure: OSError | None) -> None:
        """End a write after its run. Raises KafkaError if it failed.

        After a failed sync the bytes may be on the disk or not. The log removes the bytes in any case, and at once:
        the clients get an error, so neither a repair nor the next start may find the changes.
        """
        log, flush = self._log, writing.flush
        try:
            appending.end_write(log, writing.staged, failure)
            flush.end_offset = log.end_offset  # the flush was begun before the write, but run after it
        finally:
            flushing.end(log, flush)

    # By a thread

    def submit(self, records: Sequence[MetadataRecord], now_ms: int, resume: WriteCallback) -> None:
        """Write one change; `resume` is called with None or the error.

        After a failure all later changes fail too: they were planned with the failed one.
        Raises KafkaError as `append`, and then `resume` is not called.
        """
        self._check()
        self._queue.append(_Submitted(records, now_ms, resume))
        self._writer.start(self._write_all)

    def between_writes(self, task: Task[Any], resume: Callable[[Any], None]) -> None:
        """Run a task that works on the files of the log, while nothing is written to the log.

        Every finished write has been reported before. `resume` gets the result or the exception. The task does not
        begin once the broker has stopped.
        """
        self._between.append((task, resume))
        self._writer.start(self._write_all)

    def _write_all(self) -> Task[None]:
        """Write the submitted changes, one write after another."""
        while True:
            while self._between and not self._scheduler.is_over:
                task, resume = self._between.popleft()
                try:
                    result = yield from task
                except Exception as error:  # noqa: BLE001  for `resume`
                    result = without_frames(error)
                resume(result)
            if not self._queue:
                return
            try:
                yield from self._write_next()
            except KafkaError as error:
                self._refuse(error)
            except Exception as error:  # noqa: BLE001  no change may wait forever
                self._refuse(self._log.disk_error(_failure(error)))

    def _write_next(self) -> Task[None]:
        """Encode the next change, or write as many changes as one write takes. Raises KafkaError, OSError."""
        if self._scheduler.is_over:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "the broker stopped before the change was written")
        change = self._queue[0]
        if change.batch is None:
            try:
                change.batch = yield partial(self._scheduler.in_slices, change.steps())
            except Exception as error:
                logger.error("a change of the metadata cannot be encoded: %r", error)
                message = f"the change was not written: {error!r}"
                raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, message) from error
            return
        if self._log.names_unsynced:  # as in `append`
            flush = flushing.begin(self._log)
            try:
                yield partial(self._scheduler.in_thread, flush.run)
            finally:
                flushing.end(self._log, flush)
            return
        taken = self._stage()
        try:
            writing, failure = self._begin_write(), None
            try:
                yield partial(self._scheduler.in_thread, writing.run)
            except Exception as error:  # noqa: BLE001  raised by `_end_write`
                failure = _failure(without_frames(error))
            self._end_write(writing, failure)
        except Exception:
            self._queue.extendleft(reversed(taken))
            raise
        for change in taken:
            _notify(change, None)

    def _stage(self) -> list[_Submitted]:
        """Take the changes of one write from the queue.

        A change that the log refuses, or that needs a new segment, is the first of the next write.
        """
        log, taken = self._log, list[_Submitted]()
        while self._queue:
            change, staged = self._queue[0], log.staged
            if change.batch is None:  # submitted meanwhile
                break
            last_offset = log.end_offset + len(change.records) - 1
            if staged is not None and not staged.has_room(len(change.batch), change.now_ms, last_offset, LEADER_EPOCH):
                break
            try:
                appending.stage(log, change.batch, LEADER_EPOCH, change.now_ms)
            except (KafkaError, OSError):
                if not taken:
                    raise
                break
            taken.append(self._queue.popleft())
        return taken

    def _refuse(self, error: KafkaError) -> None:
        refused, self._queue = self._queue, deque()
        for change in refused:
            _notify(change, error)


def replay(log: Log, offset: int = 0) -> Iterator[MetadataRecord]:
    """Every record from an offset on, where a batch begins.

    Raises StorageError for unreadable or missing records: nothing is guessed.
    """
    while offset < log.end_offset:
        data = _read(log, offset)
        for header, view in batch.split(data):
            if header.base_offset != offset:
                raise StorageError(_where(log, offset, f"offset {header.base_offset} follows"))
            if not batch.check_crc(view):
                raise StorageError(_where(log, header.base_offset, "its checksum is wrong"))
            yield from _decode(log, view)
            offset = header.last_offset + 1


def _read(log: Log, offset: int) -> memoryview:
    try:
        piece = log.read(offset, _READ_BYTES, log.end_offset, at_least_one=True)
    except KafkaError as error:
        raise StorageError(_where(log, offset, error.message)) from error
    if piece is None:
        raise StorageError(_where(log, offset, "there is nothing to read"))
    try:
        return memoryview(piece.read())
    finally:
        piece.release()


def _decode(log: Log, view: memoryview) -> Iterator[MetadataRecord]:
    for record in batch.iterate(view):
        try:
            yield decode(record.value or b"")
        except MalformedRequest as error:
            raise StorageError(_where(log, record.offset, str(error))) from None


def _where(log: Log, offset: int, what: str) -> str:
    return (
        f"the metadata log in {log.directory} cannot be read at offset {offset}: {what}; topics are known by"
        " it alone, so restore it from a copy, or start the newer version of Headgate that wrote it"
    )


def encoded_batch(records: Sequence[MetadataRecord], now_ms: int) -> memoryview:
    """The batch of one change."""
    return memoryview(batch.build([_row(record, now_ms) for record in records]))


def _row(record: MetadataRecord, now_ms: int) -> Record:
    return Record(timestamp=now_ms, value=encode(record))


def _failure(error: Exception) -> OSError:
    """The error of a thread's work as an OSError, whatever it was."""
    return error if isinstance(error, OSError) else OSError(errno.ECANCELED, repr(error))


def _notify(change: _Submitted, error: KafkaError | None) -> None:
    try:
        change.resume(error)
    except Exception:  # an unexpected error must not keep the other changes waiting
        logger.exception("a change of the metadata was written, but its callback failed")

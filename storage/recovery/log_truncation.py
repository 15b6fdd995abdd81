"""Truncation of a log in use: removes everything from an offset on, or all, without a wait of the loop for the disk.

    begin, begin_again ─> steps, in a thread ─> apply ──> write_steps, in a thread ──> end

`steps` finds the place, and changes nothing. `apply` cuts the log in memory. Only then `write_steps` changes the files,
so that no reader meets a changing file; after an error it must run again, until the files are as the log. From the
begin to the end the log takes no records. A crash before the end leaves the log as it was, or a beginning of it: the
recovery points on the disk promise no removed byte. Source: KIP-101, KIP-279; Kafka's `UnifiedLog.truncateTo` and
`truncateFullyAndStartAt`.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from headgate.protocol.errors import ErrorCode, KafkaError, without_frames
from headgate.protocol.steps import Steps
from headgate.storage.disk.pool import Pool
from headgate.storage.log import flushing, snapshots
from headgate.storage.log.log import Log
from headgate.storage.log.log_lock import FAILED, REPAIR, REPAIRING
from headgate.storage.recovery.files_update import FilesUpdate
from headgate.storage.segment.segment import Segment

BeginRecoveryPoints = Callable[[], Callable[[], None]]
"""`LogDirectory.begin_recovery_points` of the log's directory."""


class LogTruncation(FilesUpdate):
    """The part of a truncation that threads run. After an `error` the same steps must be tried again."""

    def __init__(self, log: Log, offset: int, start_offset: int, segment: Segment | None) -> None:
        """Use `begin` or `begin_again`. `segment`: a copy of the one that has the offset; None removes everything."""
        super().__init__(log)
        self.offset = offset
        """The new end: found by `steps`, where a batch ends."""
        self.start_offset = start_offset
        self.segment = segment
        self.write_recovery_points: Callable[[], None] | None = None
        """Set by `apply`."""

    def steps(self) -> Steps[None]:
        """Find the place of the offset, and cut a copy of its segment in memory."""
        self.error = None
        try:
            self._finish_renames()
            if self.segment is not None:
                self._cut_in_memory(self.segment)
        except (OSError, KafkaError) as error:
            self.error = without_frames(error)
        yield

    def _cut_in_memory(self, segment: Segment) -> None:
        try:
            segment.forget_behind(segment.locate(self.offset), in_memory=True)
            self.offset = segment.end_offset()
            if segment.size:
                segment.read_first_timestamp(blocking=True)  # an append needs the timestamp
        finally:
            segment.close()

    def write_steps(self) -> Steps[None]:
        """Bring the files to the state of the log in memory, in slices; may run again after an error."""
        self.error = None
        try:
            assert self.write_recovery_points is not None
            self.write_recovery_points()
            if self.segment is None:  # a snapshot would have transactions that nothing ends
                snapshots.remove_behind(self._files, self._directory, self._snapshots(), -1)
        except OSError as error:
            self.error = without_frames(error)
            return
        yield from super().write_steps()
        if self.segment is not None and self.segment.size:
            for index in self.segment.indexes:
                with suppress(OSError):  # then the next write cuts or replaces the file
                    index.cut_torn() if index.written else self._files.remove(index.path)

    def _snapshots(self) -> list[int]:
        return snapshots.offsets(self._files.list(self._directory))


def begin(log: Log, offset: int) -> LogTruncation | None:
    """The truncation to `offset`, or to the beginning of the batch that has the offset.

    None while another operation excludes it, or after a failed sync (`log_lock`): try again later.
    """
    if not log.lock.may(REPAIR | FAILED):
        return None
    pool = Pool(log.pool.files, max_open_segments=1)  # only the loop may use the pool of the log
    return _begun(log, LogTruncation(log, offset, log.start_offset, log.segments.owner(offset).copied(pool)))


def begin_again(log: Log, offset: int, start_offset: int | None = None) -> LogTruncation | None:
    """The removal of all records: the log ends at `offset` then, and begins there. None as from `begin`.

    With a `start_offset` the log begins there, within the batch that comes next (`following.UnexpectedAppendOffset`).
    """
    if not log.lock.may(REPAIR | FAILED):
        return None
    return _begun(log, LogTruncation(log, offset, offset if start_offset is None else start_offset, None))


def _begun(log: Log, work: LogTruncation) -> LogTruncation:
    log.lock.acquire(REPAIRING)
    message = f"{log.name} takes no records until its truncation to offset {work.offset} has ended; try again"
    flushing.refuse(log, KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, message))
    return work


def apply(log: Log, work: LogTruncation, begin_recovery_points: BeginRecoveryPoints) -> bool:
    """Cut the log in memory; True if `write_steps` must run before `end`."""
    if not work.is_valid:
        return False
    segment, is_promised = work.segment, log.recovery_point > work.offset
    if segment is not None and work.offset <= log.start_offset < log.end_offset:
        segment = work.segment = None  # nothing is left
        work.offset = work.start_offset = log.start_offset
    if segment is None:
        flushing.limit_durable_end(log, min(work.offset, log.segments[0].base_offset))
        log.forget_all(work.offset, work.start_offset)
    else:
        flushing.limit_durable_end(log, work.offset)
        log.renew(segment)
        log.forget_behind(segment.base_offset, segment.size, work.offset)
    work.note_differences(log)
    # Most cuts are of the last moment's records, for many partitions at once; the file has all logs of the directory.
    is_written = segment is None or is_promised
    work.write_recovery_points = begin_recovery_points() if is_written else _write_nothing
    return True


def _write_nothing() -> None:
    """The recovery points on the disk promise nothing that was cut: none is above the one in memory."""


def end(log: Log, work: LogTruncation) -> bool:
    """End a truncation; True if the log was cut, and takes records again.

    False after an error of `steps`: the log is unchanged, and takes records. False after an error of `write_steps`, as
    the broker stops: the log takes no records, and the next start may find the removed ones again.
    """
    log.lock.release(REPAIRING)
    if work.write_recovery_points is None:
        flushing.resume(log)
        return False
    if not work.is_valid:
        return False
    work.settle(log)
    flushing.resume(log)
    return True

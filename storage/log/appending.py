"""Appends to a log, apart from the short way of one plain batch, which is `Log.stage`.

Staged, written by the loop or by a thread, and taken up or taken back.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, NoReturn, Protocol

from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.records import control
from headgate.protocol.records.batch import BatchHeader, patch
from headgate.storage.config import LOG_APPEND_TIME
from headgate.storage.log import rolling, validation
from headgate.storage.log.pending_write import MAX_BATCHES, MAX_STAGED_BYTES, AppendInfo, PendingWrite
from headgate.storage.log.producers import WrittenBatch
from headgate.storage.segment.index import MAX_RELATIVE_OFFSET

if TYPE_CHECKING:
    from headgate.storage.log.log import Log


class Owner(Protocol):
    """Who has a log written to, and waits for the disk in threads."""

    def sync_soon(self) -> None:
        """Have a flush made, soon."""

    def write_epochs_soon(self) -> None:
        """Have the leader epochs written down, soon."""

    def run_roll(self, roll: Callable[[], None]) -> None:
        """Make the roll that an append needs first, or refuse to with an exception that the append ends with."""


def stage_closely(
    log: Log, view: memoryview, leader_epoch: int, now_ms: int, validate: str, gather_bytes: int
) -> AppendInfo:
    """Stage what is not one plain batch: several, or such as have to be changed; or find what is wrong with it."""
    if validate != validation.PREPARED:
        view = validation.prepare(view, log.config, now_ms, validate)
    batches = validation.stored(view, log.config, now_ms)
    duplicate = log.producers.check_all(batches, log.recall)
    if duplicate is not None:
        return answer_duplicate(log, duplicate)
    first_offset = offset = log.end_offset
    last_offset = first_offset + sum(header.last_offset_delta + 1 for header, _ in batches) - 1
    max_timestamp = max(header.max_timestamp for header, _ in batches)
    staged = log.staged
    if staged is None or not staged.has_room(len(view), max_timestamp, last_offset, leader_epoch):
        staged = make_room(log, len(view), max_timestamp, last_offset, now_ms, leader_epoch)
    for header, part in batches:
        patch(part, offset, leader_epoch)
        offset += header.last_offset_delta + 1
        kept = bytes(part) if len(view) <= gather_bytes else part
        staged.add(kept, header.size, offset - 1, header.max_timestamp)
    header, part = batches[0]
    if header.producer_id >= 0:
        staged.remember(log.producers, header.producer_id)
        _record_producer(log, header, part, staged)
    log.end_offset = offset
    append_time = now_ms if log.config.message_timestamp_type == LOG_APPEND_TIME else -1
    return AppendInfo(first_offset, last_offset, append_time, log.start_offset, max_timestamp, False)


def _record_producer(log: Log, header: BatchHeader, part: memoryview, staged: PendingWrite) -> None:
    if header.attributes & control.TRANSACTION_BITS and not log.has_transactions:
        log.follow_transactions()
    marker = control.read(part) if header.is_control else None
    aborted = log.producers.record(header, log.end_offset, marker)
    if aborted is not None:
        staged.aborted += (aborted,)


def make_room(
    log: Log, size: int, max_timestamp: int, last_offset: int, now_ms: int, leader_epoch: int
) -> PendingWrite:
    """Write what is staged, roll if that is due, and begin anew with as much room as the segment has."""
    log.write_staged()
    if log.sync_error is not None:
        raise log.refusal()
    config, active, longest_ms = log.config, log.active, log.longest_ms()
    if size > config.segment_bytes:
        _refuse_size(log, size)
    try:
        if active.size and rolling.is_due(active, config, longest_ms, size, max_timestamp, last_offset, now_ms):
            if log.owner is None:
                log.roll(now_ms)
            else:
                log.owner.run_roll(partial(log.roll, now_ms))
            active, longest_ms = log.active, log.longest_ms()
        if leader_epoch > log.epochs.latest:
            log.epochs.assign(leader_epoch, log.end_offset)
            if log.owner is not None:
                log.owner.write_epochs_soon()
    except OSError as error:
        raise log.disk_error(error) from error
    staged = log.staged = PendingWrite(log.end_offset, log.epochs.latest)
    # With less to go by, each append looks for itself.
    if active.size and active.first_timestamp >= 0 and not active.is_full(config.segment_index_bytes, MAX_BATCHES):
        staged.max_bytes = min(config.segment_bytes - active.size, MAX_STAGED_BYTES)
        staged.max_timestamp = active.first_timestamp + longest_ms
        staged.max_offset = active.base_offset + MAX_RELATIVE_OFFSET
    return staged


def begin_write(log: Log) -> PendingWrite | None:
    """See `Log.begin_write`."""
    staged, log.staged = log.staged, None
    if staged is not None:
        if log.sync_error is not None:
            raise take_back(log, staged, log.refusal())
        try:
            staged.place(log.active.begin_append(), log.active.size)
        except OSError as error:
            raise take_back(log, staged, error) from error
    log.being_written = staged
    return staged


def end_write(log: Log, staged: PendingWrite, error: BaseException | None) -> None:
    """See `Log.end_write`."""
    log.being_written = None
    staged.release()
    if error is not None and not isinstance(error, OSError):  # no thread, no memory: it was not written all the same
        error = OSError(errno.ECANCELED, repr(error))
    try:
        log.active.finish_append(staged.written, log.config.index_interval_bytes, error, in_memory=True)
    except OSError as failure:
        raise take_back(log, staged, failure) from failure
    written(log, staged)


def take_back(log: Log, staged: PendingWrite, error: OSError | KafkaError) -> KafkaError:
    """What was staged was not written: the log is as before. What to raise, and to tell those who appended it."""
    log.end_offset = staged.first_offset
    # The file was cut where it ended before; until that is on the disk, what was cut off can come back.
    log.recovery_point = min(log.recovery_point, log.active.base_offset)
    if log.active.path not in log.indexes_unsynced:  # a segment that is empty now has no offset to be flushed
        log.indexes_unsynced.append(log.active.path)
    staged.restore(log.producers)
    staged.error = log.disk_error(error) if isinstance(error, OSError) else error
    return staged.error


def written(log: Log, staged: PendingWrite) -> None:
    """What was staged is in the page cache: flush it where that is due. Raises KafkaError(KAFKA_STORAGE_ERROR)."""
    if staged.aborted:
        log.active.follow_transactions(staged.aborted)
    if log.end_offset - log.recovery_point < log.config.records_unsynced:
        return
    if log.owner is not None:
        log.owner.sync_soon()
        return
    try:
        log.flush()
    except KafkaError as error:
        staged.error = error
        raise


def answer_duplicate(log: Log, written: WrittenBatch) -> AppendInfo:
    """Where a batch is that came before."""
    append_time = written.timestamp if log.config.message_timestamp_type == LOG_APPEND_TIME else -1
    return AppendInfo(written.first_offset, written.last_offset, append_time, log.start_offset, written.timestamp, True)


def _refuse_size(log: Log, size: int) -> NoReturn:
    message = f"{size} bytes exceed segment.bytes={log.config.segment_bytes}"
    raise KafkaError(ErrorCode.RECORD_LIST_TOO_LARGE, message)

"""Appends to a log as the leader: batches are checked, staged with others, and written.

A staged batch has its offsets, and its producer's state is the log's, but the file lacks it: `pending_write.py` has the
write that is still to come, and what its failure restores.
"""

from __future__ import annotations

import errno
from functools import partial

from headgate.protocol.errors import ErrorCode, KafkaError, without_frames
from headgate.protocol.records import control
from headgate.protocol.records.batch import NO_TIMESTAMP, TRANSACTIONAL, BatchHeader, patch, patch_head
from headgate.protocol.records.control import Marker
from headgate.storage.config import LOG_APPEND_TIME
from headgate.storage.log import flushing, rolling, validation
from headgate.storage.log.log import Log
from headgate.storage.log.log_lock import STAGED, WRITING
from headgate.storage.log.pending_write import MAX_BATCHES, MAX_STAGED_BYTES, AppendInfo, Owner, PendingWrite
from headgate.storage.log.producers import WrittenBatch
from headgate.storage.log.validation import BROKER, CLIENT, CONVERTED, HEADER, BatchFacts, BatchOrigin, Depth
from headgate.storage.segment.index import MAX_RELATIVE_OFFSET

_new_tuple = tuple.__new__  # a NamedTuple without its constructor in Python


def append(
    log: Log,
    records: memoryview | bytearray | bytes,
    *,
    leader_epoch: int,
    now_ms: int,
    depth: Depth = HEADER,
    origin: BatchOrigin = CLIENT,
    owner: Owner | None = None,
) -> AppendInfo:
    """Append batches as the leader: a client's, or those of the origin.

    Offsets and epoch are patched in place, or in a copy of a read-only buffer. `owner` has threads wait for the
    disk; without an owner this call waits.

    Raises UnverifiedTransaction for the first batch of a client's transaction. Raises KafkaError: the errors of
    `batch.split`, `validation` and `Producers.check`; RECORD_LIST_TOO_LARGE for more than a segment;
    KAFKA_STORAGE_ERROR when the disk fails. The log is then unchanged.
    """
    view = records if isinstance(records, memoryview) and not records.readonly else memoryview(bytearray(records))
    info = stage(log, view, leader_epoch, now_ms, owner=owner, depth=depth, origin=origin)
    write_staged(log)
    return info


def stage(
    log: Log,
    view: memoryview,
    leader_epoch: int,
    now_ms: int,
    gather_bytes: int = 0,
    owner: Owner | None = None,
    depth: Depth = HEADER,
    origin: BatchOrigin = CLIENT,
    facts: BatchFacts | None = None,
) -> AppendInfo:
    """Append, but leave the write to `write_staged`, which must come before any read of the log.

    A `view` of up to `gather_bytes` is copied; a larger one must not change until the write. `facts`: the broker
    has just made the batch, so that nothing has to be checked or read. Raises KafkaError as `append` does;
    earlier staged batches are then still staged, or written.
    """
    config = log.config
    if origin is not BROKER:
        is_unchanged = config.allows_verbatim and (depth is HEADER or origin is CONVERTED)
        header = validation.sound_batch(view, config, now_ms) if is_unchanged else None
    elif facts is not None:
        header = validation.fresh_batch(view, config)
    else:
        header = validation.broker_batch(view, config, now_ms)
    if header is None:
        return _stage_closely(log, view, leader_epoch, now_ms, gather_bytes, owner, depth, origin, facts)
    producers, producer_id, marker = log.producers, header.producer_id, None
    if producer_id >= 0:
        if header.attributes >= TRANSACTIONAL:
            marker = _check_transaction(log, header, view, origin, facts)
        if marker is None:
            duplicate = producers.check(header, log.segments.recall)
            if duplicate is not None:
                return _duplicate(log, duplicate)
    first_offset, size, timestamp = log.end_offset, len(view), header.max_timestamp
    last_offset = first_offset + header.last_offset_delta
    staged = log.staged
    if staged is None or not staged.has_room(size, timestamp, last_offset, leader_epoch):
        staged = make_room(log, size, timestamp, last_offset, now_ms, leader_epoch, owner)
    patch_head(view, 0, first_offset, header.batch_length, leader_epoch)
    staged.add(bytes(view) if size <= gather_bytes else view, size, last_offset, timestamp)
    if producer_id >= 0:
        staged.remember(producers, producer_id)
        aborted = producers.record(header, first_offset, marker)
        if aborted is not None:
            staged.aborted += (aborted,)
    log.end_offset = last_offset + 1
    return _new_tuple(AppendInfo, (first_offset, last_offset, NO_TIMESTAMP, log.start_offset, timestamp, False))


def _check_transaction(
    log: Log, header: BatchHeader, view: memoryview, origin: BatchOrigin, facts: BatchFacts | None
) -> Marker | None:
    """Whether a batch may open its transaction, go on with it, or end it; returns the marker that ends it.

    Raises as `Producers.check_transaction` and `Producers.check_marker` do.
    """
    marker = None
    if origin is not BROKER:
        log.producers.check_transaction(header)
    elif header.is_control:
        marker = control.read(view) if facts is None else facts.marker
        log.producers.check_marker(header, marker, is_raised=facts is not None and facts.is_raised)
    if not log.has_transactions:
        log.follow_transactions()
    return marker


def _stage_closely(
    log: Log,
    view: memoryview,
    leader_epoch: int,
    now_ms: int,
    gather_bytes: int,
    owner: Owner | None,
    depth: Depth,
    origin: BatchOrigin,
    facts: BatchFacts | None,
) -> AppendInfo:
    """Stage several batches, or batches that need a change; or raise their error."""
    config, producers = log.config, log.producers
    if origin is not CONVERTED:
        view = validation.prepare(view, config, now_ms, depth, origin)
    batches = validation.stored(view, config, now_ms)
    if batches and origin is not BROKER and batches[0][0].attributes & TRANSACTIONAL:
        producers.check_transaction(batches[0][0])  # it is alone, or refused
    is_raised = facts is not None and facts.is_raised
    duplicate = producers.check_all(batches, log.segments.recall, is_raised=is_raised)
    if duplicate is not None:
        return _duplicate(log, duplicate)
    first_offset = offset = log.end_offset
    last_offset = first_offset + sum(header.last_offset_delta + 1 for header, _ in batches) - 1
    max_timestamp = max(header.max_timestamp for header, _ in batches)
    staged = log.staged
    if staged is None or not staged.has_room(len(view), max_timestamp, last_offset, leader_epoch):
        staged = make_room(log, len(view), max_timestamp, last_offset, now_ms, leader_epoch, owner)
    for header, part in batches:
        patch(part, offset, leader_epoch)
        offset += header.last_offset_delta + 1
        kept = bytes(part) if len(view) <= gather_bytes else part
        staged.add(kept, header.size, offset - 1, header.max_timestamp)
    header, part = batches[0]
    if header.producer_id >= 0:
        staged.remember(producers, header.producer_id)
        record_producer(log, header, first_offset, part, staged)
    log.end_offset = offset
    append_time = now_ms if config.message_timestamp_type == LOG_APPEND_TIME else NO_TIMESTAMP
    return AppendInfo(first_offset, last_offset, append_time, log.start_offset, max_timestamp, False)


def record_producer(log: Log, header: BatchHeader, base_offset: int, part: memoryview, staged: PendingWrite) -> None:
    """Apply a staged batch to the producers, whose states `staged` remembers."""
    if header.attributes & control.TRANSACTION_BITS and not log.has_transactions:
        log.follow_transactions()
    marker = control.read(part) if header.is_control else None
    aborted = log.producers.record(header, base_offset, marker)
    if aborted is not None:
        staged.aborted += (aborted,)


def _duplicate(log: Log, written: WrittenBatch) -> AppendInfo:
    """The place of a duplicate batch, from its first append."""
    append_time = written.timestamp if log.config.message_timestamp_type == LOG_APPEND_TIME else NO_TIMESTAMP
    first_offset, last_offset, timestamp = written.first_offset, written.last_offset, written.timestamp
    return AppendInfo(first_offset, last_offset, append_time, log.start_offset, timestamp, True)


def make_room(
    log: Log, size: int, max_timestamp: int, last_offset: int, now_ms: int, leader_epoch: int, owner: Owner | None
) -> PendingWrite:
    """Write the staged batches, roll if due, and begin a new write with all the room of the segment."""
    if log.staged is not None:
        write_staged(log)
    if log.sync_error is not None:
        raise flushing.refusal(log)
    config, active = log.config, log.segments.active
    if size > config.segment_bytes:
        message = f"{size} bytes exceed segment.bytes={config.segment_bytes}"
        raise KafkaError(ErrorCode.RECORD_LIST_TOO_LARGE, message)
    try:
        staged = _next_write(log, owner)
        if not staged.has_room(size, max_timestamp, last_offset, leader_epoch):  # else, as usual, nothing is due
            longest_ms = rolling.max_age_ms(log)
            if active.size and rolling.is_due(active, config, longest_ms, size, max_timestamp, last_offset, now_ms):
                if owner is None:
                    rolling.roll(log, now_ms)
                else:
                    owner.run_roll(partial(rolling.roll, log, now_ms))
            if leader_epoch > log.epochs.latest:
                log.epochs.assign(leader_epoch, log.end_offset)
                if owner is not None:
                    owner.write_epochs_soon()
            staged = _next_write(log, owner)
    except OSError as error:
        raise log.disk_error(error) from error
    log.staged = staged
    log.lock.operations |= STAGED
    return staged


def _next_write(log: Log, owner: Owner | None) -> PendingWrite:
    """An empty write at the end of the log, with the room of the segment."""
    config, active = log.config, log.segments.active
    staged = PendingWrite(log.end_offset, log.epochs.latest, owner)
    size, first_timestamp = active.size, active.first_timestamp
    # With less information, each append checks for itself.
    if size and first_timestamp >= 0 and not active.is_full(config.segment_index_bytes, MAX_BATCHES):
        staged.max_bytes = min(config.segment_bytes - size, MAX_STAGED_BYTES)
        staged.max_timestamp = first_timestamp + rolling.max_age_ms(log)
        staged.max_offset = active.base_offset + MAX_RELATIVE_OFFSET
    return staged


def write_staged(log: Log) -> None:
    """Write the staged batches.

    Raises KafkaError(KAFKA_STORAGE_ERROR), also in `PendingWrite.error`; after a failed write the log is as before
    the first staged batch.
    """
    staged = log.staged
    if staged is None:
        return
    log.staged = None
    log.lock.operations &= ~STAGED
    if log.sync_error is not None:
        raise _undo(log, staged, flushing.refusal(log))
    try:
        log.segments.active.append(staged.content(), staged.written, log.config.index_interval_bytes)
    except OSError as error:
        raise _undo(log, staged, error) from error
    _note_written(log, staged)


def look_up(log: Log) -> None:
    """Load the data that the next append needs. Raises WouldBlock instead of waiting for the disk.

    Raises OSError and KafkaError, with which the append would be refused too.
    """
    log.segments.active.look_up()


def begin_write(log: Log) -> PendingWrite | None:
    """Hand out the staged write: a thread may call its `write`; then call `end_write`. None without one.

    `log_lock` has the operations that are allowed meanwhile. Raises KafkaError(KAFKA_STORAGE_ERROR).
    """
    staged = log.staged
    if staged is None:
        return None
    log.staged = None
    log.lock.operations &= ~STAGED
    if log.sync_error is not None:
        raise _undo(log, staged, flushing.refusal(log))
    active = log.segments.active
    try:
        staged.place(active.begin_append(), active.size)
    except OSError as error:
        raise _undo(log, staged, error) from error
    log.being_written = staged
    log.lock.operations |= WRITING
    return staged


def end_write(log: Log, staged: PendingWrite, error: BaseException | None) -> None:
    """End a write after its run. Raises KafkaError(KAFKA_STORAGE_ERROR) as `write_staged` does."""
    log.being_written = None
    log.lock.release(WRITING)
    staged.release()
    if error is not None and not isinstance(error, OSError):  # no thread or no memory: nothing was written
        error = OSError(errno.ECANCELED, repr(error))
    interval_bytes = log.config.index_interval_bytes
    try:
        log.segments.active.finish_append(staged.written, interval_bytes, error, in_memory=True)
    except OSError as failure:
        raise _undo(log, staged, failure) from failure
    _note_written(log, staged)


def _undo(log: Log, staged: PendingWrite, error: OSError | KafkaError) -> KafkaError:
    """Restore the log after a failed write; return the error for the producers."""
    without_frames(error)  # they hold the batches that could not be written
    active = log.segments.active
    log.end_offset = staged.first_offset
    log.epochs.forget_behind(log.end_offset)  # no record has the epoch that began with the write
    # The file was truncated to its former end; until that is on the disk, the dropped bytes can come back.
    log.recovery_point = min(log.recovery_point, active.base_offset)
    flushing.sync_with_next_flush(log, [active.path])  # an empty segment has no offset to be flushed
    staged.restore(log.producers)
    staged.error = log.disk_error(error) if isinstance(error, OSError) else error
    return staged.error.copy()


def _note_written(log: Log, staged: PendingWrite) -> None:
    """Note that the staged batches are in the page cache; flush if due. Raises KafkaError(KAFKA_STORAGE_ERROR)."""
    if staged.is_replicated:
        log.bytes_replicated += staged.size
        log.records_elsewhere += staged.written[-1][1] + 1 - staged.first_offset
    else:
        log.bytes_in += staged.size
        log.batches_in += len(staged.written)
    if staged.aborted:
        log.segments.active.follow_transactions(staged.aborted)
    if log.end_offset - log.recovery_point < log.config.records_unsynced:
        return
    if staged.owner is not None:
        staged.owner.sync_soon()
        return
    try:
        flushing.flush(log)
    except KafkaError as error:
        staged.error = error.copy()
        raise

"""Repair after a failed sync: secures everything from the recovery point on, so that a log takes records again.

A system reports a failed write to the disk once. Afterwards it may keep the bytes in memory for a while or drop them,
but counts them as written: the next sync succeeds, and proves nothing (Postgres' "fsyncgate" of 2018). So the repair
trusts nothing that may not be on the disk: it reads these bytes, checks each CRC, writes them once more and syncs them.
The check finds what the system has dropped. The log is cut there; the later bytes are quarantined; the loss is logged.

    log.sync_error ─> begin ─> steps, in a thread ─> apply ─┬────────────────────────────> end
                                                            └─> write_steps, in a thread ──┘

`apply` changes the log in memory only: the log ends where the valid batches end, and rebuilt indexes stay in memory.
Only then `write_steps` changes the files, so that no reader meets a changing file. After `end` the log takes
records, or the whole repair is tried again. Reads continue meanwhile; `Log` refuses appends.
"""

from __future__ import annotations

import errno
import logging
from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

from headgate.protocol.errors import ErrorCode, KafkaError, without_frames
from headgate.protocol.records.control import TRANSACTION_BITS
from headgate.protocol.steps import Steps
from headgate.storage.disk.layout import replace_topic_id
from headgate.storage.disk.pool import Pool
from headgate.storage.errors import BadFile
from headgate.storage.files import NO_DESCRIPTORS, parent
from headgate.storage.log import flushing
from headgate.storage.log.log import Log
from headgate.storage.log.log_lock import DELETE_SEGMENTS, REPAIR, REPAIRING
from headgate.storage.recovery.files_update import Facts, FilesUpdate, fact_of, facts_of
from headgate.storage.recovery.indexes import transactions_at
from headgate.storage.recovery.quarantine import quarantine_cut, quarantine_name
from headgate.storage.segment.batch_iterator import BatchIterator
from headgate.storage.segment.batch_seek import NO_LIMIT, seek
from headgate.storage.segment.index import OffsetIndex
from headgate.storage.segment.index_finalization import last_time
from headgate.storage.segment.segment import Segment
from headgate.storage.segment.segment_file import GROWING, SOUND
from headgate.storage.segment.transaction_index import parse

logger = logging.getLogger("headgate.storage")

_REWRITE_BYTES = 1 << 20


class _Index(NamedTuple):
    """The file of an index; `size`: its written bytes. Without `is_whole` more entries are in memory."""

    path: str
    suffix: str
    size: int
    is_whole: bool


class _Piece(NamedTuple):
    """A segment with indexes that may not be on the disk; with `is_unsynced` the batches may not be there either."""

    facts: Facts
    is_unsynced: bool
    is_sealed: bool
    indexes: tuple[_Index, ...]


class _Lost(NamedTuple):
    """The first lost place: the base offset of its segment, the byte position, the offset."""

    base_offset: int
    position: int
    offset: int


class SyncFailureRepair(FilesUpdate):
    """The part of a repair that threads run. If `error` is set afterwards, the repair must be tried again."""

    def __init__(self, log: Log, pieces: list[_Piece]) -> None:
        """Use `begin`."""
        super().__init__(log)
        self.lost: _Lost | None = None
        self.has_lost_records = False
        """Set by `apply`: whether the log lost records. The remaining records are unchanged."""
        self.renewed: dict[int, Segment] = {}
        """By base offset: segments with rebuilt indexes in memory; their index files cannot be trusted."""
        self._recovery_point = log.recovery_point
        self._pieces = pieces
        self._quarantined: str | None = None  # the path of the quarantined bytes

    # Check and rewrite

    def steps(self) -> Steps[None]:
        """Read, check, write and sync, in slices."""
        pool = Pool(self._files, max_open_segments=1)  # only the loop may use the pool of the log
        try:
            self._finish_renames()
            for piece in self._pieces:
                if not (yield from self._rewrite(pool, piece)):
                    break
                yield from self._check_indexes(pool, piece)
            self._sync_epochs()
            if self._log.topic_id is not None:
                replace_topic_id(self._files, self._directory, self._log.topic_id)
            self._files.sync_directory(self._directory)
            self._files.sync_directory(parent(self._directory))
        except (OSError, KafkaError) as error:
            self.error = without_frames(error)
            if self._quarantined is not None:  # the log still has the bytes; each try would leave another copy
                with suppress(OSError):
                    self._files.remove(self._quarantined)

    def _rewrite(self, pool: Pool, piece: _Piece) -> Steps[bool]:
        """Write the unsynced part of a segment once more; True if it was complete, and is on the disk now."""
        start = self._start(pool, piece)
        segment = self._segment(pool, piece.facts)
        try:
            iterator = yield from _write_again(segment, start)
            segment.file.sync()
            if iterator.problem is None and iterator.position == segment.size:
                return True
            self._quarantined = yield from quarantine_cut(self._files, segment, iterator.position)
            offset = max(iterator.next_offset, self._recovery_point)
            self.lost = _Lost(segment.base_offset, iterator.position, offset)
            yield from self._renew(pool, piece.facts, iterator.position)
            return False
        finally:
            segment.close()

    def _start(self, pool: Pool, piece: _Piece) -> int:
        """The byte position from which on a segment may not be on the disk; 0 if its index is wrong or unclear."""
        facts, offset = piece.facts, self._recovery_point
        if not piece.is_unsynced or offset == self._log.end_offset:
            return facts.size
        if offset <= facts.base_offset:
            return 0
        sizes = [index.size for index in piece.indexes if index.suffix == OffsetIndex.SUFFIX]
        segment = Segment(pool, self._directory, facts.base_offset, (facts.size, *(sizes or [-1]), -1, -1))
        segment.has_legacy_format = facts.has_legacy_format
        try:
            bounds = seek(segment, segment.offsets.floor(offset), NO_LIMIT, offset)
            return bounds[0] if bounds is not None and bounds[2] <= offset else 0
        except (KafkaError, OSError, ValueError):
            return 0
        finally:
            segment.close()

    def _check_indexes(self, pool: Pool, piece: _Piece) -> Steps[None]:
        """Write the index files of a sealed segment once more if they match its batches; otherwise rebuild them."""
        expected = yield from self._expected(pool, piece)
        for index in piece.indexes:
            data = self._content(index)
            if len(data) < index.size or not _is_expected(index, data, expected):
                yield from self._renew(pool, piece.facts, piece.facts.size)
                return
            if piece.is_sealed:  # otherwise the seal will sync them, and recovery would rebuild them
                file = self._files.open(index.path)
                try:
                    file.write_at(data, 0)
                    file.sync()
                finally:
                    file.release()

    def _content(self, index: _Index) -> bytes:
        """The content of an index file; empty if this derived file is missing or unreadable. Raises OSError."""
        try:
            return self._files.read(index.path)[: index.size]
        except OSError as error:
            if error.errno in (*NO_DESCRIPTORS, errno.ENOMEM):
                raise
            return b""

    def _expected(self, pool: Pool, piece: _Piece) -> Steps[dict[str, bytes]]:
        """The expected content of the index files, by suffix, derived from the batches."""
        segment = self._segment(pool, piece.facts)
        try:
            for _ in segment.rebuild(self._log.config.index_interval_bytes, in_memory=True):
                yield
            times = segment.times.content()
            if piece.is_sealed:
                times += last_time(segment)
            return {segment.offsets.SUFFIX: segment.offsets.content(), segment.times.SUFFIX: times}
        finally:
            segment.close()

    def _renew(self, pool: Pool, facts: Facts, size: int) -> Steps[None]:
        """Rebuild the indexes of the first `size` bytes of a segment, in memory."""
        segment = self._segment(pool, facts)
        try:
            file_size = segment.file.size()
            segment.size = size
            iterator = segment.rebuild(self._log.config.index_interval_bytes, in_memory=True)
            for _, header in iterator:
                if header.attributes & TRANSACTION_BITS and iterator.transactions is None:
                    iterator.transactions = yield from transactions_at(self._copy(), segment.base_offset)
                yield
            if iterator.problem is not None:
                raise KafkaError(
                    ErrorCode.KAFKA_STORAGE_ERROR, f"{segment.path}, byte {iterator.position}: {iterator.problem}"
                )
            if self._log.has_transactions:
                segment.follow_transactions()
        finally:
            segment.close()
        segment.state = GROWING if file_size > size else SOUND
        self.renewed[segment.base_offset] = segment

    def _remove_segment(self, path: str, *, is_behind: bool) -> None:
        if is_behind:
            self._files.rename(path, quarantine_name(self._files, path, 0))
        else:
            super()._remove_segment(path, is_behind=is_behind)

    def rebuild_index_steps(self, base_offset: int) -> Steps[None]:
        """Rebuild the indexes of one segment, in slices; `apply_index` follows."""
        pool = Pool(self._files, max_open_segments=1)
        try:
            self._finish_renames()
            for facts in self._facts:
                if facts.base_offset == base_offset:
                    yield from self._renew(pool, facts, facts.size)
        except (OSError, KafkaError) as error:
            self.error = without_frames(error)


def _is_expected(index: _Index, data: bytes, expected: dict[str, bytes]) -> bool:
    if index.suffix in expected:
        return expected[index.suffix][: index.size] == data and (
            not index.is_whole or len(expected[index.suffix]) == index.size
        )
    try:
        return bool(parse(data)) or not data
    except BadFile:
        return False


def needing_repair(pool: Pool) -> list[Log]:
    """The logs of a pool that need a repair, in the order of their failed syncs."""
    return [log for log in pool.needs_repair if isinstance(log, Log)]


def begin(log: Log) -> SyncFailureRepair | None:
    """The repair of a log with a failed sync; None while another operation excludes it (`log_lock`)."""
    if not log.lock.may(REPAIR):
        return None
    unsynced = log.segments.since(log.recovery_point)
    pieces = []
    for segment, facts in zip(log.segments, facts_of(log), strict=True):
        is_unsynced = segment in unsynced
        if is_unsynced or not set(segment.sealed_indexes).isdisjoint(log.indexes_unsynced):
            pieces.append(_Piece(facts, is_unsynced, segment.is_sealed, tuple(_indexes(segment))))
    work = SyncFailureRepair(log, pieces)
    log.lock.acquire(REPAIRING)
    return work


def _indexes(segment: Segment) -> Iterator[_Index]:
    for index in segment.indexes:
        if index.written:
            yield _Index(index.path, index.SUFFIX, index.written, index.written == index.size)


def apply(log: Log, work: SyncFailureRepair) -> bool:
    """Apply the result of `steps` to the log, in memory; True if `write_steps` must run before `end`."""
    if not work.is_valid:
        return False
    log.epochs.note_synced()
    for segment in work.renewed.values():
        log.renew(segment)
        logger.warning("%s-%d: rebuilt the indexes of %s", *log.key, segment.path)
    if work.lost is not None:
        end_offset = log.end_offset
        _drop_lost(log, *work.lost)
        work.has_lost_records = log.end_offset < end_offset  # otherwise the lost records were deleted before
    return work.note_differences(log)


def _drop_lost(log: Log, base_offset: int, position: int, offset: int) -> None:
    logger.error(
        "%s-%d: the system dropped what it could not write: records from offset %d to %d are lost; the remaining bytes"
        " are quarantined", *log.key, offset, log.end_offset - 1,
    )  # fmt: skip
    if offset <= log.start_offset:  # no records are left; offsets are never given twice, so the log keeps its end
        log.forget_all(log.start_offset, log.start_offset)
    else:
        log.forget_behind(base_offset, position, offset)


def end(log: Log, work: SyncFailureRepair) -> bool:
    """End a repair after its steps have run or failed; True if the log takes records again."""
    log.lock.release(REPAIRING)
    if not work.is_valid:
        return False
    work.settle(log)
    flushing.accept(log)
    sentence = "%s-%d takes records again: everything up to offset %d is on the disk"
    logger.warning(sentence, *log.key, log.end_offset)
    return True


def apply_index(log: Log, work: SyncFailureRepair) -> bool:
    """Apply the result of `rebuild_index_steps`: True if the segment has indexes again. The next roll writes them."""
    closed = facts_of(log)[:-1]  # the index file of the active segment is not read
    renewed = [segment for segment in work.renewed.values() if fact_of(segment) in closed]
    if not log.lock.may(DELETE_SEGMENTS) or work.error is not None or not renewed:
        return False  # a rolling thread adds to the segments; retention tries again
    for segment in renewed:
        log.renew(segment)
        logger.warning("%s-%d: rebuilt the indexes of %s", *log.key, segment.path)
    return True


def rewrite_unsynced(log: Log) -> Steps[None]:
    """Write everything from the recovery point on once more, in slices: a flush makes it durable then."""
    first, start = log.segments.locate(log.recovery_point)
    for segment in log.segments.since(log.recovery_point):
        yield from _write_again(segment, start if segment is first else 0)


def _write_again(segment: Segment, start: int) -> Steps[BatchIterator]:
    """Read and check the batches from a byte position on, and write them once more. The iterator has the end."""
    iterator, written = segment.iterate(start, check_crc_from=0), start
    for position, _ in iterator:
        if position - written >= _REWRITE_BYTES:
            segment.file.write_at(segment.file.read_at(position - written, written), written)
            written = position
        yield
    if iterator.position > written:
        segment.file.write_at(segment.file.read_at(iterator.position - written, written), written)
    return iterator

"""After a failed sync: make sure of everything behind the recovery point, so that a log takes records again.

A system that could not write something to the disk says so once. It may keep those bytes in memory for a while or drop
them, but counts them as written: the next sync succeeds, and proves nothing (Postgres' "fsyncgate" of 2018). So nothing
of it is trusted. All that is not known to be on the disk is read, checked by its CRC, written once more and synced.
What the system had dropped shows there: the log is cut before it, what follows is kept aside, and that is reported.

    log.sync_error ─> begin ─> Mending.run, in a thread ─> end ─> none any more; or the same, and it is tried again

Reads go on meanwhile, and `Log` takes nothing.
"""

from __future__ import annotations

import errno
import logging
from collections.abc import Iterator
from typing import NamedTuple

from protocol.errors import KafkaError
from protocol.records.compression import finish
from storage import holding
from storage.aborted import parse
from storage.directories import replace_topic_id
from storage.errors import BadFile
from storage.files import File, Files, parent
from storage.log import Log
from storage.pool import Pool
from storage.recovery.aside import keep_aside
from storage.recovery.found import Found
from storage.recovery.indexes import rebuild
from storage.segment import Segment

logger = logging.getLogger("headgate.storage")

_REWRITE_BYTES = 1 << 20


class _Index(NamedTuple):
    """The file of an index, and how many bytes of it were written: all it has (`is_whole`), or some are in memory."""

    path: str
    suffix: str
    size: int
    is_whole: bool


class _Piece(NamedTuple):
    """A segment from a position on, where a batch begins or where it ends."""

    base_offset: int
    size: int
    position: int
    holds_messages: bool
    is_sealed: bool
    indexes: tuple[_Index, ...]


class Mending:
    """What a thread does. Afterwards `error` says why it has to be tried again, or `lost` what is gone.

    `lost`: the base offset of a segment, the byte, the offset from which on it does not hold what was written.
    `spoilt`: base offsets of segments whose indexes have to be made anew.
    """

    def __init__(self, log: Log, pieces: list[_Piece]) -> None:
        self.error: BaseException | None = None
        self.lost: tuple[int, int, int] | None = None
        self.spoilt: list[int] = []
        self.end_offset = log.end_offset
        self._recovery_point = log.recovery_point
        self._files: Files = log.pool.files
        self._directory = log.directory
        self._topic_id = log.topic_id
        self._interval_bytes = log.config.index_interval_bytes
        self._pieces = pieces

    def run(self) -> None:
        """Read, check, write and sync; in any thread."""
        pool = Pool(self._files, max_open_segments=1)  # the log's own is the loop's
        try:
            for piece in self._pieces:
                if not self._rewrite(pool, piece):
                    break
                self._rewrite_indexes(piece)
            if self._topic_id is not None:
                replace_topic_id(self._files, self._directory, self._topic_id)
            self._files.sync_directory(self._directory)
            self._files.sync_directory(parent(self._directory))
        except OSError as error:
            self.error = error

    def _rewrite(self, pool: Pool, piece: _Piece) -> bool:
        """Whether all of it was there, and is on the disk now."""
        segment = self._segment(pool, piece)
        written = piece.position
        try:
            walk = segment.walk(piece.position)
            walk.check_crc_from = 0
            for position, _ in walk:
                if position - written >= _REWRITE_BYTES:
                    _write_again(segment, written, position)
                    written = position
            _write_again(segment, written, walk.position)
            segment.file.sync()
            if walk.problem is None and walk.position == piece.size:
                return True
            finish(keep_aside(self._files, segment, walk.position))
            self.lost = piece.base_offset, walk.position, max(walk.next_offset, self._recovery_point)
            return False
        finally:
            segment.close()

    def _rewrite_indexes(self, piece: _Piece) -> None:
        """Write those of a sealed segment once more, if they are what its bytes make of them."""
        expected = self._rebuilt(piece)
        for index in piece.indexes:
            data = self._files.read(index.path)[: index.size]
            if len(data) < index.size or not _is_expected(index, data, expected):
                self.spoilt.append(piece.base_offset)
            elif piece.is_sealed:  # else they are synced once it is, and a recovery makes them anew
                file = self._files.open(index.path)
                try:
                    file.write_at(data, 0)
                    file.sync()
                finally:
                    file.release()

    def _rebuilt(self, piece: _Piece) -> dict[str, bytes]:
        """The indexes by their suffixes, made from the segment as it is read."""
        segment = self._segment(Pool(_InMemory(self._files), max_open_segments=1), piece)
        try:
            for _ in segment.rebuild(self._interval_bytes):
                pass
            if piece.is_sealed:
                segment.times.append(segment.max_timestamp, segment.max_timestamp_offset)
            return {index.SUFFIX: index.content() for index in (segment.offsets, segment.times)}
        finally:
            segment.close()

    def _segment(self, pool: Pool, piece: _Piece) -> Segment:
        segment = Segment(pool, self._directory, piece.base_offset, (piece.size, -1, -1, -1))
        segment.holds_messages = piece.holds_messages
        return segment


class _InMemory(Files):
    """The same disk, but nothing is written to it: indexes that are made on it stay in memory."""

    def __init__(self, files: Files) -> None:
        self._files = files

    def open(self, path: str, *, create: bool = False) -> File:
        return self._files.open(path, create=create)

    def open_limit(self) -> int:
        return self._files.open_limit()

    def write(self, path: str, data: bytes | bytearray, *, sync: bool = False) -> None:
        raise OSError(errno.EROFS, "it is for reading", path)

    def append(self, path: str, data: bytes | bytearray) -> None:
        raise OSError(errno.EROFS, "it is for reading", path)


def _is_expected(index: _Index, data: bytes, expected: dict[str, bytes]) -> bool:
    if index.suffix in expected:
        return expected[index.suffix][: index.size] == data and (
            not index.is_whole or len(expected[index.suffix]) == index.size
        )
    try:
        return bool(parse(data)) or not data
    except BadFile:
        return False


def begin(log: Log) -> Mending | None:
    """What is to be run for a log with a failed sync; None while a thread has it. Raises OSError."""
    if not holding.may(log, holding.MEND):
        return None
    unsynced = log.since(log.recovery_point)
    pieces = []
    for segment in log.segments:
        position = _start(log, segment) if segment in unsynced else segment.size
        if segment in unsynced or not set(segment.sealed_indexes).isdisjoint(log.indexes_unsynced):
            pieces.append(
                _Piece(
                    segment.base_offset,
                    segment.size,
                    position,
                    segment.holds_messages,
                    segment.is_sealed,
                    tuple(_indexes(segment)),
                )
            )
    mending = Mending(log, pieces)
    holding.lend(log, holding.MENDING)
    return mending


def _start(log: Log, segment: Segment) -> int:
    """Where that begins of a segment which may not be on the disk."""
    try:
        return segment.locate(max(log.recovery_point, segment.base_offset)) if segment.size else 0
    except KafkaError:  # it is damaged before that; where, will be found
        return 0


def _indexes(segment: Segment) -> Iterator[_Index]:
    for index in (segment.offsets, segment.times, segment.aborted):
        if index is not None and index.written:
            yield _Index(index.path, index.SUFFIX, index.written, index.written == index.size)


def end(log: Log, mending: Mending) -> bool:
    """A mending was run, or failed to: whether the log takes records again.

    Raises OSError, KafkaError, StorageError: then not.
    """
    holding.give_back(log)
    if log.is_retired or mending.error is not None or log.end_offset != mending.end_offset:  # it was cut meanwhile
        return False
    if mending.lost is not None:
        _cut(log, *mending.lost)
    for segment in log.segments:
        if segment.base_offset in mending.spoilt:  # a part of its bytes may be in memory alone: so were the indexes
            finish(rebuild(log, Found(log.topic, log.partition, log.directory), segment))
    log.epochs.sync()
    log.mended()
    what = "%s-%d takes records again: all up to offset %d is on the disk"
    logger.warning(what, log.topic, log.partition, log.end_offset)
    return True


def _cut(log: Log, base_offset: int, position: int, offset: int) -> None:
    logger.error(
        "%s-%d: the system dropped what it could not write: records from offset %d to %d are lost, and what is left of"
        " them is kept aside", log.topic, log.partition, offset, log.end_offset - 1,
    )  # fmt: skip
    segment = next(segment for segment in log.segments if segment.base_offset == base_offset)
    if offset <= log.start_offset:  # nothing is left, and offsets that were given once are not given again
        log.restart_at(log.start_offset, segment.created_ms)
    else:
        log.cut(segment, position, offset)


def _write_again(segment: Segment, start: int, end: int) -> None:
    file = segment.file
    if end > start:
        file.write_at(file.read_at(end - start, start), start)

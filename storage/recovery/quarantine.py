"""Quarantine: bytes that recovery cuts off a log, kept beside the log in files that no log reads.

The files are named `<segment>.log.<byte>.torn`, with a number before the suffix if there are several.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Container, Sequence
from typing import NamedTuple

from headgate.protocol.errors import KafkaError
from headgate.protocol.records.batch import HEADER_SIZE, BatchHeader, read_header
from headgate.protocol.steps import Steps
from headgate.storage.disk.pool import Pool
from headgate.storage.files import Files
from headgate.storage.recovery.recovery_input import SUFFIXES, RecoveryInput, bases_of, first_to_scan, sizes_of
from headgate.storage.segment.batch_seek import seek
from headgate.storage.segment.segment import Segment
from headgate.storage.segment.segment_file import LOG_SUFFIX

logger = logging.getLogger("headgate.storage")

TORN_SUFFIX = ".torn"
_COPY_BYTES = 1024 * 1024


def quarantine_cut(files: Files, segment: Segment, position: int, *, is_synced: bool = True) -> Steps[str]:
    """Copy the bytes of a segment from a byte position on to a quarantine file, in slices. Returns the file's path.

    With `is_synced` the copy is on the disk before the caller cuts the segment. There is no file for zeros alone, which
    some file systems leave; the path is returned all the same. Raises OSError; then there is no file.
    """
    path = quarantine_name(files, segment.path, position)
    try:
        for start in range(position, segment.size, _COPY_BYTES):
            data = segment.file.read_at(min(_COPY_BYTES, segment.size - start), start)
            if data.count(0) < len(data) or files.exists(path):
                files.append(path, data)
            yield
        if is_synced and files.exists(path):
            files.sync(path)
            files.sync_directory(segment.directory)
    except OSError:
        with contextlib.suppress(OSError):
            files.remove(path)
        raise
    return path


class FinalBatch(NamedTuple):
    """The last batch of the segment with base offset `base`: offsets `begin` to `end`, exclusive.

    `header` is None for a message of magic 0 or 1.
    """

    base: int
    begin: int
    end: int
    header: BatchHeader | None = None

    def may_replace(self, old: FinalBatch) -> bool:
        """Whether compaction may have made this batch from the old one. The offset may lie: no checksum covers it."""
        if self.header is None or old.header is None or self.begin != old.begin:
            return self.begin == old.begin
        is_changed = self.header.records_count < old.header.records_count or self.header.delete_horizon_ms is not None
        return is_changed or self.header.crc == old.header.crc


def quarantine_replaced(pool: Pool, recovery: RecoveryInput, names: dict[str, int]) -> Steps[None]:
    """Quarantine segments that a compaction has replaced and that have reappeared, for example from a backup.

    A segment counts as replaced if the segment before covers all of its offsets, and both were below the recovery
    point. Above that point the segment before may end with the rest of a failed write. Raises OSError.
    """
    bases = bases_of(names)
    lasts = list[FinalBatch]()
    for base in bases[: first_to_scan(bases, recovery.recovery_point)]:
        segment = Segment(pool, recovery.directory, base, sizes_of(names, base))
        with contextlib.suppress(KafkaError):  # there is no batch; the scan reports that
            last = seek(segment, segment.offsets.last_position, segment.size - 1)
            if last is not None:
                position, _, begin, end = last
                lasts.append(FinalBatch(base, begin, end + 1, _header(segment, position)))
        segment.close()
        yield
    for covered in replaced(lasts, bases):
        _quarantine_segment(pool.files, recovery, names, covered)
        yield


def _header(segment: Segment, position: int) -> BatchHeader | None:
    try:
        return read_header(segment.file.read_at(HEADER_SIZE, position))
    except KafkaError:
        return None


def replaced(lasts: Sequence[FinalBatch], bases: Container[int]) -> list[int]:
    """The base offsets of segments that other segments have replaced. Pure.

    `lasts`: the last batch of each segment; `bases`: the base offsets of all segments. A compacted segment ends where
    the replaced segments ended, with the remains of the same last batch. A segment with a damaged offset, which only
    seems to cover the following segments, must not replace them.
    """
    pairs = list[tuple[FinalBatch, list[FinalBatch]]]()
    for segment in lasts:
        if pairs and segment.base < segment.end <= pairs[-1][0].end:
            pairs[-1][1].append(segment)
        elif not pairs or segment.end > pairs[-1][0].end:
            pairs.append((segment, []))
    result = list[int]()
    for cover, covered in pairs:
        ending = [segment for segment in covered if segment.end == cover.end]
        if all(map(cover.may_replace, ending)) if ending else cover.end in bases:
            result += [segment.base for segment in covered]
    return result


def _quarantine_segment(files: Files, recovery: RecoveryInput, names: dict[str, int], base: int) -> None:
    path = f"{recovery.directory}/{base:020d}{LOG_SUFFIX}"
    logger.warning(
        "%s: the segment before %s has replaced it and has all of its offsets; quarantined in a file named *%s",
        recovery, path, TORN_SUFFIX,
    )  # fmt: skip
    files.rename(path, quarantine_name(files, path, 0))
    for suffix in SUFFIXES:
        if names.pop(f"{base:020d}{suffix}", -1) >= 0 and suffix != LOG_SUFFIX:
            files.remove(f"{recovery.directory}/{base:020d}{suffix}")
    files.sync_directory(recovery.directory)


def quarantine_name(files: Files, path: str, position: int) -> str:
    """The path of a new quarantine file for the bytes of a segment from a byte position on."""
    quarantined = f"{path}.{position}{TORN_SUFFIX}"
    number = 0
    while files.exists(quarantined):
        number += 1
        quarantined = f"{path}.{position}.{number}{TORN_SUFFIX}"
    return quarantined

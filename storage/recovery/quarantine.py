"""What no log can read any more, and nobody else is to lose: kept beside the log, in files of which it knows nothing.

They are named `<segment>.log.<byte>.torn`, with a number before the ending where there are several.
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
from headgate.storage.segment.segment import LOG_SUFFIX, Segment

logger = logging.getLogger("headgate.storage")

TORN_SUFFIX = ".torn"
_COPY_BYTES = 1024 * 1024


def quarantine_cut(files: Files, segment: Segment, position: int, *, is_synced: bool = True) -> Steps[str]:
    """Copy what follows a position to a file of its own, in slices. They raise OSError, and then there is none.

    What `is_synced` is on the disk afterwards, before what it was copied from is cut. Zeros alone, which some file
    systems leave, are not worth a file. Returns its path, in any case.
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


class Last(NamedTuple):
    """The last batch of the segment that begins at `base`. No header: it is a message of magic 0 or 1."""

    base: int
    begin: int
    end: int
    header: BatchHeader | None = None

    def is_left_of(self, old: Last) -> bool:
        """Whether compaction may have made it of another one: no checksum covers the offset, which may be wrong."""
        if self.header is None or old.header is None or self.begin != old.begin:
            return self.begin == old.begin
        is_changed = self.header.records_count < old.header.records_count or self.header.delete_horizon_ms is not None
        return is_changed or self.header.crc == old.header.crc


def quarantine_replaced(pool: Pool, found: RecoveryInput, names: dict[str, int]) -> Steps[None]:
    """Put aside what a compaction has replaced and what is here again, be it from a backup.

    That is a segment all of whose offsets the one before has too, where both were safe on the disk: behind that a write
    that failed may have left something in the one before. Raises OSError.
    """
    bases = bases_of(names)
    lasts = list[Last]()
    for base in bases[: first_to_scan(bases, found.recovery_point)]:
        segment = Segment(pool, found.directory, base, sizes_of(names, base))
        with contextlib.suppress(KafkaError):  # no batch is there: the scan tells
            last = seek(segment, segment.offsets.last_position, segment.size - 1)
            if last is not None:
                position, _, begin, end = last
                lasts.append(Last(base, begin, end + 1, _header(segment, position)))
        segment.close()
        yield
    for covered in replaced(lasts, bases):
        _put_aside(pool.files, found, names, covered)
        yield


def _header(segment: Segment, position: int) -> BatchHeader | None:
    try:
        return read_header(segment.file.read_at(HEADER_SIZE, position))
    except KafkaError:
        return None


def replaced(lasts: Sequence[Last], bases: Container[int]) -> list[int]:
    """Which segments others have replaced, by the last batch of each; `bases`: of all segments. Pure.

    What compaction makes ends where what it replaced did, with what is left of the same batch. One that only says so,
    as its offset is wrong, must not take what follows.
    """
    pairs = list[tuple[Last, list[Last]]]()
    for one in lasts:
        if pairs and one.base < one.end <= pairs[-1][0].end:
            pairs[-1][1].append(one)
        elif not pairs or one.end > pairs[-1][0].end:
            pairs.append((one, []))
    found = list[int]()
    for cover, covered in pairs:
        ending = [one for one in covered if one.end == cover.end]
        if all(map(cover.is_left_of, ending)) if ending else cover.end in bases:
            found += [one.base for one in covered]
    return found


def _put_aside(files: Files, found: RecoveryInput, names: dict[str, int], base: int) -> None:
    path = f"{found.directory}/{base:020d}{LOG_SUFFIX}"
    logger.warning(
        "%s: the segment before %s has all of its offsets, and has replaced it; it is kept in a file named *%s",
        found, path, TORN_SUFFIX,
    )  # fmt: skip
    files.rename(path, quarantine_name(files, path, 0))
    for suffix in SUFFIXES:
        if names.pop(f"{base:020d}{suffix}", -1) >= 0 and suffix != LOG_SUFFIX:
            files.remove(f"{found.directory}/{base:020d}{suffix}")
    files.sync_directory(found.directory)


def quarantine_name(files: Files, path: str, position: int) -> str:
    """A file that is not there yet, for what follows a position of a segment's file."""
    aside = f"{path}.{position}{TORN_SUFFIX}"
    number = 0
    while files.exists(aside):
        number += 1
        aside = f"{path}.{position}.{number}{TORN_SUFFIX}"
    return aside

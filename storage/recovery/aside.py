"""What no log can read any more, and nobody else is to lose: kept beside the log, in files of which it knows nothing.

They are named `<segment>.log.<byte>.torn`, with a number before the ending where there are several.
"""

from __future__ import annotations

import contextlib
import logging

from protocol.errors import KafkaError
from protocol.records.compression import Steps
from storage.files import Files
from storage.hops import NO_LIMIT
from storage.pool import Pool
from storage.recovery.found import SUFFIXES, Found, bases_of, first_to_scan, sizes_of
from storage.segment import LOG_SUFFIX, Segment

logger = logging.getLogger("headgate.storage")

TORN_SUFFIX = ".torn"
_COPY_BYTES = 1024 * 1024


def keep_aside(files: Files, segment: Segment, position: int) -> Steps[str]:
    """Copy what follows a position to a file of its own, in slices. They raise OSError, and then there is none.

    Zeros alone, which some file systems leave, are not worth one. Returns its path, in any case.
    """
    path = name_aside(files, segment.path, position)
    try:
        for start in range(position, segment.size, _COPY_BYTES):
            data = segment.file.read_at(min(_COPY_BYTES, segment.size - start), start)
            if data.count(0) < len(data) or files.exists(path):
                files.append(path, data)
            yield
    except OSError:
        with contextlib.suppress(OSError):
            files.remove(path)
        raise
    return path


def put_replaced_aside(pool: Pool, found: Found, names: dict[str, int]) -> Steps[None]:
    """Put aside what a compaction has replaced and what is here again, be it from a backup.

    That is a segment all of whose offsets the one before has too, where both were safe on the disk: behind that a write
    that failed may have left something in the one before. Raises OSError.
    """
    bases = bases_of(names)
    reached, files = -1, pool.files
    for base in bases[: first_to_scan(bases, found.recovery_point)]:
        segment = Segment(pool, found.directory, base, sizes_of(names, base))
        try:
            end_offset = segment.end_offset()
        except KafkaError:  # no batch is there: the scan tells
            end_offset = NO_LIMIT
        segment.close()
        if base < end_offset <= reached:
            logger.warning(
                "%s: the segment before %s has all of its offsets, and has replaced it; it is kept in a file named *%s",
                found, segment.path, TORN_SUFFIX,
            )  # fmt: skip
            files.rename(segment.path, name_aside(files, segment.path, 0))
            for suffix in SUFFIXES:
                if names.pop(f"{base:020d}{suffix}", -1) >= 0 and suffix != LOG_SUFFIX:
                    files.remove(f"{found.directory}/{base:020d}{suffix}")
            files.sync_directory(found.directory)
        elif end_offset != NO_LIMIT:
            reached = max(reached, end_offset)
        yield


def name_aside(files: Files, path: str, position: int) -> str:
    """A file that is not there yet, for what follows a position of a segment's file."""
    aside = f"{path}.{position}{TORN_SUFFIX}"
    number = 0
    while files.exists(aside):
        number += 1
        aside = f"{path}.{position}.{number}{TORN_SUFFIX}"
    return aside

"""Index finalization: the index files of a segment whose indexes were rebuilt in memory.

`Segment.rebuild(in_memory=True)` writes nothing before all entries are known. `Segment.seal` is for a segment with
appends: its indexes were written block by block.
"""

from __future__ import annotations

from headgate.storage.disk.checkpoint import replace
from headgate.storage.files import Files
from headgate.storage.segment.index import TimeIndex
from headgate.storage.segment.segment import DERIVED_SUFFIXES, Segment

INDEX_SUFFIXES = DERIVED_SUFFIXES[:3]


def last_time(segment: Segment) -> bytes:
    """The last entry of a sealed segment's time index, if the index lacks it."""
    if segment.max_timestamp <= segment.times.last_timestamp:
        return b""
    return TimeIndex.ENTRY.pack(segment.max_timestamp, segment.max_timestamp_offset - segment.base_offset)


def content_of(segment: Segment) -> dict[str, bytes | None]:
    """The content of each index file, by its suffix; None for a file that must not exist."""
    content: dict[str, bytes | None] = dict.fromkeys(INDEX_SUFFIXES)
    content.update({index.SUFFIX: index.content() for index in segment.indexes})
    content[TimeIndex.SUFFIX] = segment.times.content() + last_time(segment)
    return content


def write(files: Files, segment: Segment) -> None:
    """Write the index files to the disk, each completely or, after a crash, not at all. Raises OSError.

    The `.txnindex` comes first: an empty one may be right, and only the other two show that a rebuild was interrupted.
    """
    for suffix, content in reversed(content_of(segment).items()):
        if content is not None:
            replace(files, f"{segment.directory}/{segment.base_offset:020d}{suffix}", content)


def note_written(segment: Segment) -> None:
    """Note that the index files were written with the result of `content_of`."""
    segment.times.append(segment.max_timestamp, segment.max_timestamp_offset, in_memory=True)
    for index in segment.indexes:
        index.note_written()
    segment.is_sealed = True

"""The index files of a segment that was gone through, with all of its indexes in memory: what they are to hold.

The segment is rebuilt `in_memory`, so that nothing is written before all is known. `Segment.seal` is the
other way, of a segment that was appended to: its indexes were written block by block.
"""

from __future__ import annotations

from headgate.storage.disk.checkpoint import replace
from headgate.storage.files import Files
from headgate.storage.segment.index import TimeIndex
from headgate.storage.segment.segment import DERIVED_SUFFIXES, Segment

INDEX_SUFFIXES = DERIVED_SUFFIXES[:3]


def last_time(segment: Segment) -> bytes:
    """The entry with which the time index of a sealed segment ends, if it is not there already."""
    if segment.max_timestamp <= segment.times.last_timestamp:
        return b""
    return TimeIndex.ENTRY.pack(segment.max_timestamp, segment.max_timestamp_offset - segment.base_offset)


def content_of(segment: Segment) -> dict[str, bytes | None]:
    """What the files of its indexes are to hold, by their suffixes; None for one that is not to be there."""
    content: dict[str, bytes | None] = dict.fromkeys(INDEX_SUFFIXES)
    content.update({index.SUFFIX: index.content() for index in segment.indexes})
    content[TimeIndex.SUFFIX] = segment.times.content() + last_time(segment)
    return content


def write(files: Files, segment: Segment) -> None:
    """Write them, on the disk, each as a whole or not at all, whatever comes between. Raises OSError."""
    for suffix, content in content_of(segment).items():
        if content is not None:
            replace(files, f"{segment.directory}/{segment.base_offset:020d}{suffix}", content)


def note_written(segment: Segment) -> None:
    """The index files were written, with what `content_of` gave."""
    segment.times.append(segment.max_timestamp, segment.max_timestamp_offset, in_memory=True)
    for index in segment.indexes:
        index.note_written()
    segment.is_sealed = True

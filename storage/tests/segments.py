"""Segments for tests, on a disk in memory."""

from __future__ import annotations

from headgate.protocol.records.batch import Record, build
from headgate.storage.disk.pool import Pool
from headgate.storage.segment.segment import Segment
from headgate.storage.tests.builders import NOW_MS
from headgate.storage.tests.crashing_files import CrashingFiles

INTERVAL = 150


def new_segment(base_offset: int = 100, batches: int = 0) -> Segment:
    files = CrashingFiles()
    files.make_directories("/d")
    segment = Segment.create(Pool(files), "/d", base_offset, NOW_MS)
    for number in range(batches):
        add(segment, base_offset + 2 * number, NOW_MS + number)
    return segment


def add(segment: Segment, offset: int, timestamp: int, size: int = 20) -> None:
    """A batch of two records."""
    data = build([Record(timestamp=timestamp, value=b"v" * size)] * 2, base_offset=offset)
    segment.append(data, [(len(data), offset + 1, timestamp)], INTERVAL)


def reopened(segment: Segment) -> Segment:
    """As the next start finds it."""
    sizes = [segment.pool.files.size(path) for path in (segment.path, segment.offsets.path, segment.times.path)]
    return Segment(segment.pool, segment.directory, segment.base_offset, [*sizes, -1])

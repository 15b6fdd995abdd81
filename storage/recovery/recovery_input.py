"""What is known of a partition before its log is open: its directory, the names there, what the checkpoints say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from headgate.storage.disk import layout
from headgate.storage.disk.layout import base_of
from headgate.storage.errors import CorruptLog
from headgate.storage.segment.index import OffsetIndex, TimeIndex
from headgate.storage.segment.segment import LOG_SUFFIX, Segment
from headgate.storage.segment.transaction_index import TransactionIndex

SUFFIXES = (LOG_SUFFIX, OffsetIndex.SUFFIX, TimeIndex.SUFFIX, TransactionIndex.SUFFIX)
"""Of the files of a segment, in the order in which it wants their sizes."""


@dataclass
class RecoveryInput:
    """What is known of a partition before its log is open.

    `start_offset`, `recovery_point` and `high_watermark` are those of the checkpoints. `bytes_scanned` grows while it
    is opened.
    """

    topic: str
    index: int
    directory: str
    topic_id: bytes | None = None
    start_offset: int = 0
    recovery_point: int = 0
    is_clean: bool = False
    high_watermark: int = 0
    bytes_scanned: int = 0

    def __post_init__(self) -> None:
        if not self.is_clean and self.start_offset >= self.recovery_point:
            self.recovery_point = 0  # nothing that is still wanted was safe; what is left of the rest may go

    def __str__(self) -> str:
        return f"{self.topic}-{self.index}"


def bytes_to_scan(found: RecoveryInput, names: Mapping[str, int]) -> int:
    """How much of its segments opening reads, at most; `names` are the files of its directory with their sizes. Pure.

    After a clean stop nothing; after a crash what begins with the segment of the recovery point, unless it turns out to
    be as it was left.
    """
    if found.is_clean:
        return 0
    bases = bases_of(names)
    first = first_to_scan(bases, found.recovery_point)
    return sum(names[f"{base:020d}{LOG_SUFFIX}"] for base in bases[first:])


def of_log(names: Mapping[str, int]) -> dict[str, int]:
    """What a log has made. Whatever else is in its directory is never read, and never removed."""
    return {name: size for name, size in names.items() if layout.is_of_log(name)}


def bases_of(names: Mapping[str, int]) -> list[int]:
    """The base offsets of the segments, the lowest first."""
    bases = (base_of(name) for name in names if name.endswith(LOG_SUFFIX))
    return sorted(base for base in bases if base is not None)


def sizes_of(names: Mapping[str, int], base_offset: int) -> list[int]:
    """What a segment is to know of its files: the size of each in `SUFFIXES`, -1 where there is none."""
    return [names.get(f"{base_offset:020d}{suffix}", -1) for suffix in SUFFIXES]


def first_to_scan(bases: Sequence[int], recovery_point: int) -> int:
    """The number of the segment that holds the recovery point: before it all is safe on the disk."""
    return max(0, sum(base <= recovery_point for base in bases) - 1)


def repair_advice(found: RecoveryInput) -> str:
    """What to do about a log that stays closed."""
    return f"stop the broker and run `headgate log repair {found.directory}`, or bring the file back from a copy"


def corrupt(found: RecoveryInput, segment: Segment, what: str) -> CorruptLog:
    """What is raised where a segment is damaged that was safe."""
    return CorruptLog(
        f"{found}: {segment.path}, which was on the disk already, is damaged: {what}; {repair_advice(found)}"
    )

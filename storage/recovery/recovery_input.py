"""The input of recovery: a partition's directory, the file names there, the values of the checkpoints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from headgate.storage.disk import layout
from headgate.storage.disk.layout import base_of
from headgate.storage.errors import CorruptLog
from headgate.storage.segment.index import OffsetIndex, TimeIndex
from headgate.storage.segment.segment import Segment
from headgate.storage.segment.segment_file import LOG_SUFFIX
from headgate.storage.segment.transaction_index import TransactionIndex

SUFFIXES = (LOG_SUFFIX, OffsetIndex.SUFFIX, TimeIndex.SUFFIX, TransactionIndex.SUFFIX)
"""The suffixes of a segment's files, in the order of the sizes that `Segment` takes."""


@dataclass
class RecoveryInput:
    """The known values of a partition before its log is open.

    `start_offset`, `recovery_point` and `high_watermark` come from the checkpoints. `bytes_scanned` counts the scan
    while the log is opened.
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
            self.recovery_point = 0  # only deleted records were safe on the disk, so a scan may cut anything

    def __str__(self) -> str:
        return f"{self.topic}-{self.index}"


def bytes_to_scan(recovery: RecoveryInput, names: Mapping[str, int]) -> int:
    """The maximum number of bytes that recovery scans. `names`: the files of the directory with their sizes. Pure.

    After a clean stop 0; after a crash the segment of the recovery point and all later ones. The scan is shorter if
    the last segment proves to be untouched.
    """
    if recovery.is_clean:
        return 0
    bases = bases_of(names)
    first = first_to_scan(bases, recovery.recovery_point)
    return sum(names[f"{base:020d}{LOG_SUFFIX}"] for base in bases[first:])


def of_log(names: Mapping[str, int]) -> dict[str, int]:
    """The files of a log, with their sizes. A broker never reads or removes other files in the directory."""
    return {name: size for name, size in names.items() if layout.is_of_log(name)}


def bases_of(names: Mapping[str, int]) -> list[int]:
    """The base offsets of the segments, the lowest first."""
    bases = (base_of(name) for name in names if name.endswith(LOG_SUFFIX))
    return sorted(base for base in bases if base is not None)


def sizes_of(names: Mapping[str, int], base_offset: int) -> list[int]:
    """The sizes of a segment's files in bytes, in the order of `SUFFIXES`; -1 for a missing file."""
    return [names.get(f"{base_offset:020d}{suffix}", -1) for suffix in SUFFIXES]


def first_to_scan(bases: Sequence[int], recovery_point: int) -> int:
    """The number of the segment that holds the recovery point. All segments before it are safe on the disk."""
    return max(0, sum(base <= recovery_point for base in bases) - 1)


def repair_advice(recovery: RecoveryInput) -> str:
    """The advice for a log that stays offline."""
    return f"stop the broker and run `headgate log repair {recovery.directory}`, or restore the file from a copy"


def corrupt(recovery: RecoveryInput, segment: Segment, what: str) -> CorruptLog:
    """The error for a segment that is damaged below the recovery point."""
    return CorruptLog(
        f"{recovery}: {segment.path}, which was on the disk already, is damaged: {what}; {repair_advice(recovery)}"
    )

"""`headgate log repair`: quarantine damaged bytes, keep the valid batches behind them, rebuild indexes.

Every step can be interrupted and repeated. First the damaged bytes are copied to `<segment>.log.<byte>.torn`; then a
segment without them is written to a temporary file and renamed over the old segment. The indexes are removed before the
rename and rebuilt after it. A lost offset is never assigned again: a log that lost its end continues at the old end
offset, in a new segment.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from headgate.storage.disk import checkpoint
from headgate.storage.disk.checkpoint import RECOVERY_POINTS, TEMPORARY_SUFFIX
from headgate.storage.disk.layout import META_PROPERTIES
from headgate.storage.disk.pool import Pool
from headgate.storage.files import Files
from headgate.storage.recovery.quarantine import TORN_SUFFIX
from headgate.storage.segment.segment_file import LOG_SUFFIX
from headgate.storage.segment.transactions import Transactions
from headgate.tools.log import segment_reader
from headgate.tools.log.data_directory import DataDirectory
from headgate.tools.log.verification.partition_check import (
    CORRUPT,
    INDEX,
    INDEX_SUFFIXES,
    OVERLAP,
    SAME,
    TORN,
    UNFINISHED,
    WRONG,
    PartitionReport,
    SegmentReport,
)
from headgate.tools.log.verification.scanning import DamagedRange
from headgate.tools.output import Row

_COPY_BYTES = 1 << 20


# Kinds of findings that a repair or the next start corrects; people have to look at all others
REPAIRABLE = (CORRUPT, TORN, OVERLAP, INDEX)


class CutDamage(NamedTuple):
    """Remove the damaged ranges from a segment. `lost_to`: for each range, the offset after the last lost one."""

    path: str
    base_offset: int
    size: int
    damaged_ranges: Sequence[DamagedRange]
    lost_to: Sequence[int]
    interval_bytes: int
    open_transactions: Mapping[int, int]


class RebuildIndexes(NamedTuple):
    """Rebuild the indexes of a segment."""

    path: str
    base_offset: int
    interval_bytes: int
    open_transactions: Mapping[int, int]
    problem: str


class StartSegment(NamedTuple):
    """Create an empty segment at the old end offset of a log that lost its end."""

    path: str
    offset: int
    lost_from: int


class KeepSegment(NamedTuple):
    """Keep a segment after a gap, where the next start would truncate; the recovery point moves past it instead."""

    path: str
    offset: int
    lost_from: int


class QuarantineSegment(NamedTuple):
    """Quarantine a whole superseded segment; a newer segment holds its offsets, so nothing is lost."""

    path: str
    size: int


Step = CutDamage | RebuildIndexes | StartSegment | KeepSegment | QuarantineSegment

_ACTIONS = {
    CutDamage: "move aside",
    QuarantineSegment: "move aside",
    RebuildIndexes: "make indexes again",
    StartSegment: "go on in a new segment",
    KeepSegment: "keep what is behind a gap",
}


def plan_repair(report: PartitionReport, data: DataDirectory) -> list[Step]:
    """The steps that repair the findings about a partition. Pure."""
    key = report.partition.key
    known_end = max(data.recovery_points.get(key, 0), data.high_watermarks.get(key, 0))
    interval_bytes = _interval_bytes(report)
    steps: list[Step] = [QuarantineSegment(segment.path, segment.size) for segment in report.superseded]
    for number, found in enumerate(report.segments):
        following = report.segments[number + 1].segment.base_offset if number + 1 < len(report.segments) else None
        if found.gap_from is not None:
            steps.append(KeepSegment(found.segment.path, found.segment.base_offset, found.gap_from))
        if found.damaged_ranges:
            steps.append(_cut_damage(found, known_end if following is None else following, interval_bytes))
        elif found.indexes == WRONG:
            steps.append(_rebuild_indexes(found, interval_bytes))
    end = max(report.end_offset, report.start_offset)  # without any segment the start comes from the checkpoint
    if not report.partition.state and end < known_end:
        steps.append(StartSegment(f"{report.partition.directory}/{known_end:020d}{LOG_SUFFIX}", known_end, end))
    if any(not isinstance(step, RebuildIndexes) for step in steps):
        # `write_recovery_point` declares the whole log flushed, so no index may stay unfinished
        unfinished = (found for found in report.segments if found.indexes == UNFINISHED)
        steps += [_rebuild_indexes(found, interval_bytes) for found in unfinished]
    return steps


def _interval_bytes(report: PartitionReport) -> int:
    """The interval for rebuilt indexes: the interval of the partition's right indexes if known, else the given one."""
    requested = report.segments[0].requested_interval_bytes if report.segments else 0
    shown = (one.interval_bytes for one in report.segments if one.indexes == SAME and one.interval_bytes != requested)
    return next(shown, requested)


def _rebuild_indexes(found: SegmentReport, interval_bytes: int) -> RebuildIndexes:
    segment = found.segment
    problem = found.problem or "the indexes were not finished"
    return RebuildIndexes(segment.path, segment.base_offset, interval_bytes, found.open_transactions, problem)


def _cut_damage(found: SegmentReport, following_offset: int, interval_bytes: int) -> CutDamage:
    segment = found.segment
    ranges = found.damaged_ranges
    ends = [one.end_offset or (following_offset if one.next_offset is None else one.next_offset) for one in ranges]
    lost_to = [max(end, one.first_offset) for end, one in zip(ends, ranges, strict=True)]
    return CutDamage(
        segment.path, segment.base_offset, segment.size, ranges, lost_to, interval_bytes, found.open_transactions
    )


def step_rows(step: Step, files: Files) -> Iterator[Row]:
    """The rows about a step, before it is performed.

    `lost_from`, `lost_to`: the first and the last lost offset, null for none. `moved_to`: the file for the quarantined
    bytes.
    """
    if isinstance(step, CutDamage):
        for damaged, lost_to in zip(step.damaged_ranges, step.lost_to, strict=True):
            is_known = lost_to > damaged.first_offset
            yield {
                "action": _ACTIONS[CutDamage],
                "path": step.path,
                "from_byte": damaged.start,
                "to_byte": damaged.end,
                "moved_to": _quarantine_path(files, step.path, damaged.start),
                "lost_from": damaged.first_offset,
                "lost_to": lost_to - 1 if is_known else None,
                "problem": damaged.problem,
            }
    elif isinstance(step, QuarantineSegment):
        yield {
            "action": _ACTIONS[QuarantineSegment],
            "path": step.path,
            "from_byte": 0,
            "to_byte": step.size,
            "moved_to": _quarantine_path(files, step.path, 0),
            "lost_from": None,
            "lost_to": None,
            "problem": "a newer segment holds its offsets",
        }
    else:
        lost = (None, None) if isinstance(step, RebuildIndexes) else (step.lost_from, step.offset - 1)
        yield {
            "action": _ACTIONS[type(step)],
            "path": step.path,
            "from_byte": None,
            "to_byte": None,
            "moved_to": None,
            "lost_from": lost[0],
            "lost_to": lost[1],
            "problem": step.problem if isinstance(step, RebuildIndexes) else "what was there is gone",
        }


def perform_step(step: Step, files: Files) -> None:
    """Perform a step and sync its files. Raises OSError."""
    directory = step.path.rpartition("/")[0]
    if isinstance(step, KeepSegment):  # `write_recovery_point` keeps the segment
        return
    if isinstance(step, StartSegment):
        files.write(step.path, b"", sync=True)
        files.sync_directory(directory)
        return
    if isinstance(step, QuarantineSegment):
        files.rename(step.path, _quarantine_path(files, step.path, 0))
        _remove_indexes(files, step.path)
        files.sync_directory(directory)
        return
    pool = Pool(files)
    if isinstance(step, CutDamage):
        _rewrite_without_damage(pool, step)
    else:
        _remove_indexes(files, step.path)
    _write_indexes(pool, step)
    files.sync_directory(directory)


def write_recovery_point(steps: Sequence[Step], files: Files, report: PartitionReport, data: DataDirectory) -> None:
    """Sync a repaired log and write its end as recovery point: else the next start would truncate at the first gap.

    Steps that only rebuild indexes need no new recovery point. Raises OSError.
    """
    partition = report.partition
    if all(isinstance(step, RebuildIndexes) for step in steps):
        return
    if partition.state or not files.exists(f"{data.path}/{META_PROPERTIES}"):
        return
    for found in report.segments:
        files.sync(found.segment.path)
    end = max(report.end_offset, data.recovery_points.get(partition.key, 0), data.high_watermarks.get(partition.key, 0))
    data.recovery_points = {**data.recovery_points, partition.key: end}
    checkpoint.write_offsets(files, f"{data.path}/{RECOVERY_POINTS}", data.recovery_points)


def _rewrite_without_damage(pool: Pool, step: CutDamage) -> None:
    files = pool.files
    for damaged in step.damaged_ranges:
        _quarantine(files, step.path, damaged)
    temporary = step.path + TEMPORARY_SUFFIX
    files.write(temporary, b"")
    position = 0
    for start, end in [*((one.start, one.end) for one in step.damaged_ranges), (step.size, step.size)]:
        _copy(files, step.path, position, start, temporary)
        position = end
    files.sync(temporary)
    _remove_indexes(files, step.path)
    files.sync_directory(step.path.rpartition("/")[0])  # else a crash could bring the old indexes back
    files.rename(temporary, step.path)


def _quarantine(files: Files, path: str, damaged: DamagedRange) -> None:
    """Copy damaged bytes to a new file; an existing file holds the copy of an interrupted repair and stays."""
    target = _quarantine_path(files, path, damaged.start)
    files.write(target, b"")
    _copy(files, path, damaged.start, damaged.end, target)
    files.sync(target)


def _quarantine_path(files: Files, path: str, start: int) -> str:
    target, number = f"{path}.{start}{TORN_SUFFIX}", 0
    while files.exists(target):
        number += 1
        target = f"{path}.{start}.{number}{TORN_SUFFIX}"
    return target


def _copy(files: Files, path: str, start: int, end: int, target: str) -> None:
    file = files.open(path)
    try:
        for position in range(start, end, _COPY_BYTES):
            files.append(target, file.read_at(min(_COPY_BYTES, end - position), position))
    finally:
        file.release()


def _remove_indexes(files: Files, path: str) -> None:
    for suffix in INDEX_SUFFIXES:
        files.remove(path.removesuffix(LOG_SUFFIX) + suffix)


def _write_indexes(pool: Pool, step: CutDamage | RebuildIndexes) -> None:
    directory = step.path.rpartition("/")[0]
    names = pool.files.list(directory)
    segment = next(
        one for one in segment_reader.open_segments(pool, directory, names) if one.base_offset == step.base_offset
    )
    if segment.size:
        iterator = segment.rebuild(step.interval_bytes)
        iterator.transactions = Transactions(step.open_transactions)
        for _ in iterator:
            pass
        segment.seal()
        segment.sync()
    segment.close()

"""`headgate log repair`: damaged bytes go aside, what is sound behind them is kept, indexes are made again.

Every step can be interrupted and begun again: bytes are copied to `<segment>.log.<byte>.torn` first; a segment without
them is written beside the old one and renamed over it; indexes are removed before, and made again after that. An offset
that was lost is never given again: where the end of a log is lost, it goes on at what was its end in a new segment.
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
from headgate.storage.segment.segment import LOG_SUFFIX
from headgate.storage.segment.transactions import Transactions
from headgate.tools.log import reading
from headgate.tools.log.checks import (
    CORRUPT,
    INDEX,
    INDEX_SUFFIXES,
    OVERLAP,
    SAME,
    TORN,
    UNFINISHED,
    WRONG,
    Report,
    SegmentReport,
)
from headgate.tools.log.places import DataDirectory
from headgate.tools.log.scanning import Bad
from headgate.tools.output import Row

_COPY_BYTES = 1 << 20


# What is mended here, or by the next start without a word; the rest is somebody's to look at.
MENDED = (CORRUPT, TORN, OVERLAP, INDEX)


class Rewrite(NamedTuple):
    """A segment is to be without its bad bytes; `lost_to` is behind the last offset that is lost with each."""

    path: str
    base_offset: int
    size: int
    bad: Sequence[Bad]
    lost_to: Sequence[int]
    interval_bytes: int
    opened: Mapping[int, int]


class Reindex(NamedTuple):
    """The indexes of a segment are to be made again."""

    path: str
    base_offset: int
    interval_bytes: int
    opened: Mapping[int, int]
    problem: str


class Continue(NamedTuple):
    """A log that lost its end goes on at an offset, in a new segment."""

    path: str
    offset: int
    lost_from: int


class Keep(NamedTuple):
    """A segment stands behind a gap for which the next start would cut it off; it is made safe instead."""

    path: str
    offset: int
    lost_from: int


class Aside(NamedTuple):
    """A whole segment goes, as a newer one holds its offsets: nothing is lost with it."""

    path: str
    size: int


Step = Rewrite | Reindex | Continue | Keep | Aside

_ACTIONS = {
    Rewrite: "move aside",
    Aside: "move aside",
    Reindex: "make indexes again",
    Continue: "go on in a new segment",
    Keep: "keep what is behind a gap",
}


def plan(report: Report, data: DataDirectory) -> list[Step]:
    """What is to be done about what was found in a partition. Pure."""
    key = report.partition.key
    known_end = max(data.recovery_points.get(key, 0), data.high_watermarks.get(key, 0))
    interval_bytes = _interval_bytes(report)
    steps: list[Step] = [Aside(segment.path, segment.size) for segment in report.covered]
    for number, found in enumerate(report.segments):
        following = report.segments[number + 1].segment.base_offset if number + 1 < len(report.segments) else None
        if found.gap_from is not None:
            steps.append(Keep(found.segment.path, found.segment.base_offset, found.gap_from))
        if found.bad:
            steps.append(_rewrite(found, known_end if following is None else following, interval_bytes))
        elif found.indexes == WRONG:
            steps.append(_reindex(found, interval_bytes))
    end = max(report.end_offset, report.start_offset)  # where there is no segment at all its checkpoint says the start
    if not report.partition.state and end < known_end:
        steps.append(Continue(f"{report.partition.directory}/{known_end:020d}{LOG_SUFFIX}", known_end, end))
    if any(not isinstance(step, Reindex) for step in steps):  # `settle` says that all is safe: then it has to be
        unfinished = (found for found in report.segments if found.indexes == UNFINISHED)
        steps += [_reindex(found, interval_bytes) for found in unfinished]
    return steps


def _interval_bytes(report: Report) -> int:
    """The interval with which indexes are to be made again: that of the partition's others, if it shows in one."""
    asked = report.segments[0].asked_interval_bytes if report.segments else 0
    shown = (one.interval_bytes for one in report.segments if one.indexes == SAME and one.interval_bytes != asked)
    return next(shown, asked)


def _reindex(found: SegmentReport, interval_bytes: int) -> Reindex:
    segment = found.segment
    problem = found.problem or "the indexes were not finished"
    return Reindex(segment.path, segment.base_offset, interval_bytes, found.opened, problem)


def _rewrite(found: SegmentReport, following_offset: int, interval_bytes: int) -> Rewrite:
    segment = found.segment
    ends = [bad.end_offset or (following_offset if bad.next_offset is None else bad.next_offset) for bad in found.bad]
    lost_to = [max(end, bad.first_offset) for end, bad in zip(ends, found.bad, strict=True)]
    return Rewrite(segment.path, segment.base_offset, segment.size, found.bad, lost_to, interval_bytes, found.opened)


def rows(step: Step, files: Files) -> Iterator[Row]:
    """What a step is about to do.

    `lost_from` and `lost_to` are the first and the last offset that is lost, null for none; `moved_to` is the file that
    will have the bytes.
    """
    if isinstance(step, Rewrite):
        for bad, lost_to in zip(step.bad, step.lost_to, strict=True):
            is_known = lost_to > bad.first_offset
            yield {
                "action": _ACTIONS[Rewrite],
                "path": step.path,
                "from_byte": bad.start,
                "to_byte": bad.end,
                "moved_to": _free_name(files, step.path, bad.start),
                "lost_from": bad.first_offset,
                "lost_to": lost_to - 1 if is_known else None,
                "problem": bad.problem,
            }
    elif isinstance(step, Aside):
        yield {
            "action": _ACTIONS[Aside],
            "path": step.path,
            "from_byte": 0,
            "to_byte": step.size,
            "moved_to": _free_name(files, step.path, 0),
            "lost_from": None,
            "lost_to": None,
            "problem": "a newer segment holds its offsets",
        }
    else:
        lost = (None, None) if isinstance(step, Reindex) else (step.lost_from, step.offset - 1)
        yield {
            "action": _ACTIONS[type(step)],
            "path": step.path,
            "from_byte": None,
            "to_byte": None,
            "moved_to": None,
            "lost_from": lost[0],
            "lost_to": lost[1],
            "problem": step.problem if isinstance(step, Reindex) else "what was there is gone",
        }


def perform(step: Step, files: Files) -> None:
    """Do it, and wait until it is on the disk. Raises OSError."""
    directory = step.path.rpartition("/")[0]
    if isinstance(step, Keep):  # `settle` does it
        return
    if isinstance(step, Continue):
        files.write(step.path, b"", sync=True)
        files.sync_directory(directory)
        return
    if isinstance(step, Aside):
        files.rename(step.path, _free_name(files, step.path, 0))
        _remove_indexes(files, step.path)
        files.sync_directory(directory)
        return
    pool = Pool(files)
    if isinstance(step, Rewrite):
        _rewritten(pool, step)
    else:
        _remove_indexes(files, step.path)
    _index(pool, step)
    files.sync_directory(directory)


def settle(steps: Sequence[Step], files: Files, report: Report, data: DataDirectory) -> None:
    """Make all of a repaired log safe, and say so in the checkpoint: else the next start would cut it at its first gap.

    Where only indexes were made again there is nothing to be said. Raises OSError.
    """
    partition = report.partition
    if all(isinstance(step, Reindex) for step in steps):
        return
    if partition.state or not files.exists(f"{data.path}/{META_PROPERTIES}"):
        return
    for found in report.segments:
        files.sync(found.segment.path)
    end = max(report.end_offset, data.recovery_points.get(partition.key, 0), data.high_watermarks.get(partition.key, 0))
    data.recovery_points = {**data.recovery_points, partition.key: end}
    checkpoint.write_offsets(files, f"{data.path}/{RECOVERY_POINTS}", data.recovery_points)


def _rewritten(pool: Pool, step: Rewrite) -> None:
    files = pool.files
    for bad in step.bad:
        _keep_aside(files, step.path, bad)
    temporary = step.path + TEMPORARY_SUFFIX
    files.write(temporary, b"")
    position = 0
    for start, end in [*((bad.start, bad.end) for bad in step.bad), (step.size, step.size)]:
        _copy(files, step.path, position, start, temporary)
        position = end
    files.sync(temporary)
    _remove_indexes(files, step.path)
    files.sync_directory(step.path.rpartition("/")[0])  # an index of the old bytes must not come back beside the new
    files.rename(temporary, step.path)


def _keep_aside(files: Files, path: str, bad: Bad) -> None:
    """The bytes in a file of their own; one that is there already holds what an attempt before this one copied."""
    aside = _free_name(files, path, bad.start)
    files.write(aside, b"")
    _copy(files, path, bad.start, bad.end, aside)
    files.sync(aside)


def _free_name(files: Files, path: str, start: int) -> str:
    aside, number = f"{path}.{start}{TORN_SUFFIX}", 0
    while files.exists(aside):
        number += 1
        aside = f"{path}.{start}.{number}{TORN_SUFFIX}"
    return aside


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


def _index(pool: Pool, step: Rewrite | Reindex) -> None:
    directory = step.path.rpartition("/")[0]
    names = pool.files.list(directory)
    segment = next(one for one in reading.segments(pool, directory, names) if one.base_offset == step.base_offset)
    if segment.size:
        walk = segment.rebuild(step.interval_bytes)
        walk.transactions = Transactions(step.opened)
        for _ in walk:
            pass
        segment.seal()
        segment.sync()
    segment.close()

"""Replaces old segments by one new segment, such that a crash at any moment leaves either.

    <base>.log.cleaned     being written; ignored after a crash
    <base>.log.swap        complete and on the disk: supersedes the other files of its offsets
    <base>.log             the new segment, once the old ones are `.deleted`

The names are synced once the new segment is `.swap`, and again once the old ones are `.deleted`: until these are gone
for good, a file must show that they are superseded. A thread does all of that; the log uses the new segment as soon as
`.swap` is durable. The next start ends an interrupted replacement (`storage.recovery.interrupted_replacements`). The
new segment has the base offset of the first old one, and the end of the last. Source: suffixes and order are those of
Apache Kafka's `LocalLog.replaceSegments` and `LogLoader`, so that either program ends a replacement of the other.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Collection, Iterator, Sequence
from enum import Enum, auto
from itertools import islice
from typing import Protocol

from headgate.storage.disk.pool import SWAP_SUFFIX
from headgate.storage.files import Files
from headgate.storage.segment.segment import DERIVED_SUFFIXES, Segment
from headgate.storage.segment.segment_file import LOG_SUFFIX

CLEANED_SUFFIX = ".cleaned"
KINDS = (LOG_SUFFIX, *DERIVED_SUFFIXES[:3])
"""The suffixes of a compacted segment's files, the `.log` first."""
NOTHING = -1
"""In place of an offset: nothing was compacted."""


class _Progress(Enum):
    """How far a thread has come."""

    WRITTEN = auto()
    SWAPPED = auto()
    """The new segment survives a crash."""
    FREED = auto()
    """The files of the old segments have other names: theirs are the new segment's by now."""
    FINISHED = auto()


class Replacement:
    """A new segment, named `.cleaned`, and the segments that it replaces.

    `CompactionState.begin` makes it; a thread may call `run`; then comes `CompactionState.end`, then `finish_renames`,
    also in a thread, then `CompactionState.finish`.
    """

    __slots__ = (
        "_delay_ms",
        "_files",
        "_is_abandoned",
        "_lock",
        "_number",
        "_progress",
        "new",
        "old",
    )

    def __init__(self, files: Files, old: Sequence[Segment], new: Segment) -> None:
        self._files = files
        self._lock = threading.Lock()
        self._progress = _Progress.WRITTEN
        self._is_abandoned = False
        self._delay_ms, self._number = 0.0, 0
        self.old = tuple(old)
        self.new = new

    @property
    def is_ready(self) -> bool:
        """Whether the new segment survives a crash, and is wanted."""
        return self._progress is _Progress.SWAPPED and not self._is_abandoned

    def run(self) -> None:
        """Let the new segment supersede the old ones, even after a crash. Raises OSError."""
        with self._lock:
            if not self._is_abandoned:
                self._remove_leftovers()
                self.new.rename(SWAP_SUFFIX)
                self._files.sync_directory(self.new.directory)
                self._progress = _Progress.SWAPPED

    def _remove_leftovers(self) -> None:
        """Remove the files of an abandoned compaction: the next start must not take them for a part of this one."""
        own = f"{self.new.base_offset:020d}."
        for name in self._files.list(self.new.directory):
            if name.endswith(CLEANED_SUFFIX) and not name.startswith(own):
                self._files.remove(f"{self.new.directory}/{name}")

    def abandon(self) -> None:
        """Keep the old segments: the new one must not come back. `finish_renames` removes it."""
        self._is_abandoned = True
        self.new.close()

    def take_place(self, delay_ms: float, number: int) -> None:
        """Close the old segments; `finish_renames` deletes their files after `delay_ms`. `number`: a serial number."""
        self._delay_ms, self._number = delay_ms, number
        for segment in self.old:
            segment.close()

    def finish_renames(self) -> None:
        """Finish all renames: then a crash brings no superseded segment back. Raises OSError.

        Waits for `run`; may be called again, also by two threads. The new segment is used under any of its names.
        """
        with self._lock:
            if self._progress is _Progress.FINISHED:
                return
            if self._is_abandoned:
                remove(self._files, self.new.directory, self.new.base_offset)
                self._files.sync_directory(self.new.directory)
            else:
                with _logging_rename_failures():
                    self._rename()
            self._progress = _Progress.FINISHED

    def _rename(self) -> None:
        if self._progress is not _Progress.FREED:
            for segment in self.old:
                segment.delete(self._delay_ms, self._number)
            self._files.sync_directory(self.new.directory)
            self._progress = _Progress.FREED
        self.new.rename("")


class SegmentList(Protocol):
    """The part of `segments.Segments` that `CompactionState` needs."""

    active: Segment

    def __iter__(self) -> Iterator[Segment]:
        """The segments, the oldest first."""

    def holds(self, segments: Sequence[Segment]) -> bool:
        """Whether these segments are here, in a row, before the active one."""

    def replace(self, old: Sequence[Segment], new: Segment) -> None:
        """Replace these segments by a new one."""


class CompactionState:
    """The past and the present compaction of a log. For the loop's thread, as the log."""

    __slots__ = ("_begun", "_count", "_segments", "cuts", "offset", "unfinished")

    def __init__(self, segments: SegmentList) -> None:
        self._segments = segments
        self._begun: Replacement | None = None
        self._count = 0
        self.unfinished: Replacement | None = None
        """The last replacement, while its renames are outstanding."""
        self.cuts = 0
        """The number of truncations of the log: facts about later offsets are void."""
        self.offset = NOTHING
        """The end of the last compaction; the log directory keeps it in a checkpoint."""

    @property
    def is_under_way(self) -> bool:
        """Whether a crash may still bring back a segment that a compaction has created and given up."""
        return self._begun is not None or self.unfinished is not None

    def before_begun(self, count: int) -> int:
        """How many of the first segments, at most `count`, lie before those that are being replaced now.

        The others stay until the replacement has ended: the new segment may be durable already, and nothing would say
        that it has to be deleted with them.
        """
        begun = self._begun
        if begun is None:
            return count
        first = begun.new.base_offset
        return sum(segment.base_offset < first for segment in islice(self._segments, count))

    def note_end(self, offset: int) -> None:
        """Note the end of a compaction at this offset, now or before the start."""
        self.offset = offset

    def closed(self, bases: Collection[int]) -> list[Segment] | None:
        """The segments with these base offsets; None if one is gone, or is the active one."""
        found = [segment for segment in self._segments if segment.base_offset in bases]
        return found if len(found) == len(bases) and self._segments.active not in found else None

    def finish(self) -> None:
        """End the last replacement before the next; needs no disk after its `finish_renames`. Raises OSError."""
        if self.unfinished is not None:
            self.unfinished.finish_renames()
            self.unfinished = None

    def begin(self, files: Files, old: Sequence[Segment], new: Segment) -> Replacement:
        """The replacement of `old` by a segment named `.cleaned`. A thread may run it; then call `end`.

        Raises OSError as `finish` does.
        """
        self.finish()
        self._begun = Replacement(files, old, new)
        return self._begun

    def end(self, replacement: Replacement, delay_ms: float) -> bool:
        """Replace the old segments by the new one, if the replacement was run and all of them are still there.

        Readers keep their slices of the old ones; their files are deleted after `delay_ms`. `unfinished` has the rest
        of the work, which `finish` or the next start does.
        """
        self._begun, self.unfinished = None, replacement
        if not replacement.is_ready or not self._segments.holds(replacement.old):
            replacement.abandon()
            return False
        self._segments.replace(replacement.old, replacement.new)
        self._count += 1
        replacement.take_place(delay_ms, self._count)
        return True

    def replace(self, files: Files, old: Sequence[Segment], new: Segment, delay_ms: float) -> bool:
        """`begin`, `run`, `end` and `finish` at once. Raises OSError: the old segments are still there, or gone."""
        replacement = self.begin(files, old, new)
        try:
            replacement.run()
        finally:
            is_done = self.end(replacement, delay_ms)
            self.finish()
        return is_done

    def void_from(self, offset: int) -> None:
        """Prevent records from `offset` on from coming back in a new or an old segment.

        Waits for the disk, as a truncation does. Raises OSError.
        """
        self.void_in_memory(offset)
        self.finish()
        if self._begun is not None:
            self._begun.finish_renames()

    def void_in_memory(self, offset: int) -> None:
        """`void_from` in memory alone; a compaction under way finds its segment abandoned, and does the rest."""
        self.offset = min(self.offset, offset)
        self.cuts += 1
        if self._begun is not None:
            self._begun.abandon()


@contextlib.contextmanager
def _logging_rename_failures() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        what = "the files of the last compaction cannot be renamed; the broker retries"
        raise OSError(error.errno, f"{what}: {error}") from error


def remove(files: Files, directory: str, base_offset: int) -> None:
    """Remove the files of a new segment. Raises OSError."""
    for suffix in (SWAP_SUFFIX, CLEANED_SUFFIX):  # the `.log` first: the others mean nothing without it
        for kind in KINDS:
            files.remove(f"{directory}/{base_offset:020d}{kind}{suffix}")

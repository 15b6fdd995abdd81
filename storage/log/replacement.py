"""One new segment in the place of some old ones, such that a crash at any moment leaves one or the others.

    <base>.log.cleaned     being written; worth nothing after a crash
    <base>.log.swap        whole, and on the disk: it wins over the files of the offsets that it covers
    <base>.log             the old ones are `.deleted` by then, and this is the segment

The names are synced once the new one is `.swap`, and again once the old ones are `.deleted`: until these are gone for
good something has to say that they are. A thread does all of that, beside the log, which has the new segment in
memory as soon as that wins. What a crash interrupts the next start ends
(`storage.recovery.interrupted_replacements`). The new segment has the base
offset of the first old one, and ends where the last one ended. Source: the suffixes and the order are those of Apache
Kafka's `LocalLog.replaceSegments` and `LogLoader`, so that either program ends what the other one began.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Collection, Iterator, Sequence
from itertools import islice
from typing import Protocol

from headgate.storage.disk.pool import SWAP_SUFFIX
from headgate.storage.files import Files
from headgate.storage.segment.segment import DERIVED_SUFFIXES, LOG_SUFFIX, Segment

CLEANED_SUFFIX = ".cleaned"
KINDS = (LOG_SUFFIX, *DERIVED_SUFFIXES[:3])
"""The suffixes of a segment's files that compaction writes, the `.log` first."""
NOTHING = -1
"""Instead of an offset: nothing was compacted."""


class Replacement:
    """A new segment, named `.cleaned`, and the segments that it replaces.

    Made by `Compacted.begin`; `run` may be called in a thread, then comes `Compacted.end`; then `finish_renames`, in a thread
    too, and `Compacted.finish`.
    """

    __slots__ = (
        "_delay_ms",
        "_files",
        "_has_freed_names",
        "_is_abandoned",
        "_is_settled",
        "_lock",
        "_number",
        "is_ready",
        "new",
        "old",
    )

    def __init__(self, files: Files, old: Sequence[Segment], new: Segment) -> None:
        self._files = files
        self._lock = threading.Lock()
        self._is_abandoned = self._has_freed_names = self._is_settled = False
        self._delay_ms, self._number = 0.0, 0
        self.old = tuple(old)
        self.new = new
        self.is_ready = False
        """The new one will be there after a crash."""

    def run(self) -> None:
        """Make the new segment win from now on, even after a crash. Raises OSError."""
        with self._lock:
            if not self._is_abandoned:
                self._remove_leftovers()
                self.new.rename(SWAP_SUFFIX)
                self._files.sync_directory(self.new.directory)
                self.is_ready = True

    def _remove_leftovers(self) -> None:
        """Remove what an abandoned compaction left: the next start must not take it for a part of this one."""
        own = f"{self.new.base_offset:020d}."
        for name in self._files.list(self.new.directory):
            if name.endswith(CLEANED_SUFFIX) and not name.startswith(own):
                self._files.remove(f"{self.new.directory}/{name}")

    def abandon(self) -> None:
        """The old segments stay, or go their own way: the new one must not come back. `finish_renames` removes it."""
        self._is_abandoned, self.is_ready = True, False
        self.new.close()

    def take_place(self, delay_ms: float, number: int) -> None:
        """Close the old segments; their files go `delay_ms` after `finish_renames`. `number`: that of this replacement."""
        self.is_ready = False
        self._delay_ms, self._number = delay_ms, number
        for segment in self.old:
            segment.close()

    def finish_renames(self) -> None:
        """Finish all renames: the segments that lost do not come back in a crash. Raises OSError.

        Waits for `run`; may be called again, also by two threads. The new segment is used under whatever name it has.
        """
        with self._lock:
            if self._is_settled:
                return
            if self._is_abandoned:
                remove(self._files, self.new.directory, self.new.base_offset)
                self._files.sync_directory(self.new.directory)
            else:
                with _telling_of_names():
                    self._rename()
            self._is_settled = True

    def _rename(self) -> None:
        if not self._has_freed_names:  # else these are the new one's by now
            for segment in self.old:
                segment.delete(self._delay_ms, self._number)
            self._files.sync_directory(self.new.directory)
            self._has_freed_names = True
        self.new.rename("")


class SegmentList(Protocol):
    """What `Compacted` needs of `segments.Segments`."""

    active: Segment

    def __iter__(self) -> Iterator[Segment]:
        """The segments, the oldest first."""

    def holds(self, segments: Sequence[Segment]) -> bool:
        """Whether all of these are here, one behind the other, before the active one."""

    def replace(self, old: Sequence[Segment], new: Segment) -> None:
        """Replace these segments by a new one."""


class Compacted:
    """What compaction did to a log, and is about to do. For the loop's thread, as the log."""

    __slots__ = ("_begun", "_count", "_segments", "cuts", "offset", "unfinished")

    def __init__(self, segments: SegmentList) -> None:
        self._segments = segments
        self._begun: Replacement | None = None
        self._count = 0
        self.unfinished: Replacement | None = None
        """The last replacement, while its renames are outstanding."""
        self.cuts = 0
        """How many times the log was cut: facts about later offsets are void."""
        self.offset = NOTHING
        """Where the last compaction ended; the log directory keeps it in a checkpoint."""

    @property
    def is_under_way(self) -> bool:
        """Whether a crash may still bring back a segment that a compaction has made and given up."""
        return self._begun is not None or self.unfinished is not None

    def before_begun(self, count: int) -> int:
        """How many of the first segments, `count` at most, lie before those that are being replaced now.

        These stay until that has ended: of the new segment, which may win already, nobody else would tell that it is
        to go with them.
        """
        begun = self._begun
        if begun is None:
            return count
        first = begun.new.base_offset
        return sum(segment.base_offset < first for segment in islice(self._segments, count))

    def note_end(self, offset: int) -> None:
        """A compaction has ended at this offset, now or before the start."""
        self.offset = offset

    def closed(self, bases: Collection[int]) -> list[Segment] | None:
        """The segments that begin at these offsets; None if one of them is gone, or is the one being written."""
        found = [segment for segment in self._segments if segment.base_offset in bases]
        return found if len(found) == len(bases) and self._segments.active not in found else None

    def finish(self) -> None:
        """End the last replacement, before a new one begins; waits for no disk after its `finish_renames`. Raises OSError."""
        if self.unfinished is not None:
            self.unfinished.finish_renames()
            self.unfinished = None

    def begin(self, files: Files, old: Sequence[Segment], new: Segment) -> Replacement:
        """The replacement that makes a segment named `.cleaned` win over `old`. A thread may run it; then `end`.

        Raises OSError as `finish` does.
        """
        self.finish()
        self._begun = Replacement(files, old, new)
        return self._begun

    def end(self, replacement: Replacement, delay_ms: float) -> bool:
        """Replace the old segments by the new one, if the replacement was run and all of them are still there.

        Readers that hold slices of the old ones go on with them; their files go after `delay_ms`. What is left to be
        done is `unfinished`, and is done by `finish`, or the next start.
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

    def cut(self, offset: int) -> None:
        """Records at `offset` and behind it go: they must not come back in a new segment, or an old one.

        Waits for the disk, as cutting does. Raises OSError.
        """
        self.forget(offset)
        self.finish()
        if self._begun is not None:
            self._begun.finish_renames()

    def forget(self, offset: int) -> None:
        """`cut` in memory alone; a compaction under way finds its segment abandoned, and does the rest."""
        self.offset = min(self.offset, offset)
        self.cuts += 1
        if self._begun is not None:
            self._begun.abandon()


@contextlib.contextmanager
def _telling_of_names() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        what = "the files of the last compaction cannot be renamed, which is tried again"
        raise OSError(error.errno, f"{what}: {error}") from error


def remove(files: Files, directory: str, base_offset: int) -> None:
    """Remove the files of a new segment. Raises OSError."""
    for suffix in (SWAP_SUFFIX, CLEANED_SUFFIX):  # the `.log` first: without it the others mean nothing
        for kind in KINDS:
            files.remove(f"{directory}/{base_offset:020d}{kind}{suffix}")

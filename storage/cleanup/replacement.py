"""One new segment in the place of some old ones, such that a crash at any moment leaves one or the others.

    <base>.log.cleaned     being written; worth nothing after a crash
    <base>.log.swap        whole, and on the disk: it wins over the files of the offsets that it covers
    <base>.log             the old ones are `.deleted` by then, and this is the segment

The names are synced once the new one is `.swap`, and again once the old ones are `.deleted`: until these are gone for
good something has to say that they are. All of that is done by a thread, beside the log, which has the new segment in
memory as soon as it wins. What a crash interrupts the next start ends (`finish_steps`). The new segment has the base
offset of the first old one, and ends where the last one ended. Source: the suffixes and the order are those of Apache
Kafka's `LocalLog.replaceSegments` and `LogLoader`, so that either program ends what the other one began.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import islice
from typing import Protocol

from headgate.protocol.errors import KafkaError
from headgate.protocol.steps import Steps
from headgate.storage.disk.layout import base_of
from headgate.storage.disk.pool import SWAP_SUFFIX, Pool
from headgate.storage.errors import CorruptLog
from headgate.storage.files import Files
from headgate.storage.segment.segment import DERIVED_SUFFIXES, LOG_SUFFIX, Segment

logger = logging.getLogger("headgate.storage")

CLEANED_SUFFIX = ".cleaned"
_KINDS = (LOG_SUFFIX, *DERIVED_SUFFIXES[:3])
NOTHING = -1
"""In the place of an offset: nothing was compacted."""


class Replacement:
    """A new segment, named `.cleaned`, and those that it replaces.

    Made by `Compacted.begin`; `run` may be called in a thread, then comes `Compacted.end`; then `settle`, in a thread
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
        """Make sure that the new one wins from now on, whatever happens. Raises OSError."""
        with self._lock:
            if not self._is_abandoned:
                self._remove_leftovers()
                self.new.rename(SWAP_SUFFIX)
                self._files.sync_directory(self.new.directory)
                self.is_ready = True

    def _remove_leftovers(self) -> None:
        """What a compaction left that was broken off: the next start must not take it for a part of this one."""
        own = f"{self.new.base_offset:020d}."
        for name in self._files.list(self.new.directory):
            if name.endswith(CLEANED_SUFFIX) and not name.startswith(own):
                self._files.remove(f"{self.new.directory}/{name}")

    def abandon(self) -> None:
        """The old ones stay, or go their own way: the new one must not come back. `settle` removes it."""
        self._is_abandoned, self.is_ready = True, False
        self.new.close()

    def take_place(self, delay_ms: float, number: int) -> None:
        """The old files are to go, `delay_ms` after `settle`. `number` is that of this replacement."""
        self.is_ready = False
        self._delay_ms, self._number = delay_ms, number
        for segment in self.old:
            segment.close()

    def settle(self) -> None:
        """Have all names be what they are to be: what lost does not come back in a crash. Raises OSError.

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
        """From the oldest on."""

    def holds(self, segments: Sequence[Segment]) -> bool:
        """Whether all of these are here, one behind the other, before the active one."""

    def replace(self, old: Sequence[Segment], new: Segment) -> None:
        """Have a new one in the place of these."""


class Compacted:
    """What compaction did to a log, and is about to do. Of the loop's thread, as the log is."""

    __slots__ = ("_begun", "_count", "_segments", "cuts", "offset", "unfinished")

    def __init__(self, segments: SegmentList) -> None:
        self._segments = segments
        self._begun: Replacement | None = None
        self._count = 0
        self.unfinished: Replacement | None = None
        """The last one, as long as not all of its names are what they should be."""
        self.cuts = 0
        """How many times the log was cut: what was known of later offsets is not so any more."""
        self.offset = NOTHING
        """Where the last compaction ended; kept by the store in a checkpoint."""

    @property
    def is_under_way(self) -> bool:
        """Whether a crash may still leave the segment that a compaction has made, though it was given up."""
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

    def closed(self, bases: Collection[int]) -> list[Segment] | None:
        """The segments that begin at these offsets; None if one of them is gone, or is the one being written."""
        found = [segment for segment in self._segments if segment.base_offset in bases]
        return found if len(found) == len(bases) and self._segments.active not in found else None

    def finish(self) -> None:
        """Before anything new: end what the last one has left; at once, after its `settle`. Raises OSError."""
        if self.unfinished is not None:
            self.unfinished.settle()
            self.unfinished = None

    def begin(self, files: Files, old: Sequence[Segment], new: Segment) -> Replacement:
        """What makes a segment named `.cleaned` win over `old`; to be run, in any thread, and handed to `end`.

        Raises OSError as `finish` does.
        """
        self.finish()
        self._begun = Replacement(files, old, new)
        return self._begun

    def end(self, replacement: Replacement, delay_ms: float) -> bool:
        """Have the new segment in the place of the old ones, if it was run, and if they are all there still.

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
        """All at once. Raises OSError, and then the old ones are there still, or are gone."""
        replacement = self.begin(files, old, new)
        try:
            replacement.run()
        finally:
            is_done = self.end(replacement, delay_ms)
            self.finish()
        return is_done

    def cut(self, offset: int) -> None:
        """What is at `offset` or behind it goes: it must not come back in a new segment, or an old one.

        Waits for the disk, as cutting does. Raises OSError.
        """
        self.forget(offset)
        self.finish()
        if self._begun is not None:
            self._begun.settle()

    def forget(self, offset: int) -> None:
        """The same in memory; a round that is under way does the rest, where what it has made is not taken any more."""
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
    """Remove what was written of a new segment. Raises OSError."""
    for suffix in (SWAP_SUFFIX, CLEANED_SUFFIX):  # the `.log` first: without it the others mean nothing
        for kind in (LOG_SUFFIX, *DERIVED_SUFFIXES[:3]):
            files.remove(f"{directory}/{base_offset:020d}{kind}{suffix}")


def finish_steps(pool: Pool, directory: str, names: dict[str, int]) -> Steps[dict[str, int]]:
    """End the replacements that a crash interrupted, in slices; the names that are there then.

    Raises CorruptLog for a new segment that is not whole although it was on the disk; OSError.
    """
    if not any(name.endswith((CLEANED_SUFFIX, SWAP_SUFFIX)) for name in names):
        return names
    files = pool.files
    begun = [_base(name) for name in names if name.endswith(LOG_SUFFIX + CLEANED_SUFFIX)]
    swaps = sorted(_base(name) for name in names if name.endswith(LOG_SUFFIX + SWAP_SUFFIX))
    undone = set()
    for base_offset in swaps:
        if (yield from _is_undone(pool, directory, base_offset, begun, names)):
            undone.add(base_offset)
    for name in names:
        is_whole = name.endswith(LOG_SUFFIX + SWAP_SUFFIX) and _base(name) not in undone
        if name.endswith((CLEANED_SUFFIX, SWAP_SUFFIX)) and not is_whole:
            files.remove(f"{directory}/{name}")  # also indexes: made anew, as they may be those of before by now
    whole = [base_offset for base_offset in swaps if base_offset not in undone]
    for base_offset in whole:
        yield from _remove_replaced(pool, directory, base_offset, names)
    files.sync_directory(directory)  # what was replaced must not come back once nothing tells of it
    for base_offset in whole:
        path = f"{directory}/{base_offset:020d}{LOG_SUFFIX}"
        files.rename(path + SWAP_SUFFIX, path)
    files.sync_directory(directory)
    return files.list(directory)


def _is_undone(
    pool: Pool, directory: str, base_offset: int, begun: Sequence[int], names: Mapping[str, int]
) -> Steps[bool]:
    """Whether a new segment is a part of one that Kafka splits, of which an earlier part is not whole.

    The old one is there then, and reaches into it. A part of something else that was broken off before says nothing.
    """
    if not any(base < base_offset for base in begun):
        return False
    logs = [_base(name) for name in names if name.endswith(LOG_SUFFIX)]
    before = max((base for base in logs if 0 <= base < base_offset), default=-1)
    if before < 0:
        return False
    old = Segment(pool, directory, before, (names[f"{before:020d}{LOG_SUFFIX}"], -1, -1, -1))
    walk = old.walk()
    for _ in walk:
        yield
    old.close()
    return walk.next_offset > base_offset


def _remove_replaced(pool: Pool, directory: str, base_offset: int, names: Mapping[str, int]) -> Steps[None]:
    """Remove those whose offsets a new segment has. Raises CorruptLog where that is not whole; OSError."""
    name = f"{base_offset:020d}{LOG_SUFFIX}{SWAP_SUFFIX}"
    segment = Segment(pool, directory, base_offset, (names[name], -1, -1, -1), suffix=SWAP_SUFFIX)
    walk = segment.walk()
    walk.check_crc_from = base_offset
    for _ in walk:
        yield
    segment.close()
    end_offset = max(walk.next_offset, base_offset + 1)
    problem = walk.problem or _problem_of_end(pool, directory, base_offset, end_offset, names)
    if problem is not None:
        raise CorruptLog(
            f"{segment.path}, which a compaction left, is damaged at byte {walk.position}: {problem}; bring it "
            "back from a copy, or remove it if the segments that it was to replace are still there"
        )
    logger.info("%s ends a compaction that was interrupted, up to offset %d", segment.path, walk.next_offset)
    replaced = sorted(name for name in names if name.endswith(_KINDS) and base_offset <= _base(name) < end_offset)
    last = max(map(_base, replaced), default=base_offset)
    for old in replaced:
        if _base(old) < last:
            pool.files.remove(f"{directory}/{old}")
    if last > base_offset:  # where the new one may end that one tells: there must be no other one without it
        pool.files.sync_directory(directory)
    for old in replaced:
        if _base(old) == last:
            pool.files.remove(f"{directory}/{old}")


def _problem_of_end(
    pool: Pool, directory: str, base_offset: int, end_offset: int, names: Mapping[str, int]
) -> str | None:
    """What is wrong if it reaches behind those that it replaces: no checksum covers the offset of its last batch."""
    bases = [_base(name) for name in names if name.endswith(LOG_SUFFIX)]
    last = max((base for base in bases if base_offset <= base < end_offset), default=None)
    if last is None or end_offset in bases:
        return None
    old = Segment(pool, directory, last, [names.get(f"{last:020d}{kind}", -1) for kind in _KINDS])
    try:
        reached = old.end_offset()
    except KafkaError as error:
        return error.message
    finally:
        old.close()
    if end_offset <= reached:
        return None
    return f"its last batch would end at offset {end_offset}, and what it replaces ends at {reached}"


def _base(name: str) -> int:
    base_offset = base_of(name)
    return -1 if base_offset is None else base_offset

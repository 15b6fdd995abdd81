"""What all logs of a store share: the files, a bound on open segment files, and a bound on indexes held in memory.

An idle partition costs a few objects: its files are opened when they are read or written, its indexes loaded when
something is looked up in them, and both are given back when others need the room.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Protocol

from headgate.storage.disk.pending_deletions import PendingDeletions
from headgate.storage.files import File, Files, HeldFiles, parent

SWAP_SUFFIX = ".swap"
"""Behind the names of a segment that compaction has made, until a thread has renamed those in whose place it is."""
MAX_OPEN_SEGMENTS = 4096
HELD_SHARE = 4
"""One in so many of the files that segments may have open is left to pieces of them (`HeldFiles`)."""
MAX_INDEX_BYTES = 64 * 1024 * 1024


class Closable(Protocol):
    """A holder of something that can be given back and had again."""

    def give_back(self) -> None:
        """Free it; the next use gets it anew."""


class Pool:
    """Shared by the logs of one store."""

    def __init__(
        self,
        files: Files,
        max_open_segments: int = MAX_OPEN_SEGMENTS,
        max_index_bytes: int = MAX_INDEX_BYTES,
        held: HeldFiles | None = None,
    ) -> None:
        self.files = files
        self.held = HeldFiles() if held is None else held
        """The files that pieces keep open, beside those of segments; several pools may share it."""
        self.doomed = PendingDeletions(files)
        """Files of deleted segments, renamed already, and directories of deleted partitions."""
        self.needs_repair: list[object] = []
        """The logs of which a sync failed: see `storage.recovery.sync_failure_repair.needing_repair`."""
        # Half of what the process may open is left to connections.
        self._max_open_segments = max(1, min(max_open_segments, files.open_limit() // 2))
        self._max_index_bytes = max_index_bytes
        self._opened: OrderedDict[Closable, None] = OrderedDict()
        self._loaded: OrderedDict[Closable, int] = OrderedDict()
        self._loaded_bytes = 0

    def open(self, path: str) -> File:
        """Open a file of a segment, which may have got its name in this moment: see `replacement`. Raises OSError."""
        try:
            file = self.files.open(path)
        except FileNotFoundError:
            if not path.endswith(SWAP_SUFFIX):
                raise
            file = self.files.open(path.removesuffix(SWAP_SUFFIX))
        file.disk = parent(parent(path))
        file.held = self.held
        return file

    @property
    def open_segments(self) -> int:
        """How many segment files are open."""
        return len(self._opened)

    def opened(self, segment: Closable) -> None:
        """A segment has opened its file.

        The one that was opened first makes room (use does not count: that would cost each read).
        """
        if len(self._opened) >= self._max_open_segments:
            oldest, _ = self._opened.popitem(last=False)
            oldest.give_back()
        self._opened[segment] = None

    def closed(self, segment: Closable) -> None:
        """A segment has closed its file by itself."""
        self._opened.pop(segment, None)

    def used(self, index: Closable, size: int) -> None:
        """An index of `size` bytes was looked at in memory; the longest unused ones make room."""
        before = self._loaded.get(index)
        if before is not None:
            self._loaded.move_to_end(index)
            if before == size:
                return
        self._loaded_bytes += size - (before or 0)
        self._loaded[index] = size
        while self._loaded_bytes > self._max_index_bytes and len(self._loaded) > 1:
            oldest, freed = self._loaded.popitem(last=False)
            self._loaded_bytes -= freed
            oldest.give_back()

    def unloaded(self, index: Closable) -> None:
        """An index has left the memory by itself."""
        self._loaded_bytes -= self._loaded.pop(index, 0)

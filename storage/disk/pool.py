"""The logs of one directory share a pool: the files, a bound on open segment files, a bound on indexes in memory.

An idle partition costs a few objects. Its files are opened at a read or a write, its indexes are loaded at a lookup,
and both are given back when others need the room.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Protocol

from headgate.storage.disk.pending_deletions import PendingDeletions
from headgate.storage.files import File, Files, HeldFiles, parent

SWAP_SUFFIX = ".swap"
"""The suffix of a segment that compaction has made, until a thread has renamed the segments that it replaces."""
MAX_OPEN_SEGMENTS = 4096
HELD_SHARE = 4
"""Of the files that segments may have open, one in so many is left to pieces (`HeldFiles`)."""
MAX_INDEX_BYTES = 64 * 1024 * 1024


class Closable(Protocol):
    """The holder of an open file or a loaded index."""

    def unload(self) -> None:
        """Close or unload; the next use opens or loads again."""


class Pool:
    """What the logs of one directory share."""

    def __init__(
        self,
        files: Files,
        max_open_segments: int = MAX_OPEN_SEGMENTS,
        max_index_bytes: int = MAX_INDEX_BYTES,
        held: HeldFiles | None = None,
    ) -> None:
        self.files = files
        self.held = HeldFiles() if held is None else held
        """The count of files that pieces keep open, beside those of segments; several pools may share it."""
        self.pending_deletions = PendingDeletions(files)
        """Files of deleted segments, already renamed, and directories of deleted partitions."""
        self.needs_repair: list[object] = []
        """The logs of which a sync failed: see `storage.recovery.sync_failure_repair.needing_repair`."""
        # Half of what the process may open is left to connections.
        self._max_open_segments = max(1, min(max_open_segments, files.open_limit() // 2))
        self._max_index_bytes = max_index_bytes
        self._opened: OrderedDict[Closable, None] = OrderedDict()
        self._loaded: OrderedDict[Closable, int] = OrderedDict()
        self._loaded_bytes = 0

    def open(self, path: str) -> File:
        """Open a file of a segment; a thread may have renamed it in this moment (`replacement`). Raises OSError."""
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

        The segment opened first makes room. Use does not count: that would cost each read.
        """
        if len(self._opened) >= self._max_open_segments:
            oldest, _ = self._opened.popitem(last=False)
            oldest.unload()
        self._opened[segment] = None

    def closed(self, segment: Closable) -> None:
        """A segment has closed its file by itself."""
        self._opened.pop(segment, None)

    def used(self, index: Closable, size: int) -> None:
        """An index of `size` bytes was looked at in memory; the indexes unused for longest make room."""
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
            oldest.unload()

    def unloaded(self, index: Closable) -> None:
        """An index has left the memory by itself."""
        self._loaded_bytes -= self._loaded.pop(index, 0)

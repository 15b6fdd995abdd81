"""The logs of one directory share a pool: the files, a bound on open segment files, a bound on indexes in memory.

An idle partition costs a few objects. Its files are opened at a read or a write, its indexes are loaded at a lookup;
both are closed or unloaded when others need the room.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Protocol

from headgate.storage.disk.pending_deletions import PendingDeletions
from headgate.storage.files import File, Files, HeldFiles, parent

SWAP_SUFFIX = ".swap"
"""The suffix of a compacted segment, until a thread has renamed the segments that it replaces."""
MAX_OPEN_SEGMENTS = 4096
HELD_SHARE = 4
"""The inverse of the share of open files that slices may hold (`HeldFiles`)."""
MAX_INDEX_BYTES = 64 * 1024 * 1024


class Closable(Protocol):
    """The holder of an open file or a loaded index."""

    def unload(self) -> None:
        """Close or unload; the next use opens or loads again."""


class Pool:
    """The shared resources of the logs in one directory."""

    def __init__(
        self,
        files: Files,
        max_open_segments: int = MAX_OPEN_SEGMENTS,
        max_index_bytes: int = MAX_INDEX_BYTES,
        held: HeldFiles | None = None,
    ) -> None:
        self.files = files
        self.held = HeldFiles() if held is None else held
        """The count of files that slices keep open, in addition to the segments' files; several pools may share it."""
        self.pending_deletions = PendingDeletions(files)
        """Renamed files of deleted segments, and directories of deleted partitions."""
        self.needs_repair: list[object] = []
        """The logs with a failed sync: see `storage.recovery.sync_failure_repair.needing_repair`."""
        # Half of the process's limit is left to connections.
        self._max_open_segments = max(1, min(max_open_segments, files.open_limit() // 2))
        self._max_index_bytes = max_index_bytes
        self._opened: OrderedDict[Closable, None] = OrderedDict()
        self._loaded: OrderedDict[Closable, int] = OrderedDict()
        self.loaded_bytes = 0
        """Of indexes in memory."""

    def open(self, path: str) -> File:
        """Open a file of a segment; a thread may be renaming it (`replacement`). Raises OSError."""
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
        return len(self._opened)

    def opened(self, segment: Closable) -> None:
        """Note that a segment has opened its file; close the segment opened first if there are too many.

        The order of use is not tracked: that would slow down each read.
        """
        if len(self._opened) >= self._max_open_segments:
            oldest, _ = self._opened.popitem(last=False)
            oldest.unload()
        self._opened[segment] = None

    def closed(self, segment: Closable) -> None:
        """Note that a segment has closed its file itself."""
        self._opened.pop(segment, None)

    def used(self, index: Closable, size: int) -> None:
        """Note the use of a loaded index of `size` bytes; unload the least recently used ones if needed."""
        before = self._loaded.get(index)
        if before is not None:
            self._loaded.move_to_end(index)
            if before == size:
                return
        self.loaded_bytes += size - (before or 0)
        self._loaded[index] = size
        while self.loaded_bytes > self._max_index_bytes and len(self._loaded) > 1:
            oldest, freed = self._loaded.popitem(last=False)
            self.loaded_bytes -= freed
            oldest.unload()

    def unloaded(self, index: Closable) -> None:
        """Note that an index was unloaded by its owner."""
        self.loaded_bytes -= self._loaded.pop(index, 0)

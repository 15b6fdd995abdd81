"""One flush: what must reach the disk, so that everything before an offset is safe.

The log makes it and takes it back (`Log.begin_flush`, `Log.end_flush`). In between `run` only waits for the disk, and
may do so in another thread while the log goes on appending. One flush may serve all who wait for an offset before its
end.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from storage.files import File, Files


class Flush:
    """The open files, files and directories to sync, in this order. Takes over a reference on each open file."""

    __slots__ = ("_directories", "_files", "_open_files", "_paths", "end_offset", "is_done")

    def __init__(
        self,
        files: Files,
        end_offset: int,
        open_files: Sequence[File],
        paths: Sequence[str],
        directories: Sequence[str],
    ) -> None:
        self._files = files
        self._open_files = open_files
        self._paths = paths
        self._directories = directories
        self.end_offset = end_offset
        self.is_done = False

    def run(self) -> None:
        """Wait until all of it is on the disk. Raises OSError."""
        for file in self._open_files:
            file.sync()
        for sync, paths in ((self._files.sync, self._paths), (self._files.sync_directory, self._directories)):
            for path in paths:
                with contextlib.suppress(FileNotFoundError):  # deleted meanwhile
                    sync(path)
        self.is_done = True

    def release(self) -> None:
        """Give up the open files."""
        for file in self._open_files:
            file.release()
        self._open_files = ()

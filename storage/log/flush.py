"""One flush of a log: everything before an offset becomes safe on the disk.

The log begins and ends a flush (`Log.begin_flush`, `Log.end_flush`). In between `run` only waits for the disk, and may
do so in another thread while the log goes on appending. One flush serves everybody who waits for an offset before its
end.

After a sync that failed, the system may have dropped what it could not write, and report success at the next sync: so
there is no next sync. The log keeps the error, and takes nothing until `storage.recovery.sync_failure_repair` has made
sure.
"""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Callable, Iterable, Sequence

from headgate.storage.files import NO_DESCRIPTORS, File, Files
from headgate.storage.segment.segment import Segment

MAX_SEGMENTS = 16
"""One flush holds the files of so many segments open: after a start without a recovery checkpoint all are unsynced."""
NOT_BEGUN = (*NO_DESCRIPTORS, errno.ENOMEM)
"""Why a file could not even be opened for its sync: that can be tried again."""


class Flush:
    """The open files, files and directories to sync, in this order. Takes over a reference on each open file."""

    __slots__ = (
        "_directories",
        "_files",
        "_open_files",
        "_write",
        "end_offset",
        "error",
        "indexes",
        "is_done",
        "is_part",
        "paths",
        "stable_offset",
    )

    def __init__(
        self,
        files: Files,
        end_offset: int,
        open_files: Sequence[File],
        paths: Sequence[str] = (),
        directories: Sequence[str] = (),
        indexes: Sequence[str] = (),
        write: Callable[[], None] | None = None,
        stable_offset: int = 0,
        *,
        is_part: bool = False,
    ) -> None:
        """`write` writes a file of `paths`, before anything is synced. `stable_offset`: the log's, at the beginning."""
        self._files = files
        self._write = write
        self._open_files = open_files
        self._directories = directories
        self.paths = paths
        self.indexes = indexes
        self.end_offset = end_offset
        self.stable_offset = stable_offset
        self.is_done = False
        self.is_part = is_part
        """Whether there are more segments, for another one."""
        self.error: OSError | None = None
        """Why a sync failed: of what was to be written then, nobody knows what is on the disk."""

    @property
    def held_files(self) -> int:
        """How many files it keeps open."""
        return len(self._open_files)

    def run(self) -> None:
        """Wait until all of it is on the disk. Raises OSError."""
        if self._write is not None:  # a failure takes nothing from what is on the disk already
            self._write()
        try:
            for file in self._open_files:
                file.sync()
            self._sync_each(self._files.sync, (*self.indexes, *self.paths))
            self._sync_each(self._files.sync_directory, self._directories)
        except OSError as error:
            if error.errno not in NOT_BEGUN:
                self.error = error
            raise
        self.is_done = True

    def _sync_each(self, sync: Callable[[str], None], paths: Iterable[str]) -> None:
        for path in paths:
            with contextlib.suppress(FileNotFoundError):  # deleted meanwhile
                sync(path)

    def release(self) -> None:
        """Give up the open files."""
        for file in self._open_files:
            file.release()
        self._open_files = ()


def hold(segments: Iterable[Segment]) -> list[File]:
    """The open files of these segments, held all or none. Raises OSError."""
    files: list[File] = []
    try:
        files.extend(segment.hold() for segment in segments)
    except OSError:
        for file in files:
            file.release()
        raise
    return files

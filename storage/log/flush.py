"""One flush of a log: makes everything before an offset durable.

`flushing.begin` and `flushing.end` enclose the flush. In between, `run` only waits for the disk, also in
another thread while the log appends. One flush serves all waits for offsets before its end.

After a failed sync the system may have dropped the unwritten data, and may report success at the next sync: so the log
makes no next sync. The log keeps the error, and accepts no records until `storage.recovery.sync_failure_repair` has
secured its content.
"""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Callable, Iterable, Sequence

from headgate.protocol.errors import without_frames
from headgate.storage.files import NO_DESCRIPTORS, File, Files
from headgate.storage.segment.segment import Segment

MAX_SEGMENTS = 16
"""Maximum segments that one flush holds open: after a start without a recovery checkpoint all are unsynced."""
NOT_BEGUN = (*NO_DESCRIPTORS, errno.ENOMEM)
"""Errors of opening a file for its sync: such a flush can be retried."""


class Flush:
    """The files and directories to sync, in this order. Takes over a reference on each open file."""

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
        """`write` writes a file of `paths` before all syncs. `stable_offset`: the log's at the beginning."""
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
        """Whether more segments remain, for another flush."""
        self.error: OSError | None = None
        """The error of a failed sync: the disk's content of the synced data is then unknown."""

    @property
    def held_files(self) -> int:
        return len(self._open_files)

    def run(self) -> None:
        """Wait until everything is on the disk. Raises OSError."""
        if self._write is not None:  # a failed write changes nothing that is on the disk
            self._write()
        try:
            for file in self._open_files:
                file.sync()
            self._sync_each(self._files.sync, (*self.indexes, *self.paths))
            self._sync_each(self._files.sync_directory, self._directories)
        except OSError as error:
            if error.errno not in NOT_BEGUN:
                self.error = without_frames(error)
            raise
        self.is_done = True

    def _sync_each(self, sync: Callable[[str], None], paths: Iterable[str]) -> None:
        for path in paths:
            with contextlib.suppress(FileNotFoundError):  # deleted meanwhile
                sync(path)

    def release(self) -> None:
        for file in self._open_files:
            file.release()
        self._open_files = ()


def hold(segments: Iterable[Segment]) -> list[File]:
    """Hold the files of these segments open, all or none. Raises OSError."""
    files: list[File] = []
    try:
        files.extend(segment.hold() for segment in segments)
    except OSError:
        for file in files:
            file.release()
        raise
    return files

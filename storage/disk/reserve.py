"""A reserve of disk space for the record that a start has to write: a file that is given up part by part.

A broker that finds its disk full has to write one record before it may serve clients (`gateway.metadata.registration`).
The file holds space for many such starts. It is filled again when there is plenty of space: the reserve must never fill
a disk. Its bytes are random, as some file systems store zeros or repetitions without space.
"""

from __future__ import annotations

from random import Random

from headgate.storage.files import Files, parent

FILE_NAME = ".headgate-reserve"
RESERVE_BYTES = 256 << 10
PART_BYTES = 32 << 10
"""The size of a part: more than any file system needs for one small write with its metadata."""
PLENTY_BYTES = 16 * RESERVE_BYTES
"""The free space without which the reserve is not filled."""


class Reserve:
    """The reserve in one log directory. Every method waits for the disk, and raises OSError."""

    def __init__(self, files: Files, directory: str) -> None:
        self._files = files
        self.path = f"{directory}/{FILE_NAME}"

    @property
    def size(self) -> int:
        """The size of the reserve in bytes."""
        return self._files.size(self.path) if self._files.exists(self.path) else 0

    def give_up(self) -> bool:
        """Give up a part of the reserve; false if none is left."""
        size = self.size
        if not size:
            return False
        self._files.truncate(self.path, max(0, size - PART_BYTES))
        self._files.sync(self.path)  # otherwise the blocks may not be free yet
        return True

    def fill(self) -> None:
        """Fill the reserve again, if there is plenty of free space."""
        missing = RESERVE_BYTES - self.size
        if missing <= 0 or self._files.space(parent(self.path))[1] < PLENTY_BYTES:
            return
        is_new = not self._files.exists(self.path)
        self._files.append(self.path, Random(0).randbytes(missing))
        self._files.sync(self.path)
        if is_new:
            self._files.sync_directory(parent(self.path))

"""A slice of a segment file: the log plans the slice, and the answer to a fetch reads or sends it later.

A slice is (file, position, length) and keeps the file open. No byte is read before it is needed.
"""

from __future__ import annotations

from headgate.protocol.steps import Steps
from headgate.storage.files import File

# A slice of up to this size is read on the loop, if it is in the page cache.
_SMALL_READ_BYTES = 1 << 14


class FileSlice:
    """A planned slice of a segment file.

    The file stays open until `release`, even if the segment is deleted.
    """

    __slots__ = ("_file", "fileno", "length", "position")

    def __init__(self, file: File, position: int, length: int) -> None:
        file.references += 1  # `File.hold`, without the call
        file.holds += 1
        if file.holds == 1:
            file.held.count += 1
        self._file: File | None = file
        self.fileno = file.fileno
        self.position = position
        self.length = length

    def __len__(self) -> int:
        return self.length

    def __del__(self) -> None:
        if self._file is not None:
            self.release()

    def __repr__(self) -> str:
        return f"FileSlice({self.length} bytes at {self.position} of descriptor {self.fileno})"

    def is_of(self, file: File) -> bool:
        """Whether this is a piece of `file`. Descriptors are no proof: a file may have none."""
        return self._file is file

    def read(self, start: int = 0, length: int | None = None) -> bytes:
        """The bytes, or a part of them, for a stream without sendfile. Raises ValueError after `release`."""
        if self._file is None:
            raise ValueError("the slice was released")
        left = self.length - start
        return self._file.read_at(left if length is None else min(length, left), self.position + start)

    def read_cached(self, start: int, length: int) -> bytes | bytearray | None:
        """A part of the bytes, if reading it does not wait for the disk. Raises ValueError after `release`."""
        return self._held.read_cached(length, self.position + start)

    def read_steps(self, start: int, length: int) -> Steps[bytes | bytearray]:
        """A part of the bytes, up to the slice's end: at once if small and cached, else in the next time slice."""
        length = min(length, self.length - start)
        data = self.read_cached(start, length) if length <= _SMALL_READ_BYTES else None
        if data is None:
            yield
            data = self.read(start, length)
        return data

    def is_cached(self, start: int, length: int) -> bool:
        """Whether sending a part would not wait for the disk, by cheap probes."""
        return self._held.is_cached(length, self.position + start)

    @property
    def disk(self) -> str:
        """The log directory of the file."""
        return self._held.disk

    @property
    def passed(self) -> tuple[int, int]:
        """A range that readers have searched in vain (`File.passed`). It may lie outside of the slice."""
        start, end = self._held.passed
        return start - self.position, end - self.position

    def note_passed(self, end: int) -> None:
        """Note that a reader has found nothing up to `end`."""
        file, end = self._held, self.position + end
        start, known = file.passed
        if start <= self.position <= known:
            file.passed = start, max(known, end)
        else:
            file.passed = self.position, end

    def warm(self, start: int, length: int) -> None:
        """Read a part into the page cache; waits for the disk."""
        self._held.warm(length, self.position + start)

    @property
    def _held(self) -> File:
        if self._file is None:
            raise ValueError("the slice was released")
        return self._file

    def release(self) -> None:
        """Release the file. Further calls do nothing."""
        file, self._file = self._file, None
        if file is not None:
            file.release_hold()


class MessagesSlice(FileSlice):
    """A slice that may hold messages of magic 0 and 1, which clients get only after a conversion."""

    __slots__ = ()

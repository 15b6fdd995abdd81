"""The disk, read only: what is written stays in memory.

So the store's own code, which writes indexes as it walks a segment, can be asked what it would write.
"""

from __future__ import annotations

import errno
import os

from headgate.storage.files import NO_DESCRIPTOR, File, Files, parent


class Overlay(Files):
    """The files of the disk, and over them those written here. Nothing on the disk changes."""

    def __init__(self) -> None:
        self._contents: dict[str, bytearray | None] = {}  # None: removed

    def open(self, path: str, *, create: bool = False) -> File:
        if path in self._contents or (create and not super().exists(path)):
            return _Held(self._content(path, create=create))
        return _OnDisk(os.open(path, os.O_RDONLY | os.O_CLOEXEC))

    def read(self, path: str) -> bytes:
        return bytes(self._content(path)) if path in self._contents else super().read(path)

    def write(self, path: str, data: bytes | bytearray, *, sync: bool = False) -> None:
        self._contents[path] = bytearray(data)

    def append(self, path: str, data: bytes | bytearray) -> None:
        self._content(path, create=True).extend(data)

    def truncate(self, path: str, size: int) -> None:
        _resize(self._content(path), size)

    def remove(self, path: str) -> None:
        self._contents[path] = None

    def rename(self, old: str, new: str) -> None:
        self._contents[new] = self._content(old)
        self._contents[old] = None

    def exists(self, path: str) -> bool:
        return self._contents[path] is not None if path in self._contents else super().exists(path)

    def size(self, path: str) -> int:
        return len(self._content(path)) if path in self._contents else super().size(path)

    def list(self, path: str) -> dict[str, int]:
        names = super().list(path)
        for changed, content in self._contents.items():
            if parent(changed) == path:
                name = changed.rpartition("/")[2]
                names.pop(name, None)
                if content is not None:
                    names[name] = len(content)
        return names

    def sync(self, path: str) -> None:
        """Nothing has to reach the disk."""

    def sync_all(self, path: str) -> None:
        """Nothing has to reach the disk."""

    def make_directories(self, path: str) -> None:
        raise _read_only(path)

    def remove_tree(self, path: str) -> None:
        raise _read_only(path)

    def _content(self, path: str, *, create: bool = False) -> bytearray:
        """What a file holds here, taken from the disk at first."""
        content = self._contents.get(path)
        if content is None:
            if path in self._contents or (create and not super().exists(path)):
                if not create:
                    raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
                content = bytearray()
            else:
                content = bytearray(super().read(path))
            self._contents[path] = content
        return content


class _OnDisk(File):
    """A file of the disk that cannot be changed."""

    __slots__ = ()

    def write_at(self, data: memoryview | bytearray | bytes, position: int) -> None:
        raise _read_only(None)

    def truncate(self, size: int) -> None:
        """Leave it: a file longer than it was when the directory was listed is a broker's that writes on."""

    def sync(self) -> None:
        """Nothing has to reach the disk."""


class _Held(File):
    """A file that is in memory."""

    __slots__ = ("_content",)

    def __init__(self, content: bytearray) -> None:
        super().__init__(NO_DESCRIPTOR)
        self._content = content

    def write_at(self, data: memoryview | bytearray | bytes, position: int) -> None:
        _resize(self._content, max(len(self._content), position))
        self._content[position : position + len(data)] = data

    def read_at(self, length: int, position: int) -> bytes:
        return bytes(self._content[position : position + length])

    def read_cached(self, length: int, position: int) -> bytes | None:
        data = self.read_at(length, position)
        return data if len(data) == length else None

    def warm(self, length: int, position: int) -> None:
        """It is in memory."""

    def size(self) -> int:
        return len(self._content)

    def truncate(self, size: int) -> None:
        _resize(self._content, size)

    def sync(self) -> None:
        """It stays in memory."""


def _resize(content: bytearray, size: int) -> None:
    del content[size:]
    content.extend(bytes(size - len(content)))


def _read_only(path: str | None) -> OSError:
    return OSError(errno.EROFS, "this only reads", path)

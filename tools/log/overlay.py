"""The file system, read only: every write stays in memory.

The store's own code writes indexes while it iterates over a segment; over this overlay the tools compare these indexes
with the files on the disk.
"""

from __future__ import annotations

import errno
import os

from headgate.storage.files import NO_DESCRIPTOR, File, Files, parent


class Overlay(Files):
    """The files on the disk, hidden by files in memory with the same path. Nothing on the disk changes."""

    def __init__(self) -> None:
        self._contents: dict[str, bytearray | None] = {}  # None: removed

    def open(self, path: str, *, create: bool = False) -> File:
        if path in self._contents or (create and not super().exists(path)):
            return _MemoryFile(self._content(path, create=create))
        return _ReadOnlyFile(os.open(path, os.O_RDONLY | os.O_CLOEXEC))

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
        """Do nothing: nothing reaches the disk."""

    def sync_all(self, path: str) -> None:
        """Do nothing: nothing reaches the disk."""

    def make_directories(self, path: str) -> None:
        raise _read_only(path)

    def remove_tree(self, path: str) -> None:
        raise _read_only(path)

    def _content(self, path: str, *, create: bool = False) -> bytearray:
        """The content of a file in memory; the first access copies the file from the disk."""
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


class _ReadOnlyFile(File):
    """An open file on the disk; writing raises OSError."""

    __slots__ = ()

    def write_at(self, data: memoryview | bytearray | bytes, position: int) -> None:
        raise _read_only(None)

    def truncate(self, size: int) -> None:
        """Do nothing: a file that has grown since the listing belongs to a running broker."""

    def sync(self) -> None:
        """Do nothing: nothing reaches the disk."""


class _MemoryFile(File):
    """An open file in memory."""

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
        """Do nothing: the content is in memory."""

    def size(self) -> int:
        return len(self._content)

    def truncate(self, size: int) -> None:
        _resize(self._content, size)

    def sync(self) -> None:
        """Do nothing: the content stays in memory."""


def _resize(content: bytearray, size: int) -> None:
    del content[size:]
    content.extend(bytes(size - len(content)))


def _read_only(path: str | None) -> OSError:
    return OSError(errno.EROFS, "this command only reads", path)

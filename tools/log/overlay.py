"""The file system, read only: every write stays in memory.

The store's own code writes indexes while it iterates over a segment; over this overlay the tools compare these indexes
with the files on the disk.
"""

from __future__ import annotations

import errno
import os

from headgate.storage.files import NO_DESCRIPTOR, File, Files, parent


class ReadOnlyFiles(Files):
    """The files on the disk, opened for reading only: a reader needs no right to write."""

    def open(self, path: str, *, create: bool = False) -> File:
        if create and not self.exists(path):
            raise _read_only(path)
        return _ReadOnlyFile(os.open(path, os.O_RDONLY | os.O_CLOEXEC))


class Overlay(Files):
    """The files on the disk, hidden by files in memory with the same path. Nothing on the disk changes.

    A renamed file stays on the disk: only its name is in memory.
    """

    def __init__(self, disk: Files | None = None) -> None:
        """`disk`: the files below; it opens them for reading only."""
        self._disk = ReadOnlyFiles() if disk is None else disk
        self._contents: dict[str, bytearray | None] = {}  # None: removed
        self._moved: dict[str, str] = {}  # new path -> path on the disk

    def open(self, path: str, *, create: bool = False) -> File:
        if path in self._contents or (create and not self.exists(path)):
            return _MemoryFile(self._content(path, create=create))
        return self._disk.open(self.path_on_disk(path))

    def path_on_disk(self, path: str) -> str:
        """The path of an unchanged file on the disk."""
        return self._moved.get(path, path)

    def read(self, path: str) -> bytes:
        return bytes(self._content(path)) if path in self._contents else self._disk.read(self.path_on_disk(path))

    def write(self, path: str, data: bytes | bytearray, *, sync: bool = False) -> None:
        self._set(path, bytearray(data))

    def append(self, path: str, data: bytes | bytearray) -> None:
        self._content(path, create=True).extend(data)

    def truncate(self, path: str, size: int) -> None:
        if not self.exists(path):
            raise _missing(path)
        if size:
            _resize(self._content(path), size)
        else:  # a preallocated index need not be read
            self._set(path, bytearray())

    def remove(self, path: str) -> None:
        self._set(path, None)

    def rename(self, old: str, new: str) -> None:
        if old in self._contents:
            self._set(new, self._content(old))
        else:
            on_disk = self.path_on_disk(old)
            if not self._disk.exists(on_disk):
                raise _missing(old)
            self._contents.pop(new, None)
            self._moved[new] = on_disk
        self._set(old, None)

    def exists(self, path: str) -> bool:
        if path in self._contents:
            return self._contents[path] is not None
        return self._disk.exists(self.path_on_disk(path))

    def size(self, path: str) -> int:
        return len(self._content(path)) if path in self._contents else self._disk.size(self.path_on_disk(path))

    def modified_ms(self, path: str) -> int:
        return self._disk.modified_ms(self.path_on_disk(path))

    def identity(self, path: str) -> str:
        return self._disk.identity(self.path_on_disk(path))

    def list(self, path: str) -> dict[str, int]:
        names = self._list_disk(path)
        for moved, on_disk in self._moved.items():
            if parent(moved) == path:
                names[moved.rpartition("/")[2]] = self._disk.size(on_disk)
        for changed, content in self._contents.items():
            if parent(changed) == path:
                name = changed.rpartition("/")[2]
                names.pop(name, None)
                if content is not None:
                    names[name] = len(content)
        return names

    def _list_disk(self, path: str) -> dict[str, int]:
        return self._disk.list(path)

    def sync(self, path: str) -> None:
        """Do nothing: nothing reaches the disk."""

    def sync_all(self, path: str) -> None:
        """Do nothing: nothing reaches the disk."""

    def make_directories(self, path: str) -> None:
        raise _read_only(path)

    def remove_tree(self, path: str) -> None:
        raise _read_only(path)

    def _set(self, path: str, content: bytearray | None) -> None:
        self._moved.pop(path, None)
        self._contents[path] = content

    def _content(self, path: str, *, create: bool = False) -> bytearray:
        """The content of a file in memory; the first access copies the file from the disk."""
        content = self._contents.get(path)
        if content is None:
            if path in self._contents or (create and not self.exists(path)):
                if not create:
                    raise _missing(path)
                content = bytearray()
            else:
                content = bytearray(self._disk.read(self.path_on_disk(path)))
            self._set(path, content)
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


def _missing(path: str) -> OSError:
    return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)


def _read_only(path: str | None) -> OSError:
    return OSError(errno.EROFS, "this command only reads", path)

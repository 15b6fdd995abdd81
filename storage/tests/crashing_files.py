"""A file system in memory that forgets, in a crash, what was not synced: whole writes, parts of them, and names.

`crash` makes the file system that the next start finds. With `power` false it is a killed process: everything written
is there. Else each file keeps what was synced, and of the changes since then either the first few, the last of them
torn at any byte, or a random choice, which leaves holes of zeros; a directory keeps the first few changes of its names
since it was synced. `cut_after` raises `PowerCut` in the middle of things; `room` makes the disk full.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from random import Random

from storage.errors import DirectoryLocked
from storage.files import NO_DESCRIPTOR, File, Files, Lock

Change = tuple[int, bytes] | int
"""A write (position, data), or a truncation to a size."""


class PowerCut(BaseException):
    """The machine is off. Not an Exception: nothing may handle it."""


class MemoryFile:
    """The content of a file, now and on the disk."""

    def __init__(self) -> None:
        self.content = bytearray()
        self.durable = b""
        self.changes: list[Change] = []
        self.modified_ms = 0  # set by the tests to which it matters

    def apply(self, change: Change) -> None:
        _apply(self.content, change)
        self.changes.append(change)

    def sync(self) -> None:
        self.durable = bytes(self.content)
        self.changes.clear()

    def crash(self, random: Random) -> None:
        content = bytearray(self.durable)
        if random.random() < 0.3:
            survivors = [change for change in self.changes if random.random() < 0.5]
        else:
            survivors = self.changes[: random.randint(0, len(self.changes))]
            if survivors and not isinstance(survivors[-1], int):
                position, data = survivors[-1]
                survivors[-1] = position, data[: random.randint(0, len(data))]
        for change in survivors:
            _apply(content, change)
        self.content = content
        self.sync()


class MemoryDirectory:
    """The names in a directory, now and on the disk."""

    def __init__(self) -> None:
        self.entries: dict[str, Node] = {}
        self.durable: dict[str, Node] = {}
        self.changes: list[dict[str, Node | None]] = []

    def apply(self, change: dict[str, Node | None]) -> None:
        _rename(self.entries, change)
        self.changes.append(change)

    def sync(self) -> None:
        self.durable = dict(self.entries)
        self.changes.clear()

    def crash(self, random: Random) -> None:
        entries = dict(self.durable)
        for change in self.changes[: random.randint(0, len(self.changes))]:
            _rename(entries, change)
        self.entries = entries
        self.sync()


Node = MemoryFile | MemoryDirectory


def _apply(content: bytearray, change: Change) -> None:
    if isinstance(change, int):
        del content[change:]
        content.extend(bytes(change - len(content)))
        return
    position, data = change
    content.extend(bytes(max(0, position - len(content))))
    content[position : position + len(data)] = data


def _rename(entries: dict[str, Node], change: dict[str, Node | None]) -> None:
    for name, node in change.items():
        if node is None:
            entries.pop(name, None)
        else:
            entries[name] = node


class OpenFile(File):
    """A handle; useless after the crash of its file system."""

    __slots__ = ("_files", "_node")

    def __init__(self, files: CrashingFiles, node: MemoryFile) -> None:
        super().__init__(NO_DESCRIPTOR)
        self._files = files
        self._node = node
        files.open_handles += 1

    def close(self) -> None:
        self._files.open_handles -= 1

    def write_at(self, data: memoryview | bytearray | bytes, position: int) -> None:
        self._files.write_node(self._node, position, bytes(data))

    def read_at(self, length: int, position: int) -> bytes:
        self._files.reads += 1
        return bytes(self._node.content[position : position + length])

    def size(self) -> int:
        return len(self._node.content)

    def truncate(self, size: int) -> None:
        self._files.tick()
        self._node.apply(size)

    def sync(self) -> None:
        self._files.tick()
        self._node.sync()


class MemoryLock(Lock):
    """A lock that ends with its file system."""

    def __init__(self, release: Callable[[], None]) -> None:
        self.release = release  # type: ignore[method-assign]


class CrashingFiles(Files):
    """The disk of a machine that may crash."""

    def __init__(self) -> None:
        self.root = MemoryDirectory()
        self.locked: set[str] = set()
        self.cut_after: int | None = None
        self.room: int | None = None
        self.open_handles = 0
        self.reads = 0
        self.writes = 0

    def crash(self, random: Random, *, power: bool) -> CrashingFiles:
        """What the next start finds."""
        after = CrashingFiles()
        after.root = self.root
        if power:
            for node in list(_walk(self.root)):
                node.crash(random)
        return after

    def tick(self) -> None:
        """Called before every change."""
        self.writes += 1
        if self.cut_after is not None:
            self.cut_after -= 1
            if self.cut_after < 0:
                raise PowerCut

    def write_node(self, node: MemoryFile, position: int, data: bytes) -> None:
        self.tick()
        if self.room is not None and len(data) > self.room:
            node.apply((position, data[: self.room]))
            self.room = 0
            raise OSError(errno.ENOSPC, "no space left on device")
        if self.room is not None:
            self.room -= len(data)
        node.apply((position, data))

    def find(self, path: str) -> Node:
        node: Node = self.root
        for name in filter(None, path.removeprefix(".").split("/")):
            if not isinstance(node, MemoryDirectory) or name not in node.entries:
                raise FileNotFoundError(errno.ENOENT, "no such file", path)
            node = node.entries[name]
        return node

    def file(self, path: str) -> MemoryFile:
        """The content of a file, for a test to look at or to damage."""
        node = self.find(path)
        if not isinstance(node, MemoryFile):
            raise IsADirectoryError(path)
        return node

    def _parent(self, path: str) -> tuple[MemoryDirectory, str]:
        parent, _, name = path.rpartition("/")
        node = self.find(parent) if parent.strip("/") else self.root
        if not isinstance(node, MemoryDirectory):
            raise NotADirectoryError(parent)
        return node, name

    def open(self, path: str, *, create: bool = False) -> File:
        if create and not self.exists(path):
            self._make(path)
        return OpenFile(self, self.file(path))

    def _make(self, path: str) -> MemoryFile:
        self.tick()
        directory, name = self._parent(path)
        node = MemoryFile()
        directory.apply({name: node})
        return node

    def read(self, path: str) -> bytes:
        return bytes(self.file(path).content)

    def write(self, path: str, data: bytes | bytearray, *, sync: bool = False) -> None:
        node = self.file(path) if self.exists(path) else self._make(path)
        self.tick()
        node.apply(0)
        self.write_node(node, 0, bytes(data))
        if sync:
            self.tick()
            node.sync()

    def append(self, path: str, data: bytes | bytearray) -> None:
        node = self.file(path) if self.exists(path) else self._make(path)
        self.write_node(node, len(node.content), bytes(data))

    def sync(self, path: str) -> None:
        self.tick()
        self.file(path).sync()

    def sync_directory(self, path: str) -> None:
        self.tick()
        node = self.find(path)
        assert isinstance(node, MemoryDirectory)
        node.sync()

    def sync_all(self, path: str) -> None:
        self.tick()
        for node in _walk(self.root):
            node.sync()

    def open_limit(self) -> int:
        return 1 << 20

    def exists(self, path: str) -> bool:
        try:
            self.find(path)
        except FileNotFoundError:
            return False
        return True

    def size(self, path: str) -> int:
        return len(self.file(path).content)

    def modified_ms(self, path: str) -> int:
        return self.file(path).modified_ms

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        self.file(path).modified_ms = modified_ms

    def truncate(self, path: str, size: int) -> None:
        self.tick()
        self.file(path).apply(size)

    def list(self, path: str) -> dict[str, int]:
        node = self.find(path)
        assert isinstance(node, MemoryDirectory)
        return {
            name: len(entry.content) if isinstance(entry, MemoryFile) else -1 for name, entry in node.entries.items()
        }

    def make_directories(self, path: str) -> None:
        node: Node = self.root
        for name in filter(None, path.split("/")):
            assert isinstance(node, MemoryDirectory)
            if name not in node.entries:
                self.tick()
                node.apply({name: MemoryDirectory()})
            node = node.entries[name]

    def rename(self, old: str, new: str) -> None:
        self.tick()
        directory, name = self._parent(old)
        node = self.find(old)
        other, new_name = self._parent(new)
        assert other is directory, "only renames within a directory are atomic everywhere"
        directory.apply({name: None, new_name: node})

    def remove(self, path: str) -> None:
        if self.exists(path):
            self.tick()
            directory, name = self._parent(path)
            directory.apply({name: None})

    def remove_tree(self, path: str) -> None:
        self.tick()
        directory, name = self._parent(path)
        directory.apply({name: None})

    def lock(self, path: str) -> Lock:
        if path in self.locked:
            raise DirectoryLocked(path.rpartition("/")[0], 1)
        if not self.exists(path):
            self._make(path)
        self.locked.add(path)
        return MemoryLock(lambda: self.locked.discard(path))


def _walk(directory: MemoryDirectory) -> Iterator[Node]:
    """A directory and all that is in it; children are looked for after the directory itself was dealt with."""
    yield directory
    seen = {**directory.durable, **directory.entries}
    for change in directory.changes:
        seen.update({name: node for name, node in change.items() if node is not None})
    for node in seen.values():
        if isinstance(node, MemoryDirectory):
            yield from _walk(node)
        else:
            yield node

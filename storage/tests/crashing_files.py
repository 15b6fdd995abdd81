"""A file system in memory that fails as disks do, and forgets in a crash what was not synced.

`crash` makes the file system that the next start finds. With `power` false it is a killed process: everything written
is there. Else each file keeps what was synced, and of the changes since then either the first few, the last of them
torn at any byte, or a random choice, which leaves holes of zeros; a surviving piece of a file with checksums may be
wrong in itself. A directory keeps the first few changes of its names since it was synced; with `mixes_names` any of
them, in no order but that of changes to the same names: no file system promises more, and those with a journal do. What
happens in one directory says nothing of another one.

`cut_after` raises `PowerCut` in the middle of things. `room` makes the disk full: what grows needs it, what is cut or
removed gives it back. `fail` lets operations raise, for a time or for good; a sync that failed has lost what it should
have written, and the next one does not know, as on Linux; in files with a suffix of `drops_failed` it is not even to
be read any more. `delay` lets operations wait. `short_writes` takes each write in pieces, between which anything may
happen. `flip` damages a bit. `heal` ends faults, delays and fullness.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator, Sequence
from random import Random

from headgate.storage.errors import DirectoryLocked
from headgate.storage.files import NO_DESCRIPTOR, File, Files, Lock

Change = tuple[int, bytes] | int
"""A write (position, data), or a truncation to a size."""

OPERATIONS = frozenset(
    {"create", "look", "open", "read", "remove", "rename", "sync", "sync_directory", "truncate", "write"}
)
"""What `fail` and `delay` know; "look" is to ask for sizes, times and names."""

FOREVER = 1 << 60
_WRONG_BYTES = 40
CHECKED_SUFFIXES = (".log", ".snapshot")


class PowerCut(BaseException):
    """The machine is off. Not an Exception: nothing may handle it."""


class MemoryFile:
    """The content of a file, now and on the disk."""

    def __init__(self) -> None:
        self.content = bytearray()
        self.durable = bytearray()
        self.changes: list[Change] = []
        self.modified_ms = 0  # set by the tests to which it matters

    def apply(self, change: Change) -> None:
        _apply(self.content, change)
        self.changes.append(change)

    def sync(self) -> None:
        for change in self.changes:
            _apply(self.durable, change)
        self.changes.clear()

    def fail_to_sync(self, *, is_dropped: bool = False) -> None:
        """What was written counts as clean: no later sync writes it. It is still to be read, if it is not dropped."""
        self.changes.clear()
        if is_dropped:
            self.content[:] = self.durable

    def crash(self, random: Random, *, has_checksums: bool) -> None:
        if random.random() < 0.3:
            survivors = [change for change in self.changes if random.random() < 0.5]
        else:
            survivors = self.changes[: random.randint(0, len(self.changes))]
            if survivors and not isinstance(survivors[-1], int):
                position, data = survivors[-1]
                survivors[-1] = position, data[: random.randint(0, len(data))]
        if has_checksums and survivors and random.random() < 0.1:
            number = random.randrange(len(survivors))
            survivors[number] = _with_wrong_bits(survivors[number], random, self.durable)
        for change in survivors:
            _apply(self.durable, change)
        self.changes.clear()
        self.content = bytearray(self.durable)


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

    def crash(self, random: Random, *, mixes_names: bool) -> None:
        entries = dict(self.durable)
        for change in self._some(random) if mixes_names else self.changes[: random.randint(0, len(self.changes))]:
            _rename(entries, change)
        self.entries = entries
        self.sync()

    def _some(self, random: Random) -> Iterator[dict[str, Node | None]]:
        """Any of the changes; behind one that is lost none of the same names."""
        lost = set[str]()
        share = random.random()
        for change in self.changes:
            if lost.isdisjoint(change) and random.random() < share:
                yield change
            else:
                lost.update(change)


Node = MemoryFile | MemoryDirectory


def _with_wrong_bits(change: Change, random: Random, durable: bytes | bytearray) -> Change:
    """A run of wrong bytes, so long that a checksum covers some of them: the offset before a batch has none.

    What is written over the same bytes stays as it is: a sector is the old one or the new one.
    """
    if isinstance(change, int):
        return change
    position, data = change[0], bytearray(change[1])
    old = durable[position : position + len(data)]
    same = next((number for number, one in enumerate(old) if one != data[number]), len(old))
    if len(data) - same < _WRONG_BYTES:
        return change
    first = random.randrange(same, len(data) - _WRONG_BYTES + 1)
    for at in range(first, random.randint(first + _WRONG_BYTES, len(data))):
        data[at] ^= random.randint(1, 255)
    return position, bytes(data)


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


class Fault:
    """Operations on paths that contain `part`: after `after` of them, `times` of them meet it.

    Each calls `wait`, then raises OSError of the number `error`, where there is one.
    """

    def __init__(
        self, operations: Sequence[str], part: str, after: int, times: int, error: int, wait: Callable[[], object]
    ) -> None:
        assert OPERATIONS.issuperset(operations), f"operations are {sorted(OPERATIONS)}"
        self.operations = frozenset(operations or OPERATIONS)
        self.part = part
        self.after = after
        self.times = times
        self.error = error
        self.wait = wait
        self.met = 0

    def meet(self, operation: str, path: str) -> None:
        if operation not in self.operations or self.part not in path or not self.times:
            return
        if self.after:
            self.after -= 1
            return
        self.times -= 1
        self.met += 1
        self.wait()
        if self.error:
            raise OSError(self.error, errno.errorcode[self.error], path)


class OpenFile(File):
    """A handle; useless after the crash of its file system."""

    __slots__ = ("_files", "node", "path")

    def __init__(self, files: CrashingFiles, node: MemoryFile, path: str) -> None:
        super().__init__(NO_DESCRIPTOR)
        self._files = files
        self.node = node
        self.path = path
        files.open_handles += 1

    def close(self) -> None:
        self._files.open_handles -= 1

    def write_at(self, data: memoryview | bytearray | bytes, position: int) -> None:
        self._files.write_node(self.node, position, bytes(data), self.path)

    def read_at(self, length: int, position: int) -> bytes:
        self._files.reads += 1
        self._files.meet("read", self.path)
        return bytes(self.node.content[position : position + length])

    def size(self) -> int:
        return len(self.node.content)

    def truncate(self, size: int) -> None:
        self._files.truncate_node(self.node, size, self.path)

    def sync(self) -> None:
        self._files.sync_node(self.node, self.path)


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
        self.faults: list[Fault] = []
        self.short_writes: Random | None = None
        self.drops_failed: tuple[str, ...] = ()
        self.mixes_names = False
        self.open_handles = 0
        self.reads = 0
        self.writes = 0

    def crash(self, random: Random, *, power: bool) -> CrashingFiles:
        """What the next start finds."""
        after = CrashingFiles()
        after.root = self.root
        if power:
            for name, node in list(_walk(self.root)):
                if isinstance(node, MemoryFile):
                    node.crash(random, has_checksums=name.endswith(CHECKED_SUFFIXES))
                else:
                    node.crash(random, mixes_names=self.mixes_names)
        after.short_writes, after.drops_failed, after.mixes_names = (
            self.short_writes,
            self.drops_failed,
            self.mixes_names,
        )
        return after

    def copy(self, *, only_durable: bool = False) -> CrashingFiles:
        """Another disk with the same content, all of it durable; or with that which is so on this one."""
        after = CrashingFiles()
        after.root = _copied(self.root, only_durable)
        return after

    # Faults

    def fail(self, error: int, *operations: str, path: str = "", after: int = 0, times: int = FOREVER) -> Fault:
        """Let operations (all, if none is named) on paths that contain `path` raise OSError of this number."""
        self.faults.append(Fault(operations, path, after, times, error, _at_once))
        return self.faults[-1]

    def delay(self, wait: Callable[[], object], *operations: str, path: str = "", times: int = FOREVER) -> Fault:
        """Call `wait` before such operations, in the thread that makes them."""
        self.faults.append(Fault(operations, path, 0, times, 0, wait))
        return self.faults[-1]

    def heal(self) -> None:
        """From now on all goes well. What was lost stays lost."""
        self.faults.clear()
        self.room = None

    def flip(self, path: str, random: Random, first: int = 0) -> int:
        """Let one bit of a file be wrong from now on, at the byte `first` or behind; which byte."""
        node = self.file(path)
        at = random.randrange(first, len(node.content))
        wrong = 1 << random.randrange(8)
        node.content[at] ^= wrong
        if at < len(node.durable):
            node.durable[at] ^= wrong
        return at

    def meet(self, operation: str, path: str) -> None:
        """Called before every operation."""
        for fault in self.faults:
            fault.meet(operation, path)

    def tick(self, operation: str, path: str) -> None:
        """Called before every change."""
        self.writes += 1
        if self.cut_after is not None:
            self.cut_after -= 1
            if self.cut_after < 0:
                raise PowerCut
        self.meet(operation, path)

    # Files

    def write_node(self, node: MemoryFile, position: int, data: bytes, path: str) -> None:
        if data:
            self.tick("write", path)
        for piece in self._pieces(len(data)):
            self._write_piece(node, position + piece.start, data[piece])

    def _pieces(self, length: int) -> Iterator[slice]:
        """A write as the calls that the system makes of it; between two of them the power may go."""
        ends = [length]
        if self.short_writes is not None and length:
            ends = sorted({self.short_writes.randint(1, length), self.short_writes.randint(1, length), length})
        start = 0
        for end in ends:
            if start and self.cut_after is not None:
                self.cut_after -= 1
                if self.cut_after < 0:
                    raise PowerCut
            yield slice(start, end)
            start = end

    def _write_piece(self, node: MemoryFile, position: int, data: bytes) -> None:
        growth = max(0, position + len(data) - len(node.content))
        if self.room is not None and growth > self.room:
            node.apply((position, data[: len(data) - growth + self.room]))
            self.room = 0
            raise OSError(errno.ENOSPC, "no space left on device")
        self._use(growth)
        node.apply((position, data))

    def _use(self, size: int) -> None:
        if self.room is not None:
            self.room -= size

    def truncate_node(self, node: MemoryFile, size: int, path: str) -> None:
        self.tick("truncate", path)
        self._use(min(0, size - len(node.content)))
        node.apply(size)

    def sync_node(self, node: MemoryFile, path: str) -> None:
        try:
            self.tick("sync", path)
        except OSError:
            node.fail_to_sync(is_dropped=path.endswith(self.drops_failed))
            raise
        node.sync()

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
        self.meet("open", path)
        if create and not self.exists(path):
            self._make(path)
        return OpenFile(self, self.file(path), path)

    def _make(self, path: str) -> MemoryFile:
        self.tick("create", path)
        directory, name = self._parent(path)
        node = MemoryFile()
        directory.apply({name: node})
        return node

    def read(self, path: str) -> bytes:
        self.meet("read", path)
        return bytes(self.file(path).content)

    def write(self, path: str, data: bytes | bytearray, *, sync: bool = False) -> None:
        node = self.file(path) if self.exists(path) else self._make(path)
        if node.content:
            self.truncate_node(node, 0, path)
        self.write_node(node, 0, bytes(data), path)
        if sync:
            self.sync_node(node, path)

    def append(self, path: str, data: bytes | bytearray) -> None:
        node = self.file(path) if self.exists(path) else self._make(path)
        self.write_node(node, len(node.content), bytes(data), path)

    def sync(self, path: str) -> None:
        node = self.file(path)
        self.sync_node(node, path)

    def sync_directory(self, path: str) -> None:
        self.tick("sync_directory", path)
        node = self.find(path)
        assert isinstance(node, MemoryDirectory)
        node.sync()

    def sync_all(self, path: str) -> None:
        self.tick("sync", path)
        for _, node in _walk(self.root):
            node.sync()

    def open_limit(self) -> int:
        return 1 << 20

    def space(self, path: str) -> tuple[int, int]:
        used = _bytes_in(self.root)
        room = 1 << 40 if self.room is None else self.room
        return used + room, room

    def exists(self, path: str) -> bool:
        try:
            self.find(path)
        except FileNotFoundError:
            return False
        return True

    def size(self, path: str) -> int:
        self.meet("look", path)
        return len(self.file(path).content)

    def modified_ms(self, path: str) -> int:
        self.meet("look", path)
        return self.file(path).modified_ms

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        self.file(path).modified_ms = modified_ms

    def truncate(self, path: str, size: int) -> None:
        node = self.file(path)
        self.truncate_node(node, size, path)

    def list(self, path: str) -> dict[str, int]:
        self.meet("look", path)
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
                self.tick("create", path)
                node.apply({name: MemoryDirectory()})
            node = node.entries[name]

    def rename(self, old: str, new: str) -> None:
        self.tick("rename", old)
        directory, name = self._parent(old)
        node = self.find(old)
        other, new_name = self._parent(new)
        assert other is directory, "only renames within a directory are atomic everywhere"
        self._give_back(directory, new_name)
        directory.apply({name: None, new_name: node})

    def _give_back(self, directory: MemoryDirectory, name: str) -> None:
        """The room of what is no longer there; open handles are not counted."""
        node = directory.entries.get(name)
        if isinstance(node, MemoryFile):
            self._use(-len(node.content))
        elif node is not None:
            for child in node.entries:
                self._give_back(node, child)

    def remove(self, path: str) -> None:
        if self.exists(path):
            self.tick("remove", path)
            directory, name = self._parent(path)
            self._give_back(directory, name)
            directory.apply({name: None})

    def remove_tree(self, path: str) -> None:
        self.tick("remove", path)
        self.find(path)
        directory, name = self._parent(path)
        self._give_back(directory, name)
        directory.apply({name: None})

    def lock(self, path: str) -> Lock:
        if path in self.locked:
            raise DirectoryLocked(path.rpartition("/")[0], 1)
        if not self.exists(path):
            self._make(path)
        self.locked.add(path)
        return MemoryLock(lambda: self.locked.discard(path))


def _at_once() -> None:
    """Wait for nothing."""


def _bytes_in(node: Node) -> int:
    return len(node.content) if isinstance(node, MemoryFile) else sum(map(_bytes_in, node.entries.values()))


def _copied(directory: MemoryDirectory, only_durable: bool) -> MemoryDirectory:
    after = MemoryDirectory()
    for name, node in (directory.durable if only_durable else directory.entries).items():
        if isinstance(node, MemoryDirectory):
            after.entries[name] = _copied(node, only_durable)
        else:
            content = node.durable if only_durable else node.content
            file = MemoryFile()
            file.content, file.durable = bytearray(content), bytearray(content)
            file.modified_ms = node.modified_ms
            after.entries[name] = file
    after.durable = dict(after.entries)
    return after


def _walk(directory: MemoryDirectory, path: str = "") -> Iterator[tuple[str, Node]]:
    """A directory and all that is or was in it, by path; children are looked for after the directory was dealt with."""
    seen = [*directory.durable.items(), *directory.entries.items()]
    for change in directory.changes:
        seen += [(name, node) for name, node in change.items() if node is not None]
    yield path, directory
    for name, node in {id(node): (name, node) for name, node in seen}.values():
        if isinstance(node, MemoryDirectory):
            yield from _walk(node, f"{path}/{name}")
        else:
            yield f"{path}/{name}", node

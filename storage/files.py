"""The file-system seam: everything that the store does with files goes through here, so that a test can be the disk.

Paths are strings. All calls raise OSError as the operating system does. `Files` is the disk; `tests/crashing_files.py`
is another.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
from collections.abc import Callable, Container
from typing import TypeAlias, TypeVar

from headgate.storage.errors import DirectoryLocked

try:
    import fcntl
except ImportError:  # not a POSIX system: nothing keeps a second process away there
    fcntl = None  # type: ignore[assignment]
try:
    import resource
except ImportError:
    resource = None  # type: ignore[assignment]

T = TypeVar("T")
NO_DESCRIPTOR = -1
NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
"""Why a disk takes nothing more, until something is deleted."""
NO_DESCRIPTORS = (errno.EMFILE, errno.ENFILE)
"""Why a file cannot be opened that is not the disk's fault."""
_write = os.pwrite
_read = os.pread
_sync_content = getattr(os, "fdatasync", os.fsync)
# Linux: fail instead of waiting for the disk. 0 elsewhere.
_NO_WAIT = getattr(os, "RWF_NOWAIT", 0)
_NO_PROBE = (errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL)

PROBE_STEP_BYTES = 1 << 18
_WARM_BYTES = 1 << 18
_PROBE = [bytearray(1)]


def parent(path: str) -> str:
    """The directory in which a path is."""
    return path.rpartition("/")[0] or ("/" if path.startswith("/") else ".")


class HeldFiles:
    """How many files are kept open by pieces that wait to be sent or read, and how many may be (`File.lend`).

    Whatever these are pieces of may have closed its file since: no other bound on open files counts them.
    """

    __slots__ = ("count", "limit")

    def __init__(self, limit: int = 1 << 30) -> None:
        self.count = 0
        self.limit = limit

    @property
    def is_full(self) -> bool:
        """Whether only a file that is counted already may be lent, or the first one of an answer."""
        return self.count >= self.limit


_UNCOUNTED = HeldFiles()
"""Of files that no pool has opened."""


class File:
    """An open file with counted references.

    Whoever sends from it keeps it open, even when it is rolled away or deleted meanwhile.

    `fileno` is for sendfile; it is NO_DESCRIPTOR where there is none and only `read_at` works.
    `passed`: a range in which a reader has found nothing of what it looks for; it need not look again. `disk`: the log
    directory, and `held`: what counts it while it is lent, of a file that `Pool.open` has opened. `lent`: how often it
    is lent.
    """

    __slots__ = ("_can_probe", "disk", "fileno", "held", "lent", "passed", "references")

    def __init__(self, fileno: int) -> None:
        self.fileno = fileno
        self.references = 1
        self.passed = (0, 0)
        self.disk = ""
        self.held = _UNCOUNTED
        self.lent = 0
        self._can_probe = bool(_NO_WAIT) and fileno >= 0

    def __del__(self) -> None:
        if self.references > 0:
            self.close()

    def release(self) -> None:
        """Give up one reference; the last one closes the file."""
        self.references -= 1
        if self.references == 0:
            self.close()

    def lend(self) -> None:
        """Add a reference for a piece; `held` counts the file from the first one on."""
        self.references += 1
        self.lent += 1
        if self.lent == 1:
            self.held.count += 1

    def take_back(self) -> None:
        """Give up a reference that was lent."""
        self.lent -= 1
        if not self.lent:
            self.held.count -= 1
        self.references -= 1
        if not self.references:
            self.close()

    def close(self) -> None:
        """Close now. Called by `release`."""
        descriptor, self.fileno = self.fileno, NO_DESCRIPTOR
        if descriptor >= 0:  # a garbage collector that finds file and slice together may call this twice
            os.close(descriptor)

    def write_at(self, data: memoryview | bytearray | bytes, position: int) -> None:
        """Write all of `data`, in as many calls as the system wants."""
        written = _write(self.fileno, data, position)
        if written != len(data):
            rest = memoryview(data)[written:]
            while rest:
                position += written
                written = os.pwrite(self.fileno, rest, position)
                rest = rest[written:]

    def read_at(self, length: int, position: int) -> bytes:
        """Up to `length` bytes; fewer only at the end of the file."""
        data = _read(self.fileno, length, position)
        if len(data) == length or not data:
            return data
        parts = [data]
        left = length - len(data)
        while data and left:
            data = os.pread(self.fileno, left, position + length - left)
            parts.append(data)
            left -= len(data)
        return b"".join(parts)

    def read_cached(self, length: int, position: int) -> bytes | bytearray | None:
        """Exactly `length` bytes, if they can be had without waiting for the disk; else None.

        Where the file system does not tell, it is read in any case.
        """
        if self._can_probe:
            buffer = bytearray(length)
            count = self._read_at_once([buffer], position)
            if count >= 0:
                return buffer if count == length else None
        data = self.read_at(length, position)
        return data if len(data) == length else None

    def is_cached(self, length: int, position: int) -> bool:
        """Whether sending these bytes would not wait for the disk, as far as single pages tell.

        These are one in the middle of a small piece; of a larger one its ends, and one in every `PROBE_STEP_BYTES`.
        Pages leave the memory in the order in which they were used, so that what was written or read together is there
        or gone together; a hole between two probes costs one wait.
        """
        if not self._can_probe:
            return True
        if length <= PROBE_STEP_BYTES:  # both ends were looked at, by this plan and by the one before
            return self._read_at_once(_PROBE, position + length // 2) != 0
        last = position + length - 1
        for probed in (*range(position, last, PROBE_STEP_BYTES), last):
            count = self._read_at_once(_PROBE, probed)
            if count <= 0:
                return count < 0
        return True

    def _read_at_once(self, buffers: list[bytearray], position: int) -> int:
        """How much could be read without waiting; -1 if the file system does not do that."""
        try:
            return os.preadv(self.fileno, buffers, position, _NO_WAIT)
        except BlockingIOError:
            return 0
        except OSError as error:
            if error.errno not in _NO_PROBE:
                raise
            self._can_probe = False
            return -1

    def warm(self, length: int, position: int) -> None:
        """Read, so that it is in the page cache. For a thread: it waits for the disk."""
        buffer = [bytearray(min(length, _WARM_BYTES))]
        end = position + length
        while position < end:
            count = os.preadv(self.fileno, buffer, position)
            if not count:
                return
            position += count

    def size(self) -> int:
        """Bytes in the file."""
        return os.fstat(self.fileno).st_size

    def truncate(self, size: int) -> None:
        """Cut, or fill with zeros."""
        self.passed = (0, 0)
        os.ftruncate(self.fileno, size)

    def sync(self) -> None:
        """Wait until the content is on the disk."""
        _sync_content(self.fileno)


class _ReadOnlyFile(File):
    """One on a disk that the system has made read-only."""

    __slots__ = ()

    def write_at(self, data: memoryview | bytearray | bytes, position: int) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    def truncate(self, size: int) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))


Place: TypeAlias = tuple[str, int]
"""A file, and a position in it."""


class WouldBlock(Exception):
    """A plan that must not wait needs bytes that are not in memory. A thread may `warm` them; then plan again.

    `place` is the same for the same bytes: a planner that gets one twice waits for the disk, or there would be no end.
    """

    def __init__(self, file: File, path: str, length: int, position: int) -> None:
        super().__init__(f"{length} bytes at {position} of {path} are not in memory")
        self.place: Place = (path, position)
        self._file = file
        self._length = length
        self._position = position
        file.lend()

    @property
    def disk(self) -> str:
        """The log directory in which it is."""
        return self._file.disk

    def warm(self) -> None:
        """Read it; waits for the disk."""
        self._file.warm(self._length, self._position)

    def release(self) -> None:
        """Give up the file, when no thread reads it any more."""
        self._file.take_back()


def planned(plan: Callable[[bool], T], warmed: Container[Place | None]) -> T:
    """What `plan(blocking)` makes. It waits for the disk only where a place was `warmed` and is cold again.

    Else there would be no end. Raises WouldBlock, and what `plan` does.
    """
    try:
        return plan(False)
    except WouldBlock as cold:
        if cold.place not in warmed:
            raise
        cold.release()
    return plan(True)


class Files:
    """The disk."""

    def open(self, path: str, *, create: bool = False) -> File:
        """Open for reading and writing; `create` makes the file if there is none.

        For reading alone, where the system has made the disk read-only, as it does when that fails.
        """
        try:
            return File(os.open(path, os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0), 0o644))
        except OSError as error:
            if error.errno != errno.EROFS or create:
                raise
            return _ReadOnlyFile(os.open(path, os.O_RDONLY | os.O_CLOEXEC))

    def read(self, path: str) -> bytes:
        """The whole content of a small file."""
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            size = os.fstat(descriptor).st_size
            data = os.read(descriptor, size + 1)
            return data if len(data) == size else data + b"".join(iter(lambda: os.read(descriptor, 1 << 20), b""))
        finally:
            os.close(descriptor)

    def write(self, path: str, data: bytes | bytearray, *, sync: bool = False) -> None:
        """Make or replace a file, not atomically; `checkpoint.replace` is atomic."""
        with open(path, "wb") as file:
            file.write(data)
            if sync:
                file.flush()
                os.fsync(file.fileno())

    def append(self, path: str, data: bytes | bytearray) -> None:
        """Add to the end of a file; make it if there is none."""
        with open(path, "ab") as file:  # buffered: what the disk takes only a part of is written on, or raises
            file.write(data)

    def sync(self, path: str) -> None:
        """Wait until a file's content is on the disk."""
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def sync_directory(self, path: str) -> None:
        """Wait until the names in a directory are on the disk."""
        self.sync(path)

    def sync_all(self, path: str) -> None:
        """Wait until everything on the file system of a directory is on the disk: for many files at once."""
        import ctypes

        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            if ctypes.CDLL(None, use_errno=True).syncfs(descriptor):
                number = ctypes.get_errno()
                raise OSError(number, os.strerror(number), path)
        except AttributeError:  # not Linux: all file systems, then
            os.sync()
        finally:
            os.close(descriptor)

    def open_limit(self) -> int:
        """How many files the system lets this process have open."""
        if resource is None:
            return 512
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        return soft if soft != resource.RLIM_INFINITY else 1 << 20

    def space(self, path: str) -> tuple[int, int]:
        """Bytes of the volume that holds the path, and those of them that this process may still write."""
        volume = os.statvfs(path)
        return volume.f_blocks * volume.f_frsize, volume.f_bavail * volume.f_frsize

    def exists(self, path: str) -> bool:
        """Whether there is a file or a directory."""
        return os.path.exists(path)

    def size(self, path: str) -> int:
        """Bytes in a file."""
        return os.stat(path).st_size

    def modified_ms(self, path: str) -> int:
        """When a file was last written to."""
        return os.stat(path).st_mtime_ns // 1_000_000

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        """Have a file look as if it was last written to then."""
        os.utime(path, ns=(modified_ms * 1_000_000, modified_ms * 1_000_000))

    def truncate(self, path: str, size: int) -> None:
        """Cut a file."""
        os.truncate(path, size)

    def list(self, path: str) -> dict[str, int]:
        """Name -> size for the files of a directory, -1 for the directories in it; without what goes meanwhile."""
        found = {}
        with os.scandir(path) as entries:
            for entry in entries:
                with contextlib.suppress(FileNotFoundError):  # another thread removes deleted segments
                    found[entry.name] = -1 if entry.is_dir() else entry.stat().st_size
        return found

    def make_directories(self, path: str) -> None:
        """Make a directory and those above it; no error if it is there."""
        os.makedirs(path, exist_ok=True)

    def rename(self, old: str, new: str) -> None:
        """Rename a file or a directory; a file of the new name is replaced atomically."""
        os.rename(old, new)

    def remove(self, path: str) -> None:
        """Delete a file; no error if there is none."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)

    def remove_tree(self, path: str) -> None:
        """Delete a directory with all that is in it."""
        shutil.rmtree(path)

    def lock(self, path: str) -> Lock:
        """Take a data directory's lock file, and write our process id into it.

        Raises DirectoryLocked, naming the process that has it.
        """
        return Lock(path)


class Lock:
    """An exclusive lock, kept until `release` or the end of the process.

    Two kinds at once: flock works between stores of one process too, the POSIX lock is the one that Apache Kafka takes.
    """

    def __init__(self, path: str) -> None:
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        if fcntl is not None:
            self._take(path)
        os.ftruncate(self._descriptor, 0)
        with contextlib.suppress(OSError):  # on a full disk the lock has no name, and holds all the same
            os.pwrite(self._descriptor, b"%d\n" % os.getpid(), 0)

    def _take(self, path: str) -> None:
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            fcntl.lockf(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder = os.pread(self._descriptor, 32, 0).strip()
            os.close(self._descriptor)
            raise DirectoryLocked(os.path.dirname(path), int(holder) if holder.isdigit() else None) from None

    def release(self) -> None:
        """Give the lock up. The file stays: removing it would let two processes lock two files of one name."""
        if self._descriptor >= 0:
            with contextlib.suppress(OSError):  # on a disk that is gone the process id stays, and says nothing
                os.ftruncate(self._descriptor, 0)
            os.close(self._descriptor)
            self._descriptor = -1

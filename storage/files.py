"""The file system seam: storage uses files through this module only, so that a test can replace the disk.

Paths are strings. All calls raise OSError as the operating system does. `Files` is the real disk;
`tests/crashing_files.py` is a simulated one.
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
except ImportError:  # not a POSIX system: there a second process is not detected
    fcntl = None  # type: ignore[assignment]
try:
    import resource
except ImportError:
    resource = None  # type: ignore[assignment]

T = TypeVar("T")
NO_DESCRIPTOR = -1
NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
"""The error numbers of a full disk."""
NO_DESCRIPTORS = (errno.EMFILE, errno.ENFILE)
"""The error numbers for a lack of descriptors, which is not the fault of the disk."""
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
    return path.rpartition("/")[0] or ("/" if path.startswith("/") else ".")


class HeldFiles:
    """The count and the limit of files that waiting slices keep open (`File.hold`).

    The segment of a slice may have closed its file meanwhile, so no other bound on open files counts these files.
    """

    __slots__ = ("count", "limit")

    def __init__(self, limit: int = 1 << 30) -> None:
        self.count = 0
        self.limit = limit

    @property
    def is_full(self) -> bool:
        """Whether the limit is reached. Then only a counted file may be held, or the first file of a response."""
        return self.count >= self.limit


_UNCOUNTED = HeldFiles()
"""The count for files that no pool has opened."""


class File:
    """An open file with counted references.

    A sender keeps the file open, even if its segment is closed or deleted meanwhile.

    `fileno` is for sendfile; NO_DESCRIPTOR if there is none and only `read_at` works. `passed`: a range of byte
    positions that a reader has searched in vain. `disk`: the log directory of a file that `Pool.open` has opened;
    `held` counts such a file while slices hold it. `holds`: the number of references of slices.
    """

    __slots__ = ("_can_probe", "disk", "fileno", "held", "holds", "passed", "references")

    def __init__(self, fileno: int) -> None:
        self.fileno = fileno
        self.references = 1
        self.passed = (0, 0)
        self.disk = ""
        self.held = _UNCOUNTED
        self.holds = 0
        self._can_probe = bool(_NO_WAIT) and fileno >= 0

    def __del__(self) -> None:
        if self.references > 0:
            self.close()

    def release(self) -> None:
        """Give up one reference; the last one closes the file."""
        self.references -= 1
        if self.references == 0:
            self.close()

    def hold(self) -> None:
        """Add a reference for a slice; `held` counts the file from the first one on."""
        self.references += 1
        self.holds += 1
        if self.holds == 1:
            self.held.count += 1

    def release_hold(self) -> None:
        """Give up a reference of a slice; the last reference closes the file."""
        self.holds -= 1
        if not self.holds:
            self.held.count -= 1
        self.references -= 1
        if not self.references:
            self.close()

    def close(self) -> None:
        """Close now. `release` calls this."""
        descriptor, self.fileno = self.fileno, NO_DESCRIPTOR
        if descriptor >= 0:  # the garbage collector may call this twice, if it finds file and slice together
            os.close(descriptor)

    def write_at(self, data: memoryview | bytearray | bytes, position: int) -> None:
        """Write all of `data` at a byte position, in as many calls as the system needs."""
        written = _write(self.fileno, data, position)
        if written != len(data):
            rest = memoryview(data)[written:]
            while rest:
                position += written
                written = os.pwrite(self.fileno, rest, position)
                rest = rest[written:]

    def read_at(self, length: int, position: int) -> bytes:
        """Up to `length` bytes from a byte position on; fewer only at the end of the file."""
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
        """Exactly `length` bytes if they are in memory; otherwise None.

        On a file system without such probes the bytes are read in any case, even from the disk.
        """
        if self._can_probe:
            buffer = bytearray(length)
            count = self._read_at_once([buffer], position)
            if count >= 0:
                return buffer if count == length else None
        data = self.read_at(length, position)
        return data if len(data) == length else None

    def is_cached(self, length: int, position: int) -> bool:
        """Whether these bytes are in memory, so that sending them does not wait for the disk; judged by single pages.

        The probes: one page in the middle of a small range; in a larger one its last page, and one page in every
        `PROBE_STEP_BYTES`. The system evicts pages in the order of their use, so pages that were written or read
        together are cached or evicted together. A missed gap between two probes costs one wait.
        """
        if not self._can_probe:
            return True
        if length <= PROBE_STEP_BYTES:  # this plan and the previous one have already read both ends
            return self._read_at_once(_PROBE, position + length // 2) != 0
        last = position + length - 1
        for probed in (*range(position, last, PROBE_STEP_BYTES), last):
            count = self._read_at_once(_PROBE, probed)
            if count <= 0:
                return count < 0
        return True

    def _read_at_once(self, buffers: list[bytearray], position: int) -> int:
        """The number of bytes read without waiting for the disk; -1 if the file system does not support that."""
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
        """Read bytes into the page cache. For a thread, as this waits for the disk."""
        buffer = [bytearray(min(length, _WARM_BYTES))]
        end = position + length
        while position < end:
            count = os.preadv(self.fileno, buffer, position)
            if not count:
                return
            position += count

    def size(self) -> int:
        """The size of the file in bytes."""
        return os.fstat(self.fileno).st_size

    def truncate(self, size: int) -> None:
        """Cut the file to `size` bytes, or extend it with zeros."""
        self.passed = (0, 0)
        os.ftruncate(self.fileno, size)

    def sync(self) -> None:
        """Wait until the content is on the disk."""
        _sync_content(self.fileno)


class _ReadOnlyFile(File):
    """A file on a disk that the system has made read-only."""

    __slots__ = ()

    def write_at(self, data: memoryview | bytearray | bytes, position: int) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    def truncate(self, size: int) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))


FilePosition: TypeAlias = tuple[str, int]
"""The path of a file, and a byte position in it."""

InThread: TypeAlias = Callable[[Callable[[], None], Callable[[object], None]], None]
"""Runs a function in a thread; then calls the other one on the loop, with the result or the raised exception."""


class WouldBlock(Exception):
    """A plan that must not wait for the disk needs bytes that are not in memory. A thread `warm`s them; plan again.

    `place` is equal for equal bytes. A planner that gets one `place` twice waits for the disk, or it might never end.
    """

    def __init__(self, file: File, path: str, length: int, position: int) -> None:
        super().__init__(f"{length} bytes at {position} of {path} are not in memory")
        self.place: FilePosition = (path, position)
        self._file = file
        self._length = length
        self._position = position
        file.hold()

    @property
    def disk(self) -> str:
        """The log directory of the file."""
        return self._file.disk

    def warm(self) -> None:
        """Read the bytes into the page cache. For a thread, as this waits for the disk."""
        self._file.warm(self._length, self._position)

    def warm_by(self, in_thread: InThread, resume: Callable[[object], None]) -> None:
        """Have a thread `warm` the bytes; then give up the file and call `resume` with None, or with the error."""
        self.forget_plan()

        def warmed(result: object) -> None:
            self.release()
            resume(result)

        in_thread(self.warm, warmed)

    def forget_plan(self) -> None:
        """Drop the traceback: it references the frames of the abandoned plan, which hold segment files."""
        self.__traceback__ = None

    def release(self) -> None:
        """Give up the file, after the last thread has read it."""
        self._file.release_hold()


def planned(plan: Callable[[bool], T], warmed: Container[FilePosition | None]) -> T:
    """The result of `plan(blocking)`. `plan` may wait for the disk only if a `warmed` place is cold again.

    Otherwise warming and planning might never end. Raises WouldBlock, and what `plan` raises.
    """
    try:
        return plan(False)
    except WouldBlock as cold:
        if cold.place not in warmed:
            raise
        cold.release()
    return plan(True)


class Files:
    """The real disk."""

    def open(self, path: str, *, create: bool = False) -> File:
        """Open a file for reading and writing; `create` creates a missing file.

        After a failure the system may make the disk read-only; then the file is opened for reading only.
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

    def identity(self, path: str) -> str:
        """A text that no other file of this machine has, until this one is removed or the machine restarts."""
        found = os.stat(path)
        return f"{found.st_dev}:{found.st_ino}"

    def write(self, path: str, data: bytes | bytearray, *, sync: bool = False) -> None:
        """Create or replace a file, not atomically; `checkpoint.replace` is atomic."""
        with open(path, "wb") as file:
            file.write(data)
            if sync:
                file.flush()
                os.fsync(file.fileno())

    def append(self, path: str, data: bytes | bytearray) -> None:
        """Append to a file; a missing file is created."""
        with open(path, "ab") as file:  # buffered: after a short write Python writes the rest, or raises
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
        """Wait until everything on the file system of a directory is on the disk; for many files at once."""
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
        """The maximum number of open files of this process."""
        if resource is None:
            return 512
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        return soft if soft != resource.RLIM_INFINITY else 1 << 20

    def space(self, path: str) -> tuple[int, int]:
        """The size of the volume of a path, and its free part that this process may use, in bytes."""
        volume = os.statvfs(path)
        return volume.f_blocks * volume.f_frsize, volume.f_bavail * volume.f_frsize

    def exists(self, path: str) -> bool:
        """Whether there is a file or a directory."""
        return os.path.exists(path)

    def size(self, path: str) -> int:
        """The size of a file in bytes."""
        return os.stat(path).st_size

    def modified_ms(self, path: str) -> int:
        return os.stat(path).st_mtime_ns // 1_000_000

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        os.utime(path, ns=(modified_ms * 1_000_000, modified_ms * 1_000_000))

    def truncate(self, path: str, size: int) -> None:
        os.truncate(path, size)

    def list(self, path: str) -> dict[str, int]:
        """Name -> size in bytes for the files of a directory, -1 for directories; without files deleted meanwhile."""
        found = {}
        with os.scandir(path) as entries:
            for entry in entries:
                with contextlib.suppress(FileNotFoundError):  # another thread removes deleted segments
                    found[entry.name] = -1 if entry.is_dir() else entry.stat().st_size
        return found

    def make_directories(self, path: str) -> None:
        """Create a directory and its missing parents; no error if the directory exists."""
        os.makedirs(path, exist_ok=True)

    def rename(self, old: str, new: str) -> None:
        """Rename a file or a directory; an existing file of the new name is replaced atomically."""
        os.rename(old, new)

    def remove(self, path: str) -> None:
        """Delete a file; no error if there is none."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)

    def remove_tree(self, path: str) -> None:
        shutil.rmtree(path)

    def lock(self, path: str) -> Lock:
        """Take the lock file of a log directory, and write our process id into it.

        Raises DirectoryLocked, naming the process that holds the lock.
        """
        return Lock(path)


class Lock:
    """An exclusive lock, held until `release` or the end of the process.

    It combines two kinds: flock also works between log managers of one process; Apache Kafka takes the POSIX lock. A
    process loses its POSIX lock when it closes any descriptor of the file: so the holder never opens the file again.
    """

    process_id = 0
    """The holder; 0 if it is no process of this system."""

    def __init__(self, path: str) -> None:
        self.process_id = os.getpid()
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        if fcntl is not None:
            self._take(path)
        os.ftruncate(self._descriptor, 0)
        with contextlib.suppress(OSError):  # on a full disk the lock holds without a process id
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
        """Release the lock. The file stays: after a removal two processes could lock two files of one name."""
        if self._descriptor >= 0:
            with contextlib.suppress(OSError):  # on a failed disk the process id stays in the file, without effect
                os.ftruncate(self._descriptor, 0)
            os.close(self._descriptor)
            self._descriptor = -1

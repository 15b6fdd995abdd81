"""The file system seam of loads: a few operations on the folder OUT, each durable when it returns.

Only this module changes the folder. `step` is called before and after each change: a test ends the load there.

The folder lies on a POSIX file system that all tasks can write: an exclusive create needs hard links, the exclusion of
two loads needs `flock`. The folder of a cluster is a shared mount; object stores have Delta and Iceberg.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import re
import shutil
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from headgate.tools.arguments import now_ms

try:
    import fcntl
except ImportError:  # not a POSIX system
    fcntl = None  # type: ignore[assignment]

_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EMLINK, errno.ENOSYS)
MAX_READ_BYTES = 1 << 30
_TEMPORARY = re.compile(r"\..+\.[0-9a-f]{16}\.tmp")


class FolderError(Exception):
    """The folder cannot be used; the text names it, the reason and what to do."""


class AlreadyExists(Exception):
    """Another process has created the file first."""


class FolderLocked(FolderError):
    """Another load is at work on the folder."""


class WrittenFile(NamedTuple):
    """A finished data file. `name` is relative to the folder."""

    name: str
    size_bytes: int
    sha256: str


def _no_step(_: str) -> None:
    """Nothing happens between two changes of the folder."""


class OutputFolder:
    """The folder of a load. All names are relative to it."""

    def __init__(self, path: str | Path, step: Callable[[str], None] = _no_step) -> None:
        self.path = Path(path)
        self._step = step

    # -------------------------------------------------------------------------------------------------------- reads

    def exists(self, name: str) -> bool:
        return (self.path / name).exists()

    def read(self, name: str) -> bytes | None:
        """The content of a small file; None if there is no such file. Raises FolderError."""
        path = self.path / name
        try:
            with path.open("rb") as file:
                data = file.read(MAX_READ_BYTES + 1)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise FolderError(f"{path}: {error.strerror or error}") from None
        if len(data) > MAX_READ_BYTES:
            raise FolderError(f"{path}: more than {MAX_READ_BYTES} bytes are no file of a load")
        return data

    def list(self, name: str) -> list[str]:
        """The sorted names in a folder; none if there is no such folder."""
        try:
            return sorted(os.listdir(self.path / name))
        except FileNotFoundError:
            return []

    def measure(self, name: str) -> WrittenFile | None:
        """Size and checksum of a file, read as a whole; None if there is no such file."""
        checksum, size = hashlib.sha256(), 0
        try:
            with (self.path / name).open("rb") as file:
                while data := file.read(1 << 20):
                    checksum.update(data)
                    size += len(data)
        except FileNotFoundError:
            return None
        return WrittenFile(name, size, checksum.hexdigest())

    # ------------------------------------------------------------------------------------------------------ changes

    def make(self, name: str) -> None:
        """Create a folder with all folders above; it may exist."""
        with self._change(f"make {name}"):
            (self.path / name).mkdir(parents=True, exist_ok=True)
            self._sync(self.path / name)
            self._sync((self.path / name).parent)

    def create(self, name: str, data: bytes, temporary_in: str | None = None) -> None:
        """Create a file with this content, all or nothing. Raises AlreadyExists, FolderError.

        `temporary_in`: the folder of the temporary file; by default the folder of the file itself.
        """
        path = self.path / name
        with self._change(f"create {name}"):
            temporary = self._temporary(path if temporary_in is None else self.path / temporary_in / path.name, data)
            try:
                os.link(temporary, path)
            except FileExistsError:
                raise AlreadyExists(str(path)) from None
            except OSError as error:
                if error.errno not in _NO_LINKS:
                    raise
                raise FolderError(
                    f"{path.parent}: the file system has no hard links, so a load cannot publish at one moment; "
                    "load into a folder of another file system, or into a table of Delta or Iceberg"
                ) from None
            finally:
                temporary.unlink(missing_ok=True)
            self._sync(path.parent)

    def replace(self, name: str, data: bytes) -> None:
        """Replace a file by this content, all or nothing."""
        path = self.path / name
        with self._change(f"replace {name}"):
            self._temporary(path, data).replace(path)
            self._sync(path.parent)

    def rename(self, old: str, new: str) -> bool:
        """Rename a file. False if there is no `old`: an earlier run has renamed it. The folder is not synced."""
        with self._change(f"rename {old} to {new}"):
            try:
                (self.path / old).rename(self.path / new)
            except FileNotFoundError:
                return False
            return True

    def sync(self, name: str) -> None:
        """Make earlier renames in a folder durable."""
        with self._change(f"sync {name}"):
            self._sync(self.path / name)

    def remove(self, name: str) -> None:
        """Remove a file, or a folder with all files in it; it may be gone."""
        with self._change(f"remove {name}"):
            path = self.path / name
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)

    def remove_temporary(self, name: str) -> None:
        """Remove what killed processes have left in a folder of `create` and `replace`; no other process is at work."""
        for entry in self.list(name):
            if _TEMPORARY.fullmatch(entry):
                self.remove(f"{name}/{entry}")

    @contextlib.contextmanager
    def _change(self, what: str) -> Iterator[None]:
        self._step(f"before {what}")
        try:
            yield
        except OSError as error:
            raise FolderError(f"{error.filename or self.path}: {error.strerror or error}") from None
        self._step(f"after {what}")

    def _temporary(self, path: Path, data: bytes) -> Path:
        temporary = path.with_name(f".{path.name}.{unique()}.tmp")
        with temporary.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        return temporary

    @staticmethod
    def _sync(path: Path) -> None:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    # --------------------------------------------------------------------------------------------------- data files

    def write(self, name: str) -> DataFile:
        """A new file for much data. Raises FolderError."""
        self._step(f"before write {name}")
        try:
            return DataFile((self.path / name).open("xb"), name, self._step)
        except OSError as error:
            raise FolderError(f"{self.path / name}: {error.strerror or error}") from None

    # --------------------------------------------------------------------------------------------------------- lock

    @contextlib.contextmanager
    def lock(self, name: str) -> Iterator[None]:
        """Hold the lock file; the system releases it when the process ends. Raises FolderLocked."""
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a+b") as file:
            if fcntl is not None:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    file.seek(0)
                    raise FolderLocked(
                        f"another load is at work on {self.path}: {_describe(file.read(1000))}; "
                        "wait for its end, or load into another folder"
                    ) from None
            holder = {"host": socket.gethostname(), "process": os.getpid(), "since_ms": now_ms()}
            file.truncate(0)
            file.write(json.dumps(holder).encode())
            file.flush()
            yield


class DataFile:
    """A file under way: a binary file for `pyarrow`, which computes its checksum on the way."""

    def __init__(self, file: BinaryIO, name: str, step: Callable[[str], None]) -> None:
        self.name = name
        self.size_bytes = 0
        self.closed = False
        self._file = file
        self._step = step
        self._checksum = hashlib.sha256()

    def write(self, data: Any) -> int:
        view = memoryview(data)
        self._checksum.update(view)
        self._file.write(view)
        self.size_bytes += view.nbytes
        return view.nbytes

    def tell(self) -> int:
        return self.size_bytes

    def flush(self) -> None:
        self._file.flush()

    def readable(self) -> bool:
        return False

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return False

    def close(self) -> None:
        """Close without a sync: for a file that is given up."""
        self.closed = True
        self._file.close()

    def finish(self) -> WrittenFile:
        """Sync and close the file."""
        self._file.flush()
        os.fsync(self._file.fileno())
        self.close()
        self._step(f"after write {self.name}")
        return WrittenFile(self.name, self.size_bytes, self._checksum.hexdigest())


def unique() -> str:
    """A name that no other process takes."""
    return os.urandom(8).hex()


def _describe(data: bytes) -> str:
    try:
        holder = json.loads(data)
        return f"process {holder['process']} on {holder['host']}"
    except (ValueError, KeyError, TypeError):
        return "its lock file does not say which"

"""The files of key stores and trust stores: reads within a limit, identities, and a private file for OpenSSL.

This module is the seam to the operating system for TLS; everything else takes `StoreFiles`.
"""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

MAX_STORE_BYTES = 4 << 20
"""The largest store. The bundle of all public authorities has 250 KB."""


class FileIdentity(NamedTuple):
    """The identity of a file's content: every replacement, copy or write changes it."""

    modified_ns: int
    size: int
    inode: int


class StoreFiles:
    """The real files. All methods raise OSError as the system does."""

    def read(self, path: str) -> bytes:
        """The content of a file, at most one byte more than MAX_STORE_BYTES.

        A pipe or a device is refused: its content may come late, never end, or be there only once.
        """
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(descriptor, "rb") as file:
            mode = os.fstat(descriptor).st_mode
            if stat.S_ISDIR(mode):
                raise IsADirectoryError(None, "it is a directory")
            if not stat.S_ISREG(mode):
                raise OSError(None, "it is no regular file")
            return file.read(MAX_STORE_BYTES + 1)

    def identity(self, path: str) -> FileIdentity | None:
        """The identity of a file's present content; None if there is no such file, or it cannot be seen."""
        try:
            status = os.stat(path)
        except OSError:
            return None
        return FileIdentity(status.st_mtime_ns, status.st_size, status.st_ino)

    @contextmanager
    def private_file(self, content: bytes) -> Iterator[str]:
        """A path to `content` for the time of a call, for OpenSSL, by which Python's `ssl` reads keys from paths only.

        A key must not come to a disk, where backups and deleted blocks keep it. So the file is anonymous memory
        (Linux), which no other user can open and which ends with its descriptor. Elsewhere, or without /proc, it is a
        temporary file that only this user can read, removed at once: so a key in it is encrypted.
        """
        if hasattr(os, "memfd_create") and os.path.isdir("/proc/self/fd"):
            descriptor = os.memfd_create("headgate", os.MFD_CLOEXEC)
            with open(descriptor, "wb") as file:
                file.write(content)
                file.flush()
                yield f"/proc/self/fd/{descriptor}"
        else:
            with tempfile.NamedTemporaryFile(prefix="headgate") as file:  # of mode 0600
                file.write(content)
                file.flush()
                yield file.name

    def one_time_password(self) -> bytes:
        """A password for a private file, never used again."""
        return os.urandom(16).hex().encode()


def is_reload_due(tried: Mapping[str, FileIdentity | None], present: Mapping[str, FileIdentity | None]) -> bool:
    """Whether stores should be read again: `tried` has the identities by path of the last attempt, `present` of now.

    A missing file is not due: it may be about to be replaced. A file that could not be used is due once it changes.
    """
    return present != tried and None not in present.values()

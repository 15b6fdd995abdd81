"""A real file system of a few megabytes: a tmpfs in a mount namespace of its own, for which nobody has to be root.

The namespace lives as long as a process that does nothing, so that brokers in it can be stopped, killed and started.
"""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

_MOUNT = 'mount -t tmpfs -o "size=$1" headgate "$2" && echo mounted && exec cat'
_PIECE = bytes(1 << 16)


class SmallDisk:
    """Mounted at `directory` for the length of a with-block, for the commands of `enter`.

    Raises OSError where the system has no such namespaces for users.
    """

    def __init__(self, directory: Path, size: int) -> None:
        self.directory = directory
        command = [
            "unshare",
            "--user",
            "--map-root-user",
            "--mount",
            "sh",
            "-c",
            _MOUNT,
            "sh",
            str(size),
            str(directory),
        ]
        self._holder = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        assert self._holder.stdout is not None
        if self._holder.stdout.readline() != b"mounted\n":
            self.end()
            raise OSError(errno.EPERM, "a user cannot have a mount namespace here")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.end()

    def end(self) -> None:
        """Let go of it, once nothing runs in it any more."""
        self._holder.communicate()

    def enter(self, command: Sequence[str]) -> list[str]:
        """The command that runs another one there; a process that it becomes, not one that it starts."""
        target = f"--target={self._holder.pid}"
        return ["nsenter", target, "--user", "--preserve-credentials", "--mount", *command]

    @property
    def root(self) -> Path:
        """The directory, as it is seen from outside."""
        return Path(f"/proc/{self._holder.pid}/root{self.directory}")

    def free(self) -> int:
        """Bytes that may still be written."""
        volume = os.statvfs(self.root)
        return volume.f_bavail * volume.f_frsize

    def fill(self, leave: int = 0) -> None:
        """Write a file of ours until no more than `leave` bytes are free."""
        with (self.root / "filler").open("ab", buffering=0) as file:
            try:
                while self.free() > leave:
                    file.write(_PIECE[: min(len(_PIECE), self.free() - leave)])
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise

    def clear(self) -> None:
        """Remove that file."""
        (self.root / "filler").unlink(missing_ok=True)

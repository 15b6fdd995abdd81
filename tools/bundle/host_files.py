"""The files of a bundle about the machine: versions, limits, and the listing of log directories."""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Iterator, Sequence
from importlib import metadata
from pathlib import Path
from typing import Final

from headgate.tools.doctor.host.processes import PROC, read_process, read_text

_PACKAGES: Final = (
    "construct", "cramjam", "crc32c", "cryptography", "google-re2", "h11", "kazoo", "prometheus-client", "PyJWT",
    "trio",
)  # fmt: skip
_SYSTEM: Final = (
    "sys/net/core/somaxconn", "sys/net/ipv4/tcp_max_syn_backlog", "sys/vm/max_map_count", "sys/vm/swappiness",
    "sys/vm/dirty_ratio", "sys/fs/file-max", "sys/fs/file-nr", "loadavg", "pressure/io", "pressure/memory", "meminfo",
)  # fmt: skip
MAX_ENTRIES: Final = 50_000


def versions() -> str:
    """The versions of everything that runs, as JSON."""
    system = os.uname()
    found = {
        "headgate": _version("headgate"),
        "python": sys.version,
        "system": f"{system.sysname} {system.release} {system.machine}",
        "libc": " ".join(platform.libc_ver()),
        "packages": {name: _version(name) for name in _PACKAGES},
    }
    return json.dumps(found, indent=1) + "\n"


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def limits(holders: Sequence[int], directories: Sequence[str], proc: Path = PROC) -> str:
    """Settings of the kernel, the limits of the processes that have the log directories, and the disks below these."""
    return "\n".join(_limit_lines(holders, directories, proc)) + "\n"


def _limit_lines(holders: Sequence[int], directories: Sequence[str], proc: Path) -> Iterator[str]:
    for name in _SYSTEM:
        for line in read_text(proc / name).splitlines() or ("(cannot be read)",):
            yield f"/proc/{name}: {line}"
    for pid in holders:
        process = read_process(pid, proc)
        yield f"{process}: {process.open_files} files open"
        yield from (f"{process}: {line}" for line in read_text(proc / str(pid) / "limits").splitlines())
        wanted = ("Vm", "Rss", "Threads")
        lines = read_text(proc / str(pid) / "status").splitlines()
        yield from (f"{process}: {line}" for line in lines if line.startswith(wanted))
    for directory in directories:
        try:
            volume = os.statvfs(directory)
        except OSError as error:
            yield f"{directory}: {error.strerror}"
            continue
        yield (
            f"{directory}: {volume.f_bavail * volume.f_frsize} of {volume.f_blocks * volume.f_frsize} bytes free,"
            f" {volume.f_favail} of {volume.f_files} inodes"
        )


def listing(directories: Sequence[str], most: int = MAX_ENTRIES) -> str:
    """Names, sizes, owners and times of everything in the log directories: no content of any file."""
    lines: list[str] = []
    for directory in directories:
        for line in _entries(Path(directory)):
            if len(lines) >= most:
                lines.append(f"... the first {most} entries")
                return "\n".join(lines) + "\n"
            lines.append(line)
    return "\n".join(lines) + "\n"


def _entries(directory: Path) -> Iterator[str]:
    yield f"{directory}:"
    try:
        found = sorted(os.scandir(directory), key=lambda entry: entry.name)
    except OSError as error:
        yield f"  ({error.strerror})"
        return
    for entry in found:
        yield _entry_line(entry, "  ")
        if entry.is_dir(follow_symlinks=False):
            try:
                inner = sorted(os.scandir(entry.path), key=lambda one: one.name)
            except OSError as error:
                yield f"    ({error.strerror})"
                continue
            yield from (_entry_line(one, "    ") for one in inner)


def _entry_line(entry: os.DirEntry[str], indent: str) -> str:
    try:
        status = entry.stat(follow_symlinks=False)
    except OSError as error:
        return f"{indent}{entry.name} ({error.strerror})"
    mark = "/" if entry.is_dir(follow_symlinks=False) else ""
    return f"{indent}{entry.name}{mark} {status.st_size} uid={status.st_uid} mtime={int(status.st_mtime)}"

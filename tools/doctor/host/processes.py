"""Processes by their files in `/proc`: names, limits, open files, listening sockets."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

PROC: Final = Path("/proc")
_LISTENING: Final = "0A"
_SHOWN: Final = 80


class ProcessFacts(NamedTuple):
    """A process. `descriptor_limit`, `open_files`: None if this user may not see them."""

    pid: int
    name: str
    descriptor_limit: int | None = None
    open_files: int | None = None

    def __str__(self) -> str:
        return f"process {self.pid} ({self.name})"


def read_text(path: Path) -> str:
    """The text of a small file of the system; empty if it cannot be read."""
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


def read_process(pid: int, proc: Path = PROC) -> ProcessFacts:
    """The facts of a process, as far as this user may see them."""
    folder = proc / str(pid)
    words = read_text(folder / "cmdline").split("\0")
    program = Path(words[0]).name if words and words[0] else read_text(folder / "comm").strip()
    # `python -m headgate serve` and `.venv/bin/python .venv/bin/headgate serve` are both known as headgate
    is_ours = any(Path(word).name == "headgate" for word in words[1:4])
    name = "headgate" if is_ours else program or "?"
    open_files = None
    with contextlib.suppress(OSError):
        open_files = len(list((folder / "fd").iterdir()))
    return ProcessFacts(pid, name[:_SHOWN], _descriptor_limit(read_text(folder / "limits")), open_files)


def _descriptor_limit(limits: str) -> int | None:
    for line in limits.splitlines():
        if line.startswith("Max open files"):
            soft = line.removeprefix("Max open files").split()[0]
            return int(soft) if soft.isdecimal() else None
    return None


def listening_inodes(proc: Path = PROC) -> dict[int, set[str]]:
    """The inodes of listening TCP sockets by port, of both families."""
    found: dict[int, set[str]] = {}
    for name in ("tcp", "tcp6"):
        for line in read_text(proc / "net" / name).splitlines()[1:]:
            fields = line.split()
            if len(fields) > 9 and fields[3] == _LISTENING:
                port = int(fields[1].rpartition(":")[2], 16)
                found.setdefault(port, set()).add(fields[9])
    return found


def owners_of(inodes: set[str], proc: Path = PROC) -> set[int]:
    """The processes with one of these sockets open; none if this user may not see their files."""
    wanted = {f"socket:[{inode}]" for inode in inodes}
    owners = set()
    for folder in proc.iterdir():
        if not folder.name.isdecimal():
            continue
        with contextlib.suppress(OSError):
            if any(_target(link) in wanted for link in (folder / "fd").iterdir()):
                owners.add(int(folder.name))
    return owners


def _target(link: Path) -> str:
    try:
        return str(link.readlink())
    except OSError:
        return ""


def memory_bytes(proc: Path = PROC) -> Mapping[str, int]:
    """The rows of `/proc/meminfo` in bytes."""
    rows = (line.partition(":") for line in read_text(proc / "meminfo").splitlines())
    return {name: int(value.split()[0]) << 10 for name, _, value in rows if value.split()[:1]}

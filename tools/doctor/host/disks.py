"""The disks of log directories: free space, inodes, file systems, mounts that are read-only."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from headgate.tools.doctor.check_result import NOTE, WRONG, CheckResult
from headgate.tools.doctor.cluster.volumes import check_room
from headgate.tools.doctor.host.processes import PROC, read_text

_REMOTE: Final = ("nfs", "cifs", "smb3", "fuse.sshfs", "9p", "glusterfs", "ceph", "lustre")
_IN_MEMORY: Final = ("tmpfs", "ramfs")
_FEW_INODES: Final = 1000


class DiskFacts(NamedTuple):
    """The disk of a directory. `problem`: why the directory cannot be used; `device`: the number of its volume."""

    directory: str
    problem: str | None = None
    total_bytes: int = 0
    usable_bytes: int = 0
    free_inodes: int | None = None
    is_read_only: bool = False
    kind: str = ""
    device: int = 0


def read_disk(directory: str, proc: Path = PROC) -> DiskFacts:
    """The facts of the disk with a directory; of its nearest parent if it does not exist yet."""
    path = Path(directory).absolute()
    try:
        while not path.exists() and path != path.parent:
            path = path.parent
        if not path.is_dir():
            return DiskFacts(directory, f"{path} is no directory")
        volume, status = os.statvfs(path), path.stat()
        is_read_only = bool(volume.f_flag & os.ST_RDONLY)
        problem = None if is_read_only or os.access(path, os.W_OK | os.X_OK) else f"this user may not write to {path}"
    except OSError as error:
        return DiskFacts(directory, f"{error.filename or directory}: {error.strerror}")
    return DiskFacts(
        directory,
        problem,
        volume.f_blocks * volume.f_frsize,
        volume.f_bavail * volume.f_frsize,
        volume.f_favail if volume.f_files else None,
        is_read_only,
        file_system_of(str(path.resolve()), read_text(proc / "self" / "mountinfo")),
        status.st_dev,
    )


def file_system_of(path: str, mountinfo: str) -> str:
    """The type of the file system with a path; empty if it is not known. `mountinfo`: see proc(5)."""
    best, kind = "", ""
    for line in mountinfo.splitlines():
        before, _, after = line.partition(" - ")
        fields = before.split()
        if len(fields) < 5 or not after:
            continue
        point = fields[4].encode().decode("unicode_escape")
        is_above = f"{path}/".startswith(f"{point.rstrip('/')}/")
        if is_above and len(point) >= len(best):
            best, kind = point, after.split()[0]
    return kind


def check_disks(disks: Sequence[DiskFacts], least_bytes: int) -> Iterator[CheckResult]:
    """`least_bytes`: log.min.free.bytes, below which a broker refuses records."""
    for disk in disks:
        yield _check(disk, least_bytes)
        yield from _check_kind(disk)
    usable = [disk for disk in disks if disk.device]
    for index, disk in enumerate(usable):
        same = next((other for other in usable[:index] if other.device == disk.device), None)
        if same is not None:
            cure = "several log.dirs are for several disks: on one they add nothing, and fill up together"
            yield CheckResult("disk", NOTE, f"{disk.directory} and {same.directory} are on one volume", cure)


def _check(disk: DiskFacts, least_bytes: int) -> CheckResult:
    if disk.problem is not None:
        cure = "log.dirs has to be a directory that the user of the broker can write to: correct its owner, or log.dirs"
        return CheckResult("disk", WRONG, f"{disk.directory}: {disk.problem}", cure)
    if disk.is_read_only:
        cure = "the kernel does so after an error of the disk (dmesg says which); else mount it again with rw"
        return CheckResult("disk", WRONG, f"{disk.directory} is mounted read-only", cure)
    if disk.free_inodes is not None and disk.free_inodes < _FEW_INODES:
        cure = "delete files, or make the file system with more inodes: each segment is three of them"
        return CheckResult("disk", WRONG, f"{disk.directory} has {disk.free_inodes} inodes left", cure)
    return check_room("disk", disk.directory, disk.total_bytes, disk.usable_bytes, least_bytes)


def _check_kind(disk: DiskFacts) -> Iterator[CheckResult]:
    if disk.kind.startswith(_REMOTE):
        cure = "use a local disk: locks, fsync and deleted open files of network file systems differ"
        yield CheckResult("disk", WRONG, f"{disk.directory} is on {disk.kind}", cure)
    elif disk.kind in _IN_MEMORY:
        cure = "right for tests; a restart of the machine loses all records"
        yield CheckResult("disk", NOTE, f"{disk.directory} is on {disk.kind}, in memory", cure)

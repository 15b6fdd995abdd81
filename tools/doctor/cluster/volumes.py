"""The log directories of brokers, by DescribeLogDirs: errors, and free space since Kafka 3.3."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from headgate.protocol.client.failure import Failure
from headgate.protocol.errors import ErrorCode
from headgate.tools.doctor.check_result import NOTE, OK, WRONG, CheckResult
from headgate.tools.log_directories import DirectoryDescription

FULL_PERCENT: Final = 95
NEARLY_FULL_PERCENT: Final = 85
FULL_BYTES: Final = 64 << 20
_ROOM: Final = "free some space, shorten retention.ms or retention.bytes, or add a disk to log.dirs"


def check_volumes(
    found: Mapping[int, list[DirectoryDescription]], failed: Mapping[int, Failure]
) -> Iterator[CheckResult]:
    """One row for each directory, and one for each broker that says nothing."""
    for node, directories in sorted(found.items()):
        for directory in directories:
            yield _check(f"{directory.path} of broker {node}", directory)
    for node, failure in sorted(failed.items()):
        if failure.code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
            cure = "headgate acls add --principal User:NAME --operation describe --cluster"
            yield CheckResult("disk", NOTE, f"this user may not see the log directories of broker {node}", cure)


def _check(name: str, directory: DirectoryDescription) -> CheckResult:
    if directory.failure is not None:
        cure = "see the log of the broker: repair or replace the disk, then restart the broker"
        return CheckResult("disk", WRONG, f"{name} is offline: {directory.failure.text}", cure)
    total, usable = directory.total_bytes, directory.usable_bytes
    if not total or usable is None:
        return CheckResult("disk", OK, f"{name} is online")
    return check_room("disk", name, total, usable)


def check_room(
    check: str, name: str, total_bytes: int, usable_bytes: int, least_bytes: int = FULL_BYTES
) -> CheckResult:
    """Whether a volume has room. `least_bytes`: below that, the broker refuses records."""
    used = 100 - 100 * usable_bytes // total_bytes
    found = f"{name} has {usable_bytes >> 20} MiB free of {total_bytes >> 20}, {used} % used"
    if usable_bytes < min(least_bytes, total_bytes // 4) or used > FULL_PERCENT + 3:
        return CheckResult(check, WRONG, f"{found}: it is full", _ROOM)
    if used >= NEARLY_FULL_PERCENT:
        return CheckResult(check, NOTE, found, _ROOM)
    return CheckResult(check, OK, found)

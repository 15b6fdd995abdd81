"""What the system gives a broker: descriptors, memory maps, the backlog of connections, memory. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from headgate.tools.doctor.check_result import NOTE, OK, WRONG, CheckResult
from headgate.tools.doctor.host.processes import ProcessFacts

USUAL_DESCRIPTORS: Final = 8192
USUAL_BACKLOG: Final = 128
LITTLE_MEMORY_BYTES: Final = 512 << 20
TOO_LITTLE_MEMORY_BYTES: Final = 128 << 20
_MAPS_A_SEGMENT: Final = 2
_NEARLY: Final = 80
_RAISE: Final = "raise LimitNOFILE= of the systemd unit, or `ulimit -n` of the shell that starts the broker"


def check_descriptors(limit: int, needed: int, process: ProcessFacts | None) -> CheckResult:
    """`limit`: of the running broker, or else the hard one of this shell; `needed`: for all permitted connections."""
    whose = f"{process}" if process is not None else "a broker started here"
    found = f"{whose} may have {limit} files open"
    if process is not None and process.open_files is not None:
        found += f", has {process.open_files}"
        if process.open_files * 100 > limit * _NEARLY:
            return CheckResult("descriptors", WRONG, found, f"{_RAISE}: new connections are refused at the limit")
    if limit < needed:
        cure = f"{_RAISE}: {needed} are for all connections that max.connections allows, 1,000 without that setting"
        return CheckResult("descriptors", WRONG if limit < 1024 else NOTE, found, cure)
    return CheckResult("descriptors", OK, found)


def check_map_count(limit: int | None, segments: int, process: ProcessFacts | None) -> CheckResult | None:
    """Memory maps: Apache Kafka maps both indexes of each segment. Headgate maps none."""
    if limit is None or process is None or process.name != "java":
        return None
    needed = segments * _MAPS_A_SEGMENT
    found = f"vm.max_map_count is {limit}; {segments} segments need {needed} maps"
    if needed * 100 > limit * _NEARLY:
        cure = f"sysctl -w vm.max_map_count={max(262_144, 2 * needed)}, and into /etc/sysctl.d: Kafka dies at the limit"
        return CheckResult("memory maps", WRONG, found, cure)
    return CheckResult("memory maps", OK, found)


def check_backlog(somaxconn: int | None, wanted: int | None) -> CheckResult | None:
    """`wanted`: socket.listen.backlog.size, if settings are given."""
    if somaxconn is None:
        return None
    found = f"net.core.somaxconn is {somaxconn}"
    if wanted is not None and somaxconn < wanted:
        found += f", socket.listen.backlog.size is {wanted}: the smaller one counts"
    if somaxconn < USUAL_BACKLOG:
        cure = "sysctl -w net.core.somaxconn=4096, and into /etc/sysctl.d: clients that reconnect at once get no answer"
        return CheckResult("backlog", WRONG, found, cure)
    if wanted is not None and somaxconn < wanted:
        return CheckResult("backlog", NOTE, found, f"sysctl -w net.core.somaxconn={max(4096, wanted)}")
    return CheckResult("backlog", OK, found)


def check_memory(memory: Mapping[str, int]) -> CheckResult | None:
    """`memory`: rows of /proc/meminfo in bytes."""
    available, total = memory.get("MemAvailable"), memory.get("MemTotal")
    if available is None or total is None:
        return None
    found = f"{available >> 20} MiB of {total >> 20} are available"
    cure = "stop other programs, or give the machine more: the kernel ends the largest process when none is left"
    if available < TOO_LITTLE_MEMORY_BYTES:
        return CheckResult("memory", WRONG, found, cure)
    return CheckResult(
        "memory",
        NOTE if available < LITTLE_MEMORY_BYTES else OK,
        found,
        cure if available < LITTLE_MEMORY_BYTES else "",
    )

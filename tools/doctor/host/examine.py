"""The checks of this machine: with a server.properties those of one broker, without those that every broker needs."""

from __future__ import annotations

import contextlib
import resource
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from headgate.tools.doctor.check_result import CheckResult
from headgate.tools.doctor.host import clock, limits, ports, processes
from headgate.tools.doctor.host.directories import DirectoryFacts, check_directories, count_segments, read_directory
from headgate.tools.doctor.host.disks import check_disks, read_disk
from headgate.tools.doctor.host.processes import ProcessFacts
from headgate.tools.doctor.host.settings import check_settings
from headgate.tools.doctor.inspection import BrokerValues, SettingsReport, raw_value

_DEFAULT_DIRECTORY = "/tmp/kafka-logs"  # noqa: S108 - Kafka's default
_UNLIMITED = 1 << 30


class HostState(NamedTuple):
    """The data directories of a host and their processes: for the rows, and for the checks of ZooKeeper after them."""

    directories: Sequence[DirectoryFacts]
    holders: dict[int, ProcessFacts]

    @property
    def cluster_ids(self) -> dict[str, str]:
        """The cluster id by log directory."""
        return {one.path: one.meta.cluster_id for one in self.directories if one.meta is not None}


def log_directories(text: str, report: SettingsReport | None) -> tuple[str, ...]:
    """The log directories of a server.properties, also of one with problems; none without a file."""
    if report is None:
        return ()
    if report.values is not None:
        return report.values.log_directories
    named = raw_value(text, "log.dirs") or raw_value(text, "log.dir") or ""
    return tuple(filter(None, map(str.strip, named.split(","))))


def read_host(directories: Sequence[str]) -> HostState:
    """Read the data directories and the processes that have them."""
    found = [read_directory(path) for path in directories]
    pids = {one.holder for one in found if one.holder is not None}
    return HostState(found, {pid: processes.read_process(pid) for pid in pids})


def check_host(state: HostState, text: str, source: str, report: SettingsReport | None) -> Iterator[CheckResult]:
    """All rows of this machine. `report`: of the text of a server.properties, if there is one."""
    values = None if report is None else report.values
    if report is not None:
        yield from check_settings(report, source)
    yield from _check_system(state, values)
    listening = processes.listening_inodes()
    served = None
    if values is not None:
        yield from ports.check_advertising(values)
        wanted = ports.wanted_ports(values)
        owners = {port: _processes(listening[port]) for port in wanted if port in listening}
        yield from ports.check_ports(wanted, owners, list(state.holders))
        kafka = [port for _, _, port in values.listeners if port]
        served = [port for port in kafka if port in listening] if kafka else None
    directories = log_directories(text, report)
    least_bytes = 64 << 20 if values is None else values.min_free_bytes
    yield from check_disks([read_disk(path) for path in directories], least_bytes)
    yield from check_directories(state.directories, values, state.holders, served)


def _processes(inodes: set[str]) -> list[ProcessFacts]:
    return [processes.read_process(pid) for pid in sorted(processes.owners_of(inodes))]


def _check_system(state: HostState, values: BrokerValues | None) -> Iterator[CheckResult]:
    holder = next(iter(state.holders.values()), None)
    limit = holder.descriptor_limit if holder is not None else None
    if limit is None:
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        limit, holder = (_UNLIMITED if hard == resource.RLIM_INFINITY else hard), None
    needed = limits.USUAL_DESCRIPTORS if values is None else values.descriptors_needed
    yield limits.check_descriptors(limit, needed, holder)
    segments = count_segments([one.path for one in state.directories])
    checks = (
        limits.check_map_count(_number("sys/vm/max_map_count"), segments, holder),
        limits.check_backlog(_number("sys/net/core/somaxconn"), None if values is None else values.backlog),
        limits.check_memory(processes.memory_bytes()),
        clock.check_time(clock.is_synchronised()),
    )
    yield from (row for row in checks if row is not None)


def _number(name: str, proc: Path = processes.PROC) -> int | None:
    with contextlib.suppress(ValueError):
        return int(processes.read_text(proc / name))
    return None

"""Data directories: whose they are, which process has them, how the last broker stopped. Nothing is written."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from headgate.storage.directory.log_directory import CLEAN_SHUTDOWN, LOCK
from headgate.storage.disk import layout
from headgate.storage.disk.layout import Meta
from headgate.storage.errors import BadFile
from headgate.storage.files import Files
from headgate.tools.client.cluster import shorten_list
from headgate.tools.doctor.check_result import NOTE, OK, WRONG, CheckResult
from headgate.tools.doctor.host.processes import ProcessFacts
from headgate.tools.doctor.inspection import BrokerValues
from headgate.tools.log.data_directory import lock_holder


class DirectoryFacts(NamedTuple):
    """A data directory. `holder`: the process with its lock. `foreign`: entries of other owners than the directory."""

    path: str
    exists: bool
    problem: str | None = None
    meta: Meta | None = None
    holder: int | None = None
    is_clean: bool = False
    partitions: int = 0
    foreign: Sequence[str] = ()


def read_directory(path: str) -> DirectoryFacts:
    """The facts of a data directory."""
    files, directory = Files(), path.rstrip("/") or "/"
    if not Path(directory).is_dir():
        return DirectoryFacts(directory, exists=False)
    facts = DirectoryFacts(directory, exists=True)
    try:
        owner = Path(directory).stat().st_uid
        entries = list(os.scandir(directory))
        foreign = sorted(entry.name for entry in entries if entry.stat(follow_symlinks=False).st_uid != owner)
        partitions = sum(layout.parse_partition(entry.name) is not None for entry in entries)
        is_clean = any(entry.name == CLEAN_SHUTDOWN for entry in entries)
        facts = facts._replace(partitions=partitions, is_clean=is_clean, foreign=foreign)
        facts = facts._replace(holder=lock_holder(f"{directory}/{LOCK}"))
        return facts._replace(meta=layout.read_meta(files, directory))
    except BadFile as error:
        return facts._replace(problem=str(error))
    except OSError as error:
        return facts._replace(problem=f"{error.filename or directory}: {error.strerror}")


def count_segments(paths: Sequence[str]) -> int:
    """The segments in all data directories, as far as they can be read."""
    return sum(1 for path in paths for _ in Path(path).glob("*-*/*.log"))


def check_directories(
    found: Sequence[DirectoryFacts],
    values: BrokerValues | None,
    holders: Mapping[int, ProcessFacts],
    listening: Sequence[int] | None,
) -> Iterator[CheckResult]:
    """`holders`: the processes with a lock. `listening`: the ports of `listeners` where something listens, if known."""
    for directory in found:
        yield _check(directory, values, holders, listening)
        if directory.foreign:
            cure = f"chown -R them to the owner of {directory.path}: a broker was started by another user (root?)"
            listed = shorten_list(directory.foreign)
            yield CheckResult("directory", WRONG, f"{directory.path} has entries of another owner: {listed}", cure)
    yield from _check_same([one for one in found if one.meta is not None])


def _check(
    directory: DirectoryFacts,
    values: BrokerValues | None,
    holders: Mapping[int, ProcessFacts],
    listening: Sequence[int] | None,
) -> CheckResult:
    if not directory.exists:
        return CheckResult("directory", OK, f"{directory.path} does not exist yet: the first start makes it")
    if directory.problem is not None:
        return CheckResult(
            "directory", WRONG, directory.problem.partition("; ")[0], directory.problem.partition("; ")[2]
        )
    meta = directory.meta
    if meta is None and directory.partitions:
        cure = "bring meta.properties back: it says whose the partitions are"
        found = f"{directory.path} has {directory.partitions} partitions and no meta.properties"
        return CheckResult("directory", WRONG, found, cure)
    if meta is not None and values is not None and values.is_node_given and meta.node_id != values.node_id:
        found = f"{directory.path} belongs to node.id={meta.node_id}, the settings have {values.node_id}"
        return CheckResult(
            "directory", WRONG, found, "set that node.id, or another log.dirs: two brokers must not share an id"
        )
    whose = "is new" if meta is None else f"is of node {meta.node_id} in cluster {meta.cluster_id}"
    holder = holders.get(directory.holder or -1)
    if holder is not None:
        return _check_held(f"{directory.path} {whose}, {directory.partitions} partitions", holder, listening)
    if directory.partitions and not directory.is_clean:
        cure = "the next start checks what was not flushed, and shows its progress in /readyz: let it finish"
        return CheckResult("directory", NOTE, f"{directory.path} {whose}; the last stop was not clean", cure)
    return CheckResult(
        "directory", OK, f"{directory.path} {whose}, {directory.partitions} partitions; no broker has it"
    )


def _check_held(found: str, holder: ProcessFacts, listening: Sequence[int] | None) -> CheckResult:
    if listening is not None and not listening:
        cure = (
            f"it starts, hangs, or has other listeners than these settings: see its log, or end it (kill {holder.pid})"
        )
        return CheckResult("directory", WRONG, f"{found}; {holder} holds its lock, and nothing listens", cure)
    return CheckResult("directory", OK, f"{found}; {holder} has it")


def _check_same(found: Sequence[DirectoryFacts]) -> Iterator[CheckResult]:
    """All directories of a broker are of one node and one cluster."""
    identities = Counter((one.meta.node_id, one.meta.cluster_id) for one in found if one.meta is not None)
    if len(identities) > 1:
        listed = ", ".join(f"{one.path} of {one.meta.cluster_id}" for one in found if one.meta is not None)
        cure = "remove the directory of the other cluster from log.dirs"
        yield CheckResult("directory", WRONG, f"the directories are of different brokers: {listed}", cure)

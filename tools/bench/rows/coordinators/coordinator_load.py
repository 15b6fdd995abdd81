"""The row `coordinator-load`: the time and memory of loading a million committed offsets after a restart."""

import functools
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from headgate.tools.bench.measuring.brokers import Broker, Launcher
from headgate.tools.bench.measuring.generator import Load, run_templates
from headgate.tools.bench.measuring.machine import process_cpu_seconds, resident_bytes
from headgate.tools.bench.requests import frames, group_frames
from headgate.tools.bench.requests.client import BenchError, Reader, exchange
from headgate.tools.bench.requests.group_frames import TopicPartitions
from headgate.tools.bench.requests.templates import template
from headgate.tools.bench.rows.coordinators.groups import wait_until_served
from headgate.tools.bench.rows.idle import raise_file_limit

GROUPS: Final = 10_000
PARTITIONS: Final = 100
"""Each group commits one offset in each partition."""
_AT_ONCE = 500
_COMMIT_VERSION = 9
_OTHER_FILES = 2500
_LOADED_WITHIN_SECONDS = 300.0
LOADING: Final = {14, 15, 16}  # COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR
_COORDINATOR_PARTITIONS = 50  # of each internal topic, by default of both brokers
_PAUSE_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class CoordinatorLoadResult:
    """Seconds from the start of the process to Metadata, to half of the names, to all; CPU and memory at the end."""

    metadata_seconds: float
    half_seconds: float
    all_seconds: float
    cpu_seconds: float
    resident_megabytes: float


def coordinator_load(
    launcher: Launcher, directory: Path, generators: Path, groups: int = GROUPS, partitions: int = PARTITIONS
) -> CoordinatorLoadResult:
    """Commit offsets over the wire, stop the broker, start it again, ask for every group."""
    raise_file_limit(_AT_ONCE + _OTHER_FILES)
    names = [f"load-{number}" for number in range(groups)]
    broker = launcher.start(directory)
    try:
        topic_partitions = TopicPartitions(
            "loaded", range(partitions), broker.client.create_topic("loaded", partitions)
        )
        wait_until_served(broker.client, one_of_each(names))
        for first in range(0, groups, _AT_ONCE):
            _commit(broker, generators, names[first : first + _AT_ONCE], topic_partitions)
    finally:
        broker.stop()
    broker = launcher.start_again(directory)
    try:
        return _loaded(broker, names, topic_partitions)
    finally:
        broker.stop()


def _commit(broker: Broker, generators: Path, names: Sequence[str], topic_partitions: TopicPartitions) -> None:
    """Commit the offsets of each group in one request."""
    path = generators / "coordinator-load.templates"
    writers = (group_frames.offset_commit(_COMMIT_VERSION, name, topic_partitions) for name in names)
    load = Load(frames.OFFSET_COMMIT, _COMMIT_VERSION, path, connections=len(names), requests=1)
    run_templates(generators, load, map(template, writers), broker.port)


def _loaded(broker: Broker, names: Sequence[str], topic_partitions: TopicPartitions) -> CoordinatorLoadResult:
    last = TopicPartitions(topic_partitions.topic, [topic_partitions.partitions[-1]])
    return until_loaded(broker, names, lambda connection, name: _is_there(broker, connection, name, last))


def until_loaded(
    broker: Broker, names: Sequence[str], is_there: Callable[[socket.socket, str], bool]
) -> CoordinatorLoadResult:
    """Time the loading by one name of each partition of the coordinator's topic, then check every name.

    `is_there` asks for a name. Raises BenchError.
    """
    started = time.perf_counter() - broker.start_seconds
    waiting = one_of_each(names)
    answered: list[float] = []
    with broker.client.connect() as connection:
        while True:
            there = {name for name in waiting if is_there(connection, name)}
            answered += [time.perf_counter() - started] * len(there)
            waiting = [name for name in waiting if name not in there]
            if not waiting:
                break
            if time.perf_counter() - started > _LOADED_WITHIN_SECONDS:
                raise BenchError(f"{broker.name} has not loaded {waiting[0]} after {_LOADED_WITHIN_SECONDS:g} s")
            time.sleep(_PAUSE_SECONDS)
        pid = broker.process.pid
        cpu_seconds, memory = process_cpu_seconds(pid), resident_bytes(pid) / 1e6
        if not all(is_there(connection, name) for name in names):
            raise BenchError(f"{broker.name} has loaded a name of every partition, and not every name")
    return CoordinatorLoadResult(broker.start_seconds, answered[len(answered) // 2], answered[-1], cpu_seconds, memory)


def _is_there(broker: Broker, connection: socket.socket, name: str, topic_partitions: TopicPartitions) -> bool:
    found = _committed(exchange(connection, group_frames.offset_fetch(name, topic_partitions)))
    if found not in (None, (0, "")):
        raise BenchError(f"{broker.name} has {found} for {name}, and (0, '') was committed")
    return found is not None


def one_of_each(names: Sequence[str]) -> list[str]:
    """The first name of each partition of the coordinator's topic."""
    first: dict[int, str] = {}
    for name in names:
        first.setdefault(_partition_of(name), name)
    return list(first.values())


def _partition_of(name: str) -> int:
    """The partition of a group or transactional id, by Java's hash of an ASCII string."""
    value = functools.reduce(lambda value, byte: (31 * value + byte) & 0xFFFF_FFFF, name.encode(), 0)
    return abs(value - (value >> 31 << 32)) % _COORDINATOR_PARTITIONS


def _committed(answer: bytes) -> tuple[int, str | None] | None:
    """Offset and metadata in an OffsetFetch answer for one partition; None while the group is loading."""
    reader = Reader(answer[4:], flexible=False)
    reader.number("i")
    found = []
    for _ in range(reader.count()):
        reader.string()
        found += [_read_partition(reader) for _ in range(reader.count())]
    error = reader.number("h") or max((error for *_, error in found), default=0)
    if error in LOADING:
        return None
    if error or len(found) != 1:
        raise BenchError(f"OffsetFetch: error code {error}, {len(found)} partitions")
    ((offset, metadata, _),) = found
    return offset, metadata


def _read_partition(reader: Reader) -> tuple[int, str | None, int]:
    """Offset, metadata, error code."""
    reader.number("i")
    offset = reader.number("q")
    reader.number("i")
    return offset, reader.string(), reader.number("h")

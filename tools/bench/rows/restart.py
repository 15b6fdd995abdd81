"""Rows of restarts: the time until a broker serves again, with very many partitions, or with much to scan after a kill.

A partition is served when ListOffsets answers for it: a leader in Metadata does not answer yet.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter, sleep
from typing import Final, NamedTuple

from headgate.tools.bench.measuring.brokers import Broker, Launcher
from headgate.tools.bench.measuring.figures import Figure
from headgate.tools.bench.measuring.generator import Load, run_templates
from headgate.tools.bench.measuring.machine import process_cpu_seconds, resident_bytes
from headgate.tools.bench.requests import frames
from headgate.tools.bench.requests.client import BenchError, Reader
from headgate.tools.bench.requests.templates import template
from headgate.tools.bench.rows.idle import raise_file_limit
from headgate.tools.bench.rows.row import BATCH_16K, BATCH_TINY

MANY_PARTITIONS: Final = 10_000
_PARTITIONS_A_TOPIC: Final = 100
SCANNED_BYTES: Final = 1 << 30
_SCANNED_PARTITIONS: Final = 4
_SEGMENT_BYTES: Final = 128 << 20
_PRODUCE_VERSION: Final = 7
_OTHER_FILES = 2500
_SERVED_WITHIN_SECONDS: Final = 600.0
_PAUSE_SECONDS: Final = 0.05
_RECOVERY_POINTS: Final = "recovery-point-offset-checkpoint"


class RestartResult(NamedTuple):
    """Seconds from the start of the process to Metadata and to the last partition served; CPU and memory at the end."""

    metadata_seconds: float
    all_seconds: float
    cpu_seconds: float
    resident_megabytes: float


FIGURES: Final[Mapping[Figure, Callable[[RestartResult], float]]] = {
    Figure("s to every partition", lambda _: math.nan, mark=1.0): lambda restarted: restarted.all_seconds,
    Figure("s to Metadata", lambda _: math.nan, mark=1.0): lambda restarted: restarted.metadata_seconds,
    Figure("CPU s", lambda _: math.nan, mark=1.0): lambda restarted: restarted.cpu_seconds,
    Figure("resident MB", lambda _: math.nan): lambda restarted: restarted.resident_megabytes,
}


@dataclass(frozen=True, slots=True)
class RestartManyPartitions:
    """Very many partitions, created once on each broker; each turn stops and starts the broker.

    By default the stop is clean and the topics have no records. With `is_killed` each turn appends one record to every
    partition and kills the process at once, whatever is synced by then.
    """

    partitions: int = MANY_PARTITIONS
    is_killed: bool = False

    @contextmanager
    def opened(self, launcher: Launcher, directory: Path, generators: Path) -> Iterator[Callable[[], RestartResult]]:
        raise_file_limit(self.partitions + _OTHER_FILES)
        ends = {
            (f"many-{first}", partition): 0
            for first in range(0, self.partitions, _PARTITIONS_A_TOPIC)
            for partition in range(min(_PARTITIONS_A_TOPIC, self.partitions - first))
        }
        broker = launcher.start(directory)
        try:
            for name in dict(ends):
                if not name[1]:
                    broker.client.create_topic(name[0], sum(topic == name[0] for topic, _ in ends))

            def run() -> RestartResult:
                nonlocal broker
                if self.is_killed:
                    _append_to_each(broker, ends, generators)
                    broker.kill()
                else:
                    broker.stop(_SERVED_WITHIN_SECONDS)
                broker = launcher.start_again(directory, _SERVED_WITHIN_SECONDS)
                return _until_served(broker, ends)

            yield run
        finally:
            broker.stop()


def _append_to_each(broker: Broker, ends: dict[tuple[str, int], int], generators: Path) -> None:
    """Append one record to each partition, over one connection."""
    batch = BATCH_TINY.build()
    path = generators / "append.templates"
    writers = (frames.produce(_PRODUCE_VERSION, topic, number, batch) for topic, number in ends)
    templates = (template(writer, load_bytes=len(batch)) for writer in writers)
    load = Load(frames.PRODUCE, _PRODUCE_VERSION, path, connections=1, requests=len(ends), rotate=True)
    run_templates(generators, load, templates, broker.port)
    for key in ends:
        ends[key] += 1


@dataclass(frozen=True, slots=True)
class Recovery:
    """Each turn fills some partitions, kills the broker, and starts it without recovery points.

    So the broker scans everything, whatever was synced before.
    """

    size: int = SCANNED_BYTES
    partitions: int = _SCANNED_PARTITIONS

    @contextmanager
    def opened(self, launcher: Launcher, directory: Path, generators: Path) -> Iterator[Callable[[], RestartResult]]:
        def run() -> RestartResult:
            broker = launcher.start(directory)
            try:
                ends = self._fill(broker, generators)
            finally:
                broker.kill()
            (broker.data / _RECOVERY_POINTS).unlink(missing_ok=True)
            broker = launcher.start_again(directory, _SERVED_WITHIN_SECONDS)
            try:
                return _until_served(broker, ends)
            finally:
                broker.stop()

        yield run

    def _fill(self, broker: Broker, generators: Path) -> dict[tuple[str, int], int]:
        name, batch = "recovered", BATCH_16K.build()
        broker.client.create_topic(name, self.partitions, {"segment.bytes": str(_SEGMENT_BYTES)})
        count = self.size // len(batch) // self.partitions
        path = generators / "recovery.templates"
        writers = [frames.produce(_PRODUCE_VERSION, name, number, batch) for number in range(self.partitions)]
        templates = [template(writer, load_bytes=len(batch)) for writer in writers]
        load = Load(frames.PRODUCE, _PRODUCE_VERSION, path, self.partitions, in_flight=5, requests=count)
        run_templates(generators, load, templates, broker.port)
        return {(name, number): count * BATCH_16K.records for number in range(self.partitions)}


def _until_served(broker: Broker, ends: Mapping[tuple[str, int], int]) -> RestartResult:
    """Ask for the end of every partition until all answer. Raises BenchError for another end than before the restart.

    Only topics that are not served yet are asked for again: 10,000 rows, over and over, would be most of the work.
    """
    started = perf_counter() - broker.start_seconds
    counts = Counter(topic for topic, _ in ends)
    found: dict[tuple[str, int], int | None] = {}
    while True:
        found |= _ends(broker, counts)
        seconds = perf_counter() - started
        waiting = Counter(topic for (topic, _), end in found.items() if end is None)
        if not waiting:
            break
        if seconds > _SERVED_WITHIN_SECONDS:
            raise BenchError(f"{broker.name}: {waiting.total()} partitions are not served after {seconds:.0f} s")
        counts = Counter({topic: counts[topic] for topic in waiting})
        sleep(_PAUSE_SECONDS)
    pid = broker.process.pid
    restarted = RestartResult(broker.start_seconds, seconds, process_cpu_seconds(pid), resident_bytes(pid) / 1e6)
    if found != ends:
        key = next(key for key, end in ends.items() if found.get(key) != end)
        raise BenchError(f"{broker.name}: {key[0]}-{key[1]} ends at {found.get(key)}, and ended at {ends[key]} before")
    return restarted


def _ends(broker: Broker, counts: Mapping[str, int]) -> dict[tuple[str, int], int | None]:
    """The end of each partition; None without an answer yet."""
    writer = frames.list_latest_offsets_of(counts)
    try:
        return dict(_read_ends(broker.client.call(writer)))
    except OSError:
        return {(topic, number): None for topic, count in counts.items() for number in range(count)}


def _read_ends(reader: Reader) -> Iterator[tuple[tuple[str, int], int | None]]:
    for _ in range(reader.count()):
        topic = reader.string() or ""
        for _ in range(reader.count()):
            number, error = reader.number("i"), reader.number("h")
            reader.number("q")  # time
            offset = reader.number("q")
            yield (topic, number), None if error else offset


Restart = RestartManyPartitions | Recovery
RESTARTS: Final[Mapping[str, Restart]] = {
    "start-10000": RestartManyPartitions(),
    "start-10000-killed": RestartManyPartitions(is_killed=True),
    "recovery": Recovery(),
}


def measure_restarts(
    row: Restart, launchers: Sequence[Launcher], directory: Path, generators: Path, turns: int
) -> Iterator[tuple[str, int, RestartResult]]:
    """(broker, number of the turn, result), all turns of one broker first: two brokers would share the memory."""
    for launcher in launchers:
        with row.opened(launcher, directory / launcher.name, generators) as run:
            for number in range(turns):
                yield launcher.name, number, run()

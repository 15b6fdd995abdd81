"""Compaction: the speed and CPU time of compacting a log, and the latency of a client of another topic meanwhile.

A topic is filled whose config lets no log become dirty enough. The measurement begins with a change of this config and
ends when every closed segment is a new file. The same batches of different keys are written again and again, so that
few records remain, as in most compacted logs. A client sends and receives one record each millisecond, first without
compaction, then during it.

There is a pause between filling and measuring: half a gigabyte in a second makes a write wait for the disk, and a
broker that has noticed a slow disk writes differently for a while. This would be blamed on compaction.
"""

import math
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter, sleep
from typing import Final, NamedTuple

from headgate.tools.bench.measuring.brokers import Broker, Launcher
from headgate.tools.bench.measuring.figures import Figure
from headgate.tools.bench.measuring.generator import Latency, Load, LoadResult, compile_program, run_templates
from headgate.tools.bench.measuring.machine import tree_cpu_seconds
from headgate.tools.bench.requests import frames
from headgate.tools.bench.requests.client import BenchError
from headgate.tools.bench.requests.templates import template
from headgate.tools.bench.rows.row import BATCH_TINY, MEBIBYTE

_PRODUCE_VERSION: Final = 7
_FETCH_VERSION: Final = 11
_BATCHES: Final = 64
_BATCH_BYTES: Final = 64 * 1024
_KEY_BYTES: Final = 16
_RATE: Final = 1000
_WARM_UP_MESSAGES: Final = 1000
_WITHIN_SECONDS: Final = 300.0
_POLL_SECONDS: Final = 0.02
_TOPIC: Final = "compacted"
_TOPIC_RESOURCE, _BROKER_RESOURCE = 2, 4
_SOON_MS: Final = 100


class CompactionResult(NamedTuple):
    """MB of log per second; CPU seconds per GB, of broker and children; latencies beside and without compaction."""

    megabytes_per_second: float
    cpu_seconds_per_gigabyte: float
    p99_beside_us: float
    p99_without_us: float
    p50_beside_us: float


FIGURES: Final[Mapping[Figure, Callable[[CompactionResult], float]]] = {
    Figure("MB/s", lambda _: math.nan, more_is_better=True): lambda made: made.megabytes_per_second,
    Figure("CPU s/GB", lambda _: math.nan): lambda made: made.cpu_seconds_per_gigabyte,
    Figure("p99 us of a client beside", lambda _: math.nan): lambda made: made.p99_beside_us,
    Figure("p50 us of a client beside", lambda _: math.nan): lambda made: made.p50_beside_us,
    Figure("p99 us without", lambda _: math.nan): lambda made: made.p99_without_us,
}


@dataclass(frozen=True, slots=True)
class Compaction:
    """A row of compaction; each turn starts a fresh broker. `messages`: of the client, in each of both parts."""

    record_bytes: int
    size: int = 512 * MEBIBYTE
    messages: int = 2000
    settle_seconds: float = 12.0
    segment_bytes: int = 64 * MEBIBYTE

    @contextmanager
    def opened(self, launcher: Launcher, directory: Path, generators: Path) -> Iterator[Callable[[], CompactionResult]]:
        compile_program("latency", generators)

        def run() -> CompactionResult:
            broker = launcher.start(directory)
            try:
                return self._turn(broker, generators)
            finally:
                broker.stop()

        yield run

    def _turn(self, broker: Broker, generators: Path) -> CompactionResult:
        _alter(broker, _BROKER_RESOURCE, "", {"log.cleaner.backoff.ms": str(_SOON_MS)})
        never = {
            "cleanup.policy": "compact",
            "segment.bytes": f"{self.segment_bytes}",
            "min.cleanable.dirty.ratio": "1",
        }
        broker.client.create_topic(_TOPIC, 1, never)
        self._fill(broker, generators)
        closed = _closed(broker)
        size = sum(found.size for found in closed.values())
        sleep(self.settle_seconds)
        _latency(broker, generators, "warm-up", _WARM_UP_MESSAGES)
        without = _latency(broker, generators, "without", self.messages)
        pid = broker.process.pid
        before = tree_cpu_seconds(pid)
        started = perf_counter()
        _alter(broker, _TOPIC_RESOURCE, _TOPIC, {"min.cleanable.dirty.ratio": "0.01"})
        with ThreadPoolExecutor(1) as watcher:  # compaction may end before the client does
            gone = watcher.submit(_wait_until_gone, broker, closed, started)
            beside = _latency(broker, generators, "beside", self.messages)
            seconds = gone.result()
        cpu_seconds = tree_cpu_seconds(pid) - before
        return CompactionResult(
            size / 1e6 / seconds, cpu_seconds / (size / 1e9), beside.p99_us, without.p99_us, beside.p50_us
        )

    def _fill(self, broker: Broker, generators: Path) -> None:
        """Write `size` bytes: full segments, and the beginning of one more."""
        path = generators / "compaction.templates"
        batches = [self._batch(number) for number in range(_BATCHES)]
        writers = [frames.produce(_PRODUCE_VERSION, _TOPIC, 0, records) for records in batches]
        templates = [template(writer, load_bytes=len(batches[0])) for writer in writers]
        requests = max(1, self.size // len(batches[0]) // _BATCHES)
        load = Load(frames.PRODUCE, _PRODUCE_VERSION, path, _BATCHES, requests=requests)
        run_templates(generators, load, templates, broker.port)

    def _batch(self, number: int) -> bytes:
        count = _BATCH_BYTES // self.record_bytes
        value = bytes(index % 251 for index in range(self.record_bytes - _KEY_BYTES))
        keys = (struct.pack(">qq", number, delta) for delta in range(count))
        return frames.batch([value] * count, keys=keys)


class _Closed(NamedTuple):
    """The identity of a segment file: inode and size, because a new file may get the inode of a removed one."""

    inode: int
    size: int


def _closed(broker: Broker) -> dict[str, _Closed]:
    """The closed segments by file name: all but the last one, which is the active segment."""
    paths = sorted((broker.data / f"{_TOPIC}-0").glob("*.log"))
    if len(paths) < 2:
        raise BenchError(f"{broker.name}: {_TOPIC} has {len(paths)} segments; at least two are needed, one closed")
    return {path.name: _closed_file(path) for path in paths[:-1]}


def _wait_until_gone(broker: Broker, closed: Mapping[str, _Closed], started: float) -> float:
    """The seconds from `started` until each of these files is deleted or replaced."""
    directory = broker.data / f"{_TOPIC}-0"
    while True:
        seconds = perf_counter() - started
        if not any(_closed_file(directory / name) == segment for name, segment in closed.items()):
            return seconds
        if seconds > _WITHIN_SECONDS:
            raise BenchError(f"{broker.name}: {_TOPIC} is not compacted after {seconds:.0f} s")
        sleep(_POLL_SECONDS)


def _closed_file(path: Path) -> _Closed:
    try:
        status = path.stat()
    except FileNotFoundError:
        return _Closed(0, 0)
    return _Closed(status.st_ino, status.st_size)


def _latency(broker: Broker, generators: Path, name: str, messages: int) -> LoadResult:
    """Measure records one by one, to and from a new topic."""
    topic = f"beside-{name}"
    topic_id = broker.client.create_topic(topic, 1)
    path = generators / "beside.templates"
    produce = frames.produce(_PRODUCE_VERSION, topic, 0, BATCH_TINY.build(), topic_id)
    fetch = frames.fetch(_FETCH_VERSION, topic, 0, frames.FetchOptions(MEBIBYTE), topic_id)
    latency = Latency(_PRODUCE_VERSION, _FETCH_VERSION, path, _RATE, messages)
    return run_templates(generators, latency, [template(produce), template(fetch)], broker.port)


def _alter(broker: Broker, kind: int, name: str, configs: Mapping[str, str]) -> None:
    reader = broker.client.call(frames.incremental_alter_configs(kind, name, configs))
    reader.number("i")  # throttle time
    reader.count()
    error, message = reader.number("h"), reader.string()
    if error:
        raise BenchError(f"{broker.name} refuses {configs}: {message} ({error})")


COMPACTIONS: Final[Mapping[str, Compaction]] = {
    "compaction-100": Compaction(100),
    "compaction-1k": Compaction(1024, size=1024 * MEBIBYTE),
}


def measure_compactions(
    row: Compaction, launchers: Sequence[Launcher], directory: Path, generators: Path, turns: int
) -> Iterator[tuple[str, int, CompactionResult]]:
    """(broker, number of the turn, result) in turns; only one broker runs at a time."""
    for number in range(turns):
        for launcher in launchers:
            with row.opened(launcher, directory / launcher.name, generators) as run:
                yield launcher.name, number, run()

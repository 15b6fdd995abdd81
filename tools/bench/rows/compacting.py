"""Compaction: how fast a broker compacts a log, at what CPU, and what a client of another topic feels meanwhile.

A topic is filled that is never dirty enough to be compacted, until its configuration is changed; from then on, until no
closed segment is the file that it was, is the time. What is written are some batches of unlike keys, again and again,
so that little is left: most logs that are compacted are such. A client sends and gets one record a millisecond, before
that and in the midst of it, one after the other.

Between filling and measuring is a pause: half a gigabyte in a second makes a write wait for the disk, and a broker that
has noticed that writes otherwise for a while. It would be put down to compaction.
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
from headgate.tools.bench.measuring.generator import Latency, Load, LoadResult, compile_program, run_load
from headgate.tools.bench.measuring.machine import tree_cpu_seconds
from headgate.tools.bench.requests import frames
from headgate.tools.bench.requests.client import BenchError
from headgate.tools.bench.requests.templates import template, write_templates
from headgate.tools.bench.rows.row import BATCH_TINY, MEBIBYTE

_PRODUCE_VERSION: Final = 7
_FETCH_VERSION: Final = 11
_SEGMENT_BYTES: Final = 64 * MEBIBYTE
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


class Compacted(NamedTuple):
    """MB of log a second, CPU seconds of the broker and its children a GB; the wait of a client beside and without."""

    megabytes_per_second: float
    cpu_seconds_per_gigabyte: float
    p99_beside_us: float
    p99_without_us: float
    p50_beside_us: float


FIGURES: Final[Mapping[Figure, Callable[[Compacted], float]]] = {
    Figure("MB/s", lambda _: math.nan, more_is_better=True): lambda made: made.megabytes_per_second,
    Figure("CPU s/GB", lambda _: math.nan): lambda made: made.cpu_seconds_per_gigabyte,
    Figure("p99 us of a client beside", lambda _: math.nan): lambda made: made.p99_beside_us,
    Figure("p50 us of a client beside", lambda _: math.nan): lambda made: made.p50_beside_us,
    Figure("p99 us without", lambda _: math.nan): lambda made: made.p99_without_us,
}


@dataclass(frozen=True, slots=True)
class Compaction:
    """Each turn has a fresh broker. `messages`: of the client, before and beside."""

    record_bytes: int
    size: int = 512 * MEBIBYTE
    messages: int = 2000
    settle_seconds: float = 12.0

    @contextmanager
    def opened(self, launcher: Launcher, directory: Path, generators: Path) -> Iterator[Callable[[], Compacted]]:
        compile_program("latency", generators)

        def run() -> Compacted:
            broker = launcher.start(directory)
            try:
                return self._turn(broker, generators)
            finally:
                broker.stop()

        yield run

    def _turn(self, broker: Broker, generators: Path) -> Compacted:
        _alter(broker, _BROKER_RESOURCE, "", {"log.cleaner.backoff.ms": str(_SOON_MS)})
        never = {"cleanup.policy": "compact", "segment.bytes": str(_SEGMENT_BYTES), "min.cleanable.dirty.ratio": "1"}
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
        with ThreadPoolExecutor(1) as watcher:  # it may well end before the client does
            gone = watcher.submit(_wait_until_gone, broker, closed, started)
            beside = _latency(broker, generators, "beside", self.messages)
            seconds = gone.result()
        cpu_seconds = tree_cpu_seconds(pid) - before
        return Compacted(size / 1e6 / seconds, cpu_seconds / (size / 1e9), beside.p99_us, without.p99_us, beside.p50_us)

    def _fill(self, broker: Broker, generators: Path) -> None:
        """As many segments as there is room for in `size`, and the beginning of one more."""
        path = generators / "compaction.templates"
        batches = [self._batch(number) for number in range(_BATCHES)]
        writers = [frames.produce(_PRODUCE_VERSION, _TOPIC, 0, records) for records in batches]
        write_templates(path, [template(writer, load_bytes=len(batches[0])) for writer in writers])
        requests = max(1, self.size // len(batches[0]) // _BATCHES)
        load = Load(frames.PRODUCE, _PRODUCE_VERSION, path, _BATCHES, requests=requests)
        try:
            run_load(generators, load, broker.port)
        finally:
            path.unlink()

    def _batch(self, number: int) -> bytes:
        count = _BATCH_BYTES // self.record_bytes
        value = bytes(index % 251 for index in range(self.record_bytes - _KEY_BYTES))
        keys = (struct.pack(">qq", number, delta) for delta in range(count))
        return frames.batch([value] * count, keys=keys)


class _Closed(NamedTuple):
    """A closed segment: which file it is, and its size, as a new file may have the inode of one that was removed."""

    inode: int
    size: int


def _closed(broker: Broker) -> dict[str, _Closed]:
    """By name; the last segment is the one being written."""
    paths = sorted((broker.data / f"{_TOPIC}-0").glob("*.log"))
    if len(paths) < 2:
        raise BenchError(f"{broker.name}: {_TOPIC} has {len(paths)} segments; at least one has to be closed")
    return {path.name: _closed_file(path) for path in paths[:-1]}


def _wait_until_gone(broker: Broker, closed: Mapping[str, _Closed], started: float) -> float:
    """Seconds until none of these files has its name any more."""
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
    """One record a request, to and from an empty topic of its own."""
    topic = f"beside-{name}"
    topic_id = broker.client.create_topic(topic, 1)
    path = generators / "beside.templates"
    produce = frames.produce(_PRODUCE_VERSION, topic, 0, BATCH_TINY.build(), topic_id)
    fetch = frames.fetch(_FETCH_VERSION, topic, 0, frames.FetchWish(MEBIBYTE), topic_id)
    write_templates(path, [template(produce), template(fetch)])
    try:
        latency = Latency(_PRODUCE_VERSION, _FETCH_VERSION, path, _RATE, messages)
        return run_load(generators, latency, broker.port)
    finally:
        path.unlink()


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


def measure(
    row: Compaction, launchers: Sequence[Launcher], directory: Path, generators: Path, turns: int
) -> Iterator[tuple[str, int, Compacted]]:
    """Broker, number of the turn and what it was. In turns: each broker is alone on the machine."""
    for number in range(turns):
        for launcher in launchers:
            with row.opened(launcher, directory / launcher.name, generators) as run:
                yield launcher.name, number, run()

"""One broker under measurement: topics to measure on, and samples."""

import itertools
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tools.bench import machine
from tools.bench.brokers import Broker
from tools.bench.client import BenchError
from tools.bench.figures import Sample
from tools.bench.generator import Load, LoadResult, run_load

_GONE_WITHIN_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic as it was created; the id is zero where the broker gives none."""

    name: str
    topic_id: bytes
    partitions: int


@dataclass(slots=True)
class Target:
    """A broker, the generator to load it with, a directory for template files."""

    broker: Broker
    generator: Path
    scratch: Path
    versions: dict[int, tuple[int, int]]
    _numbers: "itertools.count[int]" = field(default_factory=itertools.count)

    @property
    def name(self) -> str:
        return self.broker.name

    def scratch_file(self, name: str) -> Path:
        return self.scratch / f"{self.name}-{name}"

    @contextmanager
    def topic(self, partitions: int) -> Iterator[Topic]:
        """A new topic, deleted with its files before the next thing is measured."""
        name = f"bench-{os.getpid()}-{next(self._numbers)}"
        client = self.broker.client
        topic = Topic(name, client.create_topic(name, partitions), partitions)
        yield topic
        client.delete_topic(name)
        self._wait_until_gone(name)

    def _wait_until_gone(self, name: str) -> None:
        """A partition's directory is <topic>-<partition>, and begins with <topic> also while it is being deleted."""
        deadline = time.monotonic() + _GONE_WITHIN_SECONDS
        while left := list(self.broker.data.glob(f"{name}*")):
            if time.monotonic() > deadline:
                raise BenchError(
                    f"{self.name} deleted {name} but {left[0]} is still there after {_GONE_WITHIN_SECONDS:g} s"
                )
            time.sleep(0.02)

    def run(self, load: Load) -> LoadResult:
        return run_load(self.generator, load, self.broker.port)

    def sample(self, load: Load) -> Sample:
        """Run the load and charge the broker with every CPU second that its process used meanwhile."""
        pid = self.broker.process.pid
        machine_before, own_before = machine.machine_time(), time.process_time()
        before = machine.process_cpu_seconds(pid)
        result = self.run(load)
        server = machine.process_cpu_seconds(pid) - before
        elapsed = machine.machine_time().since(machine_before)
        ours = server + result.generator_cpu_seconds + time.process_time() - own_before
        return Sample(
            requests=result.requests,
            record_bytes=result.record_bytes,
            seconds=result.seconds,
            server_cpu_seconds=server,
            generator_cpu_seconds=result.generator_cpu_seconds,
            others_share=machine.others_share(elapsed, ours),
            p50_us=result.p50_us,
            p99_us=result.p99_us,
        )


def resident_megabytes(broker: Broker) -> float:
    return machine.resident_bytes(broker.process.pid) / 1e6

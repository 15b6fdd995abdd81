"""Rows of a cluster without faults: producers that wait for three replicas, and partitions in which nothing happens."""

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Final

from headgate.tools.bench.measuring.figures import Figure, Sample, cpu_seconds_per_gigabyte, megabytes_per_second
from headgate.tools.bench.measuring.generator import Bystander, LoadResult
from headgate.tools.bench.measuring.target import Target, Topic
from headgate.tools.bench.requests import frames
from headgate.tools.bench.requests.templates import Template, write_templates
from headgate.tools.bench.rows.row import (
    BATCH_1M,
    BATCH_16K,
    BATCH_TINY,
    BatchShape,
    ProduceRow,
    Row,
    Run,
    produce_templates,
)

ACKS_ALL: Final = -1
REPLICAS: Final = 3
_PRODUCE_VERSION: Final = 7
_PARTITIONS_A_TOPIC: Final = 1000


@dataclass(frozen=True, slots=True)
class ReplicatedProduceRow(ProduceRow):
    """A producer with acks=all."""

    replicas: int = REPLICAS

    def templates(self, topic: Topic) -> list[Template]:
        return produce_templates(topic, self.batch.build(), self.version, ACKS_ALL)


@dataclass(frozen=True, slots=True)
class PacedProduceRow(Row):
    """One producer with acks=all at a steady rate, with one record in each request and one request at a time."""

    least_seconds: float = math.inf
    batch: BatchShape = BATCH_TINY
    rate: int = 1000

    api = frames.PRODUCE

    @contextmanager
    def opened(self, target: Target) -> Iterator[Run]:
        with target.topic(self.partitions) as topic:
            path = target.scratch_file(f"{self.name}.templates")
            write_templates(path, produce_templates(topic, self.batch.build(), self.version, ACKS_ALL))
            load = Bystander(self.version, path, 1_000_000 // self.rate, 1.0)

            def run(seconds: float) -> Sample:
                return target.sample(replace(load, seconds=seconds))

            yield run


@dataclass(frozen=True, slots=True)
class IdlePartitionsRow(Row):
    """Very many partitions without records and without clients. They stay until the end of the run."""

    least_seconds: float = math.inf
    warm_up_share: float = 0.3

    def quick(self) -> "IdlePartitionsRow":
        """The same row with less work, for a first look."""
        return replace(self, partitions=self.partitions // 10)

    @contextmanager
    def opened(self, target: Target) -> Iterator[Run]:
        for first in range(0, self.partitions, _PARTITIONS_A_TOPIC):
            target.new_topic(min(_PARTITIONS_A_TOPIC, self.partitions - first))

        def run(seconds: float) -> Sample:
            def pause() -> LoadResult:
                time.sleep(seconds)
                return LoadResult(self.partitions, 0, seconds)

            return target.measure(pause)

        yield run


_LATENCIES: Final = (Figure("p50 us", lambda sample: sample.p50_us), Figure("p99 us", lambda sample: sample.p99_us))
_RATE: Final = Figure("MB/s", megabytes_per_second, more_is_better=True)
_ZOOKEEPER: Final = Figure("ZooKeeper CPU s/s", lambda sample: sample.zookeeper_cpu_seconds / sample.seconds)
_CPU_PER_SECOND: Final = Figure("CPU s/s", lambda sample: sample.server_cpu_seconds / sample.seconds)


def _per_gigabyte(mark: float, rate_mark: float | None = None) -> tuple[Figure, ...]:
    cpu = Figure("CPU s/GB", cpu_seconds_per_gigabyte, mark=mark)
    return cpu, replace(_RATE, mark=rate_mark), *_LATENCIES, _ZOOKEEPER


REPLICATED_ROWS: Final[tuple[Row, ...]] = (
    ReplicatedProduceRow("replicated-16k", _per_gigabyte(0.65, 1.3), 1, _PRODUCE_VERSION, batch=BATCH_16K, in_flight=5),
    ReplicatedProduceRow("replicated-1m", _per_gigabyte(0.85), 1, _PRODUCE_VERSION, batch=BATCH_1M, in_flight=5),
    PacedProduceRow(
        "replicated-paced",
        (replace(_CPU_PER_SECOND, mark=0.6), *(replace(figure, mark=1.0) for figure in _LATENCIES), _ZOOKEEPER),
        1,
        _PRODUCE_VERSION,
    ),
    IdlePartitionsRow("replicated-idle", (_CPU_PER_SECOND, _ZOOKEEPER), 0, 1, partitions=10_000),
)
WARM_UP_ROW: Final = REPLICATED_ROWS[0]
"""The load that has a cold JVM compile what replication needs."""

"""The base class of rows, and the rows of the C generators; each prepares its topics itself (docs/performance.md)."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any

from headgate.tools.bench.measuring.figures import Figure, Sample
from headgate.tools.bench.measuring.generator import Latency, Load, TlsLoad
from headgate.tools.bench.measuring.machine import available_bytes
from headgate.tools.bench.measuring.target import FilledTopic, Target, Topic
from headgate.tools.bench.requests import frames
from headgate.tools.bench.requests.templates import Template, template, write_templates

NEWEST = -1
_NEWEST_BUILT = {
    frames.PRODUCE: 13,
    frames.FETCH: 18,
    frames.METADATA: 13,
    frames.OFFSET_COMMIT: 10,
    frames.HEARTBEAT: 4,
    frames.CONSUMER_GROUP_HEARTBEAT: 1,
}

KIBIBYTE, MEBIBYTE = 1024, 1024 * 1024

_TOUCHED_AHEAD = 1.25  # times the bytes that the leg before would have written in the same time

Run = Callable[[float], Sample]
"""Measures for about this number of seconds."""


@dataclass(frozen=True, slots=True)
class BatchShape:
    """A batch of `records` equal values without keys."""

    records: int
    value_bytes: int

    def build(self) -> bytes:
        return frames.batch([bytes(i % 251 for i in range(self.value_bytes))] * self.records)


BATCH_16K = BatchShape(15, KIBIBYTE)
BATCH_1M = BatchShape(900, KIBIBYTE)
BATCH_4K = BatchShape(140, 20)
BATCH_TINY = BatchShape(1, 10)


@dataclass(frozen=True, slots=True)
class Row(ABC):
    """One row of the table: a load and its figures. `version`: of `api`; NEWEST is the highest one of all brokers."""

    name: str
    figures: tuple[Figure, ...]
    connections: int
    version: int
    partitions: int = 1
    warm_up_share: float = 1.0
    """The row's share of the warm-up time."""
    least_seconds: float = 0.0
    """The shortest leg: a shorter one would measure starting clients, or waits that do not end."""
    turn_share: float = 1.0
    """The row's share of the turns of other rows, to save time."""
    in_flight: int = 1
    is_encrypted: bool = False
    """Whether the clients use TLS."""

    api = frames.METADATA

    @abstractmethod
    def opened(self, target: Target) -> AbstractContextManager[Run]:
        """A context in which everything is ready to be measured."""

    def runs(self, targets: Sequence[Target], stack: ExitStack) -> Mapping[str, Run]:
        """The legs of a turn by name; `stack` closes them. Empty if the row cannot be measured on these targets."""
        return {target.name: stack.enter_context(self.opened(target)) for target in targets}

    def written(self, target: Target, templates: Iterable[Template], **more: Any) -> Load:
        """A load of this row's API that sends these templates. `more`: further fields of the load."""
        path = target.scratch_file(f"{self.name}.templates")
        write_templates(path, templates)
        kind = TlsLoad if self.is_encrypted else Load
        return kind(self.api, self.version, path, self.connections, self.in_flight, **more)

    def at_version_of(self, served: list[dict[int, tuple[int, int]]]) -> "Row":
        """The row with NEWEST replaced by the highest version that all brokers serve."""
        if self.version != NEWEST:
            return self
        return replace(self, version=min(_NEWEST_BUILT[self.api], *(versions[self.api][1] for versions in served)))


def run_of(target: Target, load: Load) -> Run:
    """Measures this load."""
    return lambda seconds: target.sample(replace(load, seconds=seconds))


def write_disk_budget() -> int:
    """The bytes that one turn may write before the kernel slows the writer down.

    By default the kernel does so when 15 percent of the available memory are dirty (balance_dirty_pages).
    """
    return min(2_000_000_000, int(available_bytes() * 0.08))


@dataclass(frozen=True, slots=True)
class ProduceRow(Row):
    """Producers: connection n produces to partition n modulo the number of partitions.

    A topic is used for several turns, until it is large: Kafka needs a second to delete one, and nothing can be
    measured meanwhile.
    """

    batch: BatchShape = BATCH_16K
    replicas: int = 1
    """The number of brokers that write each record."""

    api = frames.PRODUCE

    @contextmanager
    def opened(self, target: Target) -> Iterator[Run]:
        with ExitStack() as kept:
            topic: Topic | None = None
            written, bytes_per_second = 0, 0.0

            def run(seconds: float) -> Sample:
                nonlocal topic, written, bytes_per_second
                if topic is None:
                    topic, written = kept.enter_context(self.topic(target)), 0
                ahead = _TOUCHED_AHEAD * seconds * bytes_per_second * self.replicas
                target.touch_pages(int(min(write_disk_budget(), ahead)))
                sample = target.sample(self.load(target, topic, seconds))
                written += sample.record_bytes * self.replicas
                bytes_per_second = sample.record_bytes / sample.seconds
                if written >= write_disk_budget() // 4:
                    kept.close()
                    topic = None
                return sample

            yield run

    def topic(self, target: Target) -> AbstractContextManager[Topic]:
        return target.topic(self.partitions)

    def load(self, target: Target, topic: Topic, seconds: float) -> Load:
        return self.written(
            target, self.templates(topic), seconds=seconds, byte_limit=write_disk_budget() // self.replicas
        )

    def templates(self, topic: Topic) -> list[Template]:
        return produce_templates(topic, self.batch.build(), self.version)


def produce_templates(topic: Topic, batch: bytes, version: int, acks: int = 1) -> list[Template]:
    return [
        template(frames.produce(version, topic.name, partition, batch, topic.topic_id, acks), load_bytes=len(batch))
        for partition in range(topic.partitions)
    ]


@dataclass(frozen=True, slots=True)
class FetchRow(Row):
    """Consumers that read the same resident data again and again; rows share the data.

    The first connections begin at the start of their partitions, the next ones in the middle, so that two consumers of
    a partition are not in step.
    """

    batch: BatchShape = BATCH_16K
    max_bytes: int = MEBIBYTE
    resident_bytes: int = 256 * MEBIBYTE

    api = frames.FETCH

    @contextmanager
    def opened(self, target: Target) -> Iterator[Run]:
        topic, batch, batches = filled_topic(target, self.batch, self.resident_bytes)
        load = self.written(target, self.templates(topic, batches * self.batch.records), wrap=True)
        verify(target, replace(load, requests=self.requests_for(batches * len(batch), len(batch))), batch)
        yield run_of(target, load)

    def requests_for(self, partition_bytes: int, batch_bytes: int) -> int:
        """The number of requests for a whole partition: an answer has at least one batch, and loses at most one."""
        return partition_bytes // max(batch_bytes, self.max_bytes - batch_bytes) + 1

    def options(self) -> frames.FetchOptions:
        return frames.FetchOptions(self.max_bytes, in_session=self.version >= 13)

    def templates(self, topic: Topic, end_offset: int) -> list[Template]:
        wish = self.options()
        rounds = -(-self.connections // self.partitions)
        return [
            template(
                frames.fetch(self.version, topic.name, number % self.partitions, wish, topic.topic_id),
                first_offset=end_offset * (number // self.partitions) // rounds,
            )
            for number in range(self.connections)
        ]


FILL_VERSION = 7
FILLED_PARTITIONS = 4


def filled_topic(target: Target, shape: BatchShape, resident_bytes: int) -> FilledTopic:
    """A topic of four partitions with `resident_bytes` of equal batches, created once in a run."""
    known = target.kept.get((shape, resident_bytes))
    if known is not None:
        return known
    topic, batch = target.new_topic(FILLED_PARTITIONS), shape.build()
    count = resident_bytes // len(batch) // FILLED_PARTITIONS
    path = target.scratch_file("fill.templates")
    write_templates(path, produce_templates(topic, batch, FILL_VERSION))
    target.run(Load(frames.PRODUCE, FILL_VERSION, path, topic.partitions, in_flight=5, requests=count))
    target.kept[shape, resident_bytes] = FilledTopic(topic, batch, count)
    return target.kept[shape, resident_bytes]


def verify(target: Target, load: Load, batch: bytes) -> None:
    """Compare every fetched batch with the produced one: a fast answer must also be right."""
    path = target.scratch_file("expected.batch")
    path.write_bytes(batch)
    target.run(replace(load, expected=path))


@dataclass(frozen=True, slots=True)
class LongPollRow(Row):
    """Consumers at the end of an empty topic; each request expires."""

    least_seconds: float = 1.0
    max_wait_ms: int = 500

    api = frames.FETCH

    @contextmanager
    def opened(self, target: Target) -> Iterator[Run]:
        with target.topic(self.partitions) as topic:
            wish = frames.FetchOptions(MEBIBYTE, self.max_wait_ms)
            writer = frames.fetch(self.version, topic.name, 0, wish, topic.topic_id)
            yield run_of(target, self.written(target, [template(writer)]))


@dataclass(frozen=True, slots=True)
class MetadataRow(Row):
    """Clients that ask for Metadata of one topic again and again."""

    @contextmanager
    def opened(self, target: Target) -> Iterator[Run]:
        with target.topic(self.partitions) as topic:
            yield run_of(target, self.load(target, topic))

    def load(self, target: Target, topic: Topic) -> Load:
        return self.written(target, [template(frames.metadata(self.version, [topic.name]))])


@dataclass(frozen=True, slots=True)
class LatencyRow(Row):
    """One producer at a steady rate with one record in each request, and one waiting consumer. `version`: of Fetch.

    A JVM too cold for the rate needs a longer warm-up: it would never catch up with its backlog.
    """

    least_seconds: float = math.inf
    batch: BatchShape = BATCH_TINY
    rate: int = 1000
    produce_version: int = 7

    api = frames.FETCH

    @contextmanager
    def opened(self, target: Target) -> Iterator[Run]:
        def run(seconds: float) -> Sample:
            with target.topic(1) as topic:
                return target.sample(self.latency(target, topic, int(self.rate * seconds)))

        yield run

    def latency(self, target: Target, topic: Topic, messages: int) -> Latency:
        (produce,) = produce_templates(topic, self.batch.build(), self.produce_version)
        fetch = template(frames.fetch(self.version, topic.name, 0, frames.FetchOptions(MEBIBYTE), topic.topic_id))
        path = target.scratch_file(f"{self.name}.templates")
        write_templates(path, [produce, fetch])
        return Latency(self.produce_version, self.version, path, self.rate, messages)

"""The rows of conversions: message sets on their way in and out, and batches that change their codec.

Bytes are those of the records' values, whatever they became: so codecs and formats can be set beside each other.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from random import Random

from headgate.tools.bench.measuring.brokers import HEADGATE
from headgate.tools.bench.measuring.generator import Load
from headgate.tools.bench.measuring.target import Target, Topic
from headgate.tools.bench.requests import frames
from headgate.tools.bench.requests.templates import template, write_templates
from headgate.tools.bench.rows.row import (
    MEBIBYTE,
    BatchShape,
    FetchRow,
    ProduceRow,
    Run,
    filled_topic,
    write_disk_budget,
)

MAGIC_OF_BATCHES = 2


@dataclass(frozen=True, slots=True)
class TextShape(BatchShape):
    """Values of words by chance, the same in each run: every codec makes about a half of them."""

    codec: int = 0
    magic: int = MAGIC_OF_BATCHES

    def build(self) -> bytes:
        random = Random(self.records)
        words = [random.randbytes(4).hex().encode() for _ in range(500)]
        count = self.value_bytes // 8
        values = [b"".join(random.choices(words, k=count)).ljust(self.value_bytes) for _ in range(self.records)]
        if self.magic < MAGIC_OF_BATCHES:
            return frames.message_set(values, self.magic, self.codec)
        return frames.batch(values, codec=self.codec)

    @property
    def record_bytes(self) -> int:
        """Of all values."""
        return self.records * self.value_bytes


@dataclass(frozen=True, slots=True)
class ConvertedProduceRow(ProduceRow):
    """Producers of old sets, or to topics that have a codec of their own."""

    batch: TextShape = TextShape(1000, 100)
    configs: Mapping[str, str] = field(default_factory=dict)

    def topic(self, target: Target) -> AbstractContextManager[Topic]:
        return target.topic(self.partitions, self.configs)

    def load(self, target: Target, topic: Topic, seconds: float) -> Load:
        path = target.scratch_file(f"{self.name}.templates")
        data = self.batch.build()
        writers = [frames.produce(self.version, topic.name, number, data) for number in range(self.partitions)]
        write_templates(path, [template(writer, load_bytes=self.batch.record_bytes) for writer in writers])
        limit = write_disk_budget()
        return Load(frames.PRODUCE, self.version, path, self.connections, self.in_flight, seconds, byte_limit=limit)


@dataclass(frozen=True, slots=True)
class ConvertedFetchRow(FetchRow):
    """Consumers of a version that cannot have what is stored. The generator looks at offsets only."""

    batch: TextShape = TextShape(1000, 100)
    resident_bytes: int = 32 * MEBIBYTE
    is_refused_by_kafka: bool = False

    @contextmanager
    def opened(self, target: Target) -> Iterator[Run]:
        topic, _, batches = filled_topic(target, self.batch, self.resident_bytes)
        path = target.scratch_file(f"{self.name}.templates")
        write_templates(path, self.templates(topic, batches * self.batch.records))
        counted = self.batch.value_bytes
        load = Load(frames.FETCH, self.version, path, self.connections, record_bytes=counted, wrap=True)
        yield lambda seconds: target.sample(replace(load, seconds=seconds))

    def runs(self, targets: Sequence[Target], stack: ExitStack) -> Mapping[str, Run]:
        if self.is_refused_by_kafka:
            targets = [target for target in targets if target.name == HEADGATE]
        return FetchRow.runs(self, targets, stack)  # super() is another class's where there are slots

"""The conversion rows: message sets produced and fetched, and batches that change their codec.

Bytes are always the bytes of the records' values, so that codecs and formats can be compared.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from random import Random

from headgate.tools.bench.measuring.brokers import HEADGATE
from headgate.tools.bench.measuring.target import Target, Topic
from headgate.tools.bench.requests import frames
from headgate.tools.bench.requests.templates import Template, template
from headgate.tools.bench.rows.row import (
    MEBIBYTE,
    BatchShape,
    FetchRow,
    ProduceRow,
    Run,
    filled_topic,
    run_of,
)

MAGIC_OF_BATCHES = 2


@dataclass(frozen=True, slots=True)
class TextShape(BatchShape):
    """Values of random words, the same in each run; every codec halves them, about."""

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
        """The bytes of all values."""
        return self.records * self.value_bytes


@dataclass(frozen=True, slots=True)
class ConvertedProduceRow(ProduceRow):
    """Producers of old message sets, or to topics with a `compression.type`."""

    batch: TextShape = TextShape(1000, 100)
    configs: Mapping[str, str] = field(default_factory=dict)

    def topic(self, target: Target) -> AbstractContextManager[Topic]:
        return target.topic(self.partitions, self.configs)

    def templates(self, topic: Topic) -> list[Template]:
        data = self.batch.build()
        writers = [frames.produce(self.version, topic.name, number, data) for number in range(self.partitions)]
        return [template(writer, load_bytes=self.batch.record_bytes) for writer in writers]


@dataclass(frozen=True, slots=True)
class ConvertedFetchRow(FetchRow):
    """Consumers of a version that cannot carry the stored batches. The generator checks offsets only."""

    batch: TextShape = TextShape(1000, 100)
    resident_bytes: int = 32 * MEBIBYTE
    is_refused_by_kafka: bool = False

    @contextmanager
    def opened(self, target: Target) -> Iterator[Run]:
        topic, _, batches = filled_topic(target, self.batch, self.resident_bytes)
        templates, counted = self.templates(topic, batches * self.batch.records), self.batch.value_bytes
        yield run_of(target, self.written(target, templates, record_bytes=counted, wrap=True))

    def runs(self, targets: Sequence[Target], stack: ExitStack) -> Mapping[str, Run]:
        if self.is_refused_by_kafka:
            targets = [target for target in targets if target.name == HEADGATE]
        return FetchRow.runs(self, targets, stack)  # super() fails in a dataclass with slots, which is a new class

"""A topic in memory for tests of loads: random batches, and a LogReader over them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any

from headgate.protocol.records import batch, control
from headgate.protocol.records.batch import Record
from headgate.protocol.records.control import Marker
from headgate.protocol.topic_partition import TopicPartition
from headgate.spark.reading.log_reader import (
    Bounds,
    FetchedBatches,
    IsolationLevel,
    OffsetOutOfRange,
    OffsetRange,
    TopicDescription,
    TopicReader,
)

TOPIC = "orders"
NOW_MS = 1_700_000_000_000


@dataclass
class ModelPartition:
    """Batches, and what a consumer with read_committed gets of them."""

    batches: list[tuple[int, int, bytes]] = field(default_factory=list)  # first offset, last offset, bytes
    aborted: list[tuple[int, int, int]] = field(default_factory=list)  # producer id, first offset, last offset
    committed: dict[int, tuple[bytes | None, bytes | None]] = field(default_factory=dict)
    reasons: dict[int, str] = field(default_factory=dict)
    start: int = 0
    end: int = 0
    keys: int = 0  # so many different keys, which begin with `prefix`; 0: each record has its own, or none
    prefix: bytes = b""

    def append(self, random: Random, kind: str) -> None:
        """A batch of a kind: plain, compacted, aborted (with its marker), committed (with its marker), absent."""
        count = random.randint(1, 6)
        if kind == "absent":
            self.reasons |= dict.fromkeys(range(self.end, self.end + count), "compacted")
            self.end += count
            return
        first, producer = self.end, random.randrange(3)
        offsets = range(first, first + count)
        kept = [one for one in offsets if one == offsets[-1] or kind != "compacted" or random.random() < 0.5]
        records = [Record(one, NOW_MS + one, *self._content(random, one)) for one in kept]
        is_transactional = kind in ("aborted", "committed")
        made = batch.build(
            records,
            base_offset=first,
            compression=random.choice((0, 0, 1, 4)),
            producer_id=producer if is_transactional else -1,
            producer_epoch=0,
            is_transactional=is_transactional,
        )
        self.add(first, offsets[-1], bytes(made))
        self.reasons |= dict.fromkeys(offsets, "aborted" if kind == "aborted" else "compacted")
        if kind != "aborted":
            self._commit(records)
        if is_transactional:
            marker = control.build(
                Marker(kind == "committed", 0), producer_id=producer, producer_epoch=0, timestamp=NOW_MS
            )
            batch.patch(marker, self.end, 0)
            if kind == "aborted":
                self.aborted.append((producer, first, self.end))
            self.reasons[self.end] = "marker"
            self.add(self.end, self.end, bytes(marker))

    def _content(self, random: Random, offset: int) -> tuple[bytes | None, bytes | None]:
        if not self.keys:
            return _content(random, offset)
        key = b"%b-%d" % (self.prefix, random.randrange(self.keys))
        return key, b"value-%d" % random.randrange(1 << 40) if random.random() < 0.7 else None

    def add(self, first: int, last: int, data: bytes) -> None:
        self.batches.append((first, last, data))
        self.end = last + 1

    def _commit(self, records: Iterable[Record]) -> None:
        for one in records:
            self.committed[one.offset] = (one.key, one.value)
            del self.reasons[one.offset]

    def grow(self, random: Random, count: int) -> None:
        for _ in range(count):
            self.append(random, random.choice(("plain", "plain", "compacted", "aborted", "committed", "absent")))
        self.append(random, "plain")

    def expected(self, start: int, end: int) -> dict[int, tuple[bytes | None, bytes | None]]:
        return {offset: content for offset, content in self.committed.items() if start <= offset < end}


def _content(random: Random, offset: int) -> tuple[bytes | None, bytes | None]:
    key = b"key-%d" % offset if random.random() < 0.7 else None
    return key, b"value-%d" % offset if random.random() < 0.9 else None


@dataclass
class ModelLog:
    """A log of one topic: an origin that opens readers of itself."""

    partitions: list[ModelPartition]
    topic_id: bytes | None = bytes(range(16))
    piece_batches: int = 3

    @classmethod
    def random(cls, seed: int, partitions: int = 2, batches: int = 8) -> ModelLog:
        random = Random(seed)
        made = cls([ModelPartition() for _ in range(partitions)])
        for one in made.partitions:
            one.grow(random, batches)
        return made

    def open(self) -> TopicReader:
        return ModelReader(self)

    def open_in_task(self, topic_ids: Mapping[str, bytes]) -> TopicReader:
        assert all(self.topic_id == one for one in topic_ids.values())
        return self.open()

    def compacted(self, topics: Iterable[str]) -> dict[str, bool]:
        return dict.fromkeys(topics, True)


class ModelReader:
    def __init__(self, log: ModelLog) -> None:
        self._log = log

    def topics(self) -> Mapping[str, TopicDescription]:
        return {TOPIC: TopicDescription(TOPIC, self._log.topic_id, range(len(self._log.partitions)))}

    def bounds(self, partitions: Iterable[TopicPartition], isolation: IsolationLevel) -> Mapping[Any, Bounds]:
        return {one: Bounds(self._of(one).start, self._of(one).end) for one in partitions}

    def offsets_for_times(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        return {
            one: next((offset for offset in sorted(self._of(one).committed) if NOW_MS + offset >= time_ms), None)
            for one, time_ms in times.items()
        }

    def read(self, wanted: OffsetRange, isolation: IsolationLevel) -> Iterator[FetchedBatches]:
        partition = self._of(wanted.partition)
        if wanted.start_offset < partition.start or wanted.end_offset > partition.end:
            raise OffsetOutOfRange(wanted, Bounds(partition.start, partition.end))
        found = [one for one in partition.batches if one[1] >= wanted.start_offset and one[0] < wanted.end_offset]
        for at in range(0, len(found), self._log.piece_batches):
            piece = found[at : at + self._log.piece_batches]
            aborted = [
                (producer, first)
                for producer, first, last in partition.aborted
                if last >= piece[0][0] and first <= piece[-1][1]
            ]
            yield FetchedBatches(b"".join(data for _, _, data in piece), aborted, piece[-1][1] + 1)

    def close(self) -> None:
        """Nothing is open."""

    def _of(self, partition: TopicPartition) -> ModelPartition:
        return self._log.partitions[partition.number]

"""A LogReader over batches in memory, with gaps, aborted transactions and control batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from headgate.protocol.records import batch, control
from headgate.protocol.topic_partition import TopicPartition
from headgate.spark.reading.log_reader import (
    Bounds,
    FetchedBatches,
    IsolationLevel,
    OffsetOutOfRange,
    OffsetRange,
    TopicDescription,
)


@dataclass
class MemoryLog:
    """One partition. `batches`: (first offset, bytes)."""

    batches: list[tuple[int, bytes]] = field(default_factory=list)
    aborted: list[tuple[int, int]] = field(default_factory=list)
    start: int = 0
    end: int = 0

    def append(
        self, values: Iterable[bytes], *, producer_id: int = -1, key: bytes | None = None, time: int = 0
    ) -> None:
        records = [batch.Record(offset=n, timestamp=time, key=key, value=one) for n, one in enumerate(values)]
        is_transactional = producer_id >= 0
        data = batch.build(records, producer_id=producer_id, producer_epoch=0, is_transactional=is_transactional)
        self._add(data, len(records))

    def end_transaction(self, producer_id: int, *, is_commit: bool, first_offset: int) -> None:
        self._add(
            bytearray(
                control.build(control.Marker(is_commit, 0), producer_id=producer_id, producer_epoch=0, timestamp=0)
            ),
            1,
        )
        if not is_commit:
            self.aborted.append((producer_id, first_offset))

    def _add(self, data: bytearray, count: int) -> None:
        batch.patch_head(data, 0, self.end, len(data) - batch.LOG_OVERHEAD, 0)
        self.batches.append((self.end, bytes(data)))
        self.end += count


@dataclass
class MemoryReader:
    """Topics in memory. `times`: the answer of offsets_for_times."""

    logs: dict[TopicPartition, MemoryLog]
    times: dict[tuple[TopicPartition, int], int | None] = field(default_factory=dict)

    def topics(self) -> Mapping[str, TopicDescription]:
        names = sorted({one.topic for one in self.logs})
        return {
            name: TopicDescription(name, None, sorted(p.number for p in self.logs if p.topic == name)) for name in names
        }

    def bounds(
        self, partitions: Iterable[TopicPartition], isolation: IsolationLevel
    ) -> Mapping[TopicPartition, Bounds]:
        return {one: Bounds(self.logs[one].start, self.logs[one].end) for one in partitions}

    def offsets_for_times(self, times: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int | None]:
        return {one: self.times[one, time] for one, time in times.items()}

    def read(self, wanted: OffsetRange, isolation: IsolationLevel) -> Iterator[FetchedBatches]:
        log = self.logs[wanted.partition]
        if wanted.start_offset < log.start or wanted.end_offset > log.end:
            raise OffsetOutOfRange(wanted, Bounds(log.start, log.end))
        for first, data in log.batches:
            after = first + batch.read_header(data).last_offset_delta + 1
            if after > wanted.start_offset and first < wanted.end_offset:
                yield FetchedBatches(data, log.aborted, after)

    def close(self) -> None:
        """Nothing is open."""

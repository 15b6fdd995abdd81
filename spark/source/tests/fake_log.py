"""A topic in memory behind the interface of both readers, which can lose records while it is read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from headgate.protocol.records import batch
from headgate.protocol.records.batch import Record
from headgate.protocol.topic_partition import TopicPartition
from headgate.spark.reading.log_reader import (
    Bounds,
    FetchedBatches,
    IsolationLevel,
    LogUnavailable,
    OffsetOutOfRange,
    OffsetRange,
    TopicDescription,
)

T0 = TopicPartition("t", 0)
T1 = TopicPartition("t", 1)
COMMITTED = IsolationLevel.READ_COMMITTED


class FakeLog:
    """Partitions by bounds; record `n` has the offset n, the value b"n" and the timestamp 1000 + n ms."""

    def __init__(self, bounds: Mapping[TopicPartition, tuple[int, int]]) -> None:
        self.bounds_now = {partition: Bounds(*one) for partition, one in bounds.items()}
        self.after_piece: Callable[[FakeLog], None] = lambda _: None
        self.piece_records = 5
        self.is_closed = False
        self.topic_id: bytes | None = None
        self.reads: list[OffsetRange] = []

    def topics(self) -> Mapping[str, TopicDescription]:
        names = sorted({partition.topic for partition in self.bounds_now})
        return {
            name: TopicDescription(name, self.topic_id, [one.number for one in self.bounds_now if one.topic == name])
            for name in names
        }

    def bounds(
        self, partitions: Iterable[TopicPartition], isolation: IsolationLevel
    ) -> Mapping[TopicPartition, Bounds]:
        try:
            return {partition: self.bounds_now[partition] for partition in partitions}
        except KeyError as missing:
            raise LogUnavailable(f"there is no {missing}") from None

    def offsets_for_times(self, times: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int | None]:
        found: dict[TopicPartition, int | None] = {}
        for partition, time_ms in times.items():
            start, end = self.bounds_now[partition]
            offset = max(time_ms - 1000, start)
            found[partition] = offset if offset < end else None
        return found

    def read(self, wanted: OffsetRange, isolation: IsolationLevel) -> Iterator[FetchedBatches]:
        self.reads.append(wanted)
        position = wanted.start_offset
        while position < wanted.end_offset:
            bounds = self.bounds_now[wanted.partition]
            if not bounds.start_offset <= position < bounds.end_offset:
                raise OffsetOutOfRange(wanted._replace(start_offset=position), bounds)
            end = min(position + self.piece_records, wanted.end_offset, bounds.end_offset)
            records = [Record(n, 1000 + n, None, b"%d" % n, []) for n in range(position, end)]
            yield FetchedBatches(batch.build(records, base_offset=position), [], end)
            position = end
            self.after_piece(self)

    def close(self) -> None:
        self.is_closed = True

"""A copier that copies in memory, writes markers, and can be killed before or after the commit of a batch."""

from __future__ import annotations

from collections.abc import Sequence

from headgate.protocol.topic_partition import TopicPartition
from headgate.spark.pipelines.copying import Beside
from headgate.spark.reading.log_reader import OffsetRange
from headgate.spark.sink.exactly_once import WriteOutcome
from headgate.spark.sink.marker import BatchDecision, QueryBatch, SinkMarker, decide
from headgate.spark.sink.transaction import TransactionalProducer


class Killed(Exception):
    """The process ended here."""


class FakeCopier:
    """`copied`: the offsets of each partition in the order of copying; `marker`: of the last batch."""

    def __init__(self, name: str, kills: Sequence[str] = ()) -> None:
        self.name, self.kills = name, list(kills)
        self.copied: dict[TopicPartition, list[int]] = {}
        self.marker: SinkMarker | None = None
        self.names: dict[str, str] = {}
        self.batches: list[QueryBatch] = []

    def copy(self, ranges: Sequence[OffsetRange], batch: QueryBatch, beside: Beside | None = None) -> WriteOutcome:
        kill = self.kills.pop(0) if self.kills else ""
        if decide(self.name, self.marker, batch) is BatchDecision.SKIP:
            return WriteOutcome(is_written=False, records=0, tries=1, seconds=0)
        if kill == "before":
            raise Killed
        if beside is not None:
            beside(TransactionalProducer(self.name, 1, 0))
        for one in ranges:
            self.copied.setdefault(one.partition, []).extend(range(one.start_offset, one.end_offset))
        self.marker = SinkMarker(batch.query_id, batch.batch_id, batch.positions, 0)
        self.batches.append(batch)
        if kill == "after":
            raise Killed
        return WriteOutcome(is_written=True, records=1, tries=1, seconds=0)

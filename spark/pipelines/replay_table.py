"""`headgate spark replay table:OUT TOPIC`: rows of a table into a topic, once by the name of the replay.

The first run fixes the version of the table and the number of batches; both are in the marker of each batch. A batch
has the rows of some keys, chosen by the keys' hash, so every run makes the same batches, and the rows of a key stay in
their order.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from headgate.spark.pipelines.copy_plan import CopyIdentity, damaged_plan, plan_of
from headgate.spark.pipelines.table_source import TableSource
from headgate.spark.sink.exactly_once import WriteOutcome
from headgate.spark.sink.marker import QueryBatch, SinkMarker
from headgate.spark.sink.sink import Sink
from headgate.tools.output import Row, UsageError

_COLUMNS = ("key", "value", "headers", "timestamp")
_BYTES = ("binary", "string")


@dataclass(frozen=True)
class TableReplay:
    """The rows to replay. `from_ms`, `to_ms`: rows with these timestamps only. `most_rows`: of a batch, about."""

    name: str
    table: TableSource
    target: str
    from_ms: int | None
    to_ms: int | None
    keeps_partitions: bool
    most_rows: int

    def identity(self) -> CopyIdentity:
        source = {
            "table": self.table.name,
            "target": self.target,
            "from_ms": self.from_ms,
            "to_ms": self.to_ms,
            "partitions": "keep" if self.keeps_partitions else "key",
        }
        return CopyIdentity("replay-table", source)


class TablePlan(NamedTuple):
    """The facts that the first run fixes."""

    version: str
    batches: int


class BatchCopier(Protocol):
    """Reads a table and writes its batches."""

    def plan(self, replay: TableReplay) -> TablePlan:
        """The plan for the present version. Raises UsageError."""

    def copy(self, replay: TableReplay, plan: TablePlan, batch: QueryBatch) -> WriteOutcome:
        """Write the batch with this number. Raises UsageError, SinkRefused, SinkFailed."""


def run(replay: TableReplay, marker: SinkMarker | None, open_copier: Callable[[], BatchCopier]) -> Iterator[Row]:
    """A row for each batch. Raises UsageError, SinkRefused, SinkFailed. The copier is opened if there is work."""
    identity, first = replay.identity(), 0
    copier: BatchCopier | None = None
    if marker is None:
        copier = open_copier()
        plan = copier.plan(replay)
    else:
        plan, first = parse_plan(replay.name, plan_of(replay.name, identity, marker)), marker.batch_id + 1
    query_id = f"{identity.query_id()} {json.dumps(plan._asdict(), separators=(',', ':'))}"
    for number in range(first, plan.batches):
        copier = copier or open_copier()
        outcome = copier.copy(replay, plan, QueryBatch(query_id, number, {}))
        yield {
            "batch": number,
            "batches": plan.batches,
            "records": outcome.records,
            "seconds": round(outcome.seconds, 1),
            "tries": outcome.tries,
            "written": outcome.is_written,
        }


def parse_plan(name: str, text: str) -> TablePlan:
    """The plan in a marker. Raises UsageError."""
    try:
        found = json.loads(text)
        return TablePlan(str(found["version"]), int(found["batches"]))
    except (ValueError, KeyError, TypeError):
        raise damaged_plan(name, text) from None


class SparkCopier:
    """Copies with Spark's tasks and the sink."""

    def __init__(self, session: Any, sink: Sink) -> None:
        self._session, self._sink = session, sink

    def plan(self, replay: TableReplay) -> TablePlan:
        version = replay.table.version(self._session)
        if not version:
            return TablePlan(version, 0)
        rows = wanted_rows(replay, replay.table.rows(self._session, version))
        return TablePlan(version, -(-rows.count() // replay.most_rows))

    def copy(self, replay: TableReplay, plan: TablePlan, batch: QueryBatch) -> WriteOutcome:
        rows = wanted_rows(replay, replay.table.rows(self._session, plan.version))
        return self._sink.write_batch(batch_of(replay, rows, plan.batches, batch.batch_id), batch)


def wanted_rows(replay: TableReplay, rows: Any) -> Any:
    """The rows between the times. Raises UsageError for a table that lacks a column, or whose values are no bytes."""
    from pyspark.sql import functions as f

    types = dict(rows.dtypes)
    needed = ["key", "value"]
    needed += ["timestamp"] if (replay.from_ms, replay.to_ms) != (None, None) else []
    needed += ["partition"] if replay.keeps_partitions else []
    missing = [name for name in needed if name not in types]
    if missing:
        raise UsageError(f"{replay.table.name} has no column {', '.join(missing)}; it has {', '.join(types)}")
    for name in ("key", "value"):
        if types[name] not in _BYTES:
            raise UsageError(
                f"the column {name} of {replay.table.name} is {types[name][:60]}: a replay writes bytes or text, as "
                "`headgate spark load` and `table` keep them with --format raw"
            )
    if replay.from_ms is not None:
        rows = rows.where(f.col("timestamp") >= f.timestamp_millis(f.lit(replay.from_ms)))
    if replay.to_ms is not None:
        rows = rows.where(f.col("timestamp") < f.timestamp_millis(f.lit(replay.to_ms)))
    return rows


def batch_of(replay: TableReplay, rows: Any, batches: int, number: int) -> Any:
    """The rows of one batch. The rows of a partition, or of a key, are in one task and in order."""
    from pyspark.sql import functions as f

    if batches > 1:
        rows = rows.where(f.pmod(f.xxhash64("key"), f.lit(batches)) == number)
    order = [name for name in ("partition", "offset") if name in rows.columns] or ["timestamp"]
    together = "partition" if replay.keeps_partitions else "key"
    sorted_rows = rows.repartition(together).sortWithinPartitions(*(name for name in order if name in rows.columns))
    columns = [name for name in _COLUMNS if name in rows.columns]
    return sorted_rows.select(*columns, *(["partition"] if replay.keeps_partitions else []))

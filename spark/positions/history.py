"""The history of a query: a JSON line for each batch, from the progress that Spark reports to listeners.

    {"at_ms": 1700000000000, "query_id": "...", "batch": 7, "rows": 1000, "duration_ms": 850,
     "committed": {"orders": {"0": 250}}, "latest": {"orders": {"0": 300}}}

`committed` is the next offset after the batch, `latest` the end of the partitions as Spark saw it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any, NamedTuple

from headgate.protocol.spark.checkpoint import NextOffsets
from headgate.protocol.spark.checkpoint_files import MalformedCheckpoint, lowest, parse_positions
from headgate.protocol.topic_partition import TopicPartition


class BatchRecord(NamedTuple):
    """One batch that is done. `at_ms`: its start in ms since 1970; `duration_ms`: -1 if unknown."""

    at_ms: int
    query_id: str
    batch: int
    rows: int
    duration_ms: int
    committed: NextOffsets
    latest: NextOffsets

    @property
    def lag(self) -> int | None:
        """Records between the query and the ends; None if Spark did not say where the ends are."""
        if not self.latest:
            return None
        return sum(max(0, end - self.committed.get(partition, end)) for partition, end in self.latest.items())


def of_progress(progress: Mapping[str, Any]) -> BatchRecord | None:
    """The record of a progress report, as JSON; None for a query that reads no Kafka. Raises nothing."""
    committed = _positions(progress, "endOffset")
    if not committed:
        return None
    return BatchRecord(
        _milliseconds(progress.get("timestamp")),
        str(progress.get("id", "")),
        _number(progress.get("batchId")),
        sum(_number(source.get("numInputRows")) for source in _sources(progress)),
        _number(progress.get("batchDuration")),
        committed,
        _positions(progress, "latestOffset"),
    )


def _sources(progress: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [source for source in progress.get("sources") or () if isinstance(source, dict)]


def _positions(progress: Mapping[str, Any], name: str) -> NextOffsets:
    """The offsets of all sources. Spark has them as text or as an object, by version."""
    found = []
    for source in _sources(progress):
        value = source.get(name)
        try:
            positions = parse_positions(value if isinstance(value, str) else json.dumps(value))
        except MalformedCheckpoint:
            continue
        if positions:
            found.append(positions)
    return {TopicPartition(*partition): offset for partition, offset in lowest(found).items()}


def _number(value: object) -> int:
    return int(value) if isinstance(value, int | float) else -1


def _milliseconds(text: object) -> int:
    try:
        return int(datetime.fromisoformat(str(text)).timestamp() * 1000)
    except ValueError:
        return 0


def build_line(record: BatchRecord) -> str:
    """The line of a batch, without its end."""
    return json.dumps(
        {**record._asdict(), "committed": _nested(record.committed), "latest": _nested(record.latest)},
        separators=(",", ":"),
    )


def _nested(offsets: NextOffsets) -> dict[str, dict[str, int]]:
    topics: dict[str, dict[str, int]] = {}
    for partition, offset in offsets.items():
        topics.setdefault(partition.topic, {})[str(partition.number)] = offset
    return topics


def parse_lines(lines: Iterable[str]) -> Iterator[BatchRecord]:
    """The records of a file in order; lines that are damaged, as the last one after a kill, are left out."""
    for line in lines:
        try:
            row = json.loads(line)
            numbers = [row[name] for name in ("at_ms", "batch", "rows", "duration_ms")]
            offsets = [parse_positions(json.dumps(row[name])) for name in ("committed", "latest")]
        except (ValueError, KeyError, TypeError, RecursionError):
            continue
        if all(type(number) is int for number in numbers) and None not in offsets:
            committed, latest = (
                {TopicPartition(*partition): at for partition, at in (rows or {}).items()} for rows in offsets
            )
            at_ms, batch, count, duration_ms = numbers
            yield BatchRecord(at_ms, str(row.get("query_id", "")), batch, count, duration_ms, committed, latest)

"""The last survey as tables of metrics: by group and partition, by group and topic, by group, and by verdict.

A lag that is not known has no sample.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

from headgate.gateway.lag.readers import GroupLag, GroupPartitionLag, LagSurvey
from headgate.gateway.metrics.partition_metrics import BY_BROKER, BY_PARTITION, BY_TOPIC, DETAILS
from headgate.gateway.runtime.metrics import Metrics, TableRow
from headgate.protocol.steps import Steps

if TYPE_CHECKING:
    from headgate.gateway.lag.lag_collector import LagCollector

ROWS_AT_ONCE: Final = 256
"""The rows of one step: some 0.3 ms."""

PARTITION_COLUMNS: Final = ("group.partition.offset", "group.partition.lag.records", "group.partition.lag.seconds")
TOPIC_COLUMNS: Final = ("group.topic.offset.sum", "group.topic.lag.records")
GROUP_COLUMNS: Final = ("group.members", "group.lag.sum.records", "group.lag.max.records", "group.lag.max.seconds")
VERDICT_COLUMNS: Final = ("group.verdict",)
COLUMNS: Final = (*PARTITION_COLUMNS, *TOPIC_COLUMNS, *GROUP_COLUMNS, *VERDICT_COLUMNS)

MakeRows: TypeAlias = Callable[[LagSurvey], Steps[Sequence[TableRow]]]


def register(metrics: Metrics, collector: LagCollector, detail: str) -> None:
    """Add the tables to the metrics of the broker, as fine as `headgate.metrics.detail` says."""
    for coarsest, labels, columns, make in (
        (BY_PARTITION, ("group", "topic", "partition"), PARTITION_COLUMNS, partition_rows),
        (BY_TOPIC, ("group", "topic"), TOPIC_COLUMNS, topic_rows),
        (BY_BROKER, ("group",), GROUP_COLUMNS, group_rows),
        (BY_BROKER, ("group", "verdict"), VERDICT_COLUMNS, verdict_rows),
    ):
        if DETAILS.index(detail) <= DETAILS.index(coarsest):
            metrics.table(labels, columns, _reading(collector, make))


def _reading(collector: LagCollector, make: MakeRows) -> Callable[[], Steps[Sequence[TableRow]]]:
    def read() -> Steps[Sequence[TableRow]]:
        return (yield from make((yield from collector.survey())))

    return read


def partition_rows(survey: LagSurvey) -> Steps[Sequence[TableRow]]:
    """A row for each partition of each group."""
    rows: list[TableRow] = []
    for group in survey.groups:
        name = group.name
        for row in group.partitions:
            offset = None if row.committed is None else row.committed.offset
            rows.append(((name, row.topic, str(row.partition)), (offset, row.records, row.seconds)))
            if len(rows) % ROWS_AT_ONCE == 0:
                yield
    return rows


def topic_rows(survey: LagSurvey) -> Steps[Sequence[TableRow]]:
    """A row for each topic of each group: sums over its partitions."""
    rows: list[TableRow] = []
    count = 0
    for group in survey.groups:
        by_topic: dict[str, list[GroupPartitionLag]] = {}
        for row in group.partitions:
            by_topic.setdefault(row.topic, []).append(row)
            count += 1
            if count % ROWS_AT_ONCE == 0:
                yield
        for topic, partitions in by_topic.items():
            offsets = [row.committed.offset for row in partitions if row.committed is not None]
            records = [row.records for row in partitions if row.records is not None]
            numbers = (sum(offsets) if offsets else None, sum(records) if records else None)
            rows.append(((group.name, topic), numbers))
    return rows


def group_rows(survey: LagSurvey) -> Steps[Sequence[TableRow]]:
    """A row for each group."""
    rows: list[TableRow] = []
    for group in survey.groups:
        rows.append(((group.name,), (group.members, group.records, _most_records(group), group.seconds)))
        if len(rows) % ROWS_AT_ONCE == 0:
            yield
    return rows


def verdict_rows(survey: LagSurvey) -> Steps[Sequence[TableRow]]:
    """The verdict on each group that has one, as a label."""
    rows: list[TableRow] = []
    for group in survey.groups:
        if group.verdict is not None:
            rows.append(((group.name, group.verdict.value), (1,)))
            if len(rows) % ROWS_AT_ONCE == 0:
                yield
    return rows


def _most_records(group: GroupLag) -> int | None:
    return max((row.records for row in group.partitions if row.records is not None), default=None)

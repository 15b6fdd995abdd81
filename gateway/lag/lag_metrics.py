"""The last survey as tables of metrics: by group and partition, by group and topic, by group, and by verdict.

A lag that is not known has no sample.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeAlias

from headgate.gateway.lag.readers import GroupLag, LagSurvey
from headgate.gateway.metrics.label_texts import escape, label_text
from headgate.gateway.metrics.partition_survey import BY_BROKER, BY_PARTITION, BY_TOPIC, DETAILS
from headgate.gateway.runtime.metrics import MetricRows, Metrics
from headgate.protocol.steps import Steps

if TYPE_CHECKING:
    from headgate.gateway.lag.lag_collector import LagCollector

ROWS_AT_ONCE: Final = 256
"""The rows of one step: some 0.3 ms."""

PARTITION_LABELS, TOPIC_LABELS = ("group", "topic", "partition"), ("group", "topic")
GROUP_LABELS, VERDICT_LABELS = ("group",), ("group", "verdict")
PARTITION_COLUMNS: Final = ("group.partition.offset", "group.partition.lag.records", "group.partition.lag.seconds")
TOPIC_COLUMNS: Final = ("group.topic.offset.sum", "group.topic.lag.records")
GROUP_COLUMNS: Final = ("group.members", "group.lag.sum.records", "group.lag.max.records", "group.lag.max.seconds")
VERDICT_COLUMNS: Final = ("group.verdict",)
COLUMNS: Final = (*PARTITION_COLUMNS, *TOPIC_COLUMNS, *GROUP_COLUMNS, *VERDICT_COLUMNS)

MakeRows: TypeAlias = Callable[[LagSurvey], Steps[MetricRows]]
Number: TypeAlias = int | float | None


def register(metrics: Metrics, collector: LagCollector, detail: str) -> None:
    """Add the tables to the metrics of the broker, as fine as `headgate.metrics.detail` says."""
    for coarsest, labels, columns, make in (
        (BY_PARTITION, PARTITION_LABELS, PARTITION_COLUMNS, partition_rows),
        (BY_TOPIC, TOPIC_LABELS, TOPIC_COLUMNS, topic_rows),
        (BY_BROKER, GROUP_LABELS, GROUP_COLUMNS, group_rows),
        (BY_BROKER, VERDICT_LABELS, VERDICT_COLUMNS, verdict_rows),
    ):
        if DETAILS.index(detail) <= DETAILS.index(coarsest):
            metrics.table(labels, columns, _reading(collector, make))


def _reading(collector: LagCollector, make: MakeRows) -> Callable[[], Steps[MetricRows]]:
    def read() -> Steps[MetricRows]:
        return (yield from make((yield from collector.survey())))

    return read


def partition_rows(survey: LagSurvey) -> Steps[MetricRows]:
    """A row for each partition of each group."""
    texts = list[str]()
    offsets, records, seconds = columns = list[Number](), list[Number](), list[Number]()
    for group in survey.groups:
        topic, name = None, escape(group.name)
        head = ""
        for row in group.partitions:
            if row.topic != topic:  # the rows of a topic follow each other
                topic = row.topic
                head = f'="{name}",topic="{escape(topic)}",partition="'
            texts.append(f'{head}{row.partition}"}} ')
            offsets.append(None if row.committed is None else row.committed.offset)
            records.append(row.records)
            seconds.append(row.seconds)
            if len(texts) % ROWS_AT_ONCE == 0:
                yield
    return MetricRows(texts, columns)


def topic_rows(survey: LagSurvey) -> Steps[MetricRows]:
    """A row for each topic of each group: sums over its partitions."""
    texts = list[str]()
    offsets, records = columns = list[Number](), list[Number]()
    count = 0
    for group in survey.groups:
        topic = None
        for row in group.partitions:
            if row.topic != topic:
                topic = row.topic
                texts.append(label_text(TOPIC_LABELS, (group.name, topic)))
                offsets.append(None)
                records.append(None)
            if row.committed is not None:
                offsets[-1] = (offsets[-1] or 0) + row.committed.offset
            if row.records is not None:
                records[-1] = (records[-1] or 0) + row.records
            count += 1
            if count % ROWS_AT_ONCE == 0:
                yield
    return MetricRows(texts, columns)


def group_rows(survey: LagSurvey) -> Steps[MetricRows]:
    """A row for each group."""
    texts = list[str]()
    members, records, most, seconds = columns = list[Number](), list[Number](), list[Number](), list[Number]()
    for group in survey.groups:
        texts.append(label_text(GROUP_LABELS, (group.name,)))
        members.append(group.members)
        records.append(group.records)
        most.append(_most_records(group))
        seconds.append(group.seconds)
        if len(texts) % ROWS_AT_ONCE == 0:
            yield
    return MetricRows(texts, columns)


def verdict_rows(survey: LagSurvey) -> Steps[MetricRows]:
    """The verdict on each group that has one, as a label."""
    texts = list[str]()
    for group in survey.groups:
        if group.verdict is not None:
            texts.append(label_text(VERDICT_LABELS, (group.name, group.verdict.value)))
            if len(texts) % ROWS_AT_ONCE == 0:
                yield
    return MetricRows(texts, ([1] * len(texts),))


def _most_records(group: GroupLag) -> int | None:
    return max((row.records for row in group.partitions if row.records is not None), default=None)

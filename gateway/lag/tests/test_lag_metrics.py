"""The survey as rows of metrics: nothing where nothing is known."""

from __future__ import annotations

from headgate.gateway.lag import lag_metrics
from headgate.gateway.lag.readers import Committed, GroupLag, GroupPartitionLag, LagSurvey
from headgate.protocol.lag.verdicts import Verdict
from headgate.protocol.steps import finish


def row(
    topic: str, partition: int, offset: int | None, records: int | None, seconds: float | None
) -> GroupPartitionLag:
    committed = None if offset is None else Committed(offset, 0)
    return GroupPartitionLag(topic, partition, committed, 0, 9, records, seconds, "ok", None, 3, None)


ROWS = (row("t", 0, 5, 4, 1.5), row("t", 1, 7, 2, None), row("u", 0, None, None, None))
SURVEY = LagSurvey(
    0,
    [
        GroupLag("g", "classic", "Stable", 2, 6, 1.5, Verdict.WARN, None, ROWS),
        GroupLag("spark:q", "spark", "", None, None, None, None, "gone", ()),
    ],
)


def test_rows_by_partition() -> None:
    assert finish(lag_metrics.partition_rows(SURVEY)) == [
        (("g", "t", "0"), (5, 4, 1.5)),
        (("g", "t", "1"), (7, 2, None)),
        (("g", "u", "0"), (None, None, None)),
    ]


def test_rows_by_topic_are_sums() -> None:
    assert finish(lag_metrics.topic_rows(SURVEY)) == [(("g", "t"), (12, 6)), (("g", "u"), (None, None))]


def test_rows_by_group() -> None:
    """A group that cannot be read has no numbers."""
    assert finish(lag_metrics.group_rows(SURVEY)) == [
        (("g",), (2, 6, 4, 1.5)),
        (("spark:q",), (None, None, None, None)),
    ]


def test_the_verdict_is_a_label() -> None:
    assert finish(lag_metrics.verdict_rows(SURVEY)) == [(("g", "WARN"), (1,))]


def test_a_row_has_a_number_for_each_column() -> None:
    for columns, make in (
        (lag_metrics.PARTITION_COLUMNS, lag_metrics.partition_rows),
        (lag_metrics.TOPIC_COLUMNS, lag_metrics.topic_rows),
        (lag_metrics.GROUP_COLUMNS, lag_metrics.group_rows),
        (lag_metrics.VERDICT_COLUMNS, lag_metrics.verdict_rows),
    ):
        assert {len(numbers) for _, numbers in finish(make(SURVEY))} == {len(columns)}


def test_many_rows_take_many_steps() -> None:
    many = LagSurvey(0, [SURVEY.groups[0]] * 1_000)
    for make in (lag_metrics.partition_rows, lag_metrics.topic_rows, lag_metrics.group_rows, lag_metrics.verdict_rows):
        assert len(list(make(many))) >= 1_000 // lag_metrics.ROWS_AT_ONCE

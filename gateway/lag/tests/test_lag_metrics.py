"""The survey as rows of metrics: nothing where nothing is known."""

from __future__ import annotations

import re
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from headgate.gateway.lag import lag_metrics
from headgate.gateway.lag.readers import Committed, GroupLag, GroupPartitionLag, LagSurvey
from headgate.gateway.lag.tests.surveyed import SurveyedBroker
from headgate.gateway.metrics.exposition import exposition
from headgate.gateway.runtime.metrics import Metrics
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


def rows(make: lag_metrics.MakeRows) -> list[tuple[tuple[str, ...], tuple[float | None, ...]]]:
    """The label values and the numbers of each row."""
    texts, columns = finish(make(SURVEY))
    return [
        (tuple(re.findall(r'="(.*?)"', text)), numbers)
        for text, numbers in zip(texts, zip(*columns, strict=True), strict=True)
    ]


def test_rows_by_partition() -> None:
    assert rows(lag_metrics.partition_rows) == [
        (("g", "t", "0"), (5, 4, 1.5)),
        (("g", "t", "1"), (7, 2, None)),
        (("g", "u", "0"), (None, None, None)),
    ]


def test_rows_by_topic_are_sums() -> None:
    assert rows(lag_metrics.topic_rows) == [(("g", "t"), (12, 6)), (("g", "u"), (None, None))]


def test_rows_by_group() -> None:
    """A group that cannot be read has no numbers."""
    assert rows(lag_metrics.group_rows) == [
        (("g",), (2, 6, 4, 1.5)),
        (("spark:q",), (None, None, None, None)),
    ]


def test_the_verdict_is_a_label() -> None:
    assert rows(lag_metrics.verdict_rows) == [(("g", "WARN"), (1,))]


def test_a_row_has_a_number_for_each_column() -> None:
    for columns, make in (
        (lag_metrics.PARTITION_COLUMNS, lag_metrics.partition_rows),
        (lag_metrics.TOPIC_COLUMNS, lag_metrics.topic_rows),
        (lag_metrics.GROUP_COLUMNS, lag_metrics.group_rows),
        (lag_metrics.VERDICT_COLUMNS, lag_metrics.verdict_rows),
    ):
        assert {len(numbers) for _, numbers in rows(make)} == {len(columns)}


def test_many_rows_take_many_steps() -> None:
    many = LagSurvey(0, [SURVEY.groups[0]] * 1_000)
    for make in (lag_metrics.partition_rows, lag_metrics.topic_rows, lag_metrics.group_rows, lag_metrics.verdict_rows):
        assert len(list(make(many))) >= 1_000 // lag_metrics.ROWS_AT_ONCE


def samples(node: SurveyedBroker, detail: str) -> dict[tuple[str, ...], float]:
    """What a collector of metrics reads: values by name and label values."""
    metrics = Metrics()
    lag_metrics.register(metrics, node.collector, detail)
    text = b"".join(exposition(metrics)).decode()
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_a_real_group_under_all_names(tmp_path: Path) -> None:
    """Ours, those of kafka_exporter and those of Kafka Lag Exporter."""
    node = SurveyedBroker(tmp_path)
    node.services.metadata.create_topic("t", 1)
    node.time.advance()
    node.produce(5_000, 4_000, 3_000)
    node.commit("g", {0: 1})
    node.survey()
    by_partition: dict[tuple[str, ...], float] = {
        (name, "g", "t", "0"): value
        for value, names in (
            (1, ("headgate_group_offset", "kafka_consumergroup_current_offset", "kafka_consumergroup_group_offset")),
            (2, ("headgate_group_lag_records", "kafka_consumergroup_lag", "kafka_consumergroup_group_lag")),
            (5, ("headgate_group_lag_seconds", "kafka_consumergroup_group_lag_seconds")),
        )
        for name in names
    }
    by_topic: dict[tuple[str, ...], float] = {
        ("headgate_group_topic_lag_records", "g", "t"): 2,
        ("kafka_consumergroup_lag_sum", "g", "t"): 2,
        ("kafka_consumergroup_group_topic_sum_lag", "g", "t"): 2,
        ("kafka_consumergroup_current_offset_sum", "g", "t"): 1,
    }
    by_group: dict[tuple[str, ...], float] = {
        ("headgate_group_members", "g"): 0,
        ("kafka_consumergroup_members", "g"): 0,
        ("headgate_group_lag_sum_records", "g"): 2,
        ("kafka_consumergroup_group_sum_lag", "g"): 2,
        ("headgate_group_lag_max_records", "g"): 2,
        ("kafka_consumergroup_group_max_lag", "g"): 2,
        ("headgate_group_lag_max_seconds", "g"): 5,
        ("kafka_consumergroup_group_max_lag_seconds", "g"): 5,
        ("headgate_group_verdict", "g", "OK"): 1,
    }
    assert samples(node, "partition") == {**by_partition, **by_topic, **by_group}
    assert samples(node, "topic") == {**by_topic, **by_group}
    assert samples(node, "broker") == by_group


def test_kafka_exporter_has_its_own_label(tmp_path: Path) -> None:
    node = SurveyedBroker(tmp_path)
    node.services.metadata.create_topic("t", 1)
    node.time.advance()
    node.commit("g", {0: 0})
    metrics = Metrics()
    lag_metrics.register(metrics, node.collector, "partition")
    text = b"".join(exposition(metrics)).decode()
    assert 'kafka_consumergroup_members{consumergroup="g"} 0\n' in text
    assert 'kafka_consumergroup_group_lag{group="g",topic="t",partition="0"} 0\n' in text

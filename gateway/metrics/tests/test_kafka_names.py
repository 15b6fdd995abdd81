"""The names of Kafka's dashboards: all are answered, or refused with a reason."""

from pathlib import Path

from headgate.gateway.metrics.kafka_names import KAFKA_NAMES, UNANSWERED
from headgate.gateway.metrics.metrics_table import METRICS
from headgate.gateway.metrics.tests.test_metrics_table import table_columns

PROCESS_NAMES = {"process_open_fds"}


def test_dashboards_of_strimzi_are_answered_or_refused_by_name() -> None:
    """The names that the dashboards for brokers and for kafka_exporter ask for (Strimzi's examples, 2026)."""
    asked = (Path(__file__).parent / "strimzi_dashboards.txt").read_text().split()
    answered = {row.exposed for row in KAFKA_NAMES} | PROCESS_NAMES
    assert [name for name in asked if name not in answered and name not in UNANSWERED] == []
    assert not answered & set(UNANSWERED)


def test_names_of_kafka_are_of_metrics_of_ours() -> None:
    registered = {row.name for row in METRICS} | table_columns() | {"broker.address"}
    assert {row.name for row in KAFKA_NAMES} <= registered
    exposed = [row.exposed for row in KAFKA_NAMES]
    runs = [name for number, name in enumerate(exposed) if not number or exposed[number - 1] != name]
    assert len(runs) == len(set(runs)), "the rows of one name follow each other"

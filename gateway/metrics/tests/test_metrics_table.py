"""The table of metrics: its names are Prometheus's, and the page for operators has each of them."""

import re
from pathlib import Path

import headgate.gateway
from headgate.gateway.metrics import partition_metrics
from headgate.gateway.metrics.kafka_names import KAFKA_NAMES, UNANSWERED
from headgate.gateway.metrics.metrics_table import COUNTER, METRICS

ROOT = Path(headgate.gateway.__file__).resolve().parents[1]
LAG_NAMES = {"kafka_consumergroup_lag", "kafka_consumergroup_current_offset"}
PROCESS_NAMES = {"process_open_fds"}
UNITS = ("seconds", "bytes", "percent")


def test_names_follow_the_conventions() -> None:
    for row in METRICS:
        assert re.fullmatch(r"headgate_[a-z_]+", row.exposed)
        assert row.exposed.endswith("_total") == (row.type == COUNTER), row.exposed
        for unit in UNITS:
            if unit in row.exposed.split("_"):
                assert row.exposed.removesuffix("_total").endswith(unit)
        assert row.help.endswith("."), row.exposed


def test_every_metric_is_on_the_page_for_operators() -> None:
    page = (ROOT / "docs" / "metrics.md").read_text()
    for row in METRICS:
        assert f"| `{row.exposed}` |" in page, row.exposed
    for name in (*(row.exposed for row in KAFKA_NAMES), *UNANSWERED):
        assert f"`{name}`" in page, name


def test_dashboards_of_strimzi_are_answered_or_refused_by_name() -> None:
    """The names that the dashboards for brokers and for kafka_exporter ask for (Strimzi's examples, 2026)."""
    asked = (Path(__file__).parent / "strimzi_dashboards.txt").read_text().split()
    answered = {row.exposed for row in KAFKA_NAMES} | LAG_NAMES | PROCESS_NAMES
    assert [name for name in asked if name not in answered and name not in UNANSWERED] == []
    assert not answered & set(UNANSWERED)


def test_names_of_kafka_are_of_metrics_of_ours() -> None:
    registered = {row.name for row in METRICS} | table_columns() | {"broker.address"}
    assert {row.name for row in KAFKA_NAMES} <= registered
    exposed = [row.exposed for row in KAFKA_NAMES]
    runs = [name for number, name in enumerate(exposed) if not number or exposed[number - 1] != name]
    assert len(runs) == len(set(runs)), "the rows of one name follow each other"


def table_columns() -> set[str]:
    return {*partition_metrics.PARTITION_COLUMNS, *partition_metrics.TOPIC_COLUMNS}


def test_what_the_broker_registers_is_in_the_table() -> None:
    program = "\n".join(
        path.read_text()
        for path in sorted((ROOT / "gateway").rglob("*.py"))
        if "tests" not in path.relative_to(ROOT).parts
    )
    registered = set(re.findall(r'metrics\.(?:counter|gauge|labelled)\(\s*"([a-z.]+)"', program))
    registered |= {*partition_metrics.SUMS, *table_columns()}
    named = {row.name for row in (*METRICS, *KAFKA_NAMES)}
    assert registered == named

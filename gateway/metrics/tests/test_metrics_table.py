"""The table of metrics: its names are Prometheus's, and the page for operators has each of them."""

import re
from pathlib import Path

import headgate.gateway
from headgate.gateway.lag import lag_metrics
from headgate.gateway.metrics import partition_metrics, partition_survey
from headgate.gateway.metrics.kafka_names import KAFKA_NAMES, UNANSWERED
from headgate.gateway.metrics.metrics_table import COUNTER, METRICS

ROOT = Path(headgate.gateway.__file__).resolve().parents[1]
UNITS = ("seconds", "bytes", "percent")


def test_names_follow_the_conventions() -> None:
    for row in METRICS:
        assert re.fullmatch(r"(headgate|process)_[a-z_]+", row.exposed)
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


def test_of_a_table_the_first_label_alone_has_another_name() -> None:
    """`label_texts.py` makes the text of a row once for all names."""
    for row in (*METRICS, *KAFKA_NAMES):
        if row.name in table_columns():
            assert row.labels.keys() <= {"group", "topic"}, row.exposed


def table_columns() -> set[str]:
    return {*partition_survey.PARTITION_COLUMNS, *partition_metrics.TOPIC_COLUMNS, *lag_metrics.COLUMNS}


def test_what_the_broker_registers_is_in_the_table() -> None:
    program = "\n".join(
        path.read_text()
        for path in sorted((ROOT / "gateway").rglob("*.py"))
        if "tests" not in path.relative_to(ROOT).parts
    )
    registered = set(re.findall(r'metrics\.(?:counter|gauge|labelled)\(\s*"([a-z.]+)"', program))
    registered |= {*partition_survey.SUMS, *table_columns()}
    named = {row.name for row in (*METRICS, *KAFKA_NAMES)}
    assert registered == named

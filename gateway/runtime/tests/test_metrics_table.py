"""The table of metrics: its names are Prometheus's, and the page for operators has each of them."""

import re
from pathlib import Path

import pytest

import headgate.gateway
from headgate.gateway.runtime.metrics_table import COUNTER, METRICS, Row

ROOT = Path(headgate.gateway.__file__).resolve().parents[1]
UNITS = ("seconds", "bytes", "percent")


@pytest.mark.parametrize("row", METRICS, ids=lambda row: row.exposed)
def test_names_follow_the_conventions(row: Row) -> None:
    assert re.fullmatch(r"headgate_[a-z_]+", row.exposed)
    assert row.exposed.endswith("_total") == (row.type == COUNTER)
    for unit in UNITS:
        if unit in row.exposed.split("_"):
            assert row.exposed.removesuffix("_total").endswith(unit)
    assert row.help.endswith(".")


@pytest.mark.parametrize("row", METRICS, ids=lambda row: row.exposed)
def test_every_metric_is_on_the_page_for_operators(row: Row) -> None:
    assert f"| `{row.exposed}` |" in (ROOT / "docs" / "metrics.md").read_text()


def test_what_the_broker_registers_is_in_the_table() -> None:
    program = "\n".join(
        path.read_text()
        for path in sorted((ROOT / "gateway").rglob("*.py"))
        if "tests" not in path.relative_to(ROOT).parts
    )
    registered = set(re.findall(r'metrics\.(?:counter|gauge|labelled)\(\s*"([a-z.]+)"', program))
    assert registered == {row.name for row in METRICS}

"""The dashboard and the alerts: they ask for metrics that the page has, and are what Grafana and Prometheus read."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import headgate.tools
from headgate.tools.monitoring import alerts, dashboard

PAGE = Path(headgate.tools.__file__).resolve().parents[1] / "docs" / "metrics.md"


def asked(expression: str) -> set[str]:
    """The metrics of an expression, without what a histogram adds to its name."""
    return {name.removesuffix("_bucket") for name in re.findall(r"headgate_[a-z_]+", expression)}


def test_every_plot_asks_for_a_metric_of_the_page(capsys: pytest.CaptureFixture[str]) -> None:
    assert dashboard.main([]) == 0
    model = json.loads(capsys.readouterr().out)
    names = {name for panel in model["panels"] for target in panel.get("targets", ()) for name in asked(target["expr"])}
    page = PAGE.read_text()
    assert len(names) > 20
    assert [name for name in sorted(names) if f"| `{name}` |" not in page] == []


def test_no_plot_covers_another() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in dashboard.dashboard()["panels"]:
        place = panel["gridPos"]
        cells = {(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])}
        assert not cells & taken, panel["title"]
        assert max(x for x, _ in cells) < 24
        taken |= cells


def test_every_alert_asks_for_a_metric_of_the_page(capsys: pytest.CaptureFixture[str]) -> None:
    assert alerts.main([]) == 0
    text, page = capsys.readouterr().out, PAGE.read_text()
    names = asked(text)
    assert [name for name in sorted(names) if f"| `{name}` |" not in page] == []
    assert text.count("- alert: ") == text.count("severity: ") == len(alerts.alerts())


def test_each_alert_has_a_name_and_a_cure_of_its_own() -> None:
    found = alerts.alerts()
    assert len({alert.name for alert in found}) == len(found)
    for alert in found:
        assert alert.summary.endswith("."), alert.name
        assert alert.cure.endswith("."), alert.name

"""The dashboard: it asks for metrics that the page has, and no plot covers another."""

import json

import pytest

from headgate.tools.monitoring import dashboard
from headgate.tools.monitoring.tests.page import not_on_page


def test_every_plot_asks_for_a_metric_of_the_page(capsys: pytest.CaptureFixture[str]) -> None:
    assert dashboard.main([]) == 0
    model = json.loads(capsys.readouterr().out)
    plots = [panel for panel in model["panels"] if panel["type"] != "row"]
    assert len(plots) > 15
    for plot in plots:
        assert [target["refId"] for target in plot["targets"]] == [*"ABCDE"[: len(plot["targets"])]]
        assert not_on_page(" ".join(target["expr"] for target in plot["targets"])) == []


def test_no_plot_covers_another() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in dashboard.dashboard()["panels"]:
        place = panel["gridPos"]
        cells = {(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])}
        assert not cells & taken, panel["title"]
        assert max(x for x, _ in cells) < 24
        taken |= cells


UNITS = {"Bps", "bytes", "cps", "percent", "reqps", "s", "short"}
"""Ids of Grafana's units."""


def test_the_model_has_what_the_schema_of_grafana_wants() -> None:
    """Source: Grafana's schemas of dashboards (kinds/dashboard) and of time series panels, version 10."""
    model = dashboard.dashboard()
    assert {"title", "uid", "schemaVersion", "panels", "templating", "time"} <= model.keys()
    assert len(model["uid"]) <= 40
    (variable,) = model["templating"]["list"]
    assert (variable["type"], variable["query"]) == ("datasource", "prometheus")
    ids = [panel["id"] for panel in model["panels"]]
    assert len(set(ids)) == len(ids)
    for panel in model["panels"]:
        assert panel["gridPos"].keys() == {"x", "y", "w", "h"}
        if panel["type"] == "row":
            assert (panel["collapsed"], panel["panels"]) == (False, [])
            continue
        assert panel["type"] == "timeseries"
        assert panel["fieldConfig"].keys() == {"defaults", "overrides"}
        assert panel["fieldConfig"]["defaults"]["unit"] in UNITS
        assert panel["options"]["legend"].keys() == {"displayMode", "placement", "showLegend", "calcs"}
        assert panel["options"]["tooltip"].keys() == {"mode", "sort"}
        for source in (panel["datasource"], *(target["datasource"] for target in panel["targets"])):
            assert source == {"type": "prometheus", "uid": f"${{{variable['name']}}}"}

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

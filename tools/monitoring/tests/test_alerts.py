"""The alerts: they ask for metrics that the page has, and each has a cure."""

import pytest

from headgate.tools.monitoring import alerts
from headgate.tools.monitoring.tests.page import not_on_page


def test_every_alert_asks_for_a_metric_of_the_page(capsys: pytest.CaptureFixture[str]) -> None:
    assert alerts.main(["--lag", "60"]) == 0
    text = capsys.readouterr().out
    assert not_on_page(text) == []
    assert "headgate_group_lag_seconds) > 60" in text
    assert text.count("- alert: ") == text.count("severity: ") == len(alerts.alerts())


def test_each_alert_has_a_name_and_a_cure_of_its_own() -> None:
    found = alerts.alerts()
    assert len({alert.name for alert in found}) == len(found)
    for alert in found:
        assert alert.summary.endswith("."), alert.name
        assert alert.cure.endswith("."), alert.name


@pytest.mark.parametrize("text", ["-5", "soon", "nan"])
def test_a_lag_that_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(SystemExit) as refused:
        alerts.main([f"--lag={text}"])
    assert refused.value.code == 2

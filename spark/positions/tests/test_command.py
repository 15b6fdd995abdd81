"""Options of the commands: tables, wrong usage, brokers out of reach."""

from __future__ import annotations

import pytest

from headgate.spark.positions import command
from headgate.spark.positions.tests.checkpoints import CheckpointWriter
from headgate.tools.tests.model_cluster import ModelCluster


def test_a_table(model: ModelCluster, written: CheckpointWriter, capsys: pytest.CaptureFixture[str]) -> None:
    written.do(0, {"t": {0: 5, 1: 6}})
    assert command.lag([str(written.path), "--table"]) == 0
    header, *lines = capsys.readouterr().out.splitlines()
    assert header.split() == (
        "READER TOPIC PARTITION COMMITTED END LAG LAG SECONDS RATE SECONDS LEFT STATUS".split()  # noqa: SIM905
    )
    assert len(lines) == 2


@pytest.mark.parametrize(
    "arguments", [[], ["grup:g"], ["group:g", "--fail-above", "-1"], ["group:g", "--isolation-level", "all"]]
)
def test_wrong_usage(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        command.lag(arguments)
    assert "headgate spark lag" in capsys.readouterr().err


def test_a_broker_out_of_reach(model: ModelCluster, capsys: pytest.CaptureFixture[str]) -> None:
    model.dead = {0}
    assert command.lag(["group:g"]) == 1
    assert "headgate spark lag: no broker answers at 127.0.0.1:9092" in capsys.readouterr().err

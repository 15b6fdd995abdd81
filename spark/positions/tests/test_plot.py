"""Pictures of lag: the points, and that a picture is written."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from headgate.protocol.spark.checkpoint import CheckpointBatch
from headgate.spark.positions.history import build_line
from headgate.spark.positions.locations import OffsetLocation
from headgate.spark.positions.plot import Series, draw, of_batches, of_history, run
from headgate.spark.positions.tests.checkpoints import CheckpointWriter
from headgate.spark.positions.tests.test_history import RECORD
from headgate.spark.positions.tests.test_watch import T0, lag
from headgate.tools.output import UsageError


def test_points_of_a_history() -> None:
    records = [RECORD, RECORD._replace(at_ms=0), RECORD._replace(duration_ms=-1), RECORD._replace(latest={})]
    at_ms = RECORD.at_ms
    rate = 1000 / 0.85
    assert of_history(records) == Series([at_ms, at_ms], [rate, rate], [0.85, 0.85], [50, None])


def test_points_of_an_offset_log() -> None:
    rows = [(1000, 10), (2000, 30), (4000, 90), (4000, 95), (0, 99), (6000, 99)]
    batches = [CheckpointBatch(number, at, {T0: offset}) for number, (at, offset) in enumerate(rows)]
    assert of_batches(batches) == Series([2000], [10.0], [2.0])
    assert of_batches(batches[:2]) == Series([], [], [])


@pytest.mark.slow
@pytest.mark.sockets  # matplotlib asks the system for its fonts, by a process
def test_pictures(tmp_path: Path, written: CheckpointWriter) -> None:
    pytest.importorskip("matplotlib")
    picture, history = tmp_path / "lag.svg", tmp_path / "history.jsonl"
    for batch in range(5):
        written.do(batch, {"t": {0: batch}}, planned_ms=1000 * (batch + 1))
    places = [OffsetLocation("group", "g"), OffsetLocation("checkpoint", str(written.path))]
    options = argparse.Namespace(plot=str(picture), history=None, places=places)
    rows = [lag(T0, 1, 9)] * 50
    assert run(options, rows) == f"3 batches and the lag of 50 partitions are in {picture}"
    assert picture.read_text().startswith("<?xml")
    history.write_text(build_line(RECORD) + "\n" + build_line(RECORD._replace(at_ms=RECORD.at_ms + 1000)))
    options.history = str(history)
    assert run(options, rows).startswith("2 batches")
    draw(str(tmp_path / "empty.png"), Series([], [], []), [])
    with pytest.raises(UsageError, match="cannot write"):
        draw(str(tmp_path / "lag.nonsense"), Series([], [], []), [])
    options.history = str(tmp_path)
    with pytest.raises(UsageError, match="cannot read"):
        run(options, rows)

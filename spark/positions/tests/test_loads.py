"""Outputs of loads as readers."""

from __future__ import annotations

from pathlib import Path

import pytest

from headgate.protocol.topic_partition import TopicPartition
from headgate.spark.load.output.documents import Manifest
from headgate.spark.load.output.intervals import Interval
from headgate.spark.load.output.load_log import LoadLog
from headgate.spark.positions.loads import rates, rates_between

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def manifest(number: int, created_ms: int, **ends: int) -> Manifest:
    covered = {TopicPartition("t", int(name[1:])): (Interval(0, end),) for name, end in ends.items()}
    return Manifest(number, created_ms, {}, [], [], covered, {})


def test_rates_between_loads() -> None:
    first, last = manifest(1, 1_000, t0=10), manifest(3, 5_000, t0=90, t1=7)
    assert rates_between(first, last) == {T0: 20.0, T1: 0.0}
    assert rates_between(last, last) == {}


def test_the_last_loads_of_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert rates(str(tmp_path)) == {}
    monkeypatch.setattr(LoadLog, "latest", lambda _: manifest(15, 50_000, t0=500))
    monkeypatch.setattr(
        LoadLog, "manifest", lambda _, number: manifest(number, 10_000 * (number - 4), t0=100 * (number - 4))
    )
    assert rates(str(tmp_path)) == {T0: 10.0}
    (tmp_path / "_headgate" / "manifests").mkdir(parents=True)
    (tmp_path / "_headgate" / "manifests" / f"{15:020}.json").write_text("damage")
    monkeypatch.undo()
    assert rates(str(tmp_path)) == {}

from __future__ import annotations

from pathlib import Path

import pytest

from headgate.protocol.topic_partition import TopicPartition
from headgate.spark.load.output.documents import Manifest
from headgate.spark.load.output.folder import OutputFolder
from headgate.spark.load.output.intervals import Interval
from headgate.spark.load.output.load_log import LoadLog
from headgate.spark.load.positions import positions, rates, rates_between, topic_ids
from headgate.spark.load.tests.model_log import TOPIC, ModelLog
from headgate.spark.load.tests.test_loading import run
from headgate.tools.output import UsageError

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def test_positions_are_the_next_offsets(tmp_path: Path) -> None:
    log = ModelLog.random(1)
    run(log, OutputFolder(tmp_path))
    assert positions(tmp_path) == {TopicPartition(TOPIC, n): one.end for n, one in enumerate(log.partitions)}
    assert topic_ids(tmp_path) == {TOPIC: log.topic_id}


def test_what_is_no_load_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="has no published load"):
        positions(tmp_path / "none")
    (tmp_path / "_headgate/manifests").mkdir(parents=True)
    (tmp_path / "_headgate/manifests" / f"{1:020}.json").write_text("?")
    with pytest.raises(UsageError, match="is damaged"):
        positions(tmp_path)


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

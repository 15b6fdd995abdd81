"""The listener: reports of Spark become commits and lines of history; nothing that fails reaches the query."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from headgate.spark.positions.committer import GroupCommitter
from headgate.spark.positions.history import parse_lines
from headgate.spark.positions.tests.test_history import progress
from headgate.tools.tests.model_cluster import ModelCluster

pytest.importorskip("pyspark")
pytestmark = pytest.mark.slow  # the first import of pyspark


def event(**more: Any) -> Any:
    return SimpleNamespace(progress=SimpleNamespace(json=json.dumps(progress(**more))))


def new_listener(*arguments: Any, **options: Any) -> Any:
    from headgate.spark.positions.listener import ProgressListener

    return ProgressListener("127.0.0.1:9092", "g", *arguments, **options)


def test_reports_become_commits_and_lines(model: ModelCluster, tmp_path: Path) -> None:
    history = tmp_path / "history.jsonl"
    listener = pickle.loads(pickle.dumps(new_listener(history=str(history))))
    listener.onQueryStarted(event())
    listener.onQueryProgress(event())
    listener.onQueryProgress(event(batchId=8, sources=[{"endOffset": '{"t":{"0":250,"1":4}}', "numInputRows": 0}]))
    listener.onQueryProgress(event(batchId=8, sources=[{"endOffset": '{"t":{"0":251,"1":4}}', "numInputRows": 1}]))
    listener.onQueryIdle(event())
    listener.onQueryTerminated(event())
    assert model.groups["g"].offsets == {("t", 0): (251, -1, ""), ("t", 1): (4, -1, "")}
    assert [one.batch for one in parse_lines(history.read_text().splitlines())] == [7, 8], "an idle report is no batch"


def test_other_queries_of_the_session(model: ModelCluster) -> None:
    listener = new_listener(query="orders")
    listener.onQueryProgress(event(name="payments"))
    listener.onQueryProgress(event(sources=[]))
    assert "g" not in model.groups
    listener.onQueryProgress(event(name="orders"))
    assert "g" in model.groups


def test_nothing_that_fails_reaches_the_query(
    model: ModelCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listener = new_listener(history=str(tmp_path))
    listener.onQueryProgress(event())
    listener.onQueryProgress(SimpleNamespace(progress=None))
    monkeypatch.setattr(GroupCommitter, "renew", Mock(side_effect=ValueError("a fault of ours")))
    listener.onQueryIdle(event())
    assert "g" in model.groups, "a history that cannot be written stops no commit"

"""Fixtures: a modelled cluster behind the real client, and checkpoints as Spark writes them."""

from pathlib import Path

import pytest

from headgate.spark.positions.tests.checkpoints import CheckpointWriter
from headgate.tools.tests.model_cluster import Log, ModelCluster

NOW_MS = 1_700_000_000_000


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> ModelCluster:
    """Two brokers. Topic t has two partitions with ten records, a second apart, the last one a second old."""
    cluster = ModelCluster(brokers=2)
    monkeypatch.setattr("headgate.tools.client.client.socket.create_connection", cluster.connect)
    cluster.topics["t"] = [Log(0), Log(1)]
    for log in cluster.topics["t"]:
        log.append(*range(NOW_MS - 10_000, NOW_MS, 1000))
    cluster.topic_ids["t"] = b"t" * 16
    return cluster


@pytest.fixture
def written(tmp_path: Path) -> CheckpointWriter:
    """An empty checkpoint."""
    return CheckpointWriter(tmp_path / "checkpoint")

"""Fixtures: a modelled cluster behind the real client."""

from pathlib import Path

import pytest

from headgate.tools.tests.log_data import Data
from headgate.tools.tests.model_cluster import ModelCluster


@pytest.fixture
def data(tmp_path: Path) -> Data:
    """A data directory that a broker has left."""
    with Data(tmp_path / "data") as made:
        made.fill()
    return made


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> ModelCluster:
    """Three brokers, of which the first is 127.0.0.1:9092; nothing is on a network."""
    cluster = ModelCluster(brokers=3)
    monkeypatch.setattr("headgate.tools.client.client.socket.create_connection", cluster.connect)
    return cluster

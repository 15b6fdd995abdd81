"""Fixtures: a modelled cluster behind the real client."""

import pytest

from headgate.tools.tests.model_cluster import ModelCluster


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> ModelCluster:
    """Three brokers, of which the first is 127.0.0.1:9092; nothing is on a network."""
    cluster = ModelCluster(brokers=3)
    monkeypatch.setattr("headgate.tools.client.socket.create_connection", cluster.connect)
    return cluster

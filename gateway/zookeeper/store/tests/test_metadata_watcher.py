"""Nodes of any kind that change in ZooKeeper while the broker runs."""

from __future__ import annotations

import pytest

from headgate.gateway.zookeeper.tests.store_world import StoreWorld


@pytest.fixture
def world() -> StoreWorld:
    return StoreWorld()


def test_damaged_nodes_change_nothing(world: StoreWorld, caplog: pytest.LogCaptureFixture) -> None:
    world.change(lambda: world.metadata.create_topic("t", 1, configs={"segment.ms": "9"}))
    before = world.image.topic("t")
    world.tool.put("/brokers/topics/t", b"{")
    world.tool.put("/config/topics/t", b"{")
    world.tool.put("/config/changes/config_change_0000000009", b'"t"')
    world.tool.put("/config/changes/nonsense", b"{")
    world.settle()
    assert world.image.topic("t") == before
    assert caplog.text.count("the data are not JSON") == 3

"""The partitions that a broker has to lead after a start."""

from __future__ import annotations

import pytest

from headgate.gateway.zookeeper.tests.store_world import StoreWorld


def test_partitions_of_brokers_that_are_gone_have_no_leader(caplog: pytest.LogCaptureFixture) -> None:
    world = StoreWorld()
    world.kill()
    world.tool.write_topic("t", [5])
    world.start()
    world.settle()
    assert world.image.topic("t").partitions[0].leader == -1
    assert "1 partitions have no copy in sync on this broker, and have no leader (t-0)" in caplog.text

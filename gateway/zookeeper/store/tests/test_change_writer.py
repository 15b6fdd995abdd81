"""Changes of a broker that is not the controller: plans, and their refusals."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from headgate.gateway.zookeeper.tests.two_brokers import TwoBrokers
from headgate.protocol.errors import ErrorCode


@pytest.fixture
def two(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[TwoBrokers]:
    brokers = TwoBrokers(tmp_path, monkeypatch)
    yield brokers
    brokers.stop()


def test_no_fragment_of_a_lost_cluster_is_written(two: TwoBrokers) -> None:
    assert two.brokers[0].delete("/cluster/id")
    change = two.stores[1].change_group_configs("g", {"consumer.session.timeout.ms": "50000"})
    two.settle()
    assert change.error is not None
    assert change.error.code is ErrorCode.UNKNOWN_SERVER_ERROR
    assert "has lost this cluster" in change.error.message
    assert "/config/groups/g" not in two.keeper.tree.nodes

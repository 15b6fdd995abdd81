"""The live brokers in the images of brokers beside each other."""

from __future__ import annotations

from pathlib import Path

import pytest

from headgate.gateway.zookeeper.tests.two_brokers import TwoBrokers


def test_brokers_know_each_other_with_their_epochs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    two = TwoBrokers(tmp_path, monkeypatch)
    epochs = {number: two.keeper.tree.nodes[f"/brokers/ids/{number}"].czxid for number in range(2)}
    for store in two.stores:
        assert store.image.brokers.keys() == {0, 1}
        assert store.broker_epochs == epochs
    assert two.stores[0].image.brokers[1].endpoints
    two.kill_first()
    assert two.stores[0].image.brokers.keys() == {1}
    assert two.stores[0].broker_epochs == {1: epochs[1]}
    two.stop()

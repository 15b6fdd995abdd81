"""The live brokers in the images of brokers beside each other."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from headgate.gateway.zookeeper.tests.two_brokers import TwoBrokers


@pytest.fixture
def two(tmp_path: Path) -> Iterator[TwoBrokers]:
    brokers = TwoBrokers(tmp_path)
    yield brokers
    brokers.stop()


def test_the_controller_alone_reads_the_registrations(two: TwoBrokers) -> None:
    epochs = {number: two.keeper.tree.nodes[f"/brokers/ids/{number}"].czxid for number in range(2)}
    assert two.stores[0].image.brokers.keys() == {0, 1}
    assert two.stores[0].broker_epochs == epochs
    assert two.stores[1].broker_epochs == {}
    two.kill_first()
    assert two.stores[0].image.brokers.keys() == {1}
    assert two.stores[0].broker_epochs == {1: epochs[1]}


def test_a_broker_knows_the_addresses_of_the_other_one(two: TwoBrokers) -> None:
    assert two.stores[0].image.brokers[1].endpoints
    assert not two.stores[0].image.brokers[0].endpoints  # its own are in its settings

"""The live brokers in the images of brokers beside each other."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from headgate.gateway.zookeeper.layout.cluster import OwnFeatures
from headgate.gateway.zookeeper.membership.tests.member import ADDRESS
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


def test_a_kafka_that_lacks_a_feature_is_named_once(two: TwoBrokers, caplog: pytest.LogCaptureFixture) -> None:
    for number in (8, 7):
        two.brokers[0].write(f"/brokers/ids/{number}", ADDRESS.encode())
        two.settle()
    lines = [record.message for record in caplog.records if "of Apache Kafka" in record.message]
    assert [line.split(" is of")[0] for line in lines] == ["broker 8", "broker 7, 8"]
    assert lines[0].endswith("kafka-features.sh downgrade --feature group.version=0 --feature transaction.version=0")


def test_a_kafka_is_not_named_where_its_features_suffice(two: TwoBrokers, caplog: pytest.LogCaptureFixture) -> None:
    two.brokers[0].write("/headgate/feature", OwnFeatures({"group.version": 0, "transaction.version": 0}).encode())
    two.settle()
    two.brokers[0].write("/brokers/ids/7", ADDRESS.encode())
    two.settle()
    assert 7 in two.stores[0].image.brokers
    assert "of Apache Kafka" not in caplog.text

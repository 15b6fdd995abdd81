"""The settings and the placement of a cluster, without processes."""

from pathlib import Path

import pytest

from headgate.tools.bench.measuring.brokers import HEADGATE
from headgate.tools.bench.measuring.cluster import (
    SESSION_MS,
    Cluster,
    HeadgateNode,
    KafkaClusterLauncher,
    KafkaNode,
    ZooKeeperKafkaNode,
)

pytestmark = pytest.mark.sockets  # ports are reserved


def test_both_kinds_with_zookeeper_have_the_same_settings(tmp_path: Path) -> None:
    ours = HeadgateNode("headgate", "127.0.0.1:2181", 2, tmp_path)
    theirs = ZooKeeperKafkaNode(["java"], "127.0.0.1:2181", 2, tmp_path)
    theirs.port = ours.port
    assert ours.settings() == theirs.settings()
    assert ours.settings()["zookeeper.session.timeout.ms"] == str(SESSION_MS)
    assert ours.settings()["broker.id"] == "2"


def test_nodes_of_kraft_know_each_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headgate.tools.bench.measuring.cluster.kafka_command", lambda _: ["java"])
    launcher = KafkaClusterLauncher(tmp_path)
    nodes = {number: launcher.node(number, tmp_path / f"{number}", "") for number in (1, 2)}
    launcher.connect(nodes)
    first, second = nodes.values()
    assert isinstance(first, KafkaNode)
    assert isinstance(second, KafkaNode)
    voters = f"1@127.0.0.1:{first.controller_port},2@127.0.0.1:{second.controller_port}"
    assert first.settings()["controller.quorum.voters"] == second.settings()["controller.quorum.voters"] == voters
    assert first.cluster_id == second.cluster_id != ""


def test_each_broker_leads_a_third_of_the_partitions() -> None:
    cluster = Cluster(HEADGATE, {}, None)
    assert [cluster.replicas_of(number) for number in range(4)] == [(1, 2, 3), (2, 3, 1), (3, 1, 2), (1, 2, 3)]

from __future__ import annotations

from typing import Any

import pytest

from headgate.tools.doctor.check_result import NOTE, OK, WRONG, CheckResult
from headgate.tools.doctor.inspection import BrokerValues, ZooKeeperReport
from headgate.tools.doctor.zookeeper.nodes import check_identity, check_nodes

VALUES = BrokerValues(1, True, ("/data",), (), (), (), "z:2181", 1, 1, 1)


def report(**changed: Any) -> ZooKeeperReport:
    sound = ZooKeeperReport(None, 20.0, 5.0, True, "A", 1, {1: ["PLAINTEXT://h:9092"], 2: []}, [])
    return sound._replace(**changed)


def nodes(connect: str = "z:2181/kafka", **changed: Any) -> CheckResult:
    return list(check_nodes(connect, report(**changed)))[-1]


def test_a_sound_cluster() -> None:
    row = nodes()
    assert (row.state, row.found) == (OK, "ZooKeeper at z:2181/kafka has cluster A, brokers 1, 2, controller 1")


def test_a_session_that_does_not_begin() -> None:
    row = nodes(problem="ZooKeeper at z:2181 did not answer within 5 s; start ZooKeeper")
    assert (row.state, row.cure) == (WRONG, "start ZooKeeper")


def test_a_slow_session_is_a_note() -> None:
    assert next(check_nodes("z", report(session_ms=4000.0))).state == NOTE


@pytest.mark.parametrize(
    "root, state, cure",
    [
        (["zookeeper", "kafka-prod"], WRONG, "set zookeeper.connect=z:2181/kafka-prod"),
        (["zookeeper", "brokers", "cluster"], WRONG, "set zookeeper.connect=z:2181"),
        (["zookeeper", "hbase"], WRONG, "correct zookeeper.connect"),
        (["zookeeper"], NOTE, "right before the first start"),
    ],
)
def test_a_chroot_that_does_not_exist(root: list[str], state: str, cure: str) -> None:
    row = nodes(has_chroot=False, root=root, cluster_id=None)
    assert row.state == state
    assert cure in row.cure


def test_no_cluster_no_controller_no_brokers() -> None:
    assert nodes(cluster_id=None).state == NOTE
    assert nodes(controller=None).state == WRONG
    assert nodes(controller=None, brokers={}).state == NOTE


def test_another_cluster() -> None:
    assert list(check_identity(report(), {"/data": "A"})) == []
    [row] = check_identity(report(), {"/data": "A", "the cluster of the brokers": "B"})
    assert row.found == "the cluster of the brokers is of cluster B, ZooKeeper has cluster A"
    assert list(check_identity(report(cluster_id=None), {"/data": "B"})) == []


def test_a_node_id_that_another_broker_has() -> None:
    [row] = check_identity(report(), {}, VALUES)
    assert row.found.startswith("node.id 1 is registered by a broker at PLAINTEXT://h:9092")
    assert list(check_identity(report(), {}, VALUES, is_running=True)) == []
    assert list(check_identity(report(), {}, VALUES._replace(node_id=9))) == []

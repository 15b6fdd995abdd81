"""Headgate and Apache Kafka 3.9 in one cluster: either kind is the controller, and each broker leads and follows."""

from __future__ import annotations

from pathlib import Path

from compat_tests.cluster.cluster import HEADGATE, KAFKA, Cluster
from compat_tests.cluster.traffic import Traffic

PLACEMENT = [(0, 1, 2), (1, 2, 0), (2, 0, 1)] * 2


def test_a_headgate_is_a_guest(tmp_path: Path) -> None:
    with Cluster(tmp_path, KAFKA, guests={0: HEADGATE}) as cluster:
        assert cluster.view(0).controller in {1, 2}
        with Traffic(cluster, PLACEMENT) as traffic:
            cluster.kill(0)
            cluster.wait_for_session_end(0)
            cluster.wait_for_sets(traffic.topic, without=0)
            traffic.flow()
            cluster.start(0)
            cluster.wait_for_full_sets()
            traffic.flow()
        traffic.check()


def test_kafka_brokers_obey_a_headgate(tmp_path: Path) -> None:
    with Cluster(tmp_path, HEADGATE, guests={1: KAFKA, 2: KAFKA}) as cluster:
        assert cluster.view(0).controller == 0
        with Traffic(cluster, PLACEMENT) as traffic:
            cluster.kill(1)
            cluster.wait_for_session_end(1)
            cluster.wait_for_sets(traffic.topic, without=1)
            traffic.flow()
            cluster.start(1)
            cluster.wait_for_full_sets()
            traffic.flow()
        traffic.check()

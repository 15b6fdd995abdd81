"""Three brokers and a ZooKeeper: brokers that are down, links, other clusters, wrong paths."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import pytest

from compat_tests.cluster.cluster import HEADGATE, IDS, Cluster
from compat_tests.doctor.examination import OF_THE_MACHINE, Examination, examine
from compat_tests.harness.broker import HTTP, TARGET, HeadgateBroker
from compat_tests.harness.ports import HOST, reserve
from compat_tests.harness.topics import create_topics
from compat_tests.security.client_security import write_properties

pytestmark = [
    pytest.mark.soak,
    pytest.mark.skipif(TARGET != "headgate", reason="the cluster is one of Headgate"),
]

INTERNAL: Final = "INTERNAL"


class NamedCluster(Cluster):
    """Brokers with a listener for clients, one among themselves, and one that broker 2 alone lacks."""

    def settings_of(self, broker_id: int) -> Mapping[str, str]:
        ports = [reserve(self) for _ in range(3)]
        names = (*(("EXTRA",) if broker_id != 2 else ()), INTERNAL, "PLAINTEXT")
        return {
            "listeners": ",".join(f"{name}://{HOST}:{port}" for name, port in zip(names, ports, strict=False)),
            "listener.security.protocol.map": ",".join(f"{name}:PLAINTEXT" for name in (*names, "EXTRA")),
            "inter.broker.listener.name": INTERNAL,
            HTTP: f"http://{HOST}:{reserve(self)}",
        }


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with NamedCluster(tmp_path_factory.mktemp("cluster"), HEADGATE) as made:
        bootstrap = made.brokers[0].bootstrap
        create_topics(bootstrap, {"orders": {}}, partitions=6, replicas=3)
        made.wait_for_full_sets()
        yield made


def dial(cluster: Cluster, *more: str) -> Examination:
    return examine("--bootstrap-server", cluster.brokers[0].bootstrap, *more)


def examine_file(path: Path, **settings: str) -> Examination:
    lines = {HTTP: "", **{name.replace("_", "."): value for name, value in settings.items()}}
    found = examine(write_properties(path / "server.properties", lines))
    rows = [row for row in found.rows if row.check not in OF_THE_MACHINE]
    return found._replace(rows=rows, code=3 if any(row.state == "wrong" for row in rows) else 0)


def test_a_sound_cluster(cluster: Cluster) -> None:
    dialled = dial(cluster, "--canary", "canary", "--create-canary", "--zookeeper", cluster.zookeeper.connect)
    dialled.is_sound()
    found = [row.found for row in dialled.rows if row.state == "ok"]
    assert sum("agrees with this machine's" in text for text in found) == len(IDS)
    assert sum("listener between brokers (INTERNAL)" in text for text in found) == len(IDS)
    assert any("ZooKeeper" in text and "standalone" in text for text in found)
    assert any("brokers 0, 1, 2, controller" in text for text in found)
    assert any("3 records came back" in text for text in found)


def test_a_listener_that_a_broker_does_not_have(cluster: Cluster) -> None:
    broker = cluster.brokers[0]
    assert isinstance(broker, HeadgateBroker)
    dialled = examine("--bootstrap-server", f"{HOST}:{broker.ports()['EXTRA']}")
    dialled.fails("listeners", "broker 2", "no listener of the name", "the same names in listeners")


def test_a_broker_that_is_down(cluster: Cluster) -> None:
    cluster.kill(2)
    try:
        cluster.wait_for_sets("orders", without=2)
        dialled = dial(cluster)
    finally:
        cluster.start(2)
        cluster.wait_for_full_sets()
    dialled.fails("brokers", "broker 2 is down", "start broker 2")
    dialled.fails("replicas", "broker 2 lacks ", "orders-0")
    assert set(dialled.wrong()) == {"brokers", "replicas"}


def test_a_canary_with_too_few_replicas(cluster: Cluster) -> None:
    create_topics(cluster.brokers[0].bootstrap, {"strict": {"min.insync.replicas": "3"}}, 1, replicas=3)
    cluster.kill(2)
    try:
        cluster.wait_for_sets("strict", without=2)
        dialled = dial(cluster, "--canary", "strict")
    finally:
        cluster.start(2)
        cluster.wait_for_full_sets()
    dialled.fails("canary", "strict-0", "NOT_ENOUGH_REPLICAS")


# ZooKeeper


def test_a_sound_file_of_a_broker_that_runs(cluster: Cluster, tmp_path: Path) -> None:
    broker = cluster.brokers[1]
    found = examine_file(
        tmp_path,
        listeners=f"PLAINTEXT://{broker.bootstrap}",
        log_dirs=str(broker.data),
        zookeeper_connect=cluster.zookeeper.connect,
        broker_id="1",
    )
    found.is_sound()


def test_a_wrong_chroot(cluster: Cluster) -> None:
    connect = f"{cluster.zookeeper.connect}/kafka"
    examine("--zookeeper", connect).fails_alone(
        "zookeeper", "has no /kafka; it has", f"set zookeeper.connect={cluster.zookeeper.connect}"
    )


def test_a_zookeeper_that_is_down(tmp_path: Path) -> None:
    settings = {"listeners": "PLAINTEXT://127.0.0.1:1", "log_dirs": str(tmp_path / "data")}
    found = examine_file(tmp_path, zookeeper_connect="127.0.0.1:1/kafka", **settings)
    found.fails_alone("zookeeper", "127.0.0.1:1: nothing listens there", "start ZooKeeper")


def test_the_port_of_zookeeper(cluster: Cluster) -> None:
    examine("--bootstrap-server", cluster.zookeeper.connect).fails_alone("protocol", "speaks ZooKeeper", "9092")


def test_the_port_of_a_broker_is_no_zookeeper(cluster: Cluster) -> None:
    found = examine("--zookeeper", cluster.brokers[0].bootstrap, "--timeout", "2")
    found.fails("zookeeper", "does not answer as ZooKeeper does")


def test_the_zookeeper_of_another_cluster(cluster: Cluster, tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / "meta.properties").write_text("cluster.id=4JmnpzYsThhtm8N2e63GXA\nbroker.id=9\nversion=0\n")
    found = examine_file(
        tmp_path,
        listeners="PLAINTEXT://127.0.0.1:1",
        log_dirs=str(data),
        zookeeper_connect=cluster.zookeeper.connect,
    )
    found.fails_alone("zookeeper", "is of cluster 4JmnpzYsThhtm8N2e63GXA", "wrong chroot")


def test_a_node_id_that_another_broker_has(cluster: Cluster, tmp_path: Path) -> None:
    found = examine_file(
        tmp_path,
        listeners="PLAINTEXT://127.0.0.1:1",
        log_dirs=str(tmp_path / "data"),
        zookeeper_connect=cluster.zookeeper.connect,
        broker_id="1",
    )
    found.fails_alone("zookeeper", "node.id 1 is registered by a broker at", "another node.id")

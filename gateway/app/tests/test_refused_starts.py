"""Every refusal of a start: the log directories and ZooKeeper are afterwards as they were before, but for locks.

A new directory and its lock file may be there: a start locks a directory before it looks into it. So may new indexes
of the metadata log, which a start after a kill makes again to read that log.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any, Final, NamedTuple

import pytest

from headgate.gateway.app import adoption
from headgate.gateway.app.broker import Broker
from headgate.gateway.app.composition import Seams
from headgate.gateway.config import BrokerConfig, ConfigError
from headgate.gateway.network.addresses import Addresses
from headgate.gateway.runtime.tests.fake_scheduler import ManualClock
from headgate.gateway.tests.builders import HandlerBroker
from headgate.gateway.zookeeper.layout.cluster import ClusterId
from headgate.gateway.zookeeper.layout.owner import SessionOwner
from headgate.gateway.zookeeper.membership.connection import ZooKeeperConnection
from headgate.gateway.zookeeper.membership.tests.member import connected, put, put_broker, put_controller
from headgate.gateway.zookeeper.tests.model import ZooKeeperModel
from headgate.gateway.zookeeper.tests.opening import MovingPump, opener
from headgate.storage.directory.log_directory import LOCK
from headgate.storage.disk.layout import Meta, read_meta, write_meta
from headgate.storage.errors import StorageError
from headgate.storage.files import Files, Lock

pytestmark = pytest.mark.slow

HTTP: Final = "headgate.http.listeners"
CLUSTER: Final = "AAAAAAAAAAAAAAAAAAAAAA"
LOG: Final = "00000000000000000000.log"
DERIVED: Final = (".index", ".timeindex")


class Host:
    """A machine with the directories `a`, `b` and `c`, of which `a` is new, and a ZooKeeper with a cluster."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.keeper = ZooKeeperModel()
        self.other = connected(self.keeper)
        self.clock = ManualClock()
        self.pump = MovingPump(self.clock)
        self.has_sockets = False
        self.lock: Lock | None = None  # held by another process
        self.settings = {"log.dirs": f"{path}/a", "listeners": "PLAINTEXT://127.0.0.1:0", HTTP: ""}

    def set(self, **settings: str) -> None:
        self.settings |= {name.replace("_", "."): value for name, value in settings.items()}

    def use(self, names: str) -> None:
        self.set(log_dirs=",".join(f"{self.path}/{name}" for name in names))

    def join(self, connect: str = "model:2181") -> None:
        self.set(zookeeper_connect=connect)

    def put(self, path: str, data: bytes) -> None:
        put(self.keeper, self.other, path, data, is_ephemeral=False)

    def write_log(self, name: str, content: bytes = b"") -> None:
        """The directory of a partition as a broker leaves it."""
        directory = self.path / name
        directory.mkdir(parents=True)
        (directory / LOG).write_bytes(content)

    def write_meta(self, name: str, cluster_id: str = CLUSTER, node_id: int = 0) -> None:
        (self.path / name).mkdir(exist_ok=True)
        write_meta(Files(), f"{self.path}/{name}", Meta(cluster_id, node_id, f"{name * 22}"))

    def run_broker(self, *names: str) -> None:
        """What a broker without ZooKeeper leaves behind: topics with logs, in order."""
        node = HandlerBroker(self.path, log_dirs=",".join(f"{self.path}/{name}" for name in names))
        node.services.metadata.create_topic("t", 2)
        node.close()

    def start(self) -> None:
        config = BrokerConfig.load("", self.settings)
        self.connections: list[ZooKeeperConnection] = []

        def connect(config: BrokerConfig, _: object) -> ZooKeeperConnection | None:
            if config.zookeeper_connect is not None:
                self.connections.append(ZooKeeperConnection(config, self.clock, opener(self.keeper), self.pump))
            return next(iter(self.connections), None)

        addresses = Addresses.of(config) if self.has_sockets else None
        broker = Broker(config, Seams(clock=self.clock, connect=connect), addresses)
        broker.parts.close()
        if addresses is not None:
            addresses.close()

    def adopt(self) -> None:
        config = BrokerConfig.load("", self.settings)
        adoption.adopt(config, Files(), Random(1), 0, Addresses.of(config).bind)

    def state(self) -> dict[str, object]:
        """All that a start might write."""
        files = {
            str(path.relative_to(self.path)): path.read_bytes()
            for path in self.path.rglob("*")
            if path.is_file() and path.name != LOCK and path.suffix not in DERIVED
        }
        return files | {path: (node.data, node.mzxid) for path, node in self.keeper.tree.nodes.items()}


@contextlib.contextmanager
def taken_port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


# Without ZooKeeper


def partitions_of_another_program(host: Host) -> None:
    host.use("ab")
    host.write_meta("b")
    host.write_log("b/t-0")


def another_nodes_directory(host: Host) -> None:
    host.use("ab")
    host.write_meta("b", node_id=7)


def another_clusters_directory(host: Host) -> None:
    host.use("abc")
    host.write_meta("b")
    host.write_meta("c", cluster_id="B" * 22)


def a_directory_in_use(host: Host) -> None:
    host.use("ab")
    host.run_broker("b")
    host.lock = Files().lock(f"{host.path}/b/{LOCK}")


def an_identity_that_is_gone(host: Host) -> None:
    host.run_broker("b")
    (host.path / "b/meta.properties").unlink()
    host.use("ab")


def metadata_that_were_carried_to_zookeeper(host: Host) -> None:
    host.run_broker("b")
    (host.path / "b/__headgate_metadata-0").rename(host.path / "b/__headgate_metadata-0.in-zookeeper")
    host.use("ab")


def a_damaged_metadata_log(host: Host) -> None:
    host.run_broker("b")
    log = host.path / "b/__headgate_metadata-0" / LOG
    log.write_bytes(log.read_bytes()[:20] + b"damage" + log.read_bytes()[26:])
    (host.path / "b/.kafka_cleanshutdown").unlink()
    host.use("ab")


def one_partition_in_two_directories(host: Host) -> None:
    host.run_broker("b", "c")
    [held] = host.path.glob("*/t-1")
    [other] = {host.path / "b", host.path / "c"} - {held.parent}
    host.write_log(f"{other.name}/t-1", b"x")
    (held / LOG).write_bytes(b"x")
    host.use("abc")


# With ZooKeeper


def a_chroot_of_another_cluster(host: Host) -> None:
    host.put("/cluster/id", ClusterId("B" * 22).encode())
    host.write_meta("b")
    host.use("ab")
    host.join()


def a_chroot_without_a_cluster(host: Host) -> None:
    host.write_meta("b")
    host.write_log("b/t-0")
    host.use("ab")
    host.join("model:2181/wrong")


def metadata_in_an_embedded_log(host: Host) -> None:
    host.run_broker("b")
    host.use("ab")
    host.join("model:2181/new")


def a_directory_of_kraft(host: Host) -> None:
    host.write_meta("b")
    host.write_log("b/__cluster_metadata-0")
    host.use("ab")
    host.join()


def another_broker_of_this_id(host: Host) -> None:
    host.put("/cluster/id", ClusterId(CLUSTER).encode())
    put_broker(host.keeper, host.other, 0)
    host.join()


def a_controller_of_kraft(host: Host) -> None:
    put_controller(host.keeper, host.other, 3000, kraft_epoch=4)
    host.join()


def a_controller_that_cannot_be_read(host: Host) -> None:
    host.put("/controller", b"{")
    host.join()


def an_id_of_the_cluster_that_cannot_be_read(host: Host) -> None:
    host.put("/cluster/id", b"{")
    host.join()


def an_earlier_session_that_lives_on(host: Host) -> None:
    host.write_meta("a")
    locks = {"a" * 22: "1:2"}
    owner = SessionOwner("there", 17, 0, 18_000, "before the reboot", locks)
    put(host.keeper, host.other, SessionOwner.path(0), owner.encode())
    host.join()


def a_zookeeper_that_is_gone(host: Host) -> None:
    host.keeper.stop()
    host.join()


def a_zookeeper_that_stops_answering(host: Host) -> None:
    host.keeper.freeze()
    host.join()


def one_partition_in_two_directories_with_zookeeper(host: Host) -> None:
    host.put("/cluster/id", ClusterId(CLUSTER).encode())
    host.put("/brokers/topics/t", b'{"version":1,"partitions":{"0":[0]}}')
    for name in "bc":
        host.write_meta(name)
        host.write_log(f"{name}/t-0", b"x")
    host.use("abc")
    host.join()


class Refusal(NamedTuple):
    prepare: Callable[[Host], None]
    sentence: str


REFUSALS: Final = (
    Refusal(partitions_of_another_program, "holds partitions but no __headgate_metadata-0"),
    Refusal(another_nodes_directory, "belongs to node.id=7, not 0"),
    Refusal(another_clusters_directory, "belongs to cluster BBBB"),
    Refusal(a_directory_in_use, "is in use by"),
    Refusal(an_identity_that_is_gone, "no log __headgate_metadata-0 is in .*/a; it may be in .*/b"),
    Refusal(metadata_that_were_carried_to_zookeeper, "are in ZooKeeper since"),
    Refusal(a_damaged_metadata_log, "__headgate_metadata-0"),
    Refusal(one_partition_in_two_directories, "one partition is in two log directories"),
    Refusal(a_chroot_of_another_cluster, "doesn't match stored clusterId"),
    Refusal(a_chroot_without_a_cluster, "has no cluster, but .* holds 1 partitions"),
    Refusal(metadata_in_an_embedded_log, "has its metadata in the embedded log"),
    Refusal(a_directory_of_kraft, "belongs to an Apache Kafka with KRaft"),
    Refusal(another_broker_of_this_id, "node.id=0 is in use"),
    Refusal(a_controller_of_kraft, "has taken over the cluster"),
    Refusal(a_controller_that_cannot_be_read, "ZooKeeper's /controller"),
    Refusal(an_id_of_the_cluster_that_cannot_be_read, "ZooKeeper's /cluster/id"),
    Refusal(an_earlier_session_that_lives_on, "by process 17 on there"),
    Refusal(a_zookeeper_that_is_gone, "did not answer within"),
    Refusal(a_zookeeper_that_stops_answering, "did not answer within|stopped answering"),
    Refusal(one_partition_in_two_directories_with_zookeeper, "one partition is in two log directories"),
)


@pytest.mark.parametrize("refusal", REFUSALS, ids=lambda refusal: refusal.prepare.__name__)
def test_a_refused_start_writes_nothing(refusal: Refusal, tmp_path: Path) -> None:
    host = Host(tmp_path)
    refusal.prepare(host)
    before = host.state()
    with pytest.raises((StorageError, OSError), match=refusal.sentence):
        host.start()
    assert host.state() == before


@pytest.mark.sockets
@pytest.mark.parametrize("name, scheme", [("listeners", "PLAINTEXT"), (HTTP, "http")])
@pytest.mark.parametrize("is_adopting", [False, True])
@pytest.mark.parametrize("connect", [None, "model:2181/new"])
def test_an_address_in_use_refuses_before_any_write(
    name: str, scheme: str, connect: str | None, tmp_path: Path, *, is_adopting: bool
) -> None:
    host = Host(tmp_path)
    host.has_sockets = True
    if connect is not None:
        host.join(connect)
    if is_adopting:
        host.write_meta("a")
        host.write_log("a/t-0")
    before = host.state()
    with taken_port() as port:
        host.settings[name] = f"{scheme}://127.0.0.1:{port}"
        with pytest.raises(OSError, match="in use"):
            host.adopt() if is_adopting else host.start()
    assert host.state() == before
    host.settings[name] = f"{scheme}://127.0.0.1:0"
    if not is_adopting:
        host.start()


def test_missing_schemas_of_the_console_refuse_before_any_write(tmp_path: Path) -> None:
    host = Host(tmp_path)
    before = host.state()
    host.settings["headgate.console.schemas"] = "/nowhere"
    with pytest.raises(ConfigError, match="there is no such folder"):
        host.start()
    assert host.state() == before
    host.settings["headgate.console.listeners"] = ""
    host.start()


def test_a_refused_start_founds_no_second_cluster_of_an_id(tmp_path: Path) -> None:
    """A wrong chroot, where another cluster lives, and then the right one, where nothing is yet."""
    host = Host(tmp_path)
    another_broker_of_this_id(host)
    with pytest.raises(StorageError, match=r"node\.id=0 is in use"):
        host.start()
    host.join("model:2181/right")
    host.start()
    meta: Any = read_meta(Files(), f"{tmp_path}/a")
    assert meta.cluster_id != CLUSTER
    assert ClusterId.decode(host.keeper.tree.nodes["/right/cluster/id"].data).cluster_id == meta.cluster_id

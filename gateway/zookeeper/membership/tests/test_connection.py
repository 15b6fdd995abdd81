"""The waits of a start: for a connection, for answers, for the end of an earlier session."""

from pathlib import Path

import pytest

from headgate.gateway.config import BrokerConfig
from headgate.gateway.runtime.tasks import Task
from headgate.gateway.runtime.tests.fake_scheduler import ManualClock
from headgate.gateway.zookeeper.layout.cluster import ClusterId
from headgate.gateway.zookeeper.membership.connection import ZooKeeperConnection
from headgate.gateway.zookeeper.membership.joining import EarlierSession, Overtaken
from headgate.gateway.zookeeper.membership.refusals import ZooKeeperRefusal
from headgate.gateway.zookeeper.membership.tests.member import OWNER, connected, put
from headgate.gateway.zookeeper.requests import exists
from headgate.gateway.zookeeper.tests.model import Fault, ZooKeeperModel
from headgate.gateway.zookeeper.tests.opening import MovingPump, opener
from headgate.storage.disk.layout import Meta, write_meta
from headgate.storage.errors import StorageError
from headgate.storage.files import Files


class StartingBroker:
    def __init__(self, **settings: str) -> None:
        self.keeper = ZooKeeperModel()
        self.clock = ManualClock()
        self.pump = MovingPump(self.clock)
        self.settings = {"zookeeper_connect": "zk:2181", **settings}

    def put(self, path: str, data: bytes) -> None:
        put(self.keeper, connected(self.keeper), path, data, is_ephemeral=False)

    def connect(self) -> ZooKeeperConnection:
        overrides = {name.replace("_", "."): value for name, value in self.settings.items()}
        return ZooKeeperConnection(BrokerConfig.load("", overrides), self.clock, opener(self.keeper), self.pump)


def test_the_id_of_the_cluster() -> None:
    starting = StartingBroker()
    assert starting.connect().cluster_id is None
    starting.put("/cluster/id", ClusterId("abc").encode())
    connection = starting.connect()
    assert connection.cluster_id == "abc"
    connection.close()
    assert not starting.keeper.sessions[-1].is_open


def test_an_id_that_cannot_be_read() -> None:
    starting = StartingBroker()
    starting.put("/cluster/id", b"[]")
    with pytest.raises(ZooKeeperRefusal, match=r"ZooKeeper's /cluster/id: .* below zk:2181"):
        starting.connect()
    assert not starting.keeper.sessions[-1].is_open


def test_no_connection(caplog: pytest.LogCaptureFixture) -> None:
    starting = StartingBroker(zookeeper_connection_timeout_ms="12000")
    starting.keeper.stop()
    with pytest.raises(ZooKeeperRefusal, match="ZooKeeper at zk:2181 did not answer within 12 s"):
        starting.connect()
    assert 12_000 <= starting.clock.elapsed_ms < 20_000
    assert [record.getMessage() for record in caplog.records][:2] == [
        "waiting for ZooKeeper at zk:2181: a connection, for at most 7 s",
        "waiting for ZooKeeper at zk:2181: a connection, for at most 2 s",
    ]


def test_a_name_without_an_address() -> None:
    starting = StartingBroker(zookeeper_connect="zk:2181,nowhere.invalid:2181")
    starting.keeper.stop()
    starting.keeper.unresolved = ("nowhere.invalid",)
    with pytest.raises(ZooKeeperRefusal, match=r"and no address is known for nowhere\.invalid; correct zook"):
        starting.connect()


def test_the_wait_is_the_session_timeout_by_default() -> None:
    starting = StartingBroker(zookeeper_session_timeout_ms="3000")
    starting.keeper.stop()
    with pytest.raises(ZooKeeperRefusal, match="within 3 s"):
        starting.connect()


def test_a_server_that_comes_late() -> None:
    starting = StartingBroker()
    starting.keeper.stop()
    starting.pump.while_waiting += [lambda: None, starting.keeper.start]
    assert starting.connect().session.is_connected


def test_a_server_that_stops_answering() -> None:
    starting = StartingBroker()
    connection = starting.connect()
    starting.keeper.freeze()
    with pytest.raises(ZooKeeperRefusal, match="stopped answering: the topics was not done within 18 s"):
        connection.complete(lambda: exists(connection.session, "/"), "the topics")


def test_a_connection_that_is_lost_meanwhile() -> None:
    starting = StartingBroker()
    connection = starting.connect()
    [session] = starting.keeper.sessions
    session.faults.append(Fault.BEFORE)
    starting.pump.while_waiting.append(starting.keeper.start)
    assert connection.complete(lambda: exists(connection.session, "/"), "the topics") is not None


def _raising(errors: list[Exception]) -> Task[str]:
    if errors:
        raise errors.pop(0)
    return "done"
    yield


def test_whoever_was_overtaken_begins_again() -> None:
    starting = StartingBroker()
    errors: list[Exception] = [Overtaken("x"), Overtaken("y")]
    assert starting.connect().complete(lambda: _raising(errors), "x") == "done"
    assert starting.clock.elapsed_ms >= 400


def test_a_start_that_is_always_overtaken_ends() -> None:
    starting = StartingBroker(zookeeper_connection_timeout_ms="3000")
    connection = starting.connect()
    sentence = "the topics was not done within 3 s: x; look into the log of the controller"
    with pytest.raises(ZooKeeperRefusal, match=sentence):
        connection.complete(lambda: _raising([Overtaken("x")]), "the topics")
    assert starting.clock.elapsed_ms <= 4000


def test_an_earlier_session_is_waited_for(caplog: pytest.LogCaptureFixture) -> None:
    starting = StartingBroker(zookeeper_connection_timeout_ms="3000")
    errors: list[Exception] = [EarlierSession(0, 9, OWNER)] * 50
    connection = starting.connect()
    assert connection.complete(lambda: _raising(errors), "x") == "done"
    told = [record.getMessage() for record in caplog.records if "earlier session" in record.getMessage()]
    assert told[0].endswith(
        "the end of the earlier session of broker 0 (process 4711 on here, since 2023-11-14 22:13:20 UTC), "
        "for at most 23 s"
    )
    assert len(told) > 1


def test_an_earlier_session_that_lives_on() -> None:
    connection = StartingBroker().connect()
    with pytest.raises(ZooKeeperRefusal, match=r"by process 4711 on here, since .*, on a copy of this log directory"):
        connection.complete(lambda: _raising([EarlierSession(0, 9, OWNER)]), "x")


def test_other_errors_are_raised() -> None:
    connection = StartingBroker().connect()
    with pytest.raises(KeyError):
        connection.complete(lambda: _raising([KeyError("x")]), "x")


def test_a_missing_chroot_is_created() -> None:
    starting = StartingBroker(zookeeper_connect="zk:2181/kafka/one")
    connection = starting.connect()
    assert not connection.has_chroot
    connection.create_chroot()
    assert "/kafka/one" in starting.keeper.tree.nodes
    assert starting.connect().has_chroot
    connection.create_chroot()


# Directories


def refused(path: Path, cluster_id: str | None) -> str:
    connection = StartingBroker().connect()
    connection.cluster_id = cluster_id
    with pytest.raises(StorageError) as error:
        connection.check_directories(Files(), [str(path)])
    return str(error.value)


def test_new_directories(tmp_path: Path) -> None:
    connection = StartingBroker().connect()
    connection.check_directories(Files(), [str(tmp_path), str(tmp_path / "missing")])


def test_directories_of_another_cluster(tmp_path: Path) -> None:
    write_meta(Files(), str(tmp_path), Meta("A", 0, "d"))
    assert f"the cluster id B in ZooKeeper at zk:2181 doesn't match stored clusterId A in {tmp_path}" in refused(
        tmp_path, "B"
    )


def test_a_chroot_without_a_cluster(tmp_path: Path) -> None:
    write_meta(Files(), str(tmp_path), Meta("A", 0, "d"))
    StartingBroker().connect().check_directories(Files(), [str(tmp_path)])
    (tmp_path / "t-0").mkdir()
    assert f"has no cluster, but {tmp_path} holds 1 partitions of cluster A" in refused(tmp_path, None)


@pytest.mark.parametrize(
    "name, reason", [("__headgate_metadata-0", "to-zookeeper"), ("__cluster_metadata-0", "with KRaft")]
)
def test_directories_with_their_own_metadata(tmp_path: Path, name: str, reason: str) -> None:
    write_meta(Files(), str(tmp_path), Meta("A", 0, "d"))
    (tmp_path / name).mkdir()
    assert reason in refused(tmp_path, "A")

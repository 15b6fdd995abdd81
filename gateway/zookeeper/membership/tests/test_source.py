"""A whole broker with its metadata in the model of ZooKeeper: starts, stops, and what is refused."""

import json
import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest
import trio

from headgate.gateway.api.context import Client
from headgate.gateway.app.broker import Broker
from headgate.gateway.app.composition import BrokerParts, Seams
from headgate.gateway.config import BrokerConfig
from headgate.gateway.tests.harness import MemoryBroker, run_broker, run_broker_with_zookeeper
from headgate.gateway.zookeeper.layout.cluster import ClusterId
from headgate.gateway.zookeeper.layout.topics import LeaderAndIsr
from headgate.gateway.zookeeper.membership.refusals import ZooKeeperRefusal
from headgate.gateway.zookeeper.membership.source import LED_WITHIN_MS
from headgate.gateway.zookeeper.membership.tests.member import connected, finish, put, put_broker
from headgate.gateway.zookeeper.requests import ensure
from headgate.gateway.zookeeper.session import Create
from headgate.gateway.zookeeper.tests.model import ZooKeeperModel
from headgate.gateway.zookeeper.tests.opening import connector
from headgate.gateway.zookeeper.tests.whole_broker import WholeBroker
from headgate.protocol.acls import AclOperation, AclResource
from headgate.protocol.messages.metadata import MetadataRequest, MetadataResponse
from headgate.storage.directory.log_directory import LOCK
from headgate.storage.disk.layout import read_meta
from headgate.storage.errors import StorageError
from headgate.storage.files import Files, Lock

pytestmark = pytest.mark.slow

EPHEMERAL = {"/brokers/ids/0", "/controller", "/headgate/brokers/0"}


def start(keeper: ZooKeeperModel, directory: Path, **settings: str) -> None:
    """Build the parts of a broker as far as a start takes them, and let go of them."""
    overrides = {
        "zookeeper.connect": "model:2181",
        "log.dirs": str(directory),
        **{name.replace("_", "."): value for name, value in settings.items()},
    }
    BrokerParts(BrokerConfig.load("", overrides), Seams(connect=connector(keeper))).close()


async def described(broker: MemoryBroker) -> MetadataResponse:
    """The metadata, in which every partition has a leader: a start ends no sooner."""
    response: MetadataResponse = await broker.connect().ask(MetadataRequest(topics=None), 7)
    assert all(one.leader_id == 0 for topic in response.topics for one in topic.partitions)
    return response


def test_starts_and_stops(tmp_path: Path) -> None:
    keeper, epochs = ZooKeeperModel(), list[list[int]]()

    async def scenario(broker: MemoryBroker) -> None:
        metadata = broker.broker.services.metadata
        assert set(keeper.tree.nodes) >= EPHEMERAL, "ready means registered"
        if not metadata.image.topics:
            metadata.create_topic("t", 2)
            await trio.sleep(1)
        [topic] = (await described(broker)).topics
        epochs.append([one.leader_epoch for one in topic.partitions])

    for _ in range(3):
        run_broker_with_zookeeper(keeper, tmp_path, scenario)
        assert not EPHEMERAL & set(keeper.tree.nodes), "a stop ends the session"
    assert epochs == [[0, 0], [1, 1], [2, 2]]
    assert keeper.tree.nodes["/controller_epoch"].data == b"3"
    assert json.loads(keeper.tree.nodes["/brokers/topics/t"].data or b"")["version"] == 3


def test_a_killed_broker_comes_back_at_once(tmp_path: Path) -> None:
    keeper = ZooKeeperModel()

    async def kill(broker: MemoryBroker) -> None:
        broker.broker.services.metadata.create_topic("t", 1)
        await trio.sleep(1)
        session = keeper.sessions[-1]
        session.events.clear()
        keeper.sessions.remove(session)  # nobody speaks for the session any more, and ZooKeeper keeps it
        broker.broker.parts.zookeeper = None

    run_broker_with_zookeeper(keeper, tmp_path, kill)
    assert set(keeper.tree.nodes) >= EPHEMERAL
    run_broker_with_zookeeper(keeper, tmp_path, described_once)
    assert not EPHEMERAL & set(keeper.tree.nodes)


async def described_once(broker: MemoryBroker) -> None:
    await described(broker)


class Announced(WholeBroker):
    """A broker that notes the leaders, and the time in ms, at the end of its start."""

    leaders: tuple[int, ...] = ()
    ready_ms = -1.0

    def announced(self, error: StorageError | None) -> None:
        topics = self.services.metadata.image.topics.values()
        self.leaders = tuple(state.leader for topic in topics for state in topic.partitions)
        self.ready_ms = self.time.clock.monotonic_ms()


def test_a_start_ends_once_the_broker_leads_again(tmp_path: Path) -> None:
    broker = Announced(tmp_path, ZooKeeperModel())
    broker.change(lambda: broker.services.metadata.create_topic("t", 3))
    broker.stop()
    began_ms = broker.time.clock.monotonic_ms()
    broker.start()
    assert broker.leaders == (0, 0, 0)
    assert broker.ready_ms - began_ms < 200
    broker.stop()


def test_a_start_beside_a_lost_controller_ends(tmp_path: Path) -> None:
    keeper = ZooKeeperModel()
    first = WholeBroker(tmp_path / "0", keeper, node_id="0")
    second = Announced(tmp_path / "1", keeper, node_id="1")
    assert second.ready_ms == pytest.approx(LED_WITHIN_MS, abs=200)
    second.stop()
    first.stop()


def test_the_id_of_the_cluster(tmp_path: Path) -> None:
    keeper = ZooKeeperModel()
    put(keeper, connected(keeper), "/cluster/id", ClusterId("AAAAAAAAAAAAAAAAAAAAAA").encode(), is_ephemeral=False)
    start(keeper, tmp_path / "new")
    found = read_meta(Files(), str(tmp_path / "new"))
    assert found is not None
    assert found.cluster_id == "AAAAAAAAAAAAAAAAAAAAAA"
    other = ZooKeeperModel()
    start(other, tmp_path / "new")
    assert ClusterId.decode(other.tree.nodes["/cluster/id"].data).cluster_id == "AAAAAAAAAAAAAAAAAAAAAA"


def test_another_broker_creates_the_cluster_at_the_same_time(tmp_path: Path) -> None:
    """Its id is there once this broker has taken its new directory, for which it has thought of an id."""
    keeper = ZooKeeperModel()
    other = connected(keeper)

    class SlowFiles(Files):
        def lock(self, path: str) -> Lock:
            node = ClusterId("AAAAAAAAAAAAAAAAAAAAAA").encode()
            put(keeper, other, "/cluster/id", node, is_ephemeral=False)
            return super().lock(path)

    overrides = {"zookeeper.connect": "model:2181", "log.dirs": str(tmp_path)}
    BrokerParts(BrokerConfig.load("", overrides), Seams(files=SlowFiles(), connect=connector(keeper))).close()
    found = read_meta(Files(), str(tmp_path))
    assert found is not None
    assert found.cluster_id == "AAAAAAAAAAAAAAAAAAAAAA"


def test_the_start_keeps_the_lock_that_kafka_takes(tmp_path: Path) -> None:
    """POSIX ends a process's lock when the process closes the file, also after a read."""

    class NotedFiles(Files):
        def read(self, path: str) -> bytes:
            assert not path.endswith(LOCK), "the holder of the lock opens its file"
            return super().read(path)

    overrides = {"zookeeper.connect": "model:2181", "log.dirs": str(tmp_path)}
    keeper = ZooKeeperModel()
    parts = BrokerParts(BrokerConfig.load("", overrides), Seams(files=NotedFiles(), connect=connector(keeper)))
    assert next(iter(parts.log_manager)).process_id == os.getpid()
    parts.close()


def test_topics_of_an_old_tool(tmp_path: Path) -> None:
    """Without an id, without states; the data of one node are damaged."""
    keeper = ZooKeeperModel()
    tool = connected(keeper)
    finish(keeper, ensure(tool, "/brokers/topics"))
    tool.create(Create("/brokers/topics/old", b'{"version":1,"partitions":{"0":[0],"1":[0]}}'), lambda _: None)
    tool.create(Create("/brokers/topics/broken", b"{"), lambda _: None)
    keeper.run()

    async def scenario(broker: MemoryBroker) -> None:
        [topic] = (await described(broker)).topics
        assert (topic.name, len(topic.partitions)) == ("old", 2)
        assert (
            broker.broker.services.metadata.image.topics["old"].topic_id
            in broker.broker.services.metadata.image.topic_names
        )

    run_broker_with_zookeeper(keeper, tmp_path, scenario)
    assert json.loads(keeper.tree.nodes["/brokers/topics/old"].data or b"")["topic_id"]
    assert LeaderAndIsr.decode("old", 1, keeper.tree.nodes["/brokers/topics/old/partitions/1/state"].data).leader == 0


def test_configs_of_the_broker_hold(tmp_path: Path) -> None:
    keeper = ZooKeeperModel()
    tool = connected(keeper)
    for entity, value in (("<default>", "5000"), ("0", "7000")):
        path = f"/config/brokers/{entity}"
        put(
            keeper,
            tool,
            path,
            json.dumps({"version": 1, "config": {"log.retention.ms": value}}).encode(),
            is_ephemeral=False,
        )

    async def scenario(broker: MemoryBroker) -> None:
        assert broker.broker.config["log.retention.ms"] == 7000

    run_broker_with_zookeeper(keeper, tmp_path, scenario)


def test_an_embedded_log_and_zookeeper_refuse_each_other(tmp_path: Path) -> None:
    async def scenario(_: MemoryBroker) -> None:
        pass

    run_broker(tmp_path, scenario)
    keeper = ZooKeeperModel()
    with pytest.raises(ZooKeeperRefusal, match="to-zookeeper"):
        start(keeper, tmp_path)
    assert list(keeper.tree.nodes) == ["/"], "nothing was written"
    assert not keeper.sessions[-1].is_open


def test_a_refused_start_leaves_nothing_behind(tmp_path: Path) -> None:
    keeper = ZooKeeperModel()
    put_broker(keeper, connected(keeper), 0)
    with pytest.raises(ZooKeeperRefusal, match=r"node\.id=0 is in use"):
        start(keeper, tmp_path)
    assert not keeper.sessions[-1].is_open
    start(ZooKeeperModel(), tmp_path)


@pytest.mark.sockets
def test_a_listener_that_cannot_open(tmp_path: Path) -> None:
    keeper = ZooKeeperModel()
    overrides = {"zookeeper.connect": "m:1", "log.dirs": str(tmp_path), "listeners": "PLAINTEXT://192.0.2.1:1"}
    broker = Broker(BrokerConfig.load("", overrides), Seams(connect=connector(keeper)))
    with pytest.raises(OSError, match=r"192\.0\.2\.1|address"):
        trio.run(broker.run)
    assert not EPHEMERAL & set(keeper.tree.nodes)


ACL_AUTHORIZER = "kafka.security.authorizer.AclAuthorizer"
ACL = b'{"version":1,"acls":[{"principal":"User:a","permissionType":"Allow","operation":"Read","host":"*"}]}'


def test_acls_decide_from_the_first_request_on(tmp_path: Path) -> None:
    keeper = ZooKeeperModel()
    put(keeper, connected(keeper), "/kafka-acl/Topic/t", ACL, is_ephemeral=False)
    overrides = {"zookeeper.connect": "model:2181", "log.dirs": str(tmp_path), "authorizer.class.name": ACL_AUTHORIZER}
    parts = BrokerParts(BrokerConfig.load("", overrides), Seams(connect=connector(keeper)))
    authorizer, client = parts.dispatcher.authorizer, Client("192.0.2.9", 1, "192.0.2.1", 2, principal="User:a")
    assert authorizer is not None
    assert authorizer.allows(client, AclOperation.DESCRIBE, AclResource.TOPIC, "t")
    assert not authorizer.allows(client, AclOperation.WRITE, AclResource.TOPIC, "t")
    parts.close()
    assert "/kafka-acl-extended/prefixed/TransactionalId" in keeper.tree.nodes


def test_acls_that_cannot_be_read_refuse_a_start(tmp_path: Path) -> None:
    keeper = ZooKeeperModel()
    put(keeper, connected(keeper), "/kafka-acl/Topic/t", ACL[:-1], is_ephemeral=False)
    before = dict(keeper.tree.nodes)
    with pytest.raises(ZooKeeperRefusal, match=r"/kafka-acl/Topic/t: .* it may deny something: correct or delete"):
        start(keeper, tmp_path, authorizer_class_name=ACL_AUTHORIZER)
    assert keeper.tree.nodes.keys() == before.keys(), "nothing was written"


def test_a_broker_without_authorizer_joins_no_cluster_with_acls(tmp_path: Path) -> None:
    keeper = ZooKeeperModel()
    put(keeper, connected(keeper), "/kafka-acl-extended/prefixed/Group/g", ACL, is_ephemeral=False)
    before = dict(keeper.tree.nodes)
    with pytest.raises(ZooKeeperRefusal, match=r"has ACLs, .* would serve everybody: set authorizer\.class\.name and"):
        start(keeper, tmp_path)
    assert keeper.tree.nodes.keys() == before.keys(), "nothing was written"
    start(keeper, tmp_path, authorizer_class_name="")


def test_the_directories_of_an_authorizer_are_no_acls(tmp_path: Path) -> None:
    keeper = ZooKeeperModel()
    start(keeper, tmp_path, authorizer_class_name=ACL_AUTHORIZER)
    assert "/kafka-acl/Topic" in keeper.tree.nodes
    start(keeper, tmp_path)


def test_a_chroot(tmp_path: Path) -> None:
    keeper = ZooKeeperModel()
    start(keeper, tmp_path, zookeeper_connect="model:2181/a/b")
    assert "/a/b/controller_epoch" in keeper.tree.nodes


def test_the_controllership_is_taken_with_the_next_epoch(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    keeper = ZooKeeperModel()
    tool = connected(keeper)
    tool.create(Create("/controller_epoch", b"41"), lambda _: None)
    keeper.run()
    with caplog.at_level(logging.INFO):
        start(keeper, tmp_path)
    assert keeper.tree.nodes["/controller_epoch"].data == b"42"
    assert "broker 0 is the controller, in epoch 42" in caplog.text


def test_an_epoch_that_cannot_be_read(tmp_path: Path) -> None:
    keeper = ZooKeeperModel()
    tool = connected(keeper)
    tool.create(Create("/controller_epoch", b"many"), lambda _: None)
    keeper.run()
    state = b'{"controller_epoch":41,"leader":0,"version":1,"leader_epoch":0,"isr":[0]}'
    put(keeper, tool, "/brokers/topics/t/partitions/0/state", state, is_ephemeral=False)
    tool.set("/brokers/topics/t", b'{"version":1,"partitions":{"0":[0]}}', -1, lambda _: None)
    keeper.run()
    start(keeper, tmp_path)
    assert keeper.tree.nodes["/controller_epoch"].data == b"42", "behind the highest in a state"


def test_a_topic_that_lost_its_id_keeps_its_log(tmp_path: Path) -> None:
    """Tools before 2.8 drop the id when they add partitions."""
    keeper = ZooKeeperModel()
    broker = WholeBroker(tmp_path, keeper)
    broker.change(lambda: broker.services.metadata.create_topic("t", 1))
    topic_id = broker.services.metadata.image.topics["t"].topic_id
    broker.stop()
    broker.write("/brokers/topics/t", b'{"version":1,"partitions":{"0":[0],"1":[0]}}')
    broker.start()
    assert broker.services.metadata.image.topics["t"].topic_id == topic_id
    assert len(broker.services.metadata.image.topics["t"].partitions) == 2
    broker.stop()


@pytest.mark.parametrize("copy", ["a", "z"])
def test_the_topic_with_a_log_keeps_an_id_of_several(tmp_path: Path, copy: str) -> None:
    """Also where its node was made anew, after that of the copy."""
    keeper = ZooKeeperModel()
    broker = WholeBroker(tmp_path, keeper)
    broker.change(lambda: broker.services.metadata.create_topic("m", 1))
    broker.stop()
    data = keeper.tree.nodes["/brokers/topics/m"].data
    for path in ("/partitions/0/state", "/partitions/0", "/partitions", ""):
        assert broker.delete(f"/brokers/topics/m{path}")
    broker.write(f"/brokers/topics/{copy}", data)
    broker.write("/brokers/topics/m", data)
    broker.start()
    assert set(broker.services.metadata.image.topics) == {"m"}
    assert broker.services.metadata.image.topics["m"].partitions[0].leader == 0
    broker.stop()


@pytest.mark.sockets
def test_without_zookeeper_nothing_of_it_is_imported() -> None:
    program = (
        "import sys, headgate.gateway.app.broker as _; "
        "print([name for name in sys.modules if 'kazoo' in name or 'zookeeper' in name])"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"

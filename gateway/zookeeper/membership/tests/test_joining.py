"""Who may join a cluster, and who is refused or waits; each refusal says whose the place is."""

from dataclasses import replace

import pytest

from headgate.gateway.zookeeper.membership.joining import EarlierSession, Overtaken, commit, join
from headgate.gateway.zookeeper.membership.owner import SessionOwner
from headgate.gateway.zookeeper.membership.refusals import ZooKeeperRefusal
from headgate.gateway.zookeeper.membership.tests.member import (
    MEMBER,
    OWNER,
    connected,
    finish,
    put,
    put_broker,
    put_controller,
)
from headgate.gateway.zookeeper.session import Create, Delete
from headgate.gateway.zookeeper.steps import Lost
from headgate.gateway.zookeeper.tests.model import ModelSession, ZooKeeperModel
from headgate.gateway.zookeeper.unreadable import UnreadableNodes

OWN = "/headgate/brokers/0"


class World:
    """A session that joins, and one of somebody else."""

    def __init__(self) -> None:
        self.keeper = ZooKeeperModel()
        self.other, self.session = connected(self.keeper), connected(self.keeper)

    def join(self) -> None:
        finish(self.keeper, join(self.session, MEMBER))

    def put_earlier(self, owner: SessionOwner = OWNER) -> ModelSession:
        """The nodes of an earlier process of this broker, whose session lives on."""
        put(self.keeper, self.other, OWN, owner._replace(process=17).encode())
        put_broker(self.keeper, self.other, 0)
        put_controller(self.keeper, self.other, 0)
        return self.other

    def refusal(self) -> str:
        before = set(self.keeper.tree.nodes)
        with pytest.raises(ZooKeeperRefusal) as refused:
            self.join()
        assert set(self.keeper.tree.nodes) == before, "nothing is written"
        return str(refused.value)


@pytest.fixture
def world() -> World:
    return World()


def test_a_new_cluster(world: World) -> None:
    world.join()
    assert world.keeper.tree.nodes[OWN].owner == world.session.session_id
    assert {"/brokers/topics", "/config/changes", "/admin/delete_topics", "/config/groups"} <= set(
        world.keeper.tree.nodes
    )


def test_joining_again_changes_nothing(world: World) -> None:
    world.join()
    put_broker(world.keeper, world.session, 0)
    put_controller(world.keeper, world.session, 0)
    zxid = world.keeper.tree.nodes[OWN].mzxid
    world.join()
    assert world.keeper.tree.nodes[OWN].mzxid == zxid


def test_another_broker(world: World) -> None:
    put_broker(world.keeper, world.other, 7)
    put(world.keeper, world.other, "/brokers/ids/8", b"?")
    assert "zk:2181/kafka has broker 7 (PLAINTEXT://h:9092), broker 8 (a broker without an address)" in world.refusal()


def test_a_registration_with_a_name_that_is_no_id(world: World) -> None:
    put(world.keeper, world.other, "/brokers/ids/x", b"{}")
    world.join()


def test_another_program_with_the_same_id(world: World) -> None:
    put_broker(world.keeper, world.other, 0)
    assert "node.id=0 is in use in ZooKeeper at zk:2181/kafka by PLAINTEXT://h:9092, since 2023-" in world.refusal()


def test_another_headgate_with_the_same_id(world: World) -> None:
    world.put_earlier(OWNER._replace(host="there", locks={"other": "1:2"}))
    assert "by PLAINTEXT://h:9092, process 17 on there, since" in world.refusal()


def test_another_headgate_that_is_not_registered_yet(world: World) -> None:
    put(world.keeper, world.other, OWN, b"no json")
    assert "by a broker without an address, since" in world.refusal()


def test_another_controller(world: World) -> None:
    put_controller(world.keeper, world.other, 5)
    assert "broker 5 is the controller in ZooKeeper at zk:2181/kafka, since 2023-" in world.refusal()


def test_a_controller_of_kraft(world: World) -> None:
    put_controller(world.keeper, world.other, 3000, kraft_epoch=4)
    assert "a KRaft controller (epoch 4) has taken over" in world.refusal()


def test_a_controller_that_cannot_be_read(world: World) -> None:
    put(world.keeper, world.other, "/controller", b"{")
    assert "/controller" in world.refusal()


def test_a_process_that_is_gone_is_replaced(world: World) -> None:
    world.put_earlier()
    world.join()
    nodes = world.keeper.tree.nodes
    assert nodes[OWN].owner == world.session.session_id
    assert "/brokers/ids/0" not in nodes
    assert "/controller" not in nodes


def test_the_same_directory_elsewhere_is_waited_for(world: World) -> None:
    earlier = world.put_earlier(OWNER._replace(boot="before the reboot"))
    with pytest.raises(EarlierSession) as waiting:
        world.join()
    assert (waiting.value.session_id, waiting.value.owner.process) == (earlier.session_id, 17)
    world.keeper.expire(earlier.session_id)
    world.join()


def test_a_lost_connection(world: World) -> None:
    world.keeper.cut(world.session)
    with pytest.raises(Lost):
        world.join()


def test_somebody_else_was_faster(world: World) -> None:
    for operation in (Delete("/x"), Create("/")):
        with pytest.raises(Overtaken, match="the reason: NO"):
            finish(world.keeper, commit(world.session, MEMBER, [operation], "the reason"))
    with pytest.raises(ZooKeeperRefusal, match="zk:2181/kafka refused the reason with BAD_ARGUMENTS"):
        finish(world.keeper, commit(world.session, MEMBER, [Create("x")], "the reason"))
    with pytest.raises(ZooKeeperRefusal, match="refused the reason with TOO_LARGE"):
        finish(world.keeper, commit(world.session, MEMBER, [Create("/x", bytes(2_000_000))], "the reason"))


def test_registrations_that_cannot_be_read(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """A live broker's node is ephemeral; any other one that cannot be read is no broker."""
    for name in ("01", "abc", "7"):
        put(world.keeper, world.other, f"/brokers/ids/{name}", b"x", is_ephemeral=False)
    member = replace(MEMBER, unreadable=UnreadableNodes())
    for _ in range(3):
        finish(world.keeper, join(world.session, member))
    assert [line.split(":")[0] for line in caplog.messages] == [
        "ZooKeeper's /brokers/ids/01",
        "ZooKeeper's /brokers/ids/abc",
    ]
    put(world.keeper, world.other, "/brokers/ids/8", b"x")
    assert "has broker 8 (a broker without an address)" in world.refusal()


def test_an_own_controller_that_cannot_be_read(world: World) -> None:
    """Anybody may write over it: the owner of the node counts."""
    put(world.keeper, world.session, "/controller", b"x")
    world.join()
    put(world.keeper, world.other, "/brokers/x", b"", is_ephemeral=False)
    world.keeper.end_session(world.session)
    world.session = connected(world.keeper)
    put(world.keeper, world.other, "/controller", b"x")
    assert "/controller" in world.refusal()

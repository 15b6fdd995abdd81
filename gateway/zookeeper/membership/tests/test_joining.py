"""Who may join a cluster, and who is refused or waits; each refusal says whose the place is."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from headgate.gateway.zookeeper.layout.cluster import OwnFeatures
from headgate.gateway.zookeeper.layout.owner import SessionOwner
from headgate.gateway.zookeeper.membership.joining import EarlierSession, Overtaken, commit, join
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
from headgate.gateway.zookeeper.requests import Lost
from headgate.gateway.zookeeper.session import Create, Delete
from headgate.gateway.zookeeper.tests.model import ModelSession, ZooKeeperModel

OWN = "/headgate/brokers/0"


class TwoSessions:
    """A session that joins, and another one."""

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
def sessions() -> TwoSessions:
    return TwoSessions()


def test_a_new_cluster(sessions: TwoSessions) -> None:
    sessions.join()
    assert sessions.keeper.tree.nodes[OWN].owner == sessions.session.session_id
    assert {"/brokers/topics", "/config/changes", "/admin/delete_topics", "/config/groups"} <= set(
        sessions.keeper.tree.nodes
    )


def test_the_first_beside_kafka_switches_off_what_that_lacks(sessions: TwoSessions) -> None:
    put_broker(sessions.keeper, sessions.other, 7)
    sessions.join()
    assert features(sessions) == {"group.version": 0, "transaction.version": 0}


def test_a_level_that_was_set_stays_beside_kafka(sessions: TwoSessions) -> None:
    put_broker(sessions.keeper, sessions.other, 7)
    put(sessions.keeper, sessions.other, "/headgate/feature", OwnFeatures({"group.version": 1}).encode())
    sessions.join()
    assert features(sessions) == {"group.version": 1}


def test_a_later_broker_beside_kafka_leaves_the_levels(sessions: TwoSessions) -> None:
    sessions.join()
    assert features(sessions) is None, "alone, it has the highest levels"
    put_broker(sessions.keeper, sessions.other, 7)
    finish(sessions.keeper, join(sessions.session, replace(MEMBER, node_id=1)))
    assert features(sessions) is None


def features(sessions: TwoSessions) -> Mapping[str, int] | None:
    node = sessions.keeper.tree.nodes.get("/headgate/feature")
    return None if node is None else OwnFeatures.decode(node.data).levels


def test_joining_again_changes_nothing(sessions: TwoSessions) -> None:
    sessions.join()
    put_broker(sessions.keeper, sessions.session, 0)
    put_controller(sessions.keeper, sessions.session, 0)
    zxid = sessions.keeper.tree.nodes[OWN].mzxid
    sessions.join()
    assert sessions.keeper.tree.nodes[OWN].mzxid == zxid


def test_other_brokers_and_another_controller(sessions: TwoSessions) -> None:
    put_broker(sessions.keeper, sessions.other, 7)
    for name in ("8", "x"):
        put(sessions.keeper, sessions.other, f"/brokers/ids/{name}", b"?")
    put_controller(sessions.keeper, sessions.other, 7)
    sessions.join()
    nodes = sessions.keeper.tree.nodes
    assert nodes[OWN].owner == sessions.session.session_id
    assert nodes["/controller"].owner == nodes["/brokers/ids/7"].owner == sessions.other.session_id


def test_another_program_with_the_same_id(sessions: TwoSessions) -> None:
    put_broker(sessions.keeper, sessions.other, 0)
    assert "node.id=0 is in use in ZooKeeper at zk:2181/kafka by PLAINTEXT://h:9092, since 2023-" in sessions.refusal()


def test_another_headgate_with_the_same_id(sessions: TwoSessions) -> None:
    sessions.put_earlier(OWNER._replace(host="there", locks={"other": "1:2"}))
    assert "by PLAINTEXT://h:9092, process 17 on there, since" in sessions.refusal()


def test_another_headgate_that_is_not_registered_yet(sessions: TwoSessions) -> None:
    put(sessions.keeper, sessions.other, OWN, b"no json")
    assert "by a broker without an address, since" in sessions.refusal()


def test_a_controller_of_kraft(sessions: TwoSessions) -> None:
    put_controller(sessions.keeper, sessions.other, 3000, kraft_epoch=4)
    assert "a KRaft controller (epoch 4) has taken over" in sessions.refusal()


def test_a_controller_that_cannot_be_read(sessions: TwoSessions) -> None:
    put(sessions.keeper, sessions.other, "/controller", b"{")
    assert "/controller" in sessions.refusal()


def test_a_process_that_is_gone_is_replaced(sessions: TwoSessions) -> None:
    sessions.put_earlier()
    sessions.join()
    nodes = sessions.keeper.tree.nodes
    assert nodes[OWN].owner == sessions.session.session_id
    assert "/brokers/ids/0" not in nodes
    assert "/controller" not in nodes


def test_the_same_directory_elsewhere_is_waited_for(sessions: TwoSessions) -> None:
    earlier = sessions.put_earlier(OWNER._replace(boot="before the reboot"))
    with pytest.raises(EarlierSession) as waiting:
        sessions.join()
    assert (waiting.value.session_id, waiting.value.owner.process) == (earlier.session_id, 17)
    sessions.keeper.expire(earlier.session_id)
    sessions.join()


def test_a_lost_connection(sessions: TwoSessions) -> None:
    sessions.keeper.cut(sessions.session)
    with pytest.raises(Lost):
        sessions.join()


def test_somebody_else_was_faster(sessions: TwoSessions) -> None:
    for operation in (Delete("/x"), Create("/")):
        with pytest.raises(Overtaken, match="the reason: NO"):
            finish(sessions.keeper, commit(sessions.session, MEMBER, [operation], "the reason"))
    with pytest.raises(ZooKeeperRefusal, match="zk:2181/kafka refused the reason with BAD_ARGUMENTS"):
        finish(sessions.keeper, commit(sessions.session, MEMBER, [Create("x")], "the reason"))
    with pytest.raises(ZooKeeperRefusal, match="refused the reason with TOO_LARGE"):
        finish(sessions.keeper, commit(sessions.session, MEMBER, [Create("/x", bytes(2_000_000))], "the reason"))


def test_an_own_controller_that_cannot_be_read(sessions: TwoSessions) -> None:
    """Anybody may write over it: the owner of the node counts."""
    put(sessions.keeper, sessions.session, "/controller", b"x")
    sessions.join()
    put(sessions.keeper, sessions.other, "/brokers/x", b"", is_ephemeral=False)
    sessions.keeper.end_session(sessions.session)
    sessions.session = connected(sessions.keeper)
    put(sessions.keeper, sessions.other, "/controller", b"x")
    assert "/controller" in sessions.refusal()


def test_a_member_of_a_cluster_leaves_the_others_alone(sessions: TwoSessions) -> None:
    """The nodes of its own earlier process are replaced; the controller is another broker."""
    third = connected(sessions.keeper)
    put(sessions.keeper, sessions.other, OWN, OWNER._replace(process=17).encode())
    put_broker(sessions.keeper, sessions.other, 0)
    put_broker(sessions.keeper, third, 5)
    put_controller(sessions.keeper, third, 5)
    sessions.join()
    nodes = sessions.keeper.tree.nodes
    assert nodes[OWN].owner == sessions.session.session_id
    assert nodes["/controller"].owner == nodes["/brokers/ids/5"].owner == third.session_id
    assert "/brokers/ids/0" not in nodes

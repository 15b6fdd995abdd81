"""A session that is lost, interrupted and expired: the broker is registered again, and its store goes on."""

from dataclasses import replace

import pytest

from headgate.gateway.runtime.tasks import Task
from headgate.gateway.runtime.tests.fake_scheduler import ManualTime
from headgate.gateway.zookeeper.layout.cluster import ClusterId
from headgate.gateway.zookeeper.membership import session_life
from headgate.gateway.zookeeper.membership.joining import JoiningBroker, join
from headgate.gateway.zookeeper.membership.refusals import ZooKeeperRefusal
from headgate.gateway.zookeeper.membership.session_life import SessionLife
from headgate.gateway.zookeeper.membership.tests.member import (
    ADDRESS,
    MEMBER,
    OWNER,
    connected,
    finish,
    put,
    put_broker,
)
from headgate.gateway.zookeeper.requests import Failed, delete
from headgate.gateway.zookeeper.session import Delete, KeeperError, SessionEvent
from headgate.gateway.zookeeper.shared_session import SharedSession
from headgate.gateway.zookeeper.tests.model import ModelSession, ZooKeeperModel
from headgate.gateway.zookeeper.tests.opening import opener

NODE, OWN, CLUSTER = "/brokers/ids/0", "/headgate/brokers/0", "/cluster/id"


class JoinedBroker:
    """A broker that has joined; it counts the times that its store was resumed."""

    def __init__(self, member: JoiningBroker = MEMBER, cluster_id: bytes | None = None) -> None:
        self.keeper = ZooKeeperModel()
        if cluster_id is not None:
            put(self.keeper, connected(self.keeper), CLUSTER, cluster_id, is_ephemeral=False)
            self.keeper.sessions.clear()
        self.time = ManualTime()
        self.shared = SharedSession("zk:2181", 18_000, self.time.scheduler, opener(self.keeper))
        self.shared.session.start()
        self.time.advance()
        finish(self.keeper, join(self.shared.session, member))
        self.resumed = 0
        self.resigned: list[int] = []  # the broker epoch at each time
        self.life = SessionLife(self.shared, member, self.time.scheduler, self.time.clock)
        self.life.serve(self)
        self.announced: list[ZooKeeperRefusal | None] = []
        self.life.announce(ADDRESS, 5_000, self.announced.append)

    def resume(self) -> None:
        self.resumed += 1

    def resign_leads(self) -> None:
        self.resigned.append(self.life.broker_epoch)

    @property
    def session(self) -> ModelSession:
        return self.keeper.sessions[0]

    @property
    def is_registered(self) -> bool:
        node = self.keeper.tree.nodes.get(NODE)
        return node is not None and node.owner == self.session.session_id

    def expire(self) -> None:
        self.keeper.expire(self.session.session_id)
        self.keeper.connect(self.session)


@pytest.fixture
def joined() -> JoinedBroker:
    joined = JoinedBroker()
    joined.time.advance()
    assert joined.announced == [None]
    return joined


def test_a_registration_at_the_start(joined: JoinedBroker) -> None:
    assert joined.is_registered
    joined.time.advance(60_000)
    assert (joined.announced, joined.resumed) == ([None], 0)


def test_no_registration_in_time() -> None:
    joined = JoinedBroker()
    joined.keeper.stop()
    joined.time.advance(5_000)
    assert "broker 0 could not be registered in ZooKeeper at zk:2181 within 5 s: no connection" in str(
        joined.announced[0]
    )
    joined.keeper.start()
    joined.time.advance()
    assert joined.is_registered
    assert len(joined.announced) == 1


def test_a_registration_during_a_loss() -> None:
    joined = JoinedBroker()
    joined.keeper.cut(joined.session)
    joined.keeper.connect(joined.session)
    joined.time.advance()
    assert (joined.announced, joined.resumed) == ([None], 1)


def test_an_interruption(joined: JoinedBroker, caplog: pytest.LogCaptureFixture) -> None:
    joined.keeper.stop()
    joined.time.advance(4_000)
    assert not caplog.records
    joined.time.advance(2_000)
    [line] = [record.getMessage() for record in caplog.records]
    assert line.startswith("waiting for ZooKeeper at zk:2181, for 6 s so far: no connection; clients are served")
    joined.keeper.start()
    joined.time.advance()
    assert (joined.is_registered, joined.resumed) == (True, 1)
    caplog.clear()
    joined.time.advance(600_000)
    assert not caplog.records


def test_the_lines_become_rarer(joined: JoinedBroker, caplog: pytest.LogCaptureFixture) -> None:
    joined.keeper.stop()
    for _ in range(3600):
        joined.time.advance(1_000)
    assert 60 < len(caplog.records) < 80


def test_an_expired_session(joined: JoinedBroker) -> None:
    joined.expire()
    joined.time.advance()
    assert (joined.is_registered, joined.resumed) == (True, 1)
    assert joined.keeper.tree.nodes[OWN].owner == joined.session.session_id


def test_a_new_connection_that_fails_as_well(joined: JoinedBroker) -> None:
    joined.keeper.stop()
    joined.keeper.start()
    for _ in range(5):
        joined.keeper.step()
    joined.keeper.cut(joined.session)
    joined.time.advance(1_000)
    assert joined.resumed == 0
    joined.keeper.connect(joined.session)
    joined.time.advance()
    assert (joined.is_registered, joined.resumed) == (True, 1)


def test_a_deleted_registration_comes_back(joined: JoinedBroker) -> None:
    for _ in range(3):
        joined.keeper.transact(99, [Delete(NODE)])
        joined.time.advance(1_000)
        assert joined.is_registered
    joined.keeper.transact(99, [Delete(NODE), Delete(OWN)])
    joined.time.advance(1_000)
    assert joined.is_registered
    assert joined.resumed == 0


def test_a_broker_beside_another_one_comes_back(joined: JoinedBroker, caplog: pytest.LogCaptureFixture) -> None:
    put_broker(joined.keeper, connected(joined.keeper), 3)
    joined.expire()
    joined.time.advance(60_000)
    assert (joined.is_registered, joined.resumed) == (True, 1)
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


def test_an_id_that_was_taken_meanwhile(joined: JoinedBroker, caplog: pytest.LogCaptureFixture) -> None:
    joined.keeper.cut(joined.session)
    joined.keeper.expire(joined.session.session_id)
    thief = connected(joined.keeper)
    put(joined.keeper, thief, OWN, OWNER._replace(locks={"other": "7:7"}, process=17).encode())
    put_broker(joined.keeper, thief, 0)
    joined.keeper.connect(joined.session)
    joined.time.advance(120_000)
    assert joined.resumed == 0
    errors = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert len(errors) == 1
    assert "process 17 on here" in errors[0]
    joined.keeper.end_session(thief)
    joined.time.advance(5_000)
    assert (joined.is_registered, joined.resumed) == (True, 1)


def test_nothing_happens_after_the_stop(joined: JoinedBroker) -> None:
    joined.keeper.stop()
    joined.life.stop()
    joined.life.stop()
    joined.keeper.start()
    joined.time.advance(60_000)
    assert joined.resumed == 0


# A ZooKeeper that is another one


def in_cluster(cluster_id: bytes | None) -> JoinedBroker:
    """A registered broker of cluster A whose session ends; its next one finds another id of the cluster, or none."""
    joined = JoinedBroker(replace(MEMBER, cluster_id="A"), ClusterId("A").encode())
    joined.time.advance()
    assert joined.announced == [None]
    finish(joined.keeper, delete(joined.session, CLUSTER))
    if cluster_id is not None:
        put(joined.keeper, joined.session, CLUSTER, cluster_id, is_ephemeral=False)
    joined.expire()
    joined.time.advance()
    return joined


@pytest.mark.parametrize(
    "cluster_id, sentence",
    [
        (None, "ZooKeeper at zk:2181/kafka has lost cluster A"),
        (ClusterId("B").encode(), "the cluster id B in ZooKeeper at zk:2181/kafka doesn't match A"),
    ],
)
def test_another_cluster_is_not_joined(
    cluster_id: bytes | None, sentence: str, caplog: pytest.LogCaptureFixture
) -> None:
    joined = in_cluster(cluster_id)
    joined.time.advance(60_000)
    assert not joined.is_registered
    [line] = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert line.startswith(sentence)
    assert "`headgate serve --adopt`" in line
    assert joined.resumed == 0


def test_an_id_of_the_cluster_that_cannot_be_read_says_nothing() -> None:
    joined = in_cluster(b"?")
    assert (joined.is_registered, joined.resumed) == (True, 1)


def test_nodes_that_come_back_are_read_again(caplog: pytest.LogCaptureFixture) -> None:
    """The session lives on; the watches of the store went with the nodes."""
    joined = JoinedBroker(replace(MEMBER, cluster_id="A"), ClusterId("A").encode())
    joined.time.advance()
    finish(joined.keeper, delete(joined.session, CLUSTER))
    finish(joined.keeper, delete(joined.session, NODE))
    joined.time.advance(6_000)
    assert not joined.is_registered
    put(joined.keeper, joined.session, CLUSTER, ClusterId("A").encode(), is_ephemeral=False)
    joined.time.advance(6_000)
    assert (joined.is_registered, joined.resumed) == (True, 1)
    assert len([record for record in caplog.records if "has lost cluster A" in record.getMessage()]) == 1


def test_an_older_zookeeper_is_told_once(joined: JoinedBroker, caplog: pytest.LogCaptureFixture) -> None:
    joined.keeper.stop()
    for listener in joined.shared.listeners:
        listener(SessionEvent.OUTDATED)
    joined.time.advance(600_000)
    lines = [record.getMessage() for record in caplog.records]
    assert "came back empty or from an older copy, and refuses the session of this broker" in lines[0]
    assert "`headgate serve --adopt`" in lines[0]
    assert len([line for line in lines if "--adopt" in line]) == 1
    assert "so far: it came back empty or from an older copy; clients are served" in lines[1]
    joined.keeper.start()
    joined.time.advance()
    assert (joined.is_registered, joined.resumed) == (True, 1)


def test_a_read_that_fails_is_no_bug(
    joined: JoinedBroker, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody deletes all nodes while the broker creates its directories: no traceback."""

    def fail(*_: object) -> Task[None]:
        yield from ()
        raise Failed("/brokers/ids", KeeperError.NO_NODE)

    with monkeypatch.context() as patched:
        patched.setattr(session_life, "register", fail)
        joined.expire()
        joined.time.advance()
    assert not joined.is_registered
    assert not [record for record in caplog.records if record.exc_info]
    joined.time.advance(1_000)
    assert joined.is_registered


def test_an_interruption_takes_no_lead(joined: JoinedBroker) -> None:
    joined.keeper.cut(joined.session)
    joined.time.advance()
    joined.keeper.connect(joined.session)
    joined.time.advance()
    assert joined.resumed == 1
    assert joined.resigned == []


def test_the_leads_end_with_the_session(joined: JoinedBroker) -> None:
    """Orders to the registration that has ended are late from then on, and those to the next one are not."""
    epoch = joined.life.broker_epoch
    assert joined.life.obeyed_epoch == epoch
    joined.keeper.expire(joined.session.session_id)
    joined.time.advance()
    assert joined.resigned == [], "the broker does not know yet"
    seen: list[int] = []
    joined.shared.listeners.append(lambda _: seen.append(joined.life.obeyed_epoch))
    joined.keeper.connect(joined.session)
    joined.time.advance()
    assert seen == [epoch + 1, epoch + 1]
    assert joined.resigned == [epoch, epoch]
    assert joined.life.obeyed_epoch == joined.life.broker_epoch > epoch + 1

"""A leader that stores in-sync sets in the model of ZooKeeper, beside other writers and lost connections."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import pytest

from headgate.gateway.replication.replica import Replica
from headgate.gateway.runtime.tasks import is_task
from headgate.gateway.runtime.tests.fake_scheduler import ManualTime
from headgate.gateway.tests.builders import parked, records
from headgate.gateway.zookeeper.layout.isr_changes import ISR_CHANGES_PATH, IsrChange
from headgate.gateway.zookeeper.layout.topics import LeaderAndIsr, partition_path
from headgate.gateway.zookeeper.metadata.isr_manager import REPORT_EVERY_MS, RETRY_MS, ZooKeeperIsrManager
from headgate.gateway.zookeeper.session import Create, Delete, KeeperError, Refused, SessionEvent, SetData
from headgate.gateway.zookeeper.tests.model import Fault, ZooKeeperModel, parent
from headgate.gateway.zookeeper.tests.two_brokers import TwoBrokers
from headgate.gateway.zookeeper.tests.whole_broker import WholeBroker
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

TOOL = 777
ALL = (0, 1, 2)


class LedReplica:
    """What the manager uses of a replica."""

    def __init__(self, index: int, topic: str = "t", leader_epoch: int = 3) -> None:
        self.topic, self.index, self.leader_epoch = topic, index, leader_epoch
        self.has_resigned = False


class Leader:
    """Node 0, which leads all partitions of the topic `t` in leader epoch 3; the answers by the name of the change."""

    def __init__(self, partitions: int = 3) -> None:
        self.time = ManualTime()
        self.keeper = ZooKeeperModel()
        self.session = self.keeper.session(self._follow)
        self.session.start()
        self.keeper.run()
        self.write_node(ISR_CHANGES_PATH, None)
        for index in range(partitions):
            self.store(index)
        self.manager = ZooKeeperIsrManager(self.session, 0, self.time.scheduler)
        self.answers: dict[int, Any] = {}

    def _follow(self, event: SessionEvent) -> None:
        if hasattr(self, "manager"):
            self.manager.follow_session(event)

    def write_node(self, path: str, data: bytes | None) -> None:
        nodes = self.keeper.tree.nodes
        if path not in nodes and parent(path) not in nodes:
            self.write_node(parent(path), None)
        operation = SetData(path, data) if path in nodes else Create(path, data)
        assert not isinstance(self.keeper.transact(TOOL, [operation]), Refused)

    def store(self, index: int, leader: int = 0, leader_epoch: int = 3, isr: tuple[int, ...] = ALL) -> None:
        """Another writer stores a state."""
        self.write_node(LeaderAndIsr.path("t", index), LeaderAndIsr(leader, leader_epoch, isr, 7).encode())

    def state(self, index: int) -> tuple[LeaderAndIsr, int]:
        """The stored state, and its version."""
        node = self.keeper.tree.nodes[LeaderAndIsr.path("t", index)]
        return LeaderAndIsr.decode("t", index, node.data), node.version

    def alter(self, index: int, isr: tuple[int, ...] = (0, 1), epoch: int = 0, name: int | None = None) -> None:
        name = index if name is None else name

        def answered(answer: object) -> None:
            assert name not in self.answers
            self.answers[name] = answer

        self.replica = LedReplica(index)
        self.manager.alter(cast("Replica", self.replica), isr, epoch)(answered)

    def settle(self, milliseconds: float = 0.0) -> None:
        self.time.advance(milliseconds)
        self.keeper.run()
        for _ in range(8):
            self.time.advance()
            self.keeper.run()

    def come_back(self) -> None:
        """Connect again; the cluster is the same."""
        self.keeper.start()
        self.settle()
        self.manager.resume()
        self.settle()

    def code(self, name: int) -> ErrorCode:
        error = self.answers[name]
        assert isinstance(error, KafkaError), error
        return error.code

    def reported(self) -> list[tuple[tuple[str, int], ...]]:
        found = [path for path in self.keeper.tree.nodes if path.startswith(f"{ISR_CHANGES_PATH}/")]
        return [
            IsrChange.decode(path.rpartition("/")[2], self.keeper.tree.nodes[path].data).partitions for path in found
        ]


@pytest.fixture
def leader() -> Leader:
    return Leader()


def test_a_change_is_stored_under_the_next_version(leader: Leader) -> None:
    leader.alter(0, (0, 1))
    leader.settle()
    assert leader.answers == {0: 1}
    assert leader.state(0) == (LeaderAndIsr(0, 3, (0, 1), controller_epoch=7), 1)


def test_unknown_fields_of_the_state_are_kept(leader: Leader) -> None:
    path = LeaderAndIsr.path("t", 0)
    fields = {"controller_epoch": 7, "leader": 0, "version": 1, "leader_epoch": 3, "isr": [0, 1, 2], "newer": {"a": 1}}
    leader.write_node(path, json.dumps(fields).encode())
    leader.alter(0, (0,), epoch=1)
    leader.settle()
    assert json.loads(leader.keeper.tree.nodes[path].data or b"") == {**fields, "isr": [0]}


def test_a_leader_that_changes_its_set_has_recovered(leader: Leader) -> None:
    unclean = LeaderAndIsr(0, 3, (0,), 7, leader_recovery_state=1)
    leader.write_node(LeaderAndIsr.path("t", 0), unclean.encode())
    leader.alter(0, (0, 1), epoch=1)
    leader.settle()
    assert leader.state(0)[0] == LeaderAndIsr(0, 3, (0, 1), 7)


def test_an_old_partition_epoch_is_refused(leader: Leader) -> None:
    leader.store(0, isr=(0, 2))
    leader.alter(0, (0, 1), epoch=0)
    leader.settle()
    assert leader.code(0) == ErrorCode.INVALID_UPDATE_VERSION
    assert leader.state(0)[0].isr == (0, 2)


@pytest.mark.parametrize("leads, leader_epoch", [(1, 4), (0, 4), (1, 3)])
def test_a_leader_of_the_past_is_refused(leader: Leader, leads: int, leader_epoch: int) -> None:
    leader.store(0, leads, leader_epoch, isr=(0, 1))
    leader.alter(0, (0, 1), epoch=0)
    leader.settle()
    assert leader.code(0) == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_deleted_topic_refuses_changes(leader: Leader) -> None:
    leader.keeper.transact(TOOL, [Delete(LeaderAndIsr.path("t", 0)), Delete(partition_path("t", 0))])
    leader.alter(0)
    leader.settle()
    assert leader.code(0) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_an_unreadable_state_refuses_changes(leader: Leader) -> None:
    leader.write_node(LeaderAndIsr.path("t", 0), b"{")
    leader.alter(0, epoch=1)
    leader.alter(1)
    leader.settle()
    assert leader.code(0) == ErrorCode.UNKNOWN_SERVER_ERROR
    assert leader.answers[1] == 1


def test_changes_of_a_turn_share_their_requests() -> None:
    leader = Leader(64)
    for index in range(64):
        leader.alter(index)
    zxid = leader.keeper.tree.zxid
    leader.settle()
    assert leader.answers == dict.fromkeys(range(64), 1)
    assert leader.keeper.tree.zxid - zxid <= 5, "three writes, one of them with 62 states, and a notification"


def test_a_refused_change_refuses_no_other(leader: Leader) -> None:
    for index in range(3):
        leader.alter(index)
    leader.time.advance()
    leader.keeper.step()  # synchronized
    leader.keeper.step()
    leader.keeper.step()  # the nodes are read
    leader.store(1, 2, 4)
    leader.settle()
    assert (leader.answers[0], leader.answers[2]) == (1, 1)
    assert leader.code(1) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert leader.state(1)[0].leader == 2


@pytest.mark.parametrize("fault", Fault)
def test_a_lost_answer_is_looked_up(leader: Leader, fault: Fault) -> None:
    leader.session.faults.extend([None, None, fault])
    leader.alter(0)
    leader.settle()
    assert leader.answers == {}
    assert leader.state(0)[1] == (1 if fault is Fault.AFTER else 0)
    leader.come_back()
    assert leader.answers == {0: 1}
    assert leader.state(0) == (LeaderAndIsr(0, 3, (0, 1), 7), 1)


def test_a_change_that_others_overtook_is_refused(leader: Leader) -> None:
    leader.session.faults.extend([None, None, Fault.BEFORE])
    leader.alter(0)
    leader.settle()
    leader.store(0, 1, 4, isr=(1, 2))
    leader.come_back()
    assert leader.code(0) == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_no_set_changes_without_a_connection(leader: Leader) -> None:
    leader.keeper.stop()
    leader.alter(0)
    leader.settle(60_000)
    assert leader.answers == {}
    leader.keeper.start()
    leader.settle()
    leader.alter(1)
    leader.settle()
    assert leader.answers == {}, "it may be the ZooKeeper of another cluster"
    leader.manager.resume()
    leader.settle()
    assert leader.answers == {0: 1, 1: 1}


def test_an_expired_session_leaves_changes_to_the_next(leader: Leader) -> None:
    leader.session.faults.extend([None, None, Fault.AFTER])
    leader.alter(0)
    leader.settle()
    leader.keeper.expire(leader.session.session_id)
    leader.come_back()
    assert leader.answers == {0: 1}


def test_a_leader_that_resigned_with_its_session_changes_no_set(leader: Leader) -> None:
    leader.session.faults.extend([None, None, Fault.BEFORE])
    leader.alter(0)
    leader.settle()
    leader.keeper.expire(leader.session.session_id)
    leader.replica.has_resigned = True
    leader.come_back()
    assert leader.code(0) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert leader.state(0)[1] == 0, "a newer state would be one of this broker's present registration"


def test_what_cannot_be_read_stays_in_doubt(leader: Leader, monkeypatch: pytest.MonkeyPatch) -> None:
    leader.session.faults.extend([None, None, Fault.AFTER])
    leader.alter(0)
    leader.settle()
    with monkeypatch.context() as context:
        context.setattr(leader.session, "get_many", lambda _, resume: resume(KeeperError.OTHER))
        leader.come_back()
        leader.alter(1)
        leader.settle()
        assert leader.code(1) == ErrorCode.UNKNOWN_SERVER_ERROR
        assert 0 not in leader.answers
    leader.settle(RETRY_MS)
    assert leader.answers[0] == 1


def test_the_first_change_is_reported_at_once(leader: Leader) -> None:
    leader.alter(0)
    leader.settle()
    assert leader.reported() == [(("t", 0),)]
    leader.alter(1)
    leader.settle()
    leader.alter(2)
    leader.settle()
    assert leader.reported() == [(("t", 0),)]
    leader.settle(REPORT_EVERY_MS)
    assert leader.reported() == [(("t", 0),), (("t", 1), ("t", 2))]


def test_a_refused_change_is_not_reported(leader: Leader) -> None:
    leader.alter(0, epoch=5)
    leader.settle(1_000)
    assert leader.reported() == []


def test_a_report_outlives_its_connection(leader: Leader) -> None:
    leader.session.faults.extend([None, None, None, Fault.BEFORE])
    leader.alter(0)
    leader.settle()
    assert (leader.answers, leader.reported()) == ({0: 1}, [])
    leader.come_back()
    assert leader.reported() == [(("t", 0),)]


def test_the_parent_of_reports_is_made_again(leader: Leader) -> None:
    leader.keeper.transact(TOOL, [Delete(ISR_CHANGES_PATH)])
    leader.alter(0)
    leader.settle()
    leader.settle(REPORT_EVERY_MS)
    assert leader.reported() == [(("t", 0),)]


@pytest.mark.slow
def test_a_broker_stores_sets_once_its_session_is_back(tmp_path: Path) -> None:
    keeper = ZooKeeperModel()
    broker = WholeBroker(tmp_path, keeper)
    broker.change(lambda: broker.services.metadata.create_topic("t", 1))
    partitions, answers = broker.services.partitions, list[Any]()
    replica = partitions.get("t", 0)
    epoch = replica.partition_epoch
    keeper.stop()
    partitions.leadership.in_sync_replicas.changes.alter(replica, (0, 5), epoch)(answers.append)
    broker.settle()
    assert answers == []
    keeper.start()
    broker.settle()
    assert answers == [epoch + 1]
    broker.stop()


@pytest.mark.slow
def test_a_follower_that_is_cut_off_leaves_the_set_and_comes_back(tmp_path: Path) -> None:
    two = TwoBrokers(tmp_path, replica_lag_time_max_ms="3000", min_insync_replicas="1")
    two.change(lambda: two.stores[0].create_topic("t", 1, replication_factor=2))
    leader = two.brokers[two.stores[0].image.topics["t"].partitions[0].leader]

    def isr() -> list[set[int]]:
        """The set in ZooKeeper, and in the images of both brokers."""
        node = two.keeper.tree.nodes[LeaderAndIsr.path("t", 0)]
        stored = LeaderAndIsr.decode("t", 0, node.data).isr
        return [set(found) for found in (stored, *(store.image.topics["t"].partitions[0].isr for store in two.stores))]

    def produce() -> int:
        data = TopicProduceData(name="t", partition_data=[PartitionProduceData(index=0, records=records(b"v"))])
        outcome: Any = leader.handle(ProduceRequest(acks=-1, timeout_ms=60_000, topic_data=[data]), 9)
        replies: list[Any] = parked(leader, outcome) if is_task(outcome) else [outcome]
        leader.services.batcher.write_all()
        for _ in range(10):
            two.settle()
        (reply,) = replies
        code: int = reply.responses[0].partition_responses[0].error_code
        return code

    two.settle()
    assert produce() == ErrorCode.NONE
    assert isr() == [{0, 1}] * 3
    listening = dict(leader.listening)
    two.cut()
    assert produce() == ErrorCode.NONE
    assert isr()[0] == {leader.config.node_id}
    leader.listening.update(listening)
    for _ in range(10):
        two.settle()
    assert isr() == [{0, 1}] * 3
    two.stop()

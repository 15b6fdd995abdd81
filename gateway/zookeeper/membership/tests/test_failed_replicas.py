"""Disks that fail and logs that lose records in a cluster: others lead, or the controller raises the epoch."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from headgate.gateway.app.composition import BrokerParts
from headgate.gateway.maintenance.tests.test_directory_health import CHANGES
from headgate.gateway.metadata.image import CONSUMER_OFFSETS, Image, PartitionState, Topic
from headgate.gateway.replication.replica import READ_UNCOMMITTED, Replica
from headgate.gateway.runtime.tasks import Task, Tasks, is_task
from headgate.gateway.runtime.tests.fake_scheduler import ManualTime
from headgate.gateway.tests.builders import parked, records
from headgate.gateway.tests.requests import commit_request, produce_request
from headgate.gateway.zookeeper.controller.order_sender import OrderSender
from headgate.gateway.zookeeper.layout.log_dir_events import LOG_DIR_EVENTS_PATH
from headgate.gateway.zookeeper.membership.failed_replicas import FailedReplicaReports
from headgate.gateway.zookeeper.tests.model import ZooKeeperModel
from headgate.gateway.zookeeper.tests.whole_broker import WholeBroker
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from headgate.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from headgate.protocol.schema import Message
from headgate.storage.files import parent
from headgate.storage.tests.crashing_files import CrashingFiles

pytestmark = pytest.mark.slow

NONE, STORAGE = ErrorCode.NONE, ErrorCode.KAFKA_STORAGE_ERROR


class Disk(CrashingFiles):
    """A disk in memory, whose lock files have an identity."""

    def identity(self, path: str) -> str:
        return path


class BrokerWithDisks(WholeBroker):
    """A broker with two log directories on disks that fail."""

    def __init__(self, number: int, keeper: ZooKeeperModel, listening: dict[int, BrokerParts], **settings: str) -> None:
        self.files = Disk()
        super().__init__(Path("/"), keeper, listening, node_id=str(number), **settings)

    def disk(self) -> Disk:
        return self.files

    def replica(self, index: int) -> Replica:
        return next(replica for replica in self.services.partitions if (replica.topic, replica.index) == ("t", index))

    def fail(self, index: int) -> None:
        """Have the disk of a partition fail, and notice."""
        replica = self.replica(index)
        directory = parent(replica.log.directory)
        self.files.fail(errno.EIO, *CHANGES, path=f"{directory}/")
        self.services.partitions.events.disk_failed[0](directory, OSError(errno.EIO, "Input/output error"))

    def has_all(self, index: int, count: int) -> bool:
        return self.replica(index).log.end_offset == self.replica(index).high_watermark == count


class Disks:
    """Brokers in one cluster; broker 0 is the controller. Each has half of the partitions on each of its disks."""

    def __init__(self, count: int = 3, directories: str = "/a,/b", **settings: str) -> None:
        self.keeper = ZooKeeperModel()
        listening = dict[int, BrokerParts]()
        self.brokers = [
            BrokerWithDisks(number, self.keeper, listening, log_dirs=directories, **settings) for number in range(count)
        ]
        self.settle()

    def settle(self, rounds: int = 10) -> None:
        for _ in range(rounds):
            for broker in self.brokers:
                broker.settle(100)

    def create(self, *assignment: int, partitions: int = 2) -> None:
        create = self.brokers[0].services.metadata.create_topic
        change = create("t", assignments={index: list(assignment) for index in range(partitions)})
        self.settle()
        assert change.is_settled
        assert change.error is None

    def state(self, index: int = 0) -> PartitionState:
        """The state that all brokers know."""
        states = {broker.services.metadata.image.topics["t"].partitions[index] for broker in self.brokers}
        (state,) = {state._replace(partition_epoch=0) for state in states}
        return state

    def produce(self, number: int, index: int) -> int:
        """The error code of one acks=all record to a broker."""
        batch = records(b"v", timestamp=self.brokers[number].time.clock.now_ms())
        (row,) = self.ask(number, produce_request(batch, "t", index), 9).responses[0].partition_responses
        code: int = row.error_code
        return code

    def ask(self, number: int, request: Message, version: int) -> Any:
        """The response of a broker, once all brokers had their turns."""
        broker = self.brokers[number]
        outcome: Any = broker.handle(request, version)
        if is_task(outcome):
            replies = parked(broker, outcome)
            self.settle()
            (outcome,) = replies
        return outcome

    def commit(self, number: int, offset: int) -> int:
        """The error code of a commit by the group `g`."""
        response = self.ask(number, commit_request("g", {0: offset}), 2)
        code: int = response.code if isinstance(response, KafkaError) else response.topics[0].partitions[0].error_code
        return code

    def offline(self, index: int) -> list[int]:
        """The offline replicas that all brokers show to clients."""
        asked = MetadataRequest(topics=[MetadataRequestTopic(name="t")])
        answers = [self.ask(number, asked, 9).topics[0].partitions for number in range(len(self.brokers))]
        first, *others = [next(row for row in rows if row.partition_index == index) for rows in answers]
        assert all(other.offline_replicas == first.offline_replicas for other in others)
        found: list[int] = first.offline_replicas
        return found

    def notifications(self) -> int:
        return len(self.keeper.tree.nodes[LOG_DIR_EVENTS_PATH].children)

    def stop(self) -> None:
        for broker in self.brokers:
            broker.files.heal()
            broker.log_manager.abandon()


@pytest.fixture
def disks() -> Iterator[Disks]:
    made = Disks()
    yield made
    made.stop()


@pytest.mark.parametrize("leader", [0, 1], ids=["at the controller", "elsewhere"])
def test_another_leads_what_is_on_a_failed_disk(disks: Disks, leader: int) -> None:
    others = [number for number in range(3) if number != leader]
    disks.create(leader, *others)
    assert [disks.produce(leader, index) for index in (0, 1, 0)] == [NONE] * 3
    broker = disks.brokers[leader]
    broker.fail(0)
    disks.settle(4)
    state = disks.state(0)
    assert (state.leader, state.leader_epoch, set(state.isr)) == (others[0], 1, set(others))
    assert (disks.state(1).leader, disks.state(1).leader_epoch) == (leader, 0), "the other disk works"
    assert disks.produce(others[0], 0) == disks.produce(leader, 1) == NONE
    assert all(disks.brokers[number].has_all(0, 3) for number in others)
    rows = broker.answer(DescribeLogDirsRequest(topics=None), 4).results
    assert sorted(row.error_code for row in rows) == [NONE, STORAGE]
    assert disks.offline(0) == [leader]
    assert disks.offline(1) == []
    assert broker.services.metrics.snapshot()["replicas.offline"] == 1
    assert disks.notifications() == 0


@pytest.mark.parametrize("leader", [0, 1], ids=["at the controller", "elsewhere"])
def test_a_disk_that_works_again_joins_the_sets(disks: Disks, leader: int) -> None:
    disks.create(leader, 2, 1 - leader)
    broker = disks.brokers[leader]
    broker.fail(0)
    disks.settle(4)
    assert disks.produce(2, 0) == NONE
    broker.files.heal()
    disks.settle(40)
    assert disks.state(0).leader == 2
    assert set(disks.state(0).isr) == {0, 1, 2}
    assert broker.has_all(0, 1)
    assert disks.offline(0) == []
    assert not any(broker.services.metadata.failed_replicas for broker in disks.brokers)


def test_another_leads_while_a_log_is_repaired(disks: Disks) -> None:
    disks.create(1, 2, 0)
    replica = disks.brokers[1].replica(0)
    fault = disks.brokers[1].files.fail(errno.EIO, "sync", path=replica.log.segments.active.path)
    assert disks.produce(1, 0) == NONE
    replica.sync_soon()
    disks.settle(4)
    assert fault.met
    assert (disks.state(0).leader, disks.state(1).leader) == (2, 1)
    assert disks.produce(2, 0) == NONE
    disks.brokers[1].files.heal()
    disks.settle(60)
    assert set(disks.state(0).isr) == {0, 1, 2}
    assert disks.brokers[1].has_all(0, 2)


def test_a_follower_on_a_failed_disk_leaves_the_set_at_once(disks: Disks) -> None:
    disks.create(1, 2, 0)
    disks.brokers[2].fail(0)
    disks.settle(4)
    assert set(disks.state(0).isr) == {0, 1}
    assert disks.state(0).leader == 1
    assert disks.produce(1, 0) == NONE
    assert disks.brokers[2].replica(0).log.end_offset == 0


@pytest.mark.parametrize("leader", [0, 1], ids=["at the controller", "elsewhere"])
def test_another_leads_what_has_lost_records(disks: Disks, leader: int) -> None:
    disks.create(leader, 2, 1 - leader)
    assert disks.produce(leader, 0) == NONE
    broker = disks.brokers[leader]
    broker.services.partitions.leadership.await_epoch(broker.replica(0))
    (row,) = broker.answer(MetadataRequest(topics=[MetadataRequestTopic(name="t")]), 9).topics[0].partitions[:1]
    assert (row.error_code, row.leader_id) == (ErrorCode.LEADER_NOT_AVAILABLE, -1) or row.leader_id == 2
    disks.settle(40)
    assert disks.state(0).leader == 2
    assert set(disks.state(0).isr) == {0, 1, 2}, "it has followed, and is back"
    assert disks.produce(2, 0) == NONE
    assert broker.has_all(0, 2)
    assert disks.notifications() == 0


@pytest.mark.parametrize("leader, epochs", [(0, 1), (1, 2)], ids=["at the controller", "elsewhere"])
def test_the_controller_raises_the_epoch_of_a_single_replica(disks: Disks, leader: int, epochs: int) -> None:
    disks.create(leader)
    assert disks.produce(leader, 0) == NONE
    broker = disks.brokers[leader]
    broker.services.partitions.leadership.await_epoch(broker.replica(0))
    disks.settle()
    assert (disks.state(0).leader, disks.state(0).leader_epoch) == (leader, epochs)
    assert disks.produce(leader, 0) == NONE
    assert broker.replica(0).log.epochs.entries == [(0, 0), (epochs, 1)]
    assert disks.notifications() == 0


def test_the_last_in_sync_replica_is_read_until_another_joins(disks: Disks) -> None:
    disks.create(1, 2)
    assert disks.produce(1, 0) == NONE
    kept = disks.brokers[1].replica(0)
    alter = disks.brokers[1].services.partitions.leadership.in_sync_replicas
    disks.brokers[2].fail(0)
    disks.settle(4)
    assert disks.state(0).isr == (1,)
    disks.brokers[1].fail(0)
    disks.settle(4)
    assert disks.state(0) == disks.state(0)._replace(leader=1, leader_epoch=1, isr=(1,))
    assert disks.produce(1, 0) == STORAGE
    piece = kept.read(0, 1000, READ_UNCOMMITTED, at_least_one=True)
    assert piece is not None, "consumers are served"
    piece.release()
    disks.brokers[2].files.heal()
    disks.settle(40)
    assert (disks.state(0).leader, disks.state(0).isr) == (2, (2,))
    assert disks.produce(2, 0) == NONE
    assert alter.refusals == 0


@pytest.mark.parametrize("full", [0, 1], ids=["at the controller", "elsewhere"])
def test_another_coordinates_while_a_disk_is_full(full: int) -> None:
    disks = Disks(directories="/a", min_insync_replicas="2")
    create = disks.brokers[0].services.metadata.create_topic
    create(CONSUMER_OFFSETS, assignments={0: [full, 2, 1 - full]})
    disks.create(full, 2, 1 - full)
    first, second = disks.brokers[full], disks.brokers[2]
    assert disks.commit(full, 0) == disks.produce(full, 0) == NONE
    first.files.room = 0
    assert disks.commit(full, 1) != NONE
    disks.settle(4)
    state = second.services.metadata.image.topics[CONSUMER_OFFSETS].partitions[0]
    assert (state.leader, set(state.isr)) == (2, {2, 1 - full})
    assert disks.commit(2, 1) == NONE
    assert disks.produce(2, 0) == NONE
    first.files.heal()
    disks.settle(60)
    assert set(disks.state().isr) == {0, 1, 2}
    assert first.has_all(0, 2)
    disks.stop()


def test_a_log_of_a_much_later_epoch_leads_in_the_next_one() -> None:
    """A broker that is alone: its log may know epochs that an older copy of ZooKeeper does not."""
    disks = Disks(count=1)
    disks.create(0)
    (broker,) = disks.brokers
    replica = broker.replica(0)
    replica.log.epochs.assign(9, 0)
    broker.services.partitions.leadership.await_epoch(replica)
    disks.settle()
    assert disks.produce(0, 0) == NONE
    assert disks.state(0).leader_epoch == 10
    disks.stop()


def test_reports_are_repeated_until_the_controller_acts(monkeypatch: pytest.MonkeyPatch) -> None:
    ignored, send_all = list[int](), OrderSender.send_all

    def ignore_twice(sender: OrderSender, broker_id: int) -> None:
        if len(ignored) < 2:
            ignored.append(broker_id)
        else:
            send_all(sender, broker_id)

    monkeypatch.setattr(OrderSender, "send_all", ignore_twice)
    disks = Disks()
    disks.create(1, 2, 0)
    disks.brokers[1].fail(0)
    disks.settle(8)
    assert disks.state(0).leader == 1
    disks.settle(60)
    assert disks.state(0).leader == 2
    assert ignored == [1, 1]
    disks.stop()


class Reports:
    """A store that notes reports, which the metadata never follow."""

    def __init__(self) -> None:
        self.time = ManualTime()
        self.sent_ms: list[float] = []
        self.is_connected = True
        self.failed = {("t", 0)}
        self.leadership = SimpleNamespace(awaiting_epoch={})
        topic = Topic("t", bytes(16), (PartitionState(0, 0, (0, 1), (0, 1), 0),), {})
        self.image = Image.empty()._replace(topics={"t": topic})
        parts: Any = self
        self.reports = FailedReplicaReports(parts, parts, 0, Tasks(self.time.clock, self.time.scheduler))

    def renew_image(self) -> None:
        """Clients are sent here no more."""

    def report_failed(self, _failed: object, _lost: object) -> Task[bool]:
        self.sent_ms.append(self.time.clock.elapsed_ms)
        return self.is_connected
        yield

    def change_metadata(self, milliseconds: int) -> None:
        """Let time pass, with changes of the metadata all the time."""
        for _ in range(milliseconds // 50):
            self.reports.soon()
            self.time.advance(50)


def test_changes_of_the_metadata_repeat_no_report() -> None:
    store = Reports()
    store.change_metadata(3_500)
    assert store.sent_ms == [50, 1_050, 3_050]
    store.failed = {("t", 0), ("t", 1)}
    store.change_metadata(100)
    assert store.sent_ms[3:] == [3_550], "another report waits for nothing"


def test_a_report_without_a_connection_is_repeated_with_the_metadata() -> None:
    store = Reports()
    store.is_connected = False
    store.reports.soon()
    store.time.advance()
    store.is_connected = True
    store.change_metadata(100)
    assert store.sent_ms == [0, 50]

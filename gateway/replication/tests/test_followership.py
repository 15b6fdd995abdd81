"""The role of a partition follows the image: led, followed, neither; and back, after the work that is under way."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headgate.gateway.metadata.image import Image, Node, PartitionState
from headgate.gateway.replication.append import ACKS_ALL, Append
from headgate.gateway.replication.follower import Follower
from headgate.gateway.replication.replica import Replica
from headgate.gateway.replication.replica_manager import ReplicaManager
from headgate.gateway.runtime.tests.fake_scheduler import HeldThreads
from headgate.gateway.tests.builders import NOW_MS, HandlerBroker, records
from headgate.protocol.errors import ErrorCode, KafkaError

KEY = "t", 0


class Partition:
    """One partition, whose state the test sets; broker 1 has an address, broker 2 has none."""

    def __init__(self, path: Path, **settings: str) -> None:
        self.node = HandlerBroker(path, **settings)
        self.node.services.metadata.create_topic("t", 1)

    @property
    def partitions(self) -> ReplicaManager:
        return self.node.services.partitions

    @property
    def replica(self) -> Replica:
        (replica,) = self.partitions
        return replica

    @property
    def follower(self) -> Follower:
        assert isinstance(self.replica, Follower)
        return self.replica

    @property
    def image(self) -> Image:
        return self.node.services.metadata.image

    @property
    def state(self) -> PartitionState:
        return self.image.topics["t"].partitions[0]

    def order(self, **changes: Any) -> None:
        """The image has another state of the partition, in a new leader epoch."""
        old, state = self.image, self.state
        epoch = changes.pop("leader_epoch", state.leader_epoch + 1)
        state = state._replace(
            leader_epoch=epoch, partition_epoch=state.partition_epoch + 1, **{"replicas": (0, 1, 2), **changes}
        )
        topic = old.topics["t"]._replace(partitions=(state,))
        self.change(old._replace(topics={**old.topics, "t": topic}), "t")

    def set_brokers(self, **hosts: str) -> None:
        """The live brokers, by `b<id>`."""
        brokers = {int(name[1:]): Node(int(name[1:]), None, {"PLAINTEXT": (host, 9)}) for name, host in hosts.items()}
        self.change(self.image._replace(brokers={**brokers, 0: Node(0, None, {})}))

    def change(self, new: Image, *names: str) -> None:
        old, self.node.services.metadata.image = self.image, new
        self.partitions.follow(old, new, names)

    @property
    def followed(self) -> dict[str, int]:
        """The host of the leader that is followed -> the number of partitions."""
        return {leader.host: count for leader, count in self.node.parts.fetchers.followed.items()}

    def refusal(self) -> KafkaError:
        with pytest.raises(KafkaError) as refused:
            self.partitions.get(*KEY)
        return refused.value

    def code(self) -> ErrorCode:
        return self.refusal().code


@pytest.fixture
def partition(tmp_path: Path) -> Iterator[Partition]:
    partition = Partition(tmp_path)
    partition.set_brokers(b1="one", b2="two")
    yield partition
    partition.node.close()


def test_a_replica_of_another_leader_follows(partition: Partition) -> None:
    log = partition.replica.log
    partition.order(leader=1)
    assert partition.follower.log is log
    assert partition.code() == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (len(partition.partitions), partition.followed) == (0, {"one": 1})
    assert partition.partitions.of_log(log) is partition.follower
    follower = partition.follower
    partition.order(leader=2)
    assert partition.follower is follower
    assert (partition.followed, follower.leader_epoch) == ({"two": 1}, partition.state.leader_epoch)


def test_without_a_leader_or_its_address_nothing_is_fetched(partition: Partition) -> None:
    partition.order(leader=3)
    assert partition.followed == {}
    partition.order(leader=-1)
    assert partition.followed == {}
    assert "no leader" in partition.refusal().message
    partition.order(leader=1)
    assert partition.followed == {"one": 1}


def test_a_leader_is_followed_once_its_address_is_known(partition: Partition) -> None:
    partition.order(leader=3)
    partition.set_brokers(b1="one", b3="three")
    assert partition.followed == {"three": 1}
    partition.set_brokers(b1="one", b3="elsewhere")
    assert partition.followed == {"elsewhere": 1}
    partition.set_brokers(b1="one")
    assert partition.followed == {}


def test_nothing_is_fetched_into_a_failed_directory(partition: Partition) -> None:
    (status,) = partition.partitions.directories.values()
    partition.order(leader=1)
    status.set_offline(KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "gone"))
    assert partition.followed == {}
    partition.order(leader=2)
    assert partition.followed == {}
    status.set_offline(None)
    assert partition.followed == {"two": 1}


def test_a_failed_directory_gives_up_all_but_the_last_replicas(partition: Partition) -> None:
    (status,), failed = partition.partitions.directories.values(), list[set[tuple[str, int]]]()
    partition.order(leader=0, isr=(0, 1))
    partition.partitions.events.replicas_failed.append(lambda: failed.append({*partition.partitions.failed}))
    status.set_exhausted(is_exhausted=True)
    partition.order(leader=0, isr=(0,))
    status.set_offline(KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "gone"))
    partition.order(leader=1, isr=(1,))
    status.set_exhausted(is_exhausted=False)
    status.set_offline(None)
    assert failed == [{KEY}, set(), {KEY}, set()]


def test_one_that_stops_leading_fails_its_appends(partition: Partition) -> None:
    partition.order(leader=0, isr=(0, 1))
    append = Append(partition.replica, ACKS_ALL)
    append.end_write(partition.replica.append(records(b"v"), ACKS_ALL, NOW_MS))
    assert not append.has_ended
    partition.order(leader=1)
    assert isinstance(append.error, KafkaError)
    assert append.error.code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_the_high_watermark_stays_over_all_roles(partition: Partition) -> None:
    partition.replica.append(records(b"a", b"b", b"c"), 1, NOW_MS)
    partition.order(leader=1)
    assert partition.follower.high_watermark == 3
    partition.order(leader=0, isr=(0, 1))
    assert partition.replica.high_watermark == 3
    partition.replica.append(records(b"not committed"), 1, NOW_MS)
    partition.order(leader=1, replicas=(1, 2))
    assert list(partition.partitions) == []
    partition.node.parts.maintenance.checkpoint()
    partition.order(leader=1)
    assert partition.follower.high_watermark == 3
    partition.node.log_manager.close(partition.partitions.high_watermarks)
    partition.node.start()
    assert partition.node.log_manager.high_watermark(KEY) == 3


def test_a_new_leader_commits_nothing_that_followers_may_lack(partition: Partition) -> None:
    partition.order(leader=0, isr=(0, 1))
    partition.replica.append(records(b"not committed"), 1, NOW_MS)
    partition.order(leader=1)
    partition.order(leader=0, isr=(0, 1))
    assert (partition.replica.high_watermark, partition.replica.log.end_offset) == (0, 1)


def test_a_new_follower_commits_nothing_with_its_settings(partition: Partition) -> None:
    partition.order(leader=0, isr=(0, 1))
    partition.replica.append(records(b"not committed"), 1, NOW_MS)
    log = partition.replica.log
    log.configure(dataclasses.replace(log.config, retention_ms=1))
    partition.order(leader=1)
    assert (log.config.retention_ms, partition.follower.high_watermark, log.end_offset) == (604_800_000, 0, 1)


def test_a_log_that_was_cut_needs_a_higher_epoch_for_its_followers(partition: Partition) -> None:
    partition.order(leader=0, isr=(0, 1))
    partition.partitions.leadership.log_was_truncated(partition.replica.log)
    assert partition.code() == ErrorCode.NOT_LEADER_OR_FOLLOWER, "they may have read what consumers had not"


def working(path: Path) -> tuple[Partition, HeldThreads]:
    """A led partition that is a follower now, whose first work waits for a thread: the sync of a record."""
    partition = Partition(path, headgate_flush="commit")
    partition.set_brokers(b1="one", b2="two")
    threads = partition.node.time.scheduler.hold()
    partition.replica.append(records(b"v"), 1, NOW_MS)
    partition.order(leader=1)
    partition.node.time.advance()
    return partition, threads


def test_a_lead_begins_after_the_work_of_the_follower(tmp_path: Path) -> None:
    partition, threads = working(tmp_path)
    for _ in range(2):
        partition.order(leader=0, isr=(0, 1))
        partition.node.time.advance(100)
        assert partition.code() == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert KEY in partition.partitions.opening
        partition.order(leader=1)
    partition.order(leader=0, isr=(0, 1))
    threads.run_all()
    partition.node.time.advance()
    led = partition.partitions.get(*KEY)
    assert (led.log.end_offset, led.leader_epoch) == (1, partition.state.leader_epoch)
    assert not partition.followed
    partition.node.close()


def test_a_follower_again_does_not_lead_after_its_work(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    partition, threads = working(tmp_path)
    follower = partition.follower
    partition.order(leader=0, isr=(0, 1))
    partition.order(leader=2)
    threads.run_all()
    partition.node.time.advance()
    assert partition.follower is follower
    assert partition.followed == {"two": 1}
    assert "cannot go from FOLLOWING to ONLINE" not in caplog.text
    partition.node.close()


def test_a_new_follower_gets_a_log(partition: Partition) -> None:
    partition.node.services.metadata.create_topic("u", 1)
    old = partition.image
    for name in ("t", "u"):
        topic = old.topics[name]
        state = topic.partitions[0]._replace(leader=1, replicas=(1, 0), isr=(1,))
        fresh = topic._replace(topic_id=name.encode() * 16, partitions=(state, state))
        new = partition.image._replace(topics={**partition.image.topics, name: fresh})
        before = partition.image
        partition.node.services.tasks.start(partition.partitions.prepare(before, new, [name]))
        partition.change(new, name)
    partition.node.time.advance()
    keys = {replica.log.key: replica.log.topic_id for replica in partition.partitions}
    assert keys == {("t", 0): b"t" * 16, ("t", 1): b"t" * 16, ("u", 0): b"u" * 16, ("u", 1): b"u" * 16}
    assert all(isinstance(replica, Follower) for replica in partition.partitions)
    assert partition.followed == {"one": 4}


def test_a_deleted_topic_is_followed_no_more(partition: Partition) -> None:
    partition.order(leader=1)
    topics = {name: topic for name, topic in partition.image.topics.items() if name != "t"}
    partition.change(partition.image._replace(topics=topics), "t")
    assert partition.followed == {}
    assert partition.code() == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert KEY not in partition.node.log_manager


def test_a_stopped_partition_is_followed_in_a_newer_epoch(partition: Partition) -> None:
    partition.order(leader=1)
    epoch = partition.state.leader_epoch
    partition.partitions.stop(KEY)
    assert partition.followed == {}
    partition.set_brokers(b1="one", b2="elsewhere")
    partition.order(leader=1, leader_epoch=epoch)
    assert partition.followed == {}
    assert partition.follower.log.end_offset == 0, "the log stays open"
    partition.order(leader=1)
    assert partition.followed == {"one": 1}
    partition.partitions.stop(KEY, partition.state.leader_epoch + 1)
    partition.order(leader=1)
    assert partition.followed == {}


def test_a_broker_that_leaves_follows_only_what_counts_on_it(partition: Partition) -> None:
    partition.order(leader=1, isr=(1, 0))
    partition.partitions.leave()
    assert partition.followed == {"one": 1}
    partition.order(leader=1, isr=(1, 2))
    assert partition.followed == {}, "the leader would take the broker back into the set"
    partition.order(leader=1, isr=(1, 0))
    assert partition.followed == {"one": 1}


def test_a_broker_that_leaves_ends_the_fetches_for_sets(partition: Partition) -> None:
    partition.order(leader=1, isr=(1, 2))
    assert partition.followed == {"one": 1}
    partition.partitions.leave()
    assert partition.followed == {}


def test_a_log_without_a_replica_is_deleted_by_an_order(partition: Partition) -> None:
    ended: list[object] = []
    partition.order(leader=1)
    partition.node.services.tasks.start(partition.partitions.delete(KEY), ended.append)
    assert isinstance(ended[0], KafkaError)
    assert ended[0].code == ErrorCode.FENCED_LEADER_EPOCH
    partition.order(leader=1, replicas=(1, 2))
    threads = partition.node.time.scheduler.hold()
    partition.partitions.go_on_in_threads()
    partition.node.services.tasks.start(partition.partitions.delete(KEY), ended.append)
    partition.node.services.tasks.start(partition.partitions.delete(KEY), ended.append)
    partition.node.time.advance()
    assert len(ended) == 1
    assert partition.code() == ErrorCode.NOT_LEADER_OR_FOLLOWER
    threads.run_all()
    partition.node.time.advance()
    assert ended[1:] == [None, None]
    directory = Path(partition.node.config.log_directories[0])
    assert [path.name.endswith("-delete") for path in directory.glob("t-*")] == [True]

"""Groups in two stores, where several things meet: faults between two steps, deletions, requests that wait."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from random import Random
from types import SimpleNamespace
from typing import Any, cast
from unittest import mock

import pytest

from headgate.gateway.api.handlers.delete_groups import delete_group
from headgate.gateway.config.offset_store import DUAL, KAFKA, SOURCE, STORE
from headgate.gateway.config.resource_type import ResourceType
from headgate.gateway.coordinator.decision import Decision
from headgate.gateway.coordinator.gathering import reply_of
from headgate.gateway.coordinator.groups import offset_requests
from headgate.gateway.coordinator.groups.settings import GroupSettings
from headgate.gateway.coordinator.groups.shard_factory import new_shard
from headgate.gateway.coordinator.groups.tests.groups import FakeTopics
from headgate.gateway.coordinator.transactions.markers import Marker
from headgate.gateway.runtime.tasks import is_task
from headgate.gateway.tests.requests import commit_request
from headgate.gateway.zookeeper.layout.topics import DeletedTopic, TopicAssignment
from headgate.gateway.zookeeper.offsets.dual_group import State
from headgate.gateway.zookeeper.offsets.offset_nodes import OffsetNodes
from headgate.gateway.zookeeper.offsets.offset_stores import Marks
from headgate.gateway.zookeeper.offsets.tests.broker_parts import PARTITIONS, TOPIC_ID, Broker, image_of
from headgate.gateway.zookeeper.offsets.tests.dual_world import DualWorld, value_of_reply
from headgate.gateway.zookeeper.session import ANY_VERSION, Create, Delete, SetData
from headgate.gateway.zookeeper.tests.model import Fault
from headgate.protocol.errors import KafkaError
from headgate.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from headgate.protocol.messages.offset_fetch import OffsetFetchRequestGroup, OffsetFetchRequestTopics
from headgate.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

G = "g"


class Scene(DualWorld):
    """A broker and a ZooKeeper without chance: what a test says happens."""

    def __init__(self) -> None:
        super().__init__(1)
        self.drain()

    def drain(self, turns: int = 3, each_ms: int = 0) -> None:
        for _ in range(turns):
            self.keeper.run()
            self.broker.batcher.write_all()
            while self.broker.threads.waiting:
                self.broker.threads.run_one()
            self.clock.elapsed_ms += each_ms
            self.broker.scheduler.run_due()
            self.keeper.run()

    def configure(self, **configs: str) -> None:
        names = {"store": STORE, "source": SOURCE}
        before = self.image
        self.image = SimpleNamespace(
            configs={(ResourceType.GROUP, G): {names[key]: value for key, value in configs.items()}},
            topics=before.topics,
            topic_names={},
        )
        self.metadata.image = self.image
        self.broker.stores.follow(cast("Any", before), cast("Any", self.image), ())

    def go_dual(self, source: str = "zookeeper") -> None:
        self.configure(store=DUAL, source=source)
        self.drain(5, 400)
        assert self.group().state is State.DUAL

    def group(self) -> Any:
        return self.broker.stores.dual(G)

    def ask(self, make: Any) -> list[Any]:
        """The reply, once it is there."""
        replies: list[Any] = []
        outcome = reply_of(make)
        if is_task(outcome):
            self.broker.tasks.start(outcome, replies.append)
        else:
            replies.append(outcome)
        return replies

    def check_locks(self) -> None:
        """No operation holds a partition: one that takes all of them ends."""
        replies = self.ask(lambda: self.group().refresh(None))
        self.drain()
        assert replies == [None]

    def send_commit(self, offset: int, index: int = 0, version: int = 2) -> list[Any]:
        return self.ask(lambda: self._commit_to(commit_request(G, {index: offset}), version))

    def commits(self, offset: int, index: int = 0, version: int = 2) -> None:
        replies = self.send_commit(offset, index, version)
        self.drain()
        assert not isinstance(replies[0], Exception), replies[0]
        assert replies[0].topics[0].partitions[0].error_code == 0

    def fetches(self, index: int = 0) -> Any:
        replies = self.ask(lambda: self._fetch(index))
        self.drain()
        return value_of_reply(replies[0])

    def old_commits(self, offset: int, index: int = 0) -> None:
        """A consumer of the 0.8 age: it is acknowledged at once."""
        path, data = f"/consumers/g/offsets/t/{index}", b"%d" % offset
        if path in self.keeper.tree.nodes:
            self.keeper.transact(0, [SetData(path, data, ANY_VERSION)])
        else:
            self.keeper.transact(0, [Create(path, data)])

    def in_zookeeper(self, index: int = 0) -> int | None:
        node = self.keeper.tree.nodes.get(f"/consumers/g/offsets/t/{index}")
        return None if node is None else int(node.data or b"-1")

    def in_log(self, index: int = 0) -> int | None:
        shard = self.broker.coordinator.shard
        assert shard is not None
        found = shard.offsets.of(G).get(("t", index))
        return None if found is None else found.offset

    def restart(self) -> None:
        self.crash()
        self.drain(5, 400)

    def in_transaction(self, offset: int, index: int = 0) -> None:
        rows = [TxnOffsetCommitRequestPartition(index, offset)]
        topics = [TxnOffsetCommitRequestTopic("t", partitions=rows)]
        request = TxnOffsetCommitRequest("id", G, 7, 0, topics=topics)
        replies = self.ask(
            lambda: self._decide_in_transaction(
                request, lambda shard, ticket: offset_requests.commit_in_transaction(shard, request, 3, ticket)
            )
        )
        self.drain()
        assert replies[0].topics[0].partitions[0].error_code == 0

    def ends_transaction(self) -> None:
        results: list[Any] = []
        self.broker.markers.append(Marker(7, 0, True, 0, 1), "__consumer_offsets", 0, results.append)
        self.broker.markers.write_staged()
        self.drain(5)
        assert results == [None]


# Lost and resurrected commits


def test_a_mark_whose_answer_was_lost_undoes_no_later_commit() -> None:
    """The group is to be dual; the mark is written, its answer is lost. It is to be `kafka` again. Then a restart."""
    scene = Scene()
    scene.configure(store=KAFKA)
    scene.commits(10)
    scene.configure(store=DUAL, source="kafka")
    for _ in range(200):
        scene.keeper.step()
        scene.broker.scheduler.run_due()
        scene.broker.batcher.write_all()
        if "/headgate/offsets/g" in scene.keeper.tree.nodes:
            break
    scene.keeper.cut(scene.broker.session)
    scene.configure(store=KAFKA)
    scene.keeper.connect(scene.broker.session)
    scene.drain(10, 400)
    assert scene.group() is None, "the group is in the coordinator alone"
    scene.commits(1_000)
    assert scene.fetches() == 1_000
    scene.restart()
    assert scene.fetches() == 1_000


def test_carrying_offsets_over_spares_a_new_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    """ZooKeeper leads, and a consumer commits between the reading of its offsets and the writing of the others."""
    scene = Scene()
    scene.configure(store=KAFKA)
    scene.commits(50)
    write = OffsetNodes.write

    def planted(self: OffsetNodes, targets: Any, *arguments: Any, **options: Any) -> Any:
        scene.old_commits(100)
        return write(self, targets, *arguments, **options)

    with monkeypatch.context() as patched:
        patched.setattr(OffsetNodes, "write", planted)
        scene.go_dual("zookeeper")
    scene.drain(5, 400)
    assert scene.in_zookeeper() == 100
    assert scene.fetches() == 100


def test_a_transaction_is_not_superseded_by_a_commit_before_it() -> None:
    """An old consumer commits 10, then a producer commits 20 in a transaction."""
    scene = Scene()
    scene.go_dual()
    scene.commits(5)
    scene.drain(5, 400)
    scene.old_commits(10)
    scene.in_transaction(20)
    scene.ends_transaction()
    assert scene.fetches() == 20


def test_a_transaction_may_commit_minus_one() -> None:
    scene = Scene()
    scene.go_dual()
    scene.commits(5)
    scene.in_transaction(-1)
    scene.ends_transaction()
    scene.drain(5, 400)
    assert (scene.in_zookeeper(), scene.in_log()) == (-1, -1)


def test_a_node_without_a_number_keeps_no_group_from_entering() -> None:
    """ZooKeeper leads, and its node of a partition is empty; the coordinator has an offset. It asked for ever."""
    scene = Scene()
    scene.configure(store=KAFKA)
    scene.commits(50)
    scene.keeper.transact(0, [Create("/consumers/g/offsets/t/0", b"")])
    scene.configure(store=DUAL, source="zookeeper")
    for _ in range(3_000):
        scene.keeper.step()
        scene.broker.batcher.write_all()
        scene.broker.scheduler.run_due()
    assert scene.group().state is State.DUAL
    assert scene.in_zookeeper() == 50


# Deletions


def _delete_topic(scene: Scene) -> None:
    """As the store does it: the note is written with the deletion, and the image follows."""
    note = Create(DeletedTopic.path(TOPIC_ID), DeletedTopic(TOPIC_ID, "t", 0).encode())
    scene.keeper.transact(0, [note, Delete(TopicAssignment.path("t"), ANY_VERSION)])
    _have_topic(scene, None)


def _have_topic(scene: Scene, topic_id: bytes | None) -> None:
    """The image has the topic with another id, or has it no more."""
    scene.broker.coordinator.shard.topics.set("t", 0 if topic_id is None else PARTITIONS)  # type: ignore[union-attr]
    before = scene.image
    scene.image = scene.metadata.image = image_of(before.configs, topic_id)
    scene.broker.stores.follow(before, scene.image, ["t"])


def _create_topic(scene: Scene) -> None:
    _have_topic(scene, b"another id of 16")


def test_a_deleted_topic_leaves_no_offsets_after_a_lost_request() -> None:
    """A topic of the same name would be read from the old offset: messages are lost, or out of range."""
    scene = Scene()
    scene.go_dual()
    scene.commits(5_000)
    scene.drain(5, 400)
    scene.broker.session.faults.append(Fault.BEFORE)
    _delete_topic(scene)
    scene.drain()
    scene.connect()
    scene.keeper.start()
    scene.drain(10, 1_000)
    _create_topic(scene)
    assert scene.in_zookeeper() is None
    assert scene.fetches() is None


def test_a_deleted_topic_leaves_no_offsets_after_a_crash() -> None:
    scene = Scene()
    scene.go_dual()
    scene.commits(5_000)
    scene.drain(5, 400)
    scene.broker.session.faults.append(Fault.BEFORE)
    _delete_topic(scene)
    shard = new_shard(GroupSettings(), FakeTopics({}), Random(0), scene.clock.now_ms)
    with mock.patch.object(Broker, "new_shard", return_value=shard):
        scene.restart()
    _create_topic(scene)
    assert scene.in_zookeeper() is None


def test_a_topic_deleted_as_a_group_enters_leaves_no_offsets() -> None:
    scene = Scene()
    scene.old_commits(5_000)
    scene.configure(store=DUAL, source="zookeeper")
    for _ in range(4):
        scene.keeper.step()
    _delete_topic(scene)
    scene.drain(10, 400)
    _create_topic(scene)
    assert scene.in_zookeeper() is None


def test_deleted_offsets_stay_deleted() -> None:
    """OffsetDelete of a partition whose first offset an old consumer has just written."""
    scene = Scene()
    scene.go_dual()
    scene.commits(7, 1)
    scene.drain(5, 400)
    scene.old_commits(10, 0)
    request = OffsetDeleteRequest(
        G, [OffsetDeleteRequestTopic("t", [OffsetDeleteRequestPartition(0), OffsetDeleteRequestPartition(1)])]
    )
    replies = scene.ask(
        lambda: scene.group().commit(None, lambda shard, ticket: offset_requests.delete(shard, request, ticket))
    )
    scene.drain()
    assert [row.error_code for row in replies[0].topics[0].partitions] == [0, 0]
    scene.drain(5, 400)
    assert scene.fetches(1) is None
    assert scene.fetches(0) is None


def test_a_deleted_group_stays_deleted() -> None:
    scene = Scene()
    scene.go_dual()
    scene.commits(7, 1)
    scene.drain(5, 400)
    scene.old_commits(10, 0)
    replies = scene.ask(lambda: scene.broker.stores.gather([G], delete_group, lambda rows: rows[0]))
    scene.drain()
    assert replies[0].error_code == 0
    scene.drain(5, 400)
    assert scene.fetches(0) is None


# Requests that wait


def test_many_requests_without_a_client_leave_the_partition_free() -> None:
    """400 clients commit while ZooKeeper does not answer, and give up after 5 s."""
    scene = Scene()
    scene.go_dual()
    scene.commits(1)
    scene.keeper.delayed = scene.broker.session
    replies = [scene.send_commit(100 + number) for number in range(400)]
    scene.clock.elapsed_ms += 6_000
    scene.broker.scheduler.run_due()
    assert all(isinstance(one[0], KafkaError) for one in replies)
    scene.deliver()
    with suppress(RecursionError):
        scene.drain(5, 400)
    scene.drain(5, 400)
    scene.check_locks()
    scene.commits(2_000)


def test_many_requests_that_wait_let_a_group_leave() -> None:
    scene = Scene()
    scene.go_dual()
    scene.commits(1)
    scene.keeper.delayed = scene.broker.session
    for number in range(400):
        scene.send_commit(100 + number)
    scene.configure(store=KAFKA)
    scene.deliver()
    with suppress(RecursionError):
        scene.drain(5, 400)
    scene.drain(20, 400)
    assert scene.group() is None


def test_a_decision_that_raises_leaves_the_partition_free() -> None:
    """In a group that is not dual a fault of the broker costs one request."""
    scene = Scene()
    scene.go_dual()
    scene.commits(1)

    def fault(_: Any, __: Any) -> Decision:
        raise RuntimeError("a fault")

    with suppress(RuntimeError):
        scene.ask(lambda: scene.group().commit(frozenset([("t", 0)]), fault))
    scene.drain()
    scene.check_locks()
    scene.commits(2)


def test_a_group_that_is_not_dual_needs_no_zookeeper_later() -> None:
    """ZooKeeper goes away just after the start, for an hour; which groups are dual was read before the loop."""
    scene = Scene()
    scene.keeper.sessions.remove(scene.broker.session)
    scene.keeper.stop()
    scene.broker = scene.new_broker()
    scene.broker.stores.start(Marks())
    scene.drain(5, 400)
    replies = scene.send_commit(5)
    scene.drain()
    assert not isinstance(replies[0], KafkaError), replies[0]


# What grows


def test_a_fetch_of_unknown_partitions_leaves_nothing() -> None:
    scene = Scene()
    scene.go_dual()
    before = len(scene.group().nodes.versions)
    asked = _count_requests(scene)
    wanted = OffsetFetchRequestGroup(G, topics=[OffsetFetchRequestTopics("no", partition_indexes=list(range(5_000)))])
    scene.ask(lambda: scene.broker.stores.refresh([wanted]))
    scene.drain()
    assert len(scene.group().nodes.versions) == before
    assert set(asked) <= {"sync"}


@pytest.mark.slow
def test_reads_of_all_groups_together_are_bounded() -> None:
    """A tool writes the offsets of 40 dual groups with 100 partitions: the refreshes are in the background."""
    scene = Scene()
    scene.image.topics["t"] = SimpleNamespace(partitions=(None,) * 100)
    most = _most_in_flight(scene, 40, 100)
    assert 8 <= most <= 2 * 8


def _most_in_flight(scene: Scene, groups: int, partitions: int) -> int:
    scene.keeper.transact(0, [Create("/headgate/offsets")])
    for number in range(groups):
        name = f"g{number}"
        tree = [
            Create(f"/headgate/offsets/{name}"),
            Create(f"/consumers/{name}"),
            Create(f"/consumers/{name}/offsets"),
            Create(f"/consumers/{name}/offsets/t"),
        ]
        tree += [Create(f"/consumers/{name}/offsets/t/{index}", b"1") for index in range(partitions)]
        scene.keeper.transact(0, tree)
        scene.image.configs[ResourceType.GROUP, name] = {STORE: DUAL}
    scene.keeper.random = None
    scene.restart()
    for number in range(groups):
        scene.keeper.transact(
            0, [SetData(f"/consumers/g{number}/offsets/t/{index}", b"2") for index in range(partitions)]
        )
    scene.keeper.run()
    scene.clock.elapsed_ms += 600
    scene.broker.scheduler.run_due()
    most = 0
    while scene.keeper.step():
        most = max(most, len(scene.broker.session.requests))
    return most


def test_the_looks_at_own_commits_are_few() -> None:
    """Ten commits, one every 600 ms, of one partition: what does each cost in requests to ZooKeeper?"""
    scene = Scene()
    scene.go_dual()
    scene.commits(1)
    scene.drain(5, 400)
    asked = _count_requests(scene)
    for number in range(10):
        scene.commits(number + 10)
        scene.drain(2, 600)
    assert len(asked) <= 30


def _count_requests(scene: Scene) -> list[str]:
    """The names of all requests of the broker to ZooKeeper from now on."""
    asked: list[str] = []
    session: Any = scene.broker.session
    for name in ("get", "get_many", "set", "sync", "multi", "children", "exists", "create"):
        setattr(session, name, partial(_note, asked, name, getattr(session, name)))
    return asked


def _note(asked: list[str], name: str, request: Any, *arguments: Any) -> None:
    asked.append(name)
    request(*arguments)

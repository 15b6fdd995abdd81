"""Histories by seed: topics are created, deleted by order, and removed from ZooKeeper by mistake, while groups commit.

The metadata, the group coordinator and the two stores are those of a broker; ZooKeeper, the network and the log are
models. At the end of each history:

- no offset is gone unless its topic was deleted by order, and the broker carried the order out;
- no offset of before such a deletion is there after it, in a dual group or in the coordinator;
- no note of a deletion is left.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from random import Random
from types import SimpleNamespace
from typing import Any, Final, cast

from headgate.gateway.config.offset_store import DUAL, SOURCE, STORE
from headgate.gateway.coordinator.gathering import reply_of
from headgate.gateway.coordinator.groups import offset_requests
from headgate.gateway.coordinator.groups.group_coordinator import GroupCoordinator
from headgate.gateway.coordinator.shard_loader import CoordinatorServices
from headgate.gateway.metadata.image import CONSUMER_OFFSETS
from headgate.gateway.replication.write_batcher import WriteBatcher
from headgate.gateway.runtime.tasks import Lock, Tasks, is_task
from headgate.gateway.tests.requests import commit_request
from headgate.gateway.tests.scripted import ScriptedPartition
from headgate.gateway.zookeeper.layout.cluster import CLUSTER_ID_PATH
from headgate.gateway.zookeeper.layout.topics import DELETED_TOPICS_PATH
from headgate.gateway.zookeeper.offsets.offset_stores import OffsetStores, read_marks
from headgate.gateway.zookeeper.session import Create, Delete, Operation, Refused, Results, SessionEvent, SetData
from headgate.gateway.zookeeper.tests.model import Fault, ZooKeeperModel
from headgate.gateway.zookeeper.tests.store_world import TOOL, StoreWorld
from headgate.protocol.errors import KafkaError

DUAL_GROUP, PLAIN_GROUP, OLD_GROUP = "dual", "plain", "old"
"""A group in both stores; one of the coordinator; one of ZooKeeper. The latter two have separate stores."""
TOPICS: Final = ("a", "b", "later")
STEPS: Final = 40
Place = tuple[str, str]
"""A group and a topic; all offsets are of partition 0."""
_ORDERED: Final = (DUAL_GROUP, PLAIN_GROUP)


class ExpectedOffset:
    """What one place may have: `last`, the last acknowledged commit; or one of the commits that had no answer."""

    def __init__(self) -> None:
        self.last: int | None = None
        self.unanswered: set[int | None] = set()
        self.outstanding: int | None = None
        self.deletions = 0
        self.before: int | None = None
        self.is_overtaken = False
        """A commit is on its way, and the topic was deleted meanwhile."""

    def topic_was_deleted(self) -> None:
        """Offsets of before are to go. A commit that is on its way may be of before or of after."""
        self.deletions += 1
        self.before = self.last
        self.last = None
        self.is_overtaken = self.outstanding is not None
        self.unanswered = {self.outstanding} if self.is_overtaken else set()

    def wrote(self, value: int) -> None:
        """Another client wrote, beside a commit that may be on its way."""
        if self.outstanding is None:
            self.unanswered.clear()
        if self.is_overtaken:  # that commit may replace this one, and goes with the topic
            self.unanswered.add(None)
        self.last = value

    def allows(self, value: int | None) -> bool:
        return value == self.last or value in self.unanswered


class _Recorded(ZooKeeperModel):
    """A ZooKeeper that notes which topics the broker has deleted."""

    def __init__(self, random: Random, now_ms: Callable[[], int], deleted: Callable[[str], None]) -> None:
        super().__init__(random, now_ms=now_ms)
        self._deleted = deleted

    def transact(self, session_id: int, operations: Sequence[Operation]) -> Results | Refused:
        results = super().transact(session_id, operations)
        if session_id != TOOL and not isinstance(results, Refused):
            names = {_deleted_topic(operation) for operation in operations} - {None}
            for name in names:
                self._deleted(cast("str", name))
        return results


def _deleted_topic(operation: Operation) -> str | None:
    """The topic whose node the broker deletes; a topic without a node is deleted by its note alone."""
    parent, _, name = operation.path.rpartition("/")
    if isinstance(operation, Delete) and parent == "/brokers/topics":
        return name
    if isinstance(operation, Create) and parent == DELETED_TOPICS_PATH:
        return next((topic for topic in TOPICS if f'"{topic}"'.encode() in (operation.data or b"")), None)
    return None


class TopicWorld(StoreWorld):
    """The metadata of a broker with its group coordinator and its groups in two stores."""

    def __init__(self, keeper: ZooKeeperModel, seed: int) -> None:
        self.partition = ScriptedPartition(cast("Any", None))
        self.elapsed_ms = 0.0
        super().__init__(keeper, "zookeeper.connect=model:2181", seed)

    def build(self) -> None:
        if CLUSTER_ID_PATH not in self.nodes_there:
            self.tool.do(Create("/cluster"), Create(CLUSTER_ID_PATH, b"{}"))
        clock, scheduler = self.time.clock, self.time.scheduler
        clock.elapsed_ms = self.elapsed_ms
        self.tasks, self.batcher = Tasks(clock, scheduler), WriteBatcher()
        services = CoordinatorServices(clock, scheduler, self.tasks, self.batcher, Lock(scheduler))
        partition = self.partition
        partition.restart(self.tasks)
        partitions: Any = SimpleNamespace(get=lambda _, __: partition, opening=())
        self.groups = GroupCoordinator(self.config, Random(0), services, self.metadata, partitions)
        self.stores = OffsetStores(self.session, self.groups, services, self.config, self.metadata)
        marks = self.finish(read_marks(self.session))
        self.metadata.on_change(self.groups.follow)
        self.metadata.on_change(self.stores.follow)
        self.groups.start()
        self.stores.start(marks)

    def kill(self) -> None:
        self.batcher.write_all()
        self.stores.stop()
        self.elapsed_ms = self.time.clock.elapsed_ms + 1
        super().kill()

    def _follow(self, event: SessionEvent) -> None:
        super()._follow(event)
        if hasattr(self, "stores"):
            self.stores.follow_session(event)
            if event in {SessionEvent.CONNECTED, SessionEvent.RECONNECTED}:
                self.stores.resume()

    def put(self, make: Callable[[], Any], done: Callable[[Any], None]) -> None:
        """Put a request; a broker that dies answers no more."""
        outcome, groups = reply_of(make), self.groups
        self.batcher.write_all()
        if is_task(outcome):
            self.tasks.start(outcome, lambda reply: done(reply) if self.groups is groups else None)
        else:
            done(outcome)

    def commit(self, group: str, topic: str, offset: int, version: int) -> Any:
        """As the handler of OffsetCommit."""
        request = commit_request(group, {0: offset}, topic)
        if version == 0:
            return self.stores.commit_zero(request)
        dual = self.stores.dual(group)
        if dual is not None:
            return self.stores.commit(dual, request, version)
        return self.groups.submit(
            group, lambda shard, ticket: offset_requests.commit(shard, request, version, ticket, 0.0)
        )

    def in_log(self, group: str, topic: str) -> int | None:
        shard = self.groups.shard_of(0)
        assert shard is not None
        found = shard.offsets.of(group).get((topic, 0))
        return None if found is None else found.offset

    def in_zookeeper(self, group: str, topic: str) -> int | None:
        node = self.nodes_there.get(f"/consumers/{group}/offsets/{topic}/0")
        return None if node is None else int(node.data or b"")


class TopicHistory:
    """One history."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.log: list[str] = []
        self.offset = 0
        self.saved: dict[str, bytes] = {}
        self.deleted_ids = set[bytes]()
        self.expected = {
            (group, topic): ExpectedOffset() for group in (DUAL_GROUP, PLAIN_GROUP, OLD_GROUP) for topic in TOPICS
        }
        keeper = _Recorded(Random(seed), self._now_ms, self._deleted)
        self.world = TopicWorld(keeper, seed)
        world = self.world
        world.change(lambda: world.metadata.create_topic(CONSUMER_OFFSETS, 1))
        configs: Any = {STORE: DUAL, SOURCE: "zookeeper"}
        world.change(lambda: world.metadata.change_group_configs(DUAL_GROUP, configs))
        for _ in range(3):
            self.go_on()
        assert "/headgate/offsets/dual" in world.nodes_there

    def _now_ms(self) -> int:
        return self.world.time.clock.now_ms() if hasattr(self, "world") else 1_700_000_000_000

    def _deleted(self, topic: str) -> None:
        self.log.append(f"  the broker deletes {topic}")
        self.deleted_ids.add(self.world.image.topics[topic].topic_id)
        for group in _ORDERED:
            self.expected[group, topic].topic_was_deleted()

    def run(self) -> None:
        """Raises AssertionError for a history that a broker must not have."""
        actions = (
            (self.create, 5), (self.tool_creates, 4), (self.delete, 3), (self.tool_orders, 3), (self.remove, 3),
            (self.write_again, 6), (self.commit, 12), (self.commit_plain, 5), (self.old_client_commits, 8),
            (self.fail, 3), (self.cut, 2), (self.expire, 2), (self.stop, 1), (self.resume, 3), (self.kill, 3),
            (self.wait, 3), (self.go_on, 12),
        )  # fmt: skip
        for action in self.random.choices([one for one, _ in actions], [weight for _, weight in actions], k=STEPS):
            self.log.append(action.__name__)
            action()
            self.world.time.advance(1)
            for _ in range(self.random.randrange(12)):
                self.step()
        self.world.session.faults.clear()
        for _ in range(6):
            self.go_on()
        self.check()

    def check(self) -> None:
        for (group, topic), expected in self.expected.items():
            found: dict[str, int | None] = {}
            if group != OLD_GROUP:
                found["the coordinator"] = self.world.in_log(group, topic)
            if group != PLAIN_GROUP:
                found["ZooKeeper"] = self.world.in_zookeeper(group, topic)
            for store, value in found.items():
                assert expected.allows(value), f"{store} has {value} of {group}, {topic}, and not {vars(expected)}"
            assert len(set(found.values())) == 1, f"{group}, {topic}: {found}"
        assert not self.world.nodes_there[DELETED_TOPICS_PATH].children

    # Topics

    def _topic(self) -> str:
        return self.random.choice(TOPICS)

    def _tool(self, *operations: Operation) -> bool:
        return not isinstance(self.world.keeper.transact(TOOL, operations), Refused)

    def create(self) -> None:
        with suppress(KafkaError):
            self.world.metadata.create_topic(self._topic(), 1)

    def tool_creates(self) -> None:
        self._tool(Create(f"/brokers/topics/{self._topic()}", b'{"version":1,"partitions":{"0":[0]}}'))

    def delete(self) -> None:
        with suppress(KafkaError):
            self.world.metadata.delete_topic(self._topic())

    def tool_orders(self) -> None:
        """A tool orders the deletion of a topic that is there."""
        name = self._topic()
        if f"/brokers/topics/{name}" in self.world.nodes_there:
            self._tool(Create(f"/admin/delete_topics/{name}", b""))

    def remove(self) -> None:
        """Somebody removes a topic's node by mistake, with all that is below."""
        name = self._topic()
        path = f"/brokers/topics/{name}"
        if path in self.world.nodes_there:
            self.saved[name] = self.world.nodes_there[path].data
            below = [one for one in self.world.nodes_there if one.startswith(f"{path}/")]
            self._tool(*(Delete(one) for one in sorted(below, reverse=True)), Delete(path))

    def write_again(self) -> None:
        """And writes the node again, as it was."""
        name = self._topic()
        if name in self.saved and self._tool(Create(f"/brokers/topics/{name}", self.saved[name])):
            topic_id = self.world.read().image.topics[name].topic_id
            if topic_id in self.deleted_ids:  # the deletion is undone, unless the broker has noticed it already
                self.deleted_ids.discard(topic_id)
                for group in _ORDERED:
                    expected = self.expected[group, name]
                    expected.unanswered |= {one for one in (expected.before,) if one is not None}

    # Commits

    def commit(self) -> None:
        self._commit(DUAL_GROUP, self.random.choice((0, 2)))

    def commit_plain(self) -> None:
        self._commit(PLAIN_GROUP, 2)

    def _commit(self, group: str, version: int) -> None:
        topic, world = self._topic(), self.world
        expected = self.expected[group, topic]
        if expected.outstanding is not None:
            return
        self.offset += 1
        offset, deletions = self.offset, expected.deletions
        known = world.image.topics.get(topic)
        expected.outstanding = offset
        expected.unanswered.add(offset)

        def done(reply: Any) -> None:
            expected.outstanding, expected.is_overtaken = None, False
            code = reply.code if isinstance(reply, KafkaError) else reply.topics[0].partitions[0].error_code
            self.log.append(f"  {group} commits {topic} {offset}: {code}")
            is_of_old = known is None or known.topic_id in self.deleted_ids
            if not code and not is_of_old and deletions == expected.deletions and (expected.last or 0) < offset:
                expected.last = offset
                expected.unanswered.clear()

        world.put(lambda: world.commit(group, topic, offset, version), done)

    def old_client_commits(self) -> None:
        """A client of the 0.8 age writes a node, also of a topic that this broker does not know."""
        group, topic = self.random.choice((DUAL_GROUP, OLD_GROUP)), self._topic()
        self.offset += 1
        path = f"/consumers/{group}/offsets/{topic}/0"
        parents = [path.rsplit("/", count)[0] for count in (4, 3, 2, 1)]
        for parent in parents:
            if parent not in self.world.nodes_there:
                self._tool(Create(parent))
        data = b"%d" % self.offset
        assert self._tool(SetData(path, data) if path in self.world.nodes_there else Create(path, data))
        self.log.append(f"  {group} writes {topic} {self.offset}")
        self.expected[group, topic].wrote(self.offset)

    # Faults

    def step(self) -> None:
        self.world.time.advance()
        self.world.batcher.write_all()
        self.world.keeper.step()

    def fail(self) -> None:
        self.world.session.faults += [None] * self.random.randrange(3) + [self.random.choice(list(Fault))]

    def cut(self) -> None:
        self.world.keeper.cut(self.world.session)

    def expire(self) -> None:
        self.world.keeper.expire(self.world.session.session_id)

    def stop(self) -> None:
        self.world.keeper.stop()

    def resume(self) -> None:
        self.world.keeper.start()

    def kill(self) -> None:
        """End the broker at once; ZooKeeper does some of what it was sent."""
        session = self.world.session
        self.world.keeper.start()
        while session.requests and self.random.random() < 0.7:
            session.requests.popleft()[1]()
        session.requests.clear()
        self.world.kill()
        for expected in self.expected.values():
            expected.outstanding, expected.is_overtaken = None, False
        for _ in range(self.random.randrange(3)):
            self.random.choice((self.write_again, self.old_client_commits, self.tool_creates, self.remove))()
        self.world.start()

    def wait(self) -> None:
        self.world.time.advance(self.random.choice((100, 700, 3_000)))

    def go_on(self) -> None:
        """Everything happens that was begun."""
        self.world.keeper.start()
        for milliseconds in (0, 1_100, 600):
            self.world.settle(milliseconds)
            self.world.batcher.write_all()
            self.world.settle()

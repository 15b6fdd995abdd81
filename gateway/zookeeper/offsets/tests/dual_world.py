"""The world of the histories of groups in two stores: a broker, ZooKeeper, requests to both, and what may go wrong."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from random import Random
from types import SimpleNamespace
from typing import Any, Final, cast

from headgate.gateway.coordinator.decision import Decision, Ticket
from headgate.gateway.coordinator.gathering import reply_of
from headgate.gateway.coordinator.groups import offset_requests
from headgate.gateway.coordinator.groups.group_shard import GroupShard
from headgate.gateway.coordinator.groups.tests.groups import FakeTopics
from headgate.gateway.runtime.tasks import Running, Task, is_task, value_of
from headgate.gateway.runtime.tests.fake_scheduler import ManualClock
from headgate.gateway.tests.scripted import STORAGE_ERROR, ScriptedPartition
from headgate.gateway.zookeeper.layout.topics import DELETED_TOPICS_PATH, TopicAssignment
from headgate.gateway.zookeeper.offsets.dual_group import State
from headgate.gateway.zookeeper.offsets.tests.broker_parts import GROUP, PARTITIONS, TOPIC, Broker, image_of
from headgate.gateway.zookeeper.offsets.tests.lagging import LaggingServers
from headgate.gateway.zookeeper.offsets.tests.offset_registers import Register
from headgate.gateway.zookeeper.session import ANY_VERSION, Create, KeeperError, NodeData, Operation, Refused, Results
from headgate.gateway.zookeeper.tests.model import Fault
from headgate.protocol.errors import KafkaError
from headgate.protocol.messages.offset_commit import (
    OffsetCommitRequest,
)
from headgate.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from headgate.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from headgate.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest

GROUPS: Final = (GROUP, "h")
Place = tuple[str, int]
"""A group and a partition of the topic."""
PLACES: Final = tuple((group, index) for group in GROUPS for index in range(PARTITIONS))


def node_of(place: Place) -> str:
    """The path of the node with an offset."""
    return f"/consumers/{place[0]}/offsets/{TOPIC}/{place[1]}"


class _Recorded(LaggingServers):
    """A ZooKeeper that notes what the nodes of offsets had, in order."""

    def __init__(self, random: Random, registers: dict[Place, Register]) -> None:
        super().__init__(random)
        self._registers = {node_of(place): register for place, register in registers.items()}

    def transact(self, session_id: int, operations: Sequence[Operation]) -> Results | Refused:
        results = super().transact(session_id, operations)
        if not isinstance(results, Refused):
            for operation in operations:
                register = self._registers.get(operation.path)
                if register is not None:
                    data = getattr(operation, "data", None)
                    register.history.append(int(data) if data else None)
        return results


class DualWorld:
    """Requests as clients put them, and faults."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.log: list[str] = []
        self.now = 0
        self.clock = ManualClock()
        self.registers = {place: Register() for place in PLACES}
        self.keeper = _Recorded(self.random, self.registers)
        self.topics = FakeTopics({TOPIC: PARTITIONS})
        self.image = image_of()
        self.metadata: Any = SimpleNamespace(image=self.image)
        self.partition = ScriptedPartition(cast("Any", None))
        self.old = self.keeper.session()
        self.old.start()
        self.keeper.run()
        for path in (
            "/consumers",
            "/brokers",
            "/brokers/topics",
            TopicAssignment.path(TOPIC),
            "/headgate",
            DELETED_TOPICS_PATH,
        ):
            self.old.create(Create(path), lambda _: None)
        for group in GROUPS:
            for path in ("", "/offsets", f"/offsets/{TOPIC}"):
                self.old.create(Create(f"/consumers/{group}{path}"), lambda _: None)
        self.keeper.run()
        self.late: list[Any] = []
        """What was on its way to ZooKeeper when the broker's connection was cut."""
        self.broker = self.new_broker()

    def new_broker(self) -> Broker:
        return Broker(self.partition, self.clock, self.keeper, self.metadata, topics=self.topics)

    def state_of(self, group: str) -> State:
        """Where a group is on its way; LEFT too while its store is not known."""
        with suppress(KafkaError):
            dual = self.broker.stores.dual(group)
            return State.LEFT if dual is None else dual.state
        return State.LEFT

    def note(self, sentence: str) -> None:
        """Add a line to the history."""
        self.now += 1
        self.log.append(f"{self.now} {sentence}")

    # Requests to the broker

    def put(self, make: Callable[[], Any], done: Callable[[Any], None]) -> Running[Any] | None:
        """Put a request to the broker; `done` gets its reply, or an error, unless the broker dies before."""
        broker = self.broker

        def answered(reply: Any) -> None:
            if self.broker is broker:
                done(reply)

        outcome = reply_of(make)
        broker.batcher.write_all()
        if is_task(outcome):
            return broker.tasks.start(outcome, answered)
        answered(outcome)
        return None

    def _commit_to(self, request: OffsetCommitRequest, version: int) -> Any:
        """As the handler of OffsetCommit."""
        stores = self.broker.stores
        if version == 0:
            return stores.commit_zero(request)
        dual = stores.dual(request.group_id)
        if dual is not None:
            return stores.commit(dual, request, version)
        return self.broker.groups.submit(
            request.group_id, lambda shard, ticket: offset_requests.commit(shard, request, version, ticket, 0.0)
        )

    def _fetch(self, index: int, group: str = GROUP) -> Any:
        """As the handler of OffsetFetch."""
        wanted = OffsetFetchRequestGroup(group, topics=[OffsetFetchRequestTopics(TOPIC, partition_indexes=[index])])

        def decide(shard: GroupShard, _: str, ticket: Ticket) -> Decision:
            return offset_requests.fetch(shard, wanted, 8, ticket, is_stable=True)

        def fetch() -> Task[Any]:
            failed = yield from self.broker.stores.refresh([wanted])
            if failed:
                raise failed[group]
            return (yield from value_of(self.broker.groups.gather([group], decide, lambda replies: replies[0])))

        return fetch()

    def _fetch_zero(self, place: Place) -> Any:
        """As the handler of OffsetFetch, version 0."""
        group, index = place
        return self.broker.stores.fetch_zero(OffsetFetchRequest(group, [OffsetFetchRequestTopic(TOPIC, [index])]))

    def _delete(self, place: Place) -> Any:
        """As the handler of OffsetDelete."""
        group, index = place
        rows = [OffsetDeleteRequestTopic(TOPIC, [OffsetDeleteRequestPartition(index)])]
        request = OffsetDeleteRequest(group, rows)

        def decide(shard: GroupShard, ticket: Ticket) -> Decision:
            return offset_requests.delete(shard, request, ticket)

        dual = self.broker.stores.dual(group)
        return self.broker.groups.submit(group, decide) if dual is None else dual.commit(None, decide)

    def _decide_in_transaction(self, request: TxnOffsetCommitRequest, decide: Any) -> Any:
        """As the handler of TxnOffsetCommit."""
        dual = self.broker.stores.dual(request.group_id)
        if dual is None:
            return self.broker.groups.submit(request.group_id, decide)
        return self.broker.stores.commit_in_transaction(dual, request.topics, decide)

    # Requests to ZooKeeper, as of a consumer of the 0.8 age: unconditional

    def write_node(self, place: Place, value: int | None, done: Callable[[Any], None]) -> None:
        """`done` gets 0 or an error. None deletes the node."""
        path = node_of(place)

        def written(answer: Any) -> None:
            if answer is KeeperError.NO_NODE and value is not None:
                self.old.create(Create(path, b"%d" % value), created)
            else:
                done(answer if isinstance(answer, KeeperError) and answer is not KeeperError.NO_NODE else 0)

        def created(answer: Any) -> None:
            done(answer if isinstance(answer, KeeperError) else 0)

        if value is None:
            self.old.delete(path, ANY_VERSION, written)
        else:
            self.old.set(path, b"%d" % value, ANY_VERSION, written)

    def read_node(self, place: Place, done: Callable[[Any], None]) -> None:
        """`done` gets an offset, None or an error."""

        def got(answer: NodeData | KeeperError) -> None:
            if isinstance(answer, NodeData):
                done(int(answer.data or b"-1"))
            else:
                done(None if answer is KeeperError.NO_NODE else answer)

        self.old.get(node_of(place), got)

    # The stores

    def log_offset(self, place: Place) -> int | None:
        """The offset that the log has."""
        shard = self.broker.coordinator.shard
        found = None if shard is None else shard.offsets.of(place[0]).get((TOPIC, place[1]))
        return None if found is None else found.offset

    def node_offset(self, place: Place) -> int | None:
        """The offset that the node has."""
        node = self.keeper.tree.nodes.get(node_of(place))
        return None if node is None else int(node.data or b"-1")

    # Faults

    def step(self) -> None:
        for _ in range(self.random.randrange(1, 12)):
            self.keeper.step()
        self.broker.scheduler.run_due()

    def wait(self) -> None:
        self.clock.elapsed_ms += self.random.choice([1, 100, 600, 1_500, 6_000])
        self.broker.scheduler.run_due()

    def connect(self) -> None:
        if not self.broker.session.is_connected:
            self.deliver()
        if self.random.random() < 0.3:
            self.keeper.start()
        for session in self.keeper.sessions:
            self.keeper.connect(session)

    def cut(self) -> None:
        session = self.random.choice(self.keeper.sessions)
        self.note("a connection is cut")
        if session is self.broker.session and self.random.random() < 0.7:
            self.late.extend(session.requests)
        self.keeper.cut(session)

    def lose_request(self) -> None:
        session = self.random.choice(self.keeper.sessions)
        session.faults.extend([None] * self.random.randrange(3) + [self.random.choice(list(Fault))])

    def expire(self) -> None:
        session = self.random.choice(self.keeper.sessions)
        self.note("a session expires")
        if session.session_id:
            self.keeper.expire(session.session_id)

    def restart_zookeeper(self) -> None:
        if self.keeper.is_running:
            self.note("ZooKeeper stops")
            self.keeper.stop()
        else:
            self.deliver()
            self.keeper.start()

    def fail(self) -> None:
        self.note("the log fails")
        self.partition.fails, self.partition.tears = STORAGE_ERROR, self.random.random() < 0.5

    def slow_down(self) -> None:
        self.partition.is_slow = True

    def finish_write(self) -> None:
        if self.partition.writes:
            self.partition.finish_write()

    def recover(self) -> None:
        self.partition.fails, self.partition.tears, self.partition.is_slow = None, False, False

    def reload(self) -> None:
        self.broker.coordinator.reload("for a test")

    def delay(self) -> None:
        """The network keeps what the broker sends."""
        self.keeper.delayed = self.broker.session

    def deliver(self) -> None:
        """It arrives at last; a session that is about to connect again has its late requests before."""
        self.keeper.delayed = None
        late, self.late = self.late, []
        for _, arrive in late:
            arrive()

    def fall_behind(self) -> None:
        """The broker's server of ZooKeeper lags."""
        self.broker.session.fall_behind()

    def catch_up(self) -> None:
        self.broker.session.catch_up()

    def crash(self) -> None:
        """The broker dies. ZooKeeper does some of what it was sent."""
        self.note("the broker crashes")
        session = self.broker.session
        self.deliver()
        for request in session.unanswered:
            request.is_answered = True
        for _ in range(self.random.randrange(len(session.requests) + 1)):
            if session.requests:  # one of them may be a fault that ends the connection
                _, arrive = session.requests.popleft()
                arrive()
        queues: list[deque[Any]] = [session.requests, session.answers, session.refusals, session.events]
        for queue in queues:
            queue.clear()
        session.watches.clear()
        self.keeper.sessions.remove(session)
        self.broker = self.new_broker()
        self.metadata.image = self.image


def value_of_reply(reply: Any) -> Any:
    """What the one row of an OffsetFetch says: an offset, None for none, or an error."""
    if isinstance(reply, Exception):
        return reply
    if getattr(reply, "error_code", 0):
        return f"error {reply.error_code}"
    row = reply.topics[0].partitions[0]
    if row.error_code not in (0, 3):
        return f"error {row.error_code}"
    return None if row.committed_offset == -1 else row.committed_offset

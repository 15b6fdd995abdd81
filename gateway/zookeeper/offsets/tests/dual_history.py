"""A history by seed: one group with offsets in two stores, whose partitions move between owners of every kind.

    python -m headgate.gateway.zookeeper.offsets.tests.dual_history SEED

Owners are clients of the coordinator, clients of OffsetCommit 0, transactional producers, and consumers of the 0.8 age,
which write to ZooKeeper themselves. Each reads where its predecessor stopped, then commits: forwards, and backwards on
purpose. Meanwhile connections and sessions end, ZooKeeper stops, the log fails or is slow, and the broker crashes.

The rule: whoever reads gets the last acknowledged commit, or one whose end nobody has seen before the read began.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable
from random import Random
from types import SimpleNamespace
from typing import Any, Final, cast

from headgate.gateway.config.offset_store import DUAL, KAFKA, SEPARATE, SOURCE, STORE
from headgate.gateway.config.resource_type import ResourceType
from headgate.gateway.coordinator.decision import Decision, Ticket
from headgate.gateway.coordinator.gathering import value_of
from headgate.gateway.coordinator.groups import offset_requests
from headgate.gateway.coordinator.groups.group_shard import GroupShard
from headgate.gateway.coordinator.transactions.markers import Marker
from headgate.gateway.runtime.purgatory import Waiting
from headgate.gateway.runtime.tests.fake_scheduler import ManualClock
from headgate.gateway.tests.scripted import STORAGE_ERROR, ScriptedPartition
from headgate.gateway.zookeeper.offsets.dual_group import State
from headgate.gateway.zookeeper.offsets.tests.broker_parts import GROUP, PARTITIONS, TOPIC, Broker, SlowNetwork
from headgate.gateway.zookeeper.session import ANY_VERSION, Create, KeeperError, NodeData
from headgate.gateway.zookeeper.tests.model import Fault
from headgate.protocol.errors import KafkaError
from headgate.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from headgate.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from headgate.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

PRODUCER_ID: Final = 7
COORDINATED, ZERO, OLD, TRANSACTIONAL = "coordinated", "zero", "old", "transactional"
KINDS: Final = {
    DUAL: (COORDINATED, COORDINATED, ZERO, OLD, OLD, TRANSACTIONAL),
    KAFKA: (COORDINATED, ZERO, TRANSACTIONAL),
    SEPARATE: (ZERO, OLD),
}
"""Who may own a partition, by the store of the group; while the stores are separate, ZooKeeper is in use."""
STEPS: Final = 500


class Write:
    """A commit: `ended` is when its client knew the result, or gave up."""

    def __init__(self, value: int, begun: int) -> None:
        self.value = value
        self.begun = begun
        self.ended: int | None = None
        self.is_acknowledged = False

    def __repr__(self) -> str:
        return f"{self.value} [{self.begun}, {self.ended}]{'' if self.is_acknowledged else ' not acknowledged'}"


class Owner:
    """One client with one partition: it has read, or asks to."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.has_read = False
        self.is_busy = False
        self.is_gone = False
        self.write: Write | None = None
        self.waiting: Waiting | None = None
        """What the owner waits for at the broker."""


class DualHistory:
    """The state of the world, and what may happen in it."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.log: list[str] = []
        self.clock = ManualClock()
        self.keeper = SlowNetwork(self.random)
        topics = {TOPIC: SimpleNamespace(partitions=(None,) * PARTITIONS)}
        self.image = SimpleNamespace(configs={}, topics=topics, topic_names={})
        self.metadata: Any = SimpleNamespace(image=self.image)
        self.partition = ScriptedPartition(cast("Any", None))
        self.old = self.keeper.session()
        self.old.start()
        self.keeper.run()
        for path in ("/consumers", "/consumers/g", "/consumers/g/offsets", "/consumers/g/offsets/t"):
            self.old.create(Create(path), lambda _: None)
        self.keeper.run()
        self.store = self.before = SEPARATE
        self.has_entered = False
        self.now = 0
        self.values = 0
        self.writes: dict[int, list[Write]] = {index: [] for index in range(PARTITIONS)}
        self.owners = {index: Owner(OLD) for index in range(PARTITIONS)}
        self.transaction: dict[int, Write] = {}
        self.ending: deque[dict[int, Write]] = deque()
        self.is_ending = False
        self.in_transit = self.aborts = 0
        self.broker = self._new_broker()
        self.reads = 0
        self.problems: list[str] = []
        self.late: list[Any] = []
        """What was on its way to ZooKeeper when the broker's connection was cut."""
        self.at_broker: list[Write] = []
        """Commits whose end a crash of the broker is."""

    def _new_broker(self) -> Broker:
        return Broker(self.partition, self.clock, self.keeper, self.metadata)

    def note(self, sentence: str) -> None:
        self.now += 1
        self.log.append(f"{self.now} {sentence}")

    # Requests

    def put(self, owner: Owner, make: Callable[[], Any], done: Callable[[Any], None]) -> None:
        """Put a request to the broker; `done` gets its reply, or an error."""
        broker = self.broker

        def answered(reply: Any) -> None:
            owner.waiting = None
            if self.broker is broker:
                done(reply)

        outcome = value_of(make)
        broker.appends.commit()
        if isinstance(outcome, Waiting):
            owner.waiting = outcome
            broker.purgatory.park(outcome, answered)
        else:
            answered(outcome)

    def commit(self) -> None:
        """An owner commits."""
        found = self._idle_owner(has_read=True)
        if found is None:
            return
        index, owner = found
        self.values += 1
        # All different, and often less than what was committed before
        value = self.values * 1_000 if self.random.random() < 0.7 else 1_000_000 - self.values
        write = Write(value, 0)
        self.note(f"{owner.kind} commits {write.value} of {index}")
        write.begun = self.now
        if owner.kind == TRANSACTIONAL:
            self._commit_in_transaction(index, owner, write)
            return
        self.writes[index].append(write)
        owner.is_busy, owner.write = True, write

        def done(code: Any) -> None:
            if write.ended is None:
                self.note(f"the commit of {write.value} has ended: {code!r}")
                owner.is_busy, write.ended = False, self.now
                write.is_acknowledged = code == 0

        if owner.kind == OLD:
            self._write_node(index, value, done)
            return
        self.at_broker.append(write)
        rows = [OffsetCommitRequestPartition(index, write.value, committed_metadata="")]
        request = OffsetCommitRequest(GROUP, topics=[OffsetCommitRequestTopic(TOPIC, partitions=rows)])

        def reply(response: Any) -> None:
            done(response.code if isinstance(response, KafkaError) else response.topics[0].partitions[0].error_code)

        self.put(owner, lambda: self._commit_to(request, 0 if owner.kind == ZERO else 2), reply)

    def _commit_to(self, request: OffsetCommitRequest, version: int) -> Any:
        """As the handler of OffsetCommit."""
        stores = self.broker.stores
        if version == 0:
            return stores.commit_zero(request)
        dual = stores.dual(GROUP)
        if dual is not None:
            return stores.commit(dual, request, version)
        return self.broker.groups.submit(
            GROUP, lambda shard, ticket: offset_requests.commit(shard, request, version, ticket, 0.0)
        )

    def _write_node(self, index: int, value: int, done: Callable[[Any], None]) -> None:
        """As a consumer of the 0.8 age: unconditionally."""
        path, data = f"/consumers/g/offsets/t/{index}", b"%d" % value

        def written(answer: Any) -> None:
            if answer is KeeperError.NO_NODE:
                self.old.create(Create(path, data), lambda made: done(made if isinstance(made, KeeperError) else 0))
            else:
                done(answer if isinstance(answer, KeeperError) else 0)

        self.old.set(path, data, ANY_VERSION, written)

    def read(self) -> None:
        """An owner reads where to begin."""
        found = self._idle_owner(has_read=False)
        if found is not None:
            self._read(*found)

    def _read(self, index: int, owner: Owner) -> None:
        owner.is_busy = True
        self.note(f"{owner.kind} reads {index}")
        begun = self.now

        def done(value: Any) -> None:
            if owner.is_gone:
                return
            owner.is_busy = False
            self.note(f"{owner.kind} has read {value!r} of {index}")
            if value is None or isinstance(value, int):
                self.check(index, value, begun)
                owner.has_read = True

        if owner.kind == OLD:

            def got(answer: NodeData | KeeperError) -> None:
                if isinstance(answer, NodeData):
                    done(int(answer.data or b"-1"))
                else:
                    done(None if answer is KeeperError.NO_NODE else answer)

            self.old.get(f"/consumers/g/offsets/t/{index}", got)
        elif owner.kind == ZERO:
            request = OffsetFetchRequest(GROUP, [OffsetFetchRequestTopic(TOPIC, [index])])
            self.put(owner, lambda: self.broker.stores.fetch_zero(request), lambda reply: done(_value_of(reply)))
        else:
            self.put(owner, lambda: self._fetch(index), lambda reply: done(_value_of(reply)))

    def _fetch(self, index: int) -> Any:
        """As the handler of OffsetFetch."""
        wanted = OffsetFetchRequestGroup(GROUP, topics=[OffsetFetchRequestTopics(TOPIC, partition_indexes=[index])])

        def decide(shard: GroupShard, _: str, ticket: Ticket) -> Decision:
            return offset_requests.fetch(shard, wanted, 8, ticket, is_stable=True)

        def fetch(failed: dict[str, KafkaError]) -> Any:
            if failed:
                raise failed[GROUP]
            return self.broker.groups.gather([GROUP], decide, lambda replies: replies[0])

        return self.broker.stores.look([wanted], fetch)

    def check(self, index: int, value: int | None, begun: int) -> None:
        """A read that began at `begun` has just ended with this value."""
        self.reads += 1
        problem = self._problem(index, value, begun)
        if problem:  # who calls this may swallow exceptions
            self.problems.append(problem)

    def check_nodes(self) -> None:
        """What a consumer of the 0.8 age would read at this moment."""
        if OLD not in self._kinds():
            return
        for index in range(PARTITIONS):
            node = self.keeper.tree.nodes.get(f"/consumers/g/offsets/t/{index}")
            problem = self._problem(index, None if node is None else int(node.data or b"-1"), self.now)
            if problem:
                self.problems.append(f"in ZooKeeper: {problem}")

    def _problem(self, index: int, value: int | None, begun: int) -> str:
        writes = self.writes[index]
        before = [one for one in writes if one.is_acknowledged and one.ended is not None and one.ended < begun]
        if value is None:
            return f"{before[-1]} of partition {index} is lost" if before else ""
        found = next((one for one in writes if one.value == value), None)
        if found is None:
            return f"nobody has committed {value}"
        later = [one for one in before if found.ended is not None and one.begun > found.ended]
        return f"{found} was read of partition {index}, and {later} came later" if later else ""

    def _idle_owner(self, *, has_read: bool) -> tuple[int, Owner] | None:
        idle = [(index, one) for index, one in self.owners.items() if not one.is_busy and one.has_read is has_read]
        return self.random.choice(idle) if idle else None

    def hand_over(self) -> None:
        """A partition gets another owner; the old one may be dead in the middle of a commit."""
        index = self.random.randrange(PARTITIONS)
        self._hand_over(index, self.random.choice(self._kinds()))

    def _hand_over(self, index: int, kind: str) -> None:
        owner = self.owners[index]
        if owner.kind == TRANSACTIONAL and index in self.transaction:
            return  # its transaction ends first
        self.note(f"{index} goes from {owner.kind} to {kind}")
        self._give_up(index, owner)
        self.owners[index] = Owner(kind)

    def _give_up(self, index: int, owner: Owner) -> None:
        """The owner goes: it closes its connection, or goes on waiting for an answer that means nothing any more."""
        owner.is_gone = True
        if owner.waiting is not None and owner.kind != TRANSACTIONAL and self.random.random() < 0.7:
            self.broker.purgatory.abandon(owner.waiting)
            if owner.write is not None and owner.write.ended is None:
                owner.write.ended = self.now

    # Transactions

    def _commit_in_transaction(self, index: int, owner: Owner, write: Write) -> None:
        if self.ending or index in self.transaction:
            return
        owner.is_busy = True
        self.in_transit += 1
        aborts = self.aborts
        rows = [TxnOffsetCommitRequestPartition(index, write.value)]
        topics = [TxnOffsetCommitRequestTopic(TOPIC, partitions=rows)]
        request = TxnOffsetCommitRequest("id", GROUP, PRODUCER_ID, 0, topics=topics)

        def decide(shard: GroupShard, ticket: Ticket) -> Decision:
            return offset_requests.commit_in_transaction(shard, request, 3, ticket)

        def reply(response: Any) -> None:
            owner.is_busy = False
            self.in_transit -= 1
            is_there = not isinstance(response, KafkaError) and response.topics[0].partitions[0].error_code == 0
            self.note(f"{write.value} is {'pending' if is_there else 'refused'}")
            if is_there and not owner.is_gone and aborts == self.aborts:
                self.transaction[index] = write
                self.writes[index].append(write)
            else:
                self._abort()

        self.put(owner, lambda: self._decide_in_transaction(request, decide), reply)

    def _decide_in_transaction(self, request: TxnOffsetCommitRequest, decide: Any) -> Any:
        """As the handler of TxnOffsetCommit."""
        dual = self.broker.stores.dual(GROUP)
        if dual is None:
            return self.broker.groups.submit(GROUP, decide)
        return self.broker.stores.commit_in_transaction(dual, request.topics, decide)

    def end_transaction(self) -> None:
        """The producer commits: from now on nothing can stop it."""
        if self.transaction and not self.in_transit:
            self.note(f"the transaction commits: {self.transaction}")
            self.ending.append(self.transaction)
            self.transaction = {}
            self.mark()

    def _abort(self, *, sends: bool = True) -> None:
        """The offsets may be in the log all the same."""
        for write in self.transaction.values():
            write.ended = self.now
        self.transaction = {}
        self.aborts += 1
        self.ending.append({})
        if sends:
            self.mark()

    def mark(self) -> None:
        """The transaction coordinator sends the marker, again if need be."""
        if not self.ending or self.is_ending:
            return
        broker, self.is_ending = self.broker, True

        def written(error: KafkaError | None) -> None:
            if self.broker is not broker:
                return
            self.is_ending = False
            self.note(f"the marker: {error}")
            if error is None:
                for write in self.ending.popleft().values():
                    write.ended, write.is_acknowledged = self.now, True

        marker = Marker(PRODUCER_ID, 0, bool(self.ending[0]), 0, 1)
        broker.markers.append(marker, "__consumer_offsets", 0, written)
        broker.markers.commit()

    def _is_ending(self, write: Write) -> bool:
        return any(write in transaction.values() for transaction in self.ending)

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
        if self.partition._writes:
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

    def crash(self) -> None:
        """The broker dies. ZooKeeper does some of what it was sent."""
        self.note("the broker crashes")
        session = self.broker.session
        self.deliver()
        for request in session._unanswered:
            request.is_answered = True
        for _ in range(self.random.randrange(len(session.requests) + 1)):
            if session.requests:  # one of them may be a fault that ends the connection
                _, arrive = session.requests.popleft()
                arrive()
        session.requests.clear()
        session.answers.clear()
        session.refusals.clear()
        session.events.clear()
        session.watches.clear()
        self.keeper.sessions.remove(session)
        for write in self.at_broker:
            if write.ended is None:
                write.ended = self.now
        self.at_broker.clear()
        for index, owner in self.owners.items():
            if owner.kind != OLD and owner.is_busy:
                owner.is_gone = True
                self.owners[index] = Owner(owner.kind)
        self.is_ending = False
        if self.in_transit:
            self.in_transit = self.aborts = 0
            self._abort(sends=False)
        self.broker = self._new_broker()
        self.metadata.image = self.image

    # The store of the group

    def move(self) -> None:
        """The group goes over to other stores, as the runbook says: clients of the side that it leaves stop before."""
        if self.transaction or self.ending:
            return
        if self.store == DUAL:
            if self._has_entered():
                self._move(self.random.choice([KAFKA, SEPARATE]))
        else:
            self._move(DUAL)

    def _has_entered(self) -> bool:
        """The check of the runbook before clients of the other side start, and before the group leaves."""
        group = self.broker.stores._groups.get(GROUP)
        self.has_entered = self.has_entered or (group is not None and group.state is State.DUAL)
        return self.has_entered

    def _kinds(self) -> tuple[str, ...]:
        return KINDS[self.store if self.store != DUAL or self._has_entered() else self.before]

    def _move(self, store: str) -> None:
        old, configs = self.store, {STORE: store}
        kinds = KINDS[store] if old == DUAL else KINDS[old]
        if any(owner.is_busy and owner.kind not in kinds for owner in self.owners.values()):
            return
        if store == DUAL:
            configs[SOURCE] = "kafka" if old == KAFKA else "zookeeper"
        for index, owner in self.owners.items():
            if owner.kind not in kinds:
                self._hand_over(index, self.random.choice(kinds))
        if self.transaction or self.ending:
            return
        self.note(f"from {old} to {store}")
        self.before, self.store, self.has_entered = self.store, store, False
        before = self.image
        self.image = SimpleNamespace(
            configs={(ResourceType.GROUP, GROUP): configs}, topics=before.topics, topic_names={}
        )
        self.metadata.image = self.image
        self.broker.stores.follow(cast("Any", before), cast("Any", self.image), ())

    # The end

    def settle(self) -> None:
        """All faults end; everything under way comes to its end, in time."""
        self.recover()
        self.deliver()
        self.keeper.start()
        for session in self.keeper.sessions:
            session.faults.clear()
        for _ in range(40):
            self.keeper.run()
            while self.partition._writes:
                self.partition.finish_write()
            self.connect()
            self.mark()
            while self.broker.threads.waiting:
                self.broker.threads.run_one()
            self.clock.elapsed_ms += 400
            self.broker.scheduler.run_due()
        if self.transaction:
            self.end_transaction()
            self.settle()

    def check_all(self) -> None:
        """What every kind of owner reads in the end, and what the log has by itself."""
        self.settle()
        shard = self.broker.coordinator.shard
        assert shard is not None, "the shard is loaded in the end"
        values = shard.offsets.of(GROUP)
        for index in range(PARTITIONS):
            found = values.get((TOPIC, index))
            in_log = None if found is None else found.offset
            if self.store != SEPARATE:
                self.check(index, in_log, self.now)
            node = self.keeper.tree.nodes.get(f"/consumers/g/offsets/t/{index}")
            in_zookeeper = None if node is None else int(node.data or b"-1")
            if self.store == DUAL:
                assert in_log == in_zookeeper, f"partition {index}"
            for kind in KINDS[self.store]:
                owner = Owner(kind)
                self._read(index, owner)
                self.settle()
                assert owner.has_read, f"{kind} reads in the end"

    def run(self) -> None:
        for _ in range(STEPS):
            self.now += 1
            getattr(self, self.random.choices(NAMES, WEIGHTS)[0])()
            while self.broker.threads.waiting and self.random.random() < 0.5:
                self.broker.threads.run_one()
            self.broker.appends.commit()
            self.broker.scheduler.run_due()
            self.check_nodes()
            assert not self.problems, self.problems[0]
        self.check_all()
        assert not self.problems, self.problems[0]


ACTIONS: Final = {
    "commit": 20,
    "read": 20,
    "hand_over": 6,
    "end_transaction": 4,
    "mark": 3,
    "step": 60,
    "wait": 8,
    "connect": 12,
    "cut": 2,
    "delay": 3,
    "deliver": 3,
    "lose_request": 2,
    "expire": 1,
    "restart_zookeeper": 1,
    "fail": 1,
    "slow_down": 1,
    "finish_write": 6,
    "recover": 4,
    "reload": 1,
    "crash": 2,
    "move": 3,
}
NAMES, WEIGHTS = list(ACTIONS), list(ACTIONS.values())


def _value_of(reply: Any) -> Any:
    """What the one row of a response says: an offset, None for none, or an error."""
    if isinstance(reply, Exception):
        return reply
    if getattr(reply, "error_code", 0):
        return f"error {reply.error_code}"
    row = reply.topics[0].partitions[0]
    if row.error_code not in (0, 3):
        return f"error {row.error_code}"
    return None if row.committed_offset == -1 else row.committed_offset


def run(seed: int) -> DualHistory:
    """Run one history. Raises AssertionError, with the history and how to repeat it."""
    history = DualHistory(seed)
    try:
        history.run()
    except Exception as error:
        lines = "\n".join(history.log[-60:])
        message = f"{error}\n{lines}\npython -m headgate.gateway.zookeeper.offsets.tests.dual_history {seed}"
        raise AssertionError(message) from error
    return history


if __name__ == "__main__":
    for number in map(int, sys.argv[1:]):
        print(number, run(number).reads, "reads")  # noqa: T201

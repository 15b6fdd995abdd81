"""Histories by seed: leaders change in-sync sets in the model of ZooKeeper, and a controller writes the same nodes.

Leaders are real from the progress of their followers to ZooKeeper; logs, fetches, orders and the controller are models.
Orders and fetches are late, answers of ZooKeeper are lost, connections end, sessions expire, brokers die and come back
with their logs.

The rules: a leader counts each follower of the stored set for its high watermark; each replica of the stored set has
all committed records; after the last fault all sets are full again.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from types import SimpleNamespace
from typing import Any, Final, NamedTuple, cast

from headgate.gateway.config import BrokerConfig
from headgate.gateway.replication.in_sync_replicas import InSyncReplicas
from headgate.gateway.replication.progress import FollowerFetch
from headgate.gateway.replication.replica import Replica
from headgate.gateway.runtime.tasks import Tasks
from headgate.gateway.runtime.tests.fake_scheduler import ManualTime
from headgate.gateway.zookeeper.layout.isr_changes import ISR_CHANGES_PATH
from headgate.gateway.zookeeper.layout.topics import LeaderAndIsr
from headgate.gateway.zookeeper.metadata.isr_manager import ZooKeeperIsrManager
from headgate.gateway.zookeeper.session import Create, Operation, Refused, SessionEvent, SetData
from headgate.gateway.zookeeper.tests.model import Fault, ModelSession, ZooKeeperModel, parent
from headgate.protocol.errors import ErrorCode, KafkaError

NODES: Final = (0, 1, 2)
PARTITIONS: Final = (0, 1)
CONTROLLER: Final = 777
"""The session of the controller."""
MAX_LAG_MS: Final = 1_000


class BrokenRule(AssertionError):
    """A rule of in-sync sets does not hold."""


def require(holds: bool, rule: str) -> None:
    if not holds:
        raise BrokenRule(rule)


class LogInMemory:
    """What a `Replica` uses of a log. A record is (leader epoch, value)."""

    def __init__(self) -> None:
        self.records: list[tuple[int, int]] = []
        self.high_watermark = self.start_offset = self.recovery_point = 0
        self.config = SimpleNamespace(fsync_before_commit=False, allows_verbatim=False, min_insync_replicas=1)
        self.segments = SimpleNamespace(active=SimpleNamespace(is_sealed=False))
        self.has_transactions = self.is_retired = False
        self.staged = self.being_written = None

    @property
    def end_offset(self) -> int:
        return len(self.records)

    written_end = end_offset

    def truncate_to_match(self, leader: LogInMemory) -> None:
        """Cut what the leader does not have (KIP-595)."""
        pairs = zip(self.records, leader.records, strict=False)
        same = next((offset for offset, (ours, theirs) in enumerate(pairs) if ours != theirs), None)
        del self.records[min(self.end_offset, leader.end_offset) if same is None else same :]
        self.high_watermark = min(self.high_watermark, self.end_offset)


class StoredState(NamedTuple):
    """The state of a partition, and the version of its node."""

    state: LeaderAndIsr
    version: int


class FetchInFlight(NamedTuple):
    """A fetch on its way to the leader, or with `records` its answer."""

    follower: int
    life: int
    partition: int
    leader_epoch: int
    offset: int
    records: tuple[tuple[int, int], ...] | None = None
    high_watermark: int = 0


@dataclass
class Following:
    """A followed partition. `is_aligned`: the log has only what the leader has."""

    leader: int
    leader_epoch: int
    is_aligned: bool = False


@dataclass
class Member:
    """A broker: logs outlive its process."""

    number: int
    keeper: ZooKeeperModel
    config: BrokerConfig
    logs: dict[int, LogInMemory] = field(default_factory=lambda: {index: LogInMemory() for index in PARTITIONS})
    life: int = 0
    is_alive: bool = False
    least_epochs: dict[int, int] = field(default_factory=dict)
    """The least leader epoch in which this process may lead: the controller notices a restart."""

    def start(self) -> None:
        self.time = ManualTime()
        self.session: ModelSession = self.keeper.session(self._follow_session)
        self.manager = ZooKeeperIsrManager(self.session, self.number, self.time.scheduler)
        self.in_sync_replicas = InSyncReplicas(self.config, Tasks(self.time.clock, self.time.scheduler))
        self.in_sync_replicas.changes = self.manager
        self.in_sync_replicas.set_live(frozenset(NODES))
        self.led: dict[int, Replica] = {}
        self.followed: dict[int, Following] = {}
        self.known_epochs: dict[int, int] = {}
        self.life, self.is_alive = self.life + 1, True
        self.session.start()

    def kill(self, random: Random) -> None:
        """End the process; ZooKeeper may still get what was sent. The session lives on for a while."""
        while self.session.requests and random.random() < 0.5:
            self.session.requests.popleft()[1]()
        self.keeper.sessions.remove(self.session)
        for log in self.logs.values():  # that of the last checkpoint
            log.high_watermark = random.randint(0, log.high_watermark)
        self.is_alive = False

    def _follow_session(self, event: SessionEvent) -> None:
        self.manager.follow_session(event)

    def apply(self, index: int, order: StoredState) -> None:
        """Carry out an order, unless one of a later leader epoch is known."""
        state = order.state
        if state.leader_epoch < self.known_epochs.get(index, 0):
            return
        self.known_epochs[index] = state.leader_epoch
        replica = self.led.get(index)
        if state.leader == self.number and state.leader_epoch >= self.least_epochs.get(index, 0):
            self.followed.pop(index, None)
            if replica is None:
                replica = self.led[index] = self._lead(index, state.leader_epoch)
            replica.assign(self.number, state.leader_epoch, NODES, state.isr, order.version, self.now_ms)
            self.in_sync_replicas.watch(replica)
            return
        if replica is not None:
            self.logs[index].high_watermark = replica.high_watermark
            replica.resign(KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER))
            del self.led[index]
        following = self.followed.get(index)
        if following is None or following.leader_epoch != state.leader_epoch:
            self.followed[index] = Following(state.leader, state.leader_epoch)

    def _lead(self, index: int, leader_epoch: int) -> Replica:
        log: Any = self.logs[index]
        disk: Any = SimpleNamespace(clock=self.time.clock)
        return Replica("t", index, log, leader_epoch, lambda _: None, disk, high_watermark=log.high_watermark)

    @property
    def now_ms(self) -> float:
        return self.time.clock.monotonic_ms()


class IsrHistory:
    """Three brokers, the model of ZooKeeper, and a controller."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.keeper = ZooKeeperModel(Random(seed))
        settings = f"replica.lag.time.max.ms={MAX_LAG_MS}\nnode.id="
        self.members = [Member(number, self.keeper, BrokerConfig.load(f"{settings}{number}")) for number in NODES]
        self.fetches: list[FetchInFlight] = []
        self.committed: dict[int, list[tuple[int, int]]] = {index: [] for index in PARTITIONS}
        self.past: dict[int, list[StoredState]] = {index: [] for index in PARTITIONS}
        self.log: list[str] = []
        self._value, self._slow = 0, self.random.choice(NODES)
        self._create(ISR_CHANGES_PATH, None)
        for index in PARTITIONS:
            state = LeaderAndIsr(self.random.choice(NODES), 0, NODES, 1)
            self._create(LeaderAndIsr.path("t", index), state.encode())
        for member in self.members:
            member.start()

    def _create(self, path: str, data: bytes | None) -> None:
        if parent(path) not in self.keeper.tree.nodes:
            self._create(parent(path), None)
        self._transact(Create(path, data))

    def _transact(self, operation: Operation) -> None:
        result = self.keeper.transact(CONTROLLER, [operation])
        assert not isinstance(result, Refused), (operation, result)

    def stored(self, index: int) -> StoredState:
        node = self.keeper.tree.nodes[LeaderAndIsr.path("t", index)]
        return StoredState(LeaderAndIsr.decode("t", index, node.data), node.version)

    def _store(self, index: int, state: LeaderAndIsr) -> None:
        path = LeaderAndIsr.path("t", index)
        self._transact(SetData(path, state.encode(), self.keeper.tree.nodes[path].version))

    # The history

    def run(self, steps: int) -> None:
        acts = (
            (self.produce, 8), (self.send_fetch, 16), (self.deliver, 24), (self.go_on, 24), (self.pass_time, 10),
            (self.order, 10), (self.elect, 2), (self.rewrite, 1), (self.fault, 3), (self.cut, 1), (self.expire, 1),
            (self.connect, 6), (self.resume, 8), (self.kill, 1), (self.restart, 3),
        )  # fmt: skip
        for act in self.random.choices([act for act, _ in acts], [weight for _, weight in acts], k=steps):
            self.log.append(act.__name__)
            act()
            self.check()
        self.settle()

    def settle(self) -> None:
        """Let all sets become full, without further faults."""
        self.keeper.start()
        for member in self.members:
            member.session.faults.clear()
            if not member.is_alive:
                self._restart(member)
        for _ in range(60):
            for index in PARTITIONS:
                leader = self.members[self.stored(index).state.leader]
                if self.stored(index).state.leader_epoch < leader.least_epochs.get(index, 0):
                    self._elect(index)
                for member in self.members:
                    member.apply(index, self.stored(index))
            for member in self.members:
                self.resume(member)
                for index in PARTITIONS:
                    self._send_fetch(member, index)
            while self.fetches:
                self.deliver()
            for _ in range(4):
                self.keeper.run()
                self._pass_time(self.members, MAX_LAG_MS / 4)
            self.check()
            if all(self._is_full(index) for index in PARTITIONS):
                return
        raise BrokenRule(f"a set does not become full: {[self.stored(index) for index in PARTITIONS]}")

    def _is_full(self, index: int) -> bool:
        return set(self.stored(index).state.isr) == set(NODES)

    def check(self) -> None:
        """Check the rules after a step."""
        for index in PARTITIONS:
            stored, committed = self.stored(index), self.committed[index]
            if not self.past[index] or self.past[index][-1] != stored:
                self.past[index].append(stored)
            for member in self.members:
                replica = member.led.get(index) if member.is_alive else None
                if replica is not None:
                    self._note_commits(index, replica)
                    if (stored.state.leader, stored.state.leader_epoch) == (member.number, replica.leader_epoch):
                        assert replica.progress is not None
                        counted = replica.progress.counted | {member.number}
                        missing = set(stored.state.isr) - counted
                        require(not missing, f"the leader of {index} does not count {missing} of the stored set")
            for node_id in stored.state.isr:
                held = self.members[node_id].logs[index].records[: len(committed)]
                require(held == committed, f"node {node_id} is in sync, and lacks committed records of {index}")

    def _note_commits(self, index: int, replica: Replica) -> None:
        log, committed = cast("LogInMemory", replica.log), self.committed[index]
        seen = log.records[: replica.high_watermark]
        both = min(len(seen), len(committed))
        require(seen[:both] == committed[:both], f"two records of {index} are committed at one offset")
        committed.extend(seen[both:])

    # Clients, fetches

    def _some_member(self) -> Member:
        return self.random.choice(self.members)

    def produce(self) -> None:
        member, index = self._some_member(), self.random.choice(PARTITIONS)
        replica = member.led.get(index) if member.is_alive else None
        if replica is not None:
            self._value += 1
            member.logs[index].records.append((replica.leader_epoch, self._value))
            replica.advance_high_watermark()

    def send_fetch(self) -> None:
        member = self._some_member()
        if member.is_alive and not (member.number == self._slow and self.random.random() < 0.8):
            self._send_fetch(member, self.random.choice(PARTITIONS))

    def _send_fetch(self, member: Member, index: int) -> None:
        following = member.followed.get(index)
        if following is None:
            return
        leader = self.members[following.leader]
        replica = leader.led.get(index) if leader.is_alive else None
        if replica is None or replica.leader_epoch != following.leader_epoch:
            return
        log = member.logs[index]
        if not following.is_aligned:
            following.is_aligned = True
            log.truncate_to_match(leader.logs[index])
        fetch = FetchInFlight(member.number, member.life, index, following.leader_epoch, log.end_offset)
        self.fetches.append(fetch)

    def deliver(self) -> None:
        """Have a fetch or its answer arrive, or get lost."""
        if self.fetches:
            fetch = self.fetches.pop(self.random.randrange(len(self.fetches)))
            if fetch.records is None:
                self._answer(fetch)
            else:
                self._append(fetch, fetch.records)

    def _answer(self, fetch: FetchInFlight) -> None:
        for leader in self.members:
            replica = leader.led.get(fetch.partition) if leader.is_alive else None
            if replica is None or replica.leader_epoch != fetch.leader_epoch:
                continue
            sender = FollowerFetch(fetch.follower, fetch.life, leader.now_ms)
            try:
                leader.in_sync_replicas.note_fetch(replica, sender, fetch.offset, 0)
            except KafkaError:
                return
            records = leader.logs[fetch.partition].records[fetch.offset :]
            some = tuple(records[: self.random.randint(1, 4)])
            self.fetches.append(fetch._replace(records=some, high_watermark=replica.high_watermark))

    def _append(self, fetch: FetchInFlight, records: tuple[tuple[int, int], ...]) -> None:
        follower = self.members[fetch.follower]
        following, log = follower.followed.get(fetch.partition), follower.logs[fetch.partition]
        if not follower.is_alive or follower.life != fetch.life or log.end_offset != fetch.offset:
            return
        if following is not None and following.is_aligned and following.leader_epoch == fetch.leader_epoch:
            log.records.extend(records)
            log.high_watermark = max(log.high_watermark, min(fetch.high_watermark, log.end_offset))

    # Time, sessions, brokers

    def go_on(self) -> None:
        """Let ZooKeeper and a broker go on for some steps."""
        for _ in range(self.random.randint(1, 6)):
            self.keeper.step()
            self._pass_time([self._some_member()], 0.0)

    def pass_time(self) -> None:
        self._pass_time([self._some_member()], self.random.choice((100.0, 600.0, 3_000.0)))

    def _pass_time(self, members: list[Member], milliseconds: float) -> None:
        for member in members:
            if member.is_alive:
                member.time.advance(milliseconds)

    def fault(self) -> None:
        """Have an answer, or a request, of a later moment be lost."""
        session = self._some_member().session
        session.faults.extend([*[None] * self.random.randrange(4), self.random.choice(list(Fault))])

    def cut(self) -> None:
        member = self._some_member()
        if member.is_alive:
            self.keeper.cut(member.session)

    def expire(self) -> None:
        member = self._some_member()
        if member.is_alive:
            self.keeper.expire(member.session.session_id)

    def connect(self) -> None:
        self.keeper.start()

    def resume(self, member: Member | None = None) -> None:
        """The session of a broker is back, and the checks of a join have passed."""
        member = member or self._some_member()
        if member.is_alive and member.session.is_connected:
            member.manager.resume()

    def kill(self) -> None:
        member = self._some_member()
        if member.is_alive:
            member.kill(self.random)

    def restart(self) -> None:
        member = self._some_member()
        if not member.is_alive:
            self._restart(member)

    def _restart(self, member: Member) -> None:
        member.least_epochs = {index: self.stored(index).state.leader_epoch + 1 for index in PARTITIONS}
        member.start()

    # The controller

    def order(self) -> None:
        """An order arrives: of the stored state, or of an earlier one."""
        member, index = self._some_member(), self.random.choice(PARTITIONS)
        if member.is_alive:
            past = self.past[index]
            recent = past[self.random.randrange(max(0, len(past) - 3), len(past))] if past else self.stored(index)
            member.apply(index, recent if self.random.random() < 0.4 else self.stored(index))

    def elect(self) -> None:
        """Elect a leader of the stored set. The old one may leave the set, alive or not."""
        self._elect(self.random.choice(PARTITIONS))

    def _elect(self, index: int) -> None:
        state = self.stored(index).state
        leader = self.random.choice(state.isr)
        is_left = leader != state.leader and self.random.random() < 0.5
        isr = tuple(node_id for node_id in state.isr if not (is_left and node_id == state.leader))
        self._store(index, state._replace(leader=leader, leader_epoch=state.leader_epoch + 1, isr=isr))

    def rewrite(self) -> None:
        """Write the same state again, under another version."""
        index = self.random.choice(PARTITIONS)
        self._store(index, self.stored(index).state)

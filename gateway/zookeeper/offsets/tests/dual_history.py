"""A history by seed: two groups with offsets in two stores, whose partitions move between owners of every kind.

    python -m headgate.gateway.zookeeper.offsets.tests.dual_history SEED

Owners are clients of the coordinator, clients of OffsetCommit 0, transactional producers, and consumers of the 0.8 age,
which write to ZooKeeper themselves. An owner reads where its predecessor stopped, or does not care, then commits:
forwards, and backwards on purpose. Rivals commit beside the owners, some delete offsets, and the topic is deleted and
made anew. Groups enter both stores, leave them, and change their mind. Meanwhile connections and sessions end,
ZooKeeper stops, the log fails or is slow, and the broker crashes (`dual_world`).

The rule: whoever reads gets the last acknowledged commit, or one whose end nobody has seen before the read began; and
the log of a dual group has ZooKeeper's offsets in ZooKeeper's order (`offset_registers`).
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from types import SimpleNamespace
from typing import Any, Final, cast
from unittest import mock

from headgate.gateway.api.handlers.delete_groups import delete_group
from headgate.gateway.config.offset_store import DUAL, KAFKA, SEPARATE, SOURCE, STORE
from headgate.gateway.config.resource_type import ResourceType
from headgate.gateway.coordinator.decision import Decision, RequestContext, Ticket
from headgate.gateway.coordinator.groups import offset_requests
from headgate.gateway.coordinator.groups.classic.requests import join
from headgate.gateway.coordinator.groups.group_shard import GroupShard
from headgate.gateway.coordinator.transactions.markers import Marker
from headgate.gateway.runtime.tasks import Running
from headgate.gateway.tests.requests import commit_request
from headgate.gateway.zookeeper import combined_writes
from headgate.gateway.zookeeper.layout.topics import DELETED_TOPICS_PATH, DeletedTopic, TopicAssignment
from headgate.gateway.zookeeper.offsets import offset_nodes
from headgate.gateway.zookeeper.offsets.dual_group import State
from headgate.gateway.zookeeper.offsets.tests.broker_parts import PARTITIONS, TOPIC, image_of
from headgate.gateway.zookeeper.offsets.tests.dual_world import (
    GROUPS,
    PLACES,
    DualWorld,
    Place,
    node_of,
    value_of_reply,
)
from headgate.gateway.zookeeper.offsets.tests.offset_registers import TRANSACTIONAL, Write
from headgate.gateway.zookeeper.session import ANY_VERSION, Create, Delete
from headgate.protocol.errors import KafkaError
from headgate.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from headgate.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

PRODUCER_ID: Final = 7
COORDINATED, ZERO, OLD = "coordinated", "zero", "old"
KINDS: Final = {
    DUAL: (COORDINATED, COORDINATED, ZERO, OLD, OLD, TRANSACTIONAL, TRANSACTIONAL),
    KAFKA: (COORDINATED, ZERO, TRANSACTIONAL),
    SEPARATE: (ZERO, OLD),
}
"""Who may own a partition, by the store of the group; while the stores are separate, ZooKeeper is in use."""
STEPS: Final = 800


class Owner:
    """One client with one partition: it has read, or asks to."""

    def __init__(self, kind: str, *, has_read: bool = False) -> None:
        self.kind = kind
        self.has_read = has_read
        self.is_busy = False
        self.is_gone = False
        self.write: Write | None = None
        self.waiting: Running[Any] | None = None
        """What the owner waits for at the broker."""


class Home:
    """Where the offsets of a group are to be, and were before."""

    def __init__(self) -> None:
        self.store = self.before = SEPARATE
        self.has_entered = False
        self.carried: list[Write] = []


class DualHistory(DualWorld):
    """What clients do, what they know of it, and what may happen."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.homes = {group: Home() for group in GROUPS}
        self.values = 0
        self.owners = {place: Owner(OLD) for place in PLACES}
        self.open: list[tuple[Place, Write]] = []
        """Commits and deletions without an end."""
        self.transaction: dict[Place, Write] = {}
        self.ending: deque[dict[Place, Write]] = deque()
        self.is_ending = False
        self.in_transit = self.aborts = 0
        self.has_topic = True
        self._checked: object = None
        self.reads = 0
        self.problems: list[str] = []

    # Commits

    def commit(self) -> None:
        """An owner commits."""
        found = self._idle_owner(has_read=True)
        if found is None:
            return
        place, owner = found
        if owner.kind == TRANSACTIONAL:
            self._commit_in_transaction(place, owner)
            return
        (write,) = self._begin([place], owner.kind)
        owner.is_busy, owner.write = True, write

        def ended() -> None:
            owner.is_busy, owner.waiting = False, None

        owner.waiting = self._commit({place: write}, ended)

    def rival(self) -> None:
        """Somebody else commits one partition of a group, or all of them."""
        busy = [place[0] for place in (*self.transaction, *(one for one, _ in self.open))]
        group = self.random.choice(busy) if busy else self.random.choice(GROUPS)
        kind = self.random.choice(self._kinds(group))
        if kind == TRANSACTIONAL or not self.has_topic:
            return
        places = [place for place in PLACES if place[0] == group]
        if kind == OLD or self.random.random() < 0.6:
            places = [self.random.choice(places)]
        writes = self._begin(places, kind)
        self._commit(dict(zip(places, writes, strict=True)), lambda: None)

    def _value(self) -> int:
        """All different, and often less than what was committed before."""
        self.values += 1
        return self.values * 1_000 if self.random.random() < 0.7 else 1_000_000 - self.values

    def _begin(self, places: list[Place], kind: str, *, deletes: bool = False) -> list[Write]:
        values = [None if deletes else self._value() for _ in places]
        self.note(f"{kind} {'deletes' if deletes else 'commits'} {dict(zip(places, values, strict=True))}")
        writes = [Write(value, self.now, kind) for value in values]
        for place, write in zip(places, writes, strict=True):
            self.registers[place].writes.append(write)
            self.open.append((place, write))
        return writes

    def _end(self, writes: list[Write], codes: list[Any]) -> None:
        self.note(f"{[one.value for one in writes]} ended: {codes!r}")
        for write, code in zip(writes, codes, strict=True):
            write.end(self.now, is_acknowledged=code == 0)
        self.open = [one for one in self.open if one[1].ended is None]

    def _commit(self, writes: dict[Place, Write], ended: Callable[[], None]) -> Running[Any] | None:
        all_writes = list(writes.values())
        (group, index), kind = next(iter(writes)), all_writes[0].kind
        values = {place[1]: cast("int", write.value) for place, write in writes.items()}

        def done(codes: list[Any]) -> None:
            self._end(all_writes, codes)
            ended()

        def reply(response: Any) -> None:
            if isinstance(response, KafkaError):
                done([response.code] * len(writes))
            else:
                rows = {row.partition_index: row.error_code for row in response.topics[0].partitions}
                done([rows[place[1]] for place in writes])

        if kind == OLD:
            self.write_node((group, index), values[index], lambda code: done([code]))
            return None
        return self.put(lambda: self._commit_to(commit_request(group, values, TOPIC), 0 if kind == ZERO else 2), reply)

    # Deletions

    def delete(self) -> None:
        """An offset is deleted: in ZooKeeper by an old tool, or by OffsetDelete; or DeleteGroups deletes all.

        A request to create a node that was left behind has no version, so it comes after a deletion that it knows
        nothing of: nobody deletes then.
        """
        group = self.random.choice(GROUPS)
        kinds = self._kinds(group)
        if not self.has_topic or not self._is_settled(group) or not self._is_quiet():
            return
        places = [place for place in PLACES if place[0] == group]
        place = self.random.choice(places)
        if OLD in kinds and self.random.random() < 0.5:
            writes = self._begin([place], OLD, deletes=True)
            self.write_node(place, None, lambda code: self._end(writes, [code]))
        elif COORDINATED in kinds and self.random.random() < 0.7:
            writes = self._begin([place], COORDINATED, deletes=True)
            self.put(lambda: self._delete(place), lambda reply: self._end(writes, [_code_of(reply)]))
        elif COORDINATED in kinds:
            writes = self._begin(places, COORDINATED, deletes=True)
            self.put(
                lambda: self.broker.stores.gather([group], delete_group, lambda rows: rows[0]),
                lambda reply: self._end(writes, [reply.code if isinstance(reply, KafkaError) else 0] * len(writes)),
            )

    def _is_settled(self, group: str) -> bool:
        """Whether the group is neither on its way into both stores nor out of them."""
        stores, is_marked = self.broker.stores, f"/headgate/offsets/{group}" in self.keeper.tree.nodes
        if self.homes[group].store == DUAL:
            return self._has_entered(group) and self.state_of(group) is State.DUAL
        with suppress(KafkaError):  # the marks are being read
            return stores.dual(group) is None and not is_marked
        return False

    def _is_quiet(self) -> bool:
        """Whether nothing of the broker is on its way to ZooKeeper, or back."""
        session = self.broker.session
        return not (self.late or session.unanswered or session.refusals)

    def delete_topic(self) -> None:
        """The coordinator deletes the offsets of the topic; the dual groups forget the topic."""
        is_settled = all(map(self._is_settled, GROUPS))
        if not self.has_topic or not is_settled or self.open or not self._is_quiet() or self._has_transaction():
            return
        self.note("the topic is deleted")
        for place in PLACES:
            self._hand_over(place, self.random.choice(self._kinds(place[0])))
        self.has_topic = False
        self.topics.set(TOPIC, 0)
        topic_id = self.image.topics[TOPIC].topic_id
        for path in ("/headgate", DELETED_TOPICS_PATH):
            self.keeper.transact(0, [Create(path)])
        note = Create(DeletedTopic.path(topic_id), DeletedTopic(topic_id, TOPIC, self.clock.now_ms()).encode())
        self.keeper.transact(0, [note, Delete(TopicAssignment.path(TOPIC), ANY_VERSION)])
        self._set_image({}, self.image.configs)
        self._remove_offsets()

    def _remove_offsets(self) -> None:
        """As the coordinator does with a deleted topic."""
        for group in GROUPS:
            self.put(partial(self.broker.groups.submit, group, _remove_topic(group)), lambda _: None)

    def create_topic(self) -> None:
        """The topic is made anew, once nothing is left of the old one."""
        if self.has_topic:
            return
        if any(self._is_left(place) for place in PLACES) or not self._is_quiet():
            self._remove_offsets()
            return
        self.note("the topic is made anew")
        self.has_topic = True
        for register in self.registers.values():
            write = Write(None, self.now)
            write.end(self.now, is_acknowledged=True)
            register.writes.append(write)
        self.topics.set(TOPIC, PARTITIONS)
        self.keeper.transact(0, [Create(TopicAssignment.path(TOPIC))])
        new_topics = image_of(topic_id=self.now.to_bytes(16, "big")).topics
        self._set_image(new_topics, self.image.configs)

    def _is_left(self, place: Place) -> bool:
        """Whether a store has an offset, or may have one. Nobody deletes ZooKeeper's while the stores are separate."""
        if self.homes[place[0]].store != DUAL and self.node_offset(place) is not None:
            self.keeper.transact(0, [Delete(node_of(place), ANY_VERSION)])
        is_in_log = self.broker.coordinator.shard is None or self.log_offset(place) is not None
        return is_in_log or self.node_offset(place) is not None

    def _set_image(self, topics: dict[str, Any], configs: dict[Any, Any]) -> None:
        before = self.image
        self.image = self.metadata.image = SimpleNamespace(configs=configs, topics=topics, topic_names={})
        names = before.topics.keys() ^ topics.keys()
        self.broker.stores.follow(cast("Any", before), cast("Any", self.image), names)

    # Reads

    def read(self) -> None:
        """An owner reads where to begin."""
        found = self._idle_owner(has_read=False)
        if found is not None:
            self._read(*found)

    def _read(self, place: Place, owner: Owner) -> None:
        owner.is_busy = True
        self.note(f"{owner.kind} reads {place}")
        begun = self.now

        def done(value: Any) -> None:
            if owner.is_gone:
                return
            owner.is_busy, owner.waiting = False, None
            self.note(f"{owner.kind} has read {value!r} of {place}")
            if value is None or isinstance(value, int):
                self.check(place, value, begun)
                owner.has_read = True

        if owner.kind == OLD:
            self.read_node(place, done)
        elif owner.kind == ZERO:
            owner.waiting = self.put(lambda: self._fetch_zero(place), lambda reply: done(value_of_reply(reply)))
        else:
            fetch = place[1], place[0]
            owner.waiting = self.put(lambda: self._fetch(*fetch), lambda reply: done(value_of_reply(reply)))

    def check(self, place: Place, value: int | None, begun: int, where: str = "") -> None:
        """A read that began at `begun` has just ended with this value."""
        self.reads += 1
        problem = self.registers[place].problem(value, begun, self.now)
        if problem:  # who calls this may swallow exceptions
            self.problems.append(f"{place}{where}: {problem}")

    def check_stores(self) -> None:
        """What a consumer of the 0.8 age would read at this moment, and the order of the log."""
        shard = self.broker.coordinator.shard
        state = len(self.log), self.keeper.tree.zxid, self.partition.log.end_offset, id(shard)
        if state == self._checked:
            return
        self._checked = state
        for place in PLACES if self.has_topic else ():
            if OLD in self._kinds(place[0]):
                self.reads -= 1
                self.check(place, self.node_offset(place), self.now, " in ZooKeeper")
            register = self.registers[place]
            if self.state_of(place[0]) not in (State.DUAL, State.LEAVING):
                register.forget_order()
            elif shard is not None:
                problem = register.order_problem(self.log_offset(place), shard)
                if problem:
                    self.problems.append(f"{place}: {problem}")

    def _idle_owner(self, *, has_read: bool) -> tuple[Place, Owner] | None:
        idle = [(place, one) for place, one in self.owners.items() if not one.is_busy and one.has_read is has_read]
        return self.random.choice(idle) if idle and self.has_topic else None

    def hand_over(self) -> None:
        """A partition gets another owner; the old one may be dead in the middle of a commit."""
        place = self.random.choice(PLACES)
        self._hand_over(place, self.random.choice(self._kinds(place[0])), has_read=self.random.random() < 0.4)

    def _hand_over(self, place: Place, kind: str, *, has_read: bool = False) -> None:
        owner = self.owners[place]
        if owner.kind == TRANSACTIONAL and place in self.transaction:
            return  # its transaction ends first
        self.note(f"{place} goes from {owner.kind} to {kind}")
        owner.is_gone = True
        if owner.waiting is not None and owner.kind != TRANSACTIONAL and self.random.random() < 0.7:
            owner.waiting.cancel()
            if owner.write is not None and owner.write.ended is None:
                self._end([owner.write], ["given up"])
        self.owners[place] = Owner(kind, has_read=has_read)

    # Transactions

    def produce(self) -> None:
        """The producer commits what it has taken up from nobody."""
        place = self.random.choice(PLACES)
        if self.has_topic and TRANSACTIONAL in self._kinds(place[0]):
            self._commit_in_transaction(place, Owner(TRANSACTIONAL))

    def _commit_in_transaction(self, place: Place, owner: Owner) -> None:
        """The producer commits this partition, or the whole group."""
        places = [one for one in PLACES if one[0] == place[0] and one not in self.transaction]
        if self.ending or place in self.transaction:
            return
        if self.random.random() < 0.5:
            places = [place]
        writes = {one: Write(self._value(), 0, TRANSACTIONAL) for one in places}
        self.note(f"{TRANSACTIONAL} commits {writes}")
        for write in writes.values():
            write.begun = self.now
        owner.is_busy = True
        self.in_transit += 1
        aborts = self.aborts

        def reply(response: Any) -> None:
            owner.is_busy = False
            self.in_transit -= 1
            is_there = not isinstance(response, KafkaError) and not any(
                row.error_code for row in response.topics[0].partitions
            )
            self.note(f"{writes} are {'pending' if is_there else 'refused'}")
            if is_there and not owner.is_gone and aborts == self.aborts:
                self.transaction.update(writes)
                for one, write in writes.items():
                    self.registers[one].writes.append(write)
            else:
                self._abort()

        self._put_in_transaction(writes, reply)

    def _put_in_transaction(self, writes: dict[Place, Write], reply: Callable[[Any], None]) -> None:
        rows = [
            TxnOffsetCommitRequestPartition(index, cast("int", write.value)) for (_, index), write in writes.items()
        ]
        topics = [TxnOffsetCommitRequestTopic(TOPIC, partitions=rows)]
        request = TxnOffsetCommitRequest("id", next(iter(writes))[0], PRODUCER_ID, 0, topics=topics)

        def decide(shard: GroupShard, ticket: Ticket) -> Decision:
            return offset_requests.commit_in_transaction(shard, request, 3, ticket)

        self.put(lambda: self._decide_in_transaction(request, decide), reply)

    def repeat(self) -> None:
        """A request of the producer comes late, when its transaction is about to end."""
        if self.ending and self.ending[0] and self.has_topic:
            group = next(iter(self.ending[0]))[0]
            place = self.random.choice([one for one in PLACES if one[0] == group])
            write = Write(self._value(), self.now, TRANSACTIONAL)
            self.note(f"a late request has {write.value} of {place}")
            self.registers[place].writes.append(write)  # without an end: it is nobody's
            self._put_in_transaction({place: write}, lambda _: None)

    def end_transaction(self) -> None:
        """The producer commits: from now on nothing can stop it."""
        if self.transaction and not self.in_transit:
            self.note(f"the transaction commits: {self.transaction}")
            self.ending.append(self.transaction)
            self.transaction = {}
            self.mark()

    def _has_transaction(self) -> bool:
        return bool(self.transaction or self.ending or self.in_transit)

    def _abort(self, *, sends: bool = True) -> None:
        """The offsets may be in the log all the same."""
        for write in self.transaction.values():
            write.end(self.now)
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
                    write.end(self.now, is_acknowledged=True)

        marker = Marker(PRODUCER_ID, 0, bool(self.ending[0]), 0, 1)
        broker.markers.append(marker, "__consumer_offsets", 0, written)
        broker.markers.write_staged()

    # A crash

    def crash(self) -> None:
        super().crash()
        for _, write in self.open:
            if write.kind != OLD:
                write.end(self.now)
        self.open = [one for one in self.open if one[1].ended is None]
        for place, owner in self.owners.items():
            if owner.kind != OLD and owner.is_busy:
                owner.is_gone = True
                self.owners[place] = Owner(owner.kind)
        self.is_ending = False
        if self.in_transit:
            self.in_transit = self.aborts = 0
            self._abort(sends=False)

    # The store of a group

    def move(self) -> None:
        """A group goes over to other stores, as the runbook says: clients of the side that it leaves stop before."""
        group = self.random.choice(GROUPS)
        home = self.homes[group]
        if self._has_transaction() or self.broker.coordinator.shard is None or not self.has_topic:
            return
        if any(place[0] == group and write.value is None for place, write in self.open):
            return
        if home.store != DUAL:
            self._move(group, DUAL)
        elif self._has_entered(group):
            if self.random.random() < 0.3:
                self._move(group, self.random.choice([KAFKA, SEPARATE]))
        elif self.random.random() < 0.3:
            self._move(group, home.before)

    def change_mind(self) -> None:
        """A group is not to be dual after all, just when its entry is noted, and the answer is lost."""
        for group, home in self.homes.items():
            is_marked = f"/headgate/offsets/{group}" in self.keeper.tree.nodes
            if is_marked and home.store == DUAL and not self._has_entered(group) and not self._has_transaction():
                self.keeper.cut(self.broker.session)
                self._move(group, home.before)

    def _has_entered(self, group: str) -> bool:
        """The check of the runbook before clients of the other side start, and before the group leaves."""
        home = self.homes[group]
        if not home.has_entered and self.state_of(group) is State.DUAL and home.store == DUAL:
            home.has_entered = True
            for write in home.carried:
                write.is_acknowledged = True
        return home.has_entered

    def _kinds(self, group: str) -> tuple[str, ...]:
        home = self.homes[group]
        return KINDS[home.store if home.store != DUAL or self._has_entered(group) else home.before]

    def _move(self, group: str, store: str) -> None:
        home, configs = self.homes[group], {STORE: store}
        kinds = KINDS[store] if home.store == DUAL else KINDS[home.store]
        if any(place[0] == group and write.kind not in kinds for place, write in self.open):
            return
        mine = [(place, owner) for place, owner in self.owners.items() if place[0] == group]
        if any(owner.is_busy and owner.kind not in kinds for _, owner in mine):
            return
        for place, owner in mine:
            if owner.kind not in kinds:
                self._hand_over(place, self.random.choice(kinds))
        self.note(f"{group}: from {home.store} to {store}")
        home.carried = []
        if store == DUAL:
            configs[SOURCE] = "kafka" if home.store == KAFKA else "zookeeper"
            self._carry(group, home)
        home.before, home.store, home.has_entered = home.store, store, False
        self._set_image(self.image.topics, {**self.image.configs, (ResourceType.GROUP, group): configs})

    def _carry(self, group: str, home: Home) -> None:
        """Where the leading side has no offset, it gets that of the other, unless the group has not left before."""
        has_left = self._is_settled(group)
        for place in PLACES:
            sides = self.log_offset(place), self.node_offset(place)
            leading, other = sides if home.store == KAFKA else sides[::-1]
            if place[0] == group and leading is None and other is not None:
                self.now += 1
                write = self.registers[place].carry(other, self.now)
                self.now += 1
                if has_left:
                    home.carried.append(write)

    # The end

    def settle(self, turns: int = 40) -> None:
        """All faults end; everything under way comes to its end, in time."""
        self.recover()
        self.deliver()
        self.catch_up()
        self.keeper.start()
        for session in self.keeper.sessions:
            session.faults.clear()
        for _ in range(turns):
            self.keeper.run()
            while self.partition.writes:
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
        """What every kind of owner reads and commits in the end, and what the log has by itself."""
        self.settle()
        self.ending.append({})  # of what came too late for a transaction
        self.settle()
        assert self.broker.coordinator.shard is not None, "the shard is loaded in the end"
        for _ in range(3):
            if not self.has_topic:
                self.keeper.cut(self.broker.session)  # a whole look follows
                self.settle()
                self.create_topic()
        assert self.has_topic, "nothing is left of the deleted topic"
        for place in PLACES:
            store = self.homes[place[0]].store
            if store != SEPARATE:
                self.check(place, self.log_offset(place), self.now)
            if store == DUAL:
                assert self._has_entered(place[0]), "the group is dual in the end"
                assert self.log_offset(place) == self.node_offset(place), f"{place}"
        for group in GROUPS:
            self._check_clients(group)

    def _check_clients(self, group: str) -> None:
        store = self.homes[group].store
        for kind in dict.fromkeys(KINDS[store]):
            for place in PLACES:
                if place[0] == group:
                    owner = Owner(kind)
                    self._read(place, owner)
                    self.settle(4)
                    assert owner.has_read, f"{kind} reads {place} in the end"
        if store == DUAL:  # a member of the group keeps no client of ZooKeeper from its commits
            self.put(lambda: self.broker.groups.submit(group, _join(group)), lambda _: None)
            place = group, 0
            (write,) = self._begin([place], ZERO)
            self._commit({place: write}, lambda: None)
            self.settle()
            assert write.is_acknowledged, "version 0 commits in a group with members"

    def run(self) -> None:
        for _ in range(STEPS):
            self.now += 1
            getattr(self, self.random.choices(NAMES, WEIGHTS)[0])()
            while self.broker.threads.waiting and self.random.random() < 0.5:
                self.broker.threads.run_one()
            self.broker.batcher.write_all()
            self.broker.scheduler.run_due()
            self.check_stores()
            assert not self.problems, self.problems[0]
        self.check_all()
        assert not self.problems, self.problems[0]


ACTIONS: Final = {
    "commit": 20,
    "rival": 20,
    "delete": 3,
    "delete_topic": 1,
    "create_topic": 8,
    "read": 20,
    "hand_over": 8,
    "repeat": 6,
    "produce": 10,
    "end_transaction": 10,
    "mark": 3,
    "step": 60,
    "wait": 8,
    "connect": 25,
    "cut": 2,
    "delay": 3,
    "deliver": 3,
    "fall_behind": 4,
    "catch_up": 3,
    "lose_request": 2,
    "expire": 1,
    "restart_zookeeper": 1,
    "fail": 3,
    "slow_down": 1,
    "finish_write": 6,
    "recover": 8,
    "reload": 1,
    "crash": 2,
    "move": 10,
    "change_mind": 15,
}
NAMES, WEIGHTS = list(ACTIONS), list(ACTIONS.values())


def _code_of(reply: Any) -> Any:
    return reply.code if isinstance(reply, KafkaError) else reply.topics[0].partitions[0].error_code


def _remove_topic(group: str) -> Callable[[GroupShard, Ticket], Decision]:
    return lambda shard, ticket: Decision(shard.offsets.tombstones(group, [TOPIC]), [(ticket, cast("Any", True))])


def _join(group: str) -> Callable[[GroupShard, Ticket], Decision]:
    request = JoinGroupRequest(group, 60_000, protocol_type="consumer", protocols=[JoinGroupRequestProtocol("range")])
    return lambda shard, ticket: join(shard, request, RequestContext("client", "/h", 1), ticket, 0.0)


def run(seed: int) -> DualHistory:
    """Run one history. Raises AssertionError, with the history and how to repeat it."""
    few = 1 + seed % 2
    with (
        mock.patch.object(offset_nodes, "MOST_A_MULTI", few),
        mock.patch.object(offset_nodes, "IN_FLIGHT", few),
        mock.patch.object(offset_nodes, "READ_AT_ONCE", few),
        mock.patch.object(combined_writes, "MOST_OPERATIONS", 3),
    ):
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

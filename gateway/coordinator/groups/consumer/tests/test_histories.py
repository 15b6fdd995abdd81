"""Consumer groups under all that can happen to them, in any order: what must hold after every step, and at rest."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from headgate.gateway.coordinator.decision import Decision
from headgate.gateway.coordinator.groups.consumer import heartbeats
from headgate.gateway.coordinator.groups.consumer.group import ConsumerGroup
from headgate.gateway.coordinator.groups.tests.consumers import CALLER, GROUP, REBALANCE_MS, named, reported
from headgate.gateway.coordinator.groups.tests.groups import Desk, persistent_state
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.internal.offsets import UnknownType, decode, encode_key, encode_value
from headgate.protocol.messages.consumer_group_heartbeat import (
    LEAVE_EPOCH,
    LEAVE_STATIC_EPOCH,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from headgate.protocol.tests.examples import share

TOPICS = ("t0", "t1", "u0")
EXPRESSIONS = ("t.*", "u.*|t1", "none")
SUBSCRIPTIONS: st.SearchStrategy[tuple[list[str], str | None]] = st.one_of(
    st.lists(st.sampled_from(TOPICS), unique=True).map(lambda names: (names, None)),
    st.sampled_from(EXPRESSIONS).map(lambda expression: ([], expression)),
)
ASSIGNORS = st.sampled_from((None, "uniform", "range"))


class Consumer:
    """A client that may be slow to give up partitions, and may miss replies.

    reads     what it reads now: a partition that it has to give up too, until it does so
    assigned  what the last reply said that it may read
    """

    def __init__(self, name: str, topics: list[str], expression: str | None, instance_id: str | None) -> None:
        self.name = name
        self.topics = topics
        self.expression = expression
        self.instance_id = instance_id
        self.assignor: str | None = None
        self.epoch = 0
        self.reads: set[tuple[str, int]] = set()
        self.assigned: set[tuple[str, int]] = set()
        self.is_whole = True  # the next heartbeat says everything

    def request(self) -> ConsumerGroupHeartbeatRequest:
        by_topic: dict[str, set[int]] = {}
        for topic, number in self.reads:
            by_topic.setdefault(topic, set()).add(number)
        request = ConsumerGroupHeartbeatRequest(GROUP, self.name, self.epoch, self.instance_id)
        request.topic_partitions = reported(by_topic)
        if self.is_whole or not self.epoch:
            request.rebalance_timeout_ms = REBALANCE_MS
            request.subscribed_topic_names = list(self.topics)
            request.subscribed_topic_regex = self.expression or ""
            request.server_assignor = self.assignor
        return request

    def take(self, response: ConsumerGroupHeartbeatResponse) -> None:
        self.epoch = response.member_epoch
        self.is_whole = False
        if response.assignment is not None:
            by_topic = named(response.assignment.topic_partitions)
            self.assigned = {(topic, number) for topic, numbers in by_topic.items() for number in numbers}
            self.reads |= self.assigned

    def start_anew(self) -> None:
        self.epoch, self.reads, self.assigned, self.is_whole = 0, set(), set(), True


class Groups(RuleBasedStateMachine):
    """Members join, leave, crash, restart, miss replies, are slow; topics come, grow and go; the broker restarts."""

    def __init__(self) -> None:
        super().__init__()
        self.desk = Desk({"t0": 3, "t1": 2})
        self.mirror = self.desk.new_shard()
        self.mirrored = 0
        self.clients: list[Consumer] = []
        self.names = 0

    def client(self, data: st.DataObject) -> Consumer:
        return self.clients[data.draw(st.integers(0, len(self.clients) - 1), label="client")]

    @property
    def group(self) -> ConsumerGroup | None:
        group = self.desk.shard.groups.get(GROUP)
        assert group is None or isinstance(group, ConsumerGroup)
        return group

    def ask(
        self, request: ConsumerGroupHeartbeatRequest, *, writes: bool = True
    ) -> ConsumerGroupHeartbeatResponse | ErrorCode | None:
        """None if the append failed."""
        try:
            decision: Decision = heartbeats.heartbeat(
                self.desk.shard, request, CALLER, self.desk.ticket(), self.desk.now_ms
            )
        except KafkaError as error:
            return error.code
        if not writes:
            self.desk.fail(decision)
            return None
        ((_, response),) = self.desk.run(decision)
        assert isinstance(response, ConsumerGroupHeartbeatResponse)
        return response

    def beat(self, client: Consumer) -> None:
        answer = self.ask(client.request())
        if isinstance(answer, ConsumerGroupHeartbeatResponse):
            client.take(answer)
        elif client.epoch:
            assert answer in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH), answer
            client.start_anew()
        else:
            assert answer is ErrorCode.UNRELEASED_INSTANCE_ID

    def new_name(self) -> str:
        self.names += 1
        return f"m{self.names}"

    @initialize()
    def start(self) -> None:
        self.clients.append(Consumer(self.new_name(), ["t0"], None, None))

    @precondition(lambda self: len(self.clients) < 6)
    @rule(subscription=SUBSCRIPTIONS, is_static=st.booleans(), assignor=ASSIGNORS)
    def join(self, subscription: tuple[list[str], str | None], is_static: bool, assignor: str | None) -> None:
        name = self.new_name()
        client = Consumer(name, *subscription, instance_id=f"i{name}" if is_static else None)
        client.assignor = assignor
        self.clients.append(client)
        self.beat(client)

    @precondition(lambda self: self.clients)
    @rule(data=st.data())
    def heartbeat(self, data: st.DataObject) -> None:
        self.beat(self.client(data))

    @precondition(lambda self: self.clients)
    @rule(data=st.data())
    def give_up_and_say_so(self, data: st.DataObject) -> None:
        client = self.client(data)
        client.reads &= client.assigned
        self.beat(client)

    @precondition(lambda self: self.clients)
    @rule(data=st.data())
    def miss_a_reply(self, data: st.DataObject) -> None:
        """The broker did it, but the client does not know: it says everything again, from its old epoch."""
        client = self.client(data)
        self.ask(client.request())
        client.is_whole = True

    @precondition(lambda self: self.clients)
    @rule(data=st.data())
    def fail_to_write(self, data: st.DataObject) -> None:
        self.ask(self.client(data).request(), writes=False)

    @precondition(lambda self: self.clients)
    @rule(data=st.data(), subscription=SUBSCRIPTIONS)
    def subscribe_to_others(self, data: st.DataObject, subscription: tuple[list[str], str | None]) -> None:
        client = self.client(data)
        client.topics, client.expression = subscription
        client.is_whole = True
        self.beat(client)

    @precondition(lambda self: self.clients)
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        client = self.client(data)
        self.clients.remove(client)
        if client.epoch:
            self.ask(ConsumerGroupHeartbeatRequest(GROUP, client.name, LEAVE_EPOCH, client.instance_id))

    @precondition(lambda self: self.clients)
    @rule(data=st.data())
    def crash(self, data: st.DataObject) -> None:
        self.clients.remove(self.client(data))

    @precondition(lambda self: any(client.instance_id for client in self.clients))
    @rule(data=st.data())
    def restart_static_member(self, data: st.DataObject) -> None:
        """It leaves for a moment, and is back with a new member id."""
        client = data.draw(st.sampled_from([client for client in self.clients if client.instance_id]))
        self.ask(ConsumerGroupHeartbeatRequest(GROUP, client.name, LEAVE_STATIC_EPOCH, client.instance_id))
        client.start_anew()
        client.name = self.new_name()
        if data.draw(st.booleans()):
            self.beat(client)

    @rule(milliseconds=st.sampled_from((1_000, 30_000, 44_000, 61_000)))
    def let_time_pass(self, milliseconds: int) -> None:
        self.desk.advance(milliseconds)

    @rule(name=st.sampled_from(TOPICS), more=st.integers(1, 3))
    def grow_topic(self, name: str, more: int) -> None:
        self.desk.change_topic(name, self.desk.topics.partitions_of(name) + more)

    @precondition(lambda self: self.desk.topics.names())
    @rule(data=st.data())
    def delete_topic(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.desk.topics.names())))
        self.desk.change_topic(name, 0)

    @rule()
    def restart_broker(self) -> None:
        self.desk.shard = self.desk.rebuilt()
        list(self.desk.shard.start_clocks(self.desk.now_ms))

    @invariant()
    def rebuilt_is_live(self) -> None:
        records = self.desk.records
        for key, value in records[self.mirrored :]:
            read: Any = decode(encode_key(key), None if value is None else encode_value(value))
            assert not isinstance(read, UnknownType)
            self.mirror.replay(read[0], read[1], self.desk.timestamp_ms)
        self.mirrored = len(records)
        assert persistent_state(self.mirror) == persistent_state(self.desk.shard)

    @invariant()
    def no_partition_has_two_owners(self) -> None:
        group = self.group
        if group is None:
            return
        owners: dict[tuple[bytes, int], str] = {}
        for member in group.members.values():
            assert member.epoch <= group.target_epoch <= group.epoch
            for topic, numbers in member.owns:
                for number in numbers:
                    assert (topic, number) not in owners
                    owners[topic, number] = member.member_id
        assert owners == {(topic, n): name for topic, of in group.owners.items() for n, name in of.items()}
        read: set[tuple[str, int]] = set()
        for client in self.clients:
            if client.name in group.members and group.members[client.name].epoch in (
                client.epoch,
                group.members[client.name].previous_epoch,
            ):
                assert not read & client.reads, f"{client.name} reads what another member reads"
                read |= client.reads

    def teardown(self) -> None:
        """At rest every partition of a topic that anybody subscribes to is read by one who subscribes to it."""
        for _ in range(24):  # 120 s: sessions of 45 s and revocations of 60 s end, those of the living do not
            for client in self.clients:
                client.reads &= client.assigned
                self.beat(client)
            self.desk.advance(5_000)
        group = self.group
        if group is None or not self.clients:
            assert group is None or group.state == "Empty"
            return
        assert group.state == "Stable"
        assert group.members.keys() == {client.name for client in self.clients}
        assert group.clocks.keys() == group.members.keys()
        assert group.resolved.keys() == {client.expression for client in self.clients if client.expression}
        reads = [(topic, number, client.name) for client in self.clients for topic, number in client.reads]
        wanted = {name: group.topics_of(member) for name, member in group.members.items()}
        for topic, number, name in reads:
            assert topic in wanted[name], f"{name} reads {topic}-{number}, and does not subscribe to it"
        topics = frozenset[str]().union(*wanted.values())
        assert sorted((topic, number) for topic, number, _ in reads) == sorted(
            (topic, number) for topic in topics for number in range(self.desk.topics.partitions_of(topic))
        )
        self.rebuilt_is_live()
        records = len(self.desk.records)
        for client in self.clients:
            self.beat(client)
        assert len(self.desk.records) == records, "a group at rest writes nothing"


TestGroups = pytest.mark.slow(Groups.TestCase)
TestGroups.settings = settings(max_examples=share(30, soak=60), stateful_step_count=30, deadline=None)

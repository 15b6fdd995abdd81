"""Consumers of the classic protocol, eager and cooperative, that may meet a group of either kind (KIP-848)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from headgate.gateway.coordinator.decision import Decision
from headgate.gateway.coordinator.groups.classic import requests
from headgate.gateway.coordinator.groups.tests.consumers import CALLER, GROUP, Client
from headgate.gateway.coordinator.groups.tests.groups import Desk, FakeTicket
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.internal import consumer_protocol
from headgate.protocol.internal.consumer_protocol import (
    PROTOCOL_TYPE,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
)
from headgate.protocol.messages.heartbeat import HeartbeatRequest
from headgate.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from headgate.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from headgate.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

SESSION_MS = 30_000
MUST_JOIN_AGAIN = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.FENCED_INSTANCE_ID)


class ClassicConsumer:
    """A client of one topic: it joins, leads if it is told so, syncs, and does what heartbeats say, a `step` at a time.

    An eager one gives up all before it joins; a cooperative one keeps what it has, gives up what it is not assigned
    any more, and joins again. The subscription of one that `is_short` has version 1 and the fields of version 0.
    """

    def __init__(
        self,
        desk: Desk,
        topic: str,
        *,
        cooperative: bool = True,
        version: int = 9,
        instance_id: str | None = None,
        protocol_type: str = PROTOCOL_TYPE,
        user_data: bytes | None = None,
        is_short: bool = False,
    ) -> None:
        self.desk = desk
        self.topic = topic
        self.is_short = is_short
        self.cooperative = cooperative
        self.version = version
        self.instance_id = instance_id
        self.protocol_type = protocol_type
        self.user_data = user_data
        self.member_id = ""
        self.generation = -1
        self.reads: set[int] = set()
        self.ticket: FakeTicket | None = None
        self.looked_at = 0  # of the desk's replies
        self.then: Callable[[Any], None] = self.joined

    @property
    def is_parked(self) -> bool:
        return self.ticket is not None

    def partitions(self, topic: str) -> set[int]:
        return self.reads

    def ask(self, decide: Callable[[FakeTicket], Decision]) -> Any:
        """The reply or the error; None if it is parked."""
        ticket = self.ticket = self.desk.ticket(self.member_id)
        self.looked_at = len(self.desk.replies)
        try:
            self.desk.run(decide(ticket), GROUP)
        except KafkaError as error:
            self.ticket = None
            return error
        self.desk.advance(0)
        return self.taken_reply()

    def taken_reply(self) -> Any:
        replies = self.desk.replies
        while self.looked_at < len(replies):
            ticket, reply = replies[self.looked_at]
            self.looked_at += 1
            if ticket is self.ticket:
                self.ticket = None
                return reply
        return None

    def taken(self) -> ErrorCode | None:
        """The error of the reply that has come by now to what was parked."""
        reply = self.taken_reply()
        return None if reply is None else code_of(reply)

    @property
    def request_context(self) -> Any:
        return CALLER._replace(version=self.version)

    def join(self) -> None:
        """JoinGroup; the reply may come later."""
        if not self.cooperative:
            self.reads = set()
        owned = [TopicPartition(self.topic, sorted(self.reads))] if self.reads else []
        subscription = ConsumerProtocolSubscription([self.topic], None, owned, self.generation)
        metadata = consumer_protocol.encode(subscription, 2)
        if self.is_short:
            metadata = b"\0\1" + consumer_protocol.encode(subscription, 0)[2:]
        request = JoinGroupRequest(
            GROUP,
            SESSION_MS,
            60_000,
            self.member_id,
            self.instance_id,
            self.protocol_type,
            [JoinGroupRequestProtocol("range", metadata)],
        )
        self.then = self.joined
        reply = self.ask(
            lambda ticket: requests.join(self.desk.shard, request, self.request_context, ticket, self.desk.now_ms)
        )
        if reply is not None:
            self.joined(reply)

    def joined(self, reply: Any) -> None:
        code = code_of(reply)
        if code is ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = reply.member_id
            self.join()
        elif code is ErrorCode.NONE:
            self.member_id, self.generation = reply.member_id, reply.generation_id
            leads = reply.leader == self.member_id and not reply.skip_assignment
            self.sync(self.assign(reply.members) if leads else [])
        elif code in MUST_JOIN_AGAIN:
            self.forget()

    def forget(self) -> None:
        self.member_id, self.generation, self.reads = "", -1, set()

    def assign(self, members: Sequence[Any]) -> list[SyncGroupRequestAssignment]:
        """As the leader: in turn, but nobody gets what another one still says that it has."""
        owned = {
            number: member.member_id
            for member in members
            for topic in consumer_protocol.decode_subscription(member.metadata).owned_partitions
            for number in topic.partitions
        }
        names = sorted(member.member_id for member in members)
        given: dict[str, list[int]] = {name: [] for name in names}
        for number in range(self.desk.topics.partitions_of(self.topic)):
            name = names[number % len(names)]
            if owned.get(number, name) == name:
                given[name].append(number)
        return [
            SyncGroupRequestAssignment(
                name,
                consumer_protocol.encode(
                    ConsumerProtocolAssignment([TopicPartition(self.topic, numbers)], self.user_data), 1
                ),
            )
            for name, numbers in given.items()
        ]

    def sync(self, assignments: list[SyncGroupRequestAssignment]) -> None:
        request = SyncGroupRequest(
            GROUP, self.generation, self.member_id, self.instance_id, self.protocol_type, "range", assignments
        )
        self.then = self.synced
        reply = self.ask(
            lambda ticket: requests.sync(self.desk.shard, request, CALLER._replace(version=5), ticket, self.desk.now_ms)
        )
        if reply is not None:
            self.synced(reply)

    def synced(self, reply: Any) -> None:
        code = code_of(reply)
        if code in MUST_JOIN_AGAIN:
            self.forget()
        if code is not ErrorCode.NONE:
            self.then = self.needs_join
            return
        assigned: set[int] = set()
        if reply.assignment:
            for topic in consumer_protocol.decode_assignment(reply.assignment).assigned_partitions:
                assigned.update(topic.partitions)
        lost = self.reads - assigned
        self.reads = assigned
        self.then = self.needs_join if lost and self.cooperative else self.heartbeat

    def needs_join(self, reply: Any = None) -> None:
        self.join()

    def heartbeat(self, reply: Any = None) -> None:
        request = HeartbeatRequest(GROUP, self.generation, self.member_id, self.instance_id)
        code = code_of(
            self.ask(
                lambda ticket: requests.heartbeat(
                    self.desk.shard, request, CALLER._replace(version=4), ticket, self.desk.now_ms
                )
            )
        )
        if code in MUST_JOIN_AGAIN:
            self.forget()
        if code is not ErrorCode.NONE:
            self.join()

    def step(self) -> None:
        """Go on with what has come, or send what is next."""
        if self.ticket is not None:
            reply = self.taken_reply()
            if reply is not None:
                self.then(reply)
        elif self.generation < 0 or not self.member_id or self.then == self.joined:
            self.join()
        else:
            (self.needs_join if self.then == self.needs_join else self.heartbeat)()

    def lose_connection(self) -> None:
        """The broker died: nobody answers what was asked of it."""
        if self.ticket is not None:
            self.ticket = None
            self.then = self.needs_join

    def leave(self) -> ErrorCode:
        request = LeaveGroupRequest(GROUP, "", [MemberIdentity(self.member_id, self.instance_id)])
        reply = self.ask(
            lambda ticket: requests.leave(
                self.desk.shard, request, CALLER._replace(version=5), ticket, self.desk.now_ms
            )
        )
        self.forget()
        return code_of(reply)

    def quit(self) -> None:
        if self.ticket is not None:
            self.ticket.hang_up()
        if self.member_id:
            self.leave()


def code_of(reply: Any) -> ErrorCode:
    return reply.code if isinstance(reply, KafkaError) else ErrorCode(reply.error_code)


def settle_all(desk: Desk, members: Sequence[Client | ClassicConsumer], rounds: int = 12) -> None:
    """Everybody in turn, with time between."""
    for _ in range(rounds):
        for _ in range(3):
            for member in members:
                member.step()
        desk.advance(3_000)

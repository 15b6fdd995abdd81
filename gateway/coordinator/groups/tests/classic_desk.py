"""Classic groups in pure tests: requests with defaults, and groups that are stable already.

    desk = ClassicDesk()
    members = desk.stable(3)
    asked = desk.heartbeat(members[0])
    assert asked.error is ErrorCode.NONE

A request returns an `Asked`, whose `reply` is None as long as its ticket is parked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from headgate.gateway.coordinator.decision import Decision, RequestContext
from headgate.gateway.coordinator.groups.classic import requests
from headgate.gateway.coordinator.groups.classic.group import GroupState
from headgate.gateway.coordinator.groups.classic.requests import ClassicGroup
from headgate.gateway.coordinator.groups.settings import GroupSettings
from headgate.gateway.coordinator.groups.tests.groups import CALLER, Desk, FakeTicket
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.internal.offsets import GroupMetadataValue
from headgate.protocol.messages.heartbeat import HeartbeatRequest
from headgate.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from headgate.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from headgate.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

SESSION_MS, REBALANCE_MS, DELAY_MS = 10_000, 60_000, 3_000
PROTOCOLS = {"range": b"wants"}


class Asked:
    """A request that was made."""

    def __init__(self, desk: ClassicDesk, ticket: FakeTicket) -> None:
        self.desk = desk
        self.ticket = ticket

    @property
    def replies(self) -> list[Any]:
        """All of them; more than one is an error of the machine."""
        return [reply for ticket, reply in self.desk.replies if ticket is self.ticket]

    @property
    def reply(self) -> Any:
        """The reply, or None."""
        replies = self.replies
        assert len(replies) <= 1
        return replies[0] if replies else None

    @property
    def is_parked(self) -> bool:
        """Whether it still waits."""
        return not self.replies

    @property
    def error(self) -> ErrorCode | None:
        """Its error code; None without a reply."""
        reply = self.reply
        if isinstance(reply, KafkaError):
            return reply.code
        return None if reply is None else ErrorCode(reply.error_code)


class Joined(NamedTuple):
    """A member as its client knows it."""

    member_id: str
    generation: int
    instance_id: str | None = None


class ClassicDesk(Desk):
    """A desk with one classic group that all requests are for."""

    def __init__(self, group_id: str = "group", **settings: Any) -> None:
        super().__init__(settings=replace(GroupSettings(initial_rebalance_delay_ms=0), **settings))
        self.group_id = group_id

    @property
    def group(self) -> ClassicGroup:
        """The group itself."""
        group = self.shard.groups[self.group_id]
        assert isinstance(group, ClassicGroup)
        return group

    def is_in(self, state: GroupState) -> bool:
        """Whether the group is in this state now."""
        return self.group.state is state

    @property
    def last(self) -> GroupMetadataValue:
        """The last record's value."""
        value = self.records[-1][1]
        assert isinstance(value, GroupMetadataValue)
        return value

    def ask(self, decide: Callable[[FakeTicket], Decision]) -> Asked:
        """Ask with a new ticket, and write what comes of it."""
        ticket = self.ticket()
        asked = Asked(self, ticket)
        self.run(decide(ticket), self.group_id)
        return asked

    def restart(self) -> None:
        """The broker dies; what it wrote is all that the next one knows."""
        random = self.shard.random
        self.shard = self.rebuilt()
        self.shard.random = random  # or it would give out the same ids again
        list(self.shard.start_clocks(self.now_ms))

    # Requests

    def joining(
        self,
        member_id: str = "",
        instance_id: str | None = None,
        protocols: Mapping[str, bytes] | Sequence[str] = PROTOCOLS,
        *,
        session_ms: int = SESSION_MS,
        rebalance_ms: int = REBALANCE_MS,
        protocol_type: str = "consumer",
        reason: str | None = None,
    ) -> JoinGroupRequest:
        """A JoinGroup."""
        named = protocols if isinstance(protocols, Mapping) else dict.fromkeys(protocols, b"wants")
        return JoinGroupRequest(
            self.group_id,
            session_ms,
            rebalance_ms,
            member_id,
            instance_id,
            protocol_type,
            [JoinGroupRequestProtocol(name, metadata) for name, metadata in named.items()],
            reason,
        )

    def decide_join(self, ticket: FakeTicket, *arguments: Any, version: int = 9, **fields: Any) -> Decision:
        """What a JoinGroup comes to, before it is written."""
        request_context = CALLER._replace(version=version)
        return requests.join(self.shard, self.joining(*arguments, **fields), request_context, ticket, self.now_ms)

    def join(self, *arguments: Any, version: int = 9, **fields: Any) -> Asked:
        """JoinGroup, with the arguments of `joining`."""
        return self.ask(lambda ticket: self.decide_join(ticket, *arguments, version=version, **fields))

    def enter(self, instance_id: str | None = None, *arguments: Any, **fields: Any) -> tuple[str, Asked]:
        """Join as a client does: ask for an id first, unless one has an instance id."""
        if instance_id is not None:
            asked = self.join("", instance_id, *arguments, **fields)
            return self.group.members.by_instance[instance_id], asked
        asked = self.join("", None, *arguments, **fields)
        assert asked.error is ErrorCode.MEMBER_ID_REQUIRED
        member_id = asked.reply.member_id
        return member_id, self.join(member_id, None, *arguments, **fields)

    def decide_sync(
        self,
        ticket: FakeTicket,
        member: Joined,
        assignments: Mapping[str, bytes] | None = None,
        version: int = 5,
        protocol: tuple[str | None, str | None] = ("consumer", "range"),
    ) -> Decision:
        """What a SyncGroup comes to, before it is written."""
        given = [SyncGroupRequestAssignment(*each) for each in (assignments or {}).items()]
        member_id, generation, instance_id = member
        request = SyncGroupRequest(self.group_id, generation, member_id, instance_id, *protocol, given)
        return requests.sync(self.shard, request, RequestContext("client", "/h", version), ticket, self.now_ms)

    def sync(self, member: Joined, *arguments: Any, **fields: Any) -> Asked:
        """SyncGroup."""
        return self.ask(lambda ticket: self.decide_sync(ticket, member, *arguments, **fields))

    def heartbeat(self, member: Joined, version: int = 4) -> Asked:
        """Heartbeat."""
        request = HeartbeatRequest(self.group_id, member.generation, member.member_id, member.instance_id)
        request_context = RequestContext("client", "/h", version)
        return self.ask(lambda ticket: requests.heartbeat(self.shard, request, request_context, ticket, self.now_ms))

    def leave(self, *members: MemberIdentity | str, version: int = 5) -> Asked:
        """LeaveGroup; before v3 the first of them."""
        named = [MemberIdentity(each) if isinstance(each, str) else each for each in members]
        request = LeaveGroupRequest(self.group_id, named[0].member_id, named)
        request_context = RequestContext("client", "/h", version)
        return self.ask(lambda ticket: requests.leave(self.shard, request, request_context, ticket, self.now_ms))

    # Groups

    def stable(self, count: int = 1, instances: Sequence[str] = (), **fields: Any) -> list[Joined]:
        """A stable group: dynamic members first, then static ones. Each has its place in the list as its assignment."""
        shard_settings = self.shard.settings
        self.shard.settings = replace(shard_settings, initial_rebalance_delay_ms=DELAY_MS)
        names = [*[None] * count, *instances]
        entered = [self.enter(instance_id, **fields) for instance_id in names]
        self.advance(2 * DELAY_MS)
        self.shard.settings = shard_settings
        members = [
            Joined(member_id, asked.reply.generation_id, instance_id)
            for (member_id, asked), instance_id in zip(entered, names, strict=True)
        ]
        self.assign(members)
        return members

    def assign(self, members: Sequence[Joined]) -> list[Asked]:
        """All of them sync, the leader last; each gets its place in the list."""
        given = {member.member_id: b"%d" % place for place, member in enumerate(members)}
        leaders = [member for member in members if member.member_id == self.group.leader]
        others = [member for member in members if member.member_id != self.group.leader]
        protocol = self.group.protocol_type, self.group.protocol
        asked = {member: self.sync(member, given, protocol=protocol) for member in [*others, *leaders]}
        return [asked[member] for member in members]

    def rejoin(self, members: Sequence[Joined], **fields: Any) -> list[Asked]:
        """All of them join again."""
        return [self.join(member.member_id, member.instance_id, **fields) for member in members]

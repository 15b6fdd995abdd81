"""A classic group: its generation, its members, and the checks of requests.

    Empty --join--> PreparingRebalance --all joined, or too late--> CompletingRebalance --leader's SyncGroup--> Stable
      ^                |          ^                                         |                                      |
      +---all left-----+          +------------join, leave, expiry, lost leader------------------------------------+

Hard is what the last record says (`GroupMetadataValue`): written when the leader has assigned, when the last member
has left, when a static member is replaced, and once for a new group. Between two records everything is soft: who is
joining, the generation that is being made, the assignments that are awaited. A restart in the middle of a rebalance
finds the generation before it; its members hear of that at their next request, and rebalance again.

The state is left by decisions, before anything is written; it becomes Stable by the replay of the leader's assignment
alone. So a failed append leaves a group that still waits for its leader.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Collection

from headgate.gateway.coordinator.decision import NEVER, Decision, Records
from headgate.gateway.coordinator.groups.classic.members import Member, Members
from headgate.gateway.coordinator.groups.group_shard import GroupShard
from headgate.protocol.errors import ErrorCode, KafkaError, MalformedRequest
from headgate.protocol.internal import consumer_protocol
from headgate.protocol.internal.offsets import GroupMetadataKey, GroupMetadataValue
from headgate.protocol.messages.describe_groups import DescribedGroup, DescribedGroupMember
from headgate.protocol.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from headgate.protocol.messages.sync_group import SyncGroupResponse

MAX_PENDING = 10_000
PENDING_MS = 1_000
"""Ids lapse together, at whole seconds: each time, all of them are looked at."""
LOG_LINES, LOG_INTERVAL_MS = 20, 10_000


class State(enum.StrEnum):
    """Where a group is, by the names that Kafka's tools show."""

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


REBALANCING = (State.PREPARING, State.COMPLETING)
"""No record ever has one of these."""


class ClassicGroup:
    """One group. Requests and time come in by `requests.py` and `rebalance.py`, records by `replay`.

    pending          ids that were given out and not yet joined with (KIP-394) -> when they lapse
    pending_sync     members of the generation that have not yet sent SyncGroup
    join_due_ms, sync_due_ms   when the rebalance goes on without the missing members
    is_initial       the first rebalance of an empty group, which waits a while for more members
    arriving         members that the next record will bring, with the state that the record lacks
    """

    __slots__ = (
        "_log_begun_ms",
        "_log_lines",
        "_topics",
        "arriving",
        "due_ms",
        "generation",
        "group_id",
        "is_fresh",
        "is_initial",
        "join_due_ms",
        "leader",
        "members",
        "newcomers",
        "pending",
        "pending_sync",
        "protocol",
        "protocol_type",
        "recorded",
        "remaining_delay_ms",
        "state",
        "state_timestamp_ms",
        "sync_due_ms",
    )

    kind = "classic"

    def __init__(self, group_id: str, state_timestamp_ms: int = -1) -> None:
        self.group_id = group_id
        self.state = State.EMPTY
        self.state_timestamp_ms = state_timestamp_ms
        self.generation = 0
        self.protocol_type = ""
        self.protocol: str | None = None
        self.leader: str | None = None
        self.members = Members()
        self.recorded: GroupMetadataValue | None = None
        self.pending: dict[str, float] = {}
        self.pending_sync: set[str] = set()
        self.arriving: dict[str, Member] = {}
        self.due_ms = self.join_due_ms = self.sync_due_ms = NEVER
        self.is_initial = self.newcomers = self.is_fresh = False
        self.remaining_delay_ms = 0.0
        self._log_begun_ms, self._log_lines = -NEVER, 0
        self._topics: tuple[object, frozenset[str] | None] = (None, None)

    # Hard state

    def persistent_state(self) -> object:
        """The last record; None for a group that has offsets only."""
        return self.recorded

    def replay(self, value: GroupMetadataValue) -> None:
        """Take the state of the record. Known members keep what the record lacks: deadlines, tickets."""
        self.recorded = value
        if not value.members and self.state in REBALANCING and len(self.members):
            return  # the record of a new group, whose first member joined in the same decision
        protocol = value.protocol or ""
        members = []
        for record in value.members:
            member = self.members.by_id.get(record.member_id) or self.arriving.get(record.member_id)
            if member is None:
                member = Member(record.member_id, None, "", "", 0, 0, {})
                self.is_fresh, self.due_ms = True, -NEVER
            member.set_recorded(record, protocol)
            members.append(member)
        self.members.reset(members)
        self.arriving = {}
        self.generation, self.leader = value.generation, value.leader
        self.protocol_type, self.protocol = value.protocol_type, value.protocol
        self.state_timestamp_ms = value.current_state_timestamp
        self.state = State.STABLE if members else State.EMPTY
        self.pending_sync &= self.members.by_id.keys()
        if not self.pending_sync:
            self.sync_due_ms = NEVER

    def record(
        self, timestamp_ms: int, assignments: dict[str, bytes] | None = None
    ) -> tuple[GroupMetadataKey, GroupMetadataValue]:
        """The record of the present group, with these assignments, or with its present ones."""
        members = [
            member.record(
                self.protocol or "",
                member.assignment if assignments is None else assignments.get(member.member_id, b""),
            )
            for member in self.members
        ]
        value = GroupMetadataValue(
            self.protocol_type, self.generation, self.protocol, self.leader, timestamp_ms, members
        )
        return GroupMetadataKey(self.group_id), value

    def tombstones(self) -> Records:
        """The records that delete the group."""
        return [(GroupMetadataKey(self.group_id), None)]

    # Time

    def loaded(self, now_ms: float) -> None:
        """Start the sessions of members that a record brought; the first tick checks the size of the group."""
        for member in self.members:
            if member.deadline_ms == NEVER and member.join is None and member.sync is None:
                member.begin_session(now_ms)
        self.due_ms = now_ms if self.is_fresh and len(self.members) else self.next_due_ms()

    def next_due_ms(self) -> float:
        """The earliest moment at which something ends."""
        sessions = min((member.deadline_ms for member in self.members), default=NEVER)
        return min(sessions, min(self.pending.values(), default=NEVER), self.join_due_ms, self.sync_due_ms)

    def wake_at(self, when_ms: float) -> None:
        """A tick is wanted then, or sooner."""
        self.due_ms = min(self.due_ms, when_ms)

    def tick(self, shard: GroupShard, now_ms: float) -> Decision:
        """See `classic.tick`."""
        from headgate.gateway.coordinator.groups.classic import requests

        return requests.tick(shard, self, now_ms)

    def topics_changed(self, shard: GroupShard, names: Collection[str], now_ms: float) -> Decision:
        """The members look after topics by themselves."""
        return Decision()

    # Soft state

    def move_to(self, state: State, timestamp_ms: int) -> None:
        """Change the state."""
        self.state, self.state_timestamp_ms = state, timestamp_ms

    def add_pending(self, member_id: str, lapses_ms: float) -> None:
        """Somebody was told to come back with this id. The oldest makes room if there are very many."""
        lapses_ms = math.ceil(lapses_ms / PENDING_MS) * PENDING_MS
        if len(self.pending) >= MAX_PENDING:
            del self.pending[next(iter(self.pending))]
        self.pending[member_id] = lapses_ms
        self.wake_at(lapses_ms)

    def add(self, member: Member) -> None:
        """A member, which is the leader if there is none."""
        self.pending.pop(member.member_id, None)
        self.members.add(member)
        self.leader = self.leader or member.member_id

    def remove(self, member_id: str) -> Member:
        """Take a member away. Another one leads if that one did."""
        self.pending_sync.discard(member_id)
        member = self.members.remove(member_id)
        if self.leader == member_id:
            self.leader = next(iter(self.members.by_id), None)
        return member

    def replace(self, old: Member, new: Member) -> None:
        """The next life of a static member takes the place of the last one, whose tickets are answered."""
        self.pending_sync.discard(old.member_id)
        self.members.replace(old, new)
        if self.leader == old.member_id:
            self.leader = new.member_id

    def protocol_with(self, old: Member, new: Member) -> str:
        """The protocol that would be selected if one member took the place of another."""
        leader = new.member_id if self.leader == old.member_id else self.leader
        self.members.replace(old, new)
        selected = self.members.select_protocol(leader or "")
        self.members.replace(new, old)
        return selected

    def may_log(self, now_ms: float) -> bool:
        """Whether one more line may be logged now: clients must not be able to fill a disk."""
        if now_ms - self._log_begun_ms >= LOG_INTERVAL_MS:
            self._log_begun_ms, self._log_lines = now_ms, 0
        self._log_lines += 1
        return self._log_lines <= LOG_LINES

    # Checks and views

    def check_commit(
        self, member_id: str, instance_id: str | None, generation: int, version: int, now_ms: float
    ) -> None:
        """Whether offsets may be committed by that member, or by nobody in particular (generation -1)."""
        if generation < 0 and self.state is State.EMPTY:
            return
        if generation < 0 and not member_id and instance_id is None:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"group {self.group_id} has members: only they may commit")
        self._check_member(member_id, instance_id, generation)
        if self.state is State.COMPLETING:
            raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS)
        self.wake_at(self.members.by_id[member_id].begin_session(now_ms))

    def check_transactional_commit(self, member_id: str, instance_id: str | None, generation: int) -> None:
        """A rebalance does not matter; old producers name no member (KIP-447)."""
        if generation < 0 and (self.state is State.EMPTY or (not member_id and instance_id is None)):
            return
        self._check_member(member_id, instance_id, generation)

    def _check_member(self, member_id: str, instance_id: str | None, generation: int) -> None:
        code = self.members.check(member_id, instance_id)
        if code is not ErrorCode.NONE:
            raise KafkaError(code)
        if generation != self.generation:
            raise KafkaError(ErrorCode.ILLEGAL_GENERATION)

    def check_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Everybody may fetch."""

    def check_delete(self) -> None:
        """Raises NON_EMPTY_GROUP while it has members or is about to."""
        if self.state is not State.EMPTY:
            raise KafkaError(
                ErrorCode.NON_EMPTY_GROUP, f"group {self.group_id} is {self.state}: stop its members first"
            )

    def check_offset_delete(self) -> None:
        """Only of consumers is it known which topics they use; of others all offsets stay while they are there."""
        if self.protocol_type != consumer_protocol.PROTOCOL_TYPE:
            self.check_delete()

    def subscribes_to(self, topic: str) -> bool:
        """Whether a member does; if consumers do not say it in a way that is understood, every topic is used."""
        if self.protocol_type != consumer_protocol.PROTOCOL_TYPE:
            return False
        topics = self.topics()
        return topics is None or topic in topics

    def expires_from(self, committed_ms: int) -> int | None:
        """KIP-211: since it is empty; for consumers and offsets without members since the commit; else never."""
        if not self.protocol_type:
            return committed_ms
        if self.state is State.EMPTY:
            return committed_ms if self.state_timestamp_ms < 0 else self.state_timestamp_ms
        is_known = self.protocol_type == consumer_protocol.PROTOCOL_TYPE and self.topics() is not None
        return committed_ms if is_known and self.state is State.STABLE else None

    def topics(self) -> frozenset[str] | None:
        """Those that the members of the last record read; None if that cannot be told."""
        if len(self.members) and not (self.recorded and self.recorded.members):
            return None  # the first rebalance
        if self._topics[0] is not self.recorded:
            self._topics = self.recorded, self._read_topics()
        return self._topics[1]

    def _read_topics(self) -> frozenset[str] | None:
        names: set[str] = set()
        try:
            for member in self.recorded.members if self.recorded else ():
                names.update(consumer_protocol.decode_subscription(member.subscription).topics)
        except MalformedRequest:
            return None
        return frozenset(names)

    def describe(self) -> DescribedGroup:
        """The row of DescribeGroups: metadata and protocol while it is stable, as Kafka shows it."""
        stable = self.state is State.STABLE
        protocol = self.protocol or ""
        return DescribedGroup(
            ErrorCode.NONE,
            None,
            self.group_id,
            self.state,
            self.protocol_type,
            protocol if stable else "",
            [
                DescribedGroupMember(
                    member.member_id,
                    member.instance_id,
                    member.client_id,
                    member.client_host,
                    member.protocols[protocol] if stable else b"",
                    member.assignment,
                )
                for member in self.members
            ],
        )

    # Replies

    def joined(self, member_id: str) -> JoinGroupResponse:
        """The JoinGroup response for a member of the present generation: the leader gets all members."""
        protocol = self.protocol or ""
        return JoinGroupResponse(
            generation_id=self.generation,
            protocol_type=self.protocol_type,
            protocol_name=protocol,
            leader=self.leader or "",
            member_id=member_id,
            members=[
                JoinGroupResponseMember(member.member_id, member.instance_id, member.protocols[protocol])
                for member in (self.members if member_id == self.leader else ())
            ],
        )

    def synced(self, assignment: bytes) -> SyncGroupResponse:
        """The SyncGroup response for a member of the present generation: its assignment."""
        return SyncGroupResponse(protocol_type=self.protocol_type, protocol_name=self.protocol, assignment=assignment)


def join_refused(code: ErrorCode, member_id: str, version: int) -> JoinGroupResponse:
    """The reply to a JoinGroup that does not come to a generation."""
    return JoinGroupResponse(error_code=code, protocol_name=None if version >= 7 else "", member_id=member_id)


def replay(shard: GroupShard, key: GroupMetadataKey, value: GroupMetadataValue | None) -> None:
    """One record of a classic group. It may follow those of a consumer group of the same name (KIP-848)."""
    group = shard.groups.get(key.group)
    if value is None:
        if isinstance(group, ClassicGroup):
            group.state = State.DEAD
            del shard.groups[key.group]
        return
    if not isinstance(group, ClassicGroup):
        group = shard.groups[key.group] = ClassicGroup(key.group)
    group.replay(value)

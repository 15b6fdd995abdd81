"""A classic group: its generation, its members, and the checks of requests.

    Empty --join--> PreparingRebalance --all joined, or too late--> CompletingRebalance --leader's SyncGroup--> Stable
      ^                |          ^                                         |                                      |
      +---all left-----+          +------------join, leave, expiry, lost leader------------------------------------+

The last record (`GroupMetadataValue`) is the hard state. The group writes a record when the leader has assigned, when
the last member has left, when a static member is replaced, and once for a new group. Between two records everything is
soft: the joining members, the next generation, the awaited assignments. A restart in the middle of a rebalance restores
the generation before; its members get an error for their next request, and rebalance again.

Decisions leave a state before anything is written. Only the replay of the leader's assignment makes the group Stable:
so a failed append leaves a group that still waits for its leader.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Collection

from headgate.gateway.coordinator.decision import NEVER, Decision, Records
from headgate.gateway.coordinator.groups.classic.members import ClassicMember, ClassicMembers
from headgate.gateway.coordinator.groups.group_shard import GroupShard
from headgate.protocol.errors import ErrorCode, KafkaError, MalformedRequest
from headgate.protocol.internal import consumer_protocol
from headgate.protocol.internal.offsets import GroupMetadataKey, GroupMetadataValue
from headgate.protocol.messages.describe_groups import DescribedGroup, DescribedGroupMember
from headgate.protocol.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from headgate.protocol.messages.sync_group import SyncGroupResponse

MAX_PENDING = 10_000
PENDING_MS = 1_000
"""Ids expire together, at whole seconds: each expiry scans all of them."""
LOG_LINES, LOG_INTERVAL_MS = 20, 10_000


class GroupState(enum.StrEnum):
    """The state of a group, by the names in Kafka's tools."""

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


REBALANCING = (GroupState.PREPARING, GroupState.COMPLETING)
"""States that no record ever has."""


class InitialWait(enum.Enum):
    """The wait of an empty group's first rebalance for more members."""

    NONE = enum.auto()
    QUIET = enum.auto()
    GROWING = enum.auto()
    """Members have joined since the last extension of the wait."""


class ClassicGroup:
    """One classic group. `requests.py` and `rebalance.py` change its soft state, `replay` its hard state.

    pending          ids without a JoinGroup so far (KIP-394) -> the time of their expiry
    pending_sync     members of the generation that have not yet sent SyncGroup
    join_due_ms, sync_due_ms   the time at which the rebalance continues without the missing members
    arriving         members that the next record adds, with the state that the record lacks
    """

    __slots__ = (
        "_log_begun_ms",
        "_log_lines",
        "_topics",
        "arriving",
        "due_ms",
        "generation",
        "group_id",
        "has_replayed_members",
        "initial_wait",
        "join_due_ms",
        "leader",
        "members",
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
        self.state = GroupState.EMPTY
        self.state_timestamp_ms = state_timestamp_ms
        self.generation = 0
        self.protocol_type = ""
        self.protocol: str | None = None
        self.leader: str | None = None
        self.members = ClassicMembers()
        self.recorded: GroupMetadataValue | None = None
        self.pending: dict[str, float] = {}
        self.pending_sync: set[str] = set()
        self.arriving: dict[str, ClassicMember] = {}
        self.due_ms = self.join_due_ms = self.sync_due_ms = NEVER
        self.initial_wait = InitialWait.NONE
        self.has_replayed_members = False
        self.remaining_delay_ms = 0.0
        self._log_begun_ms, self._log_lines = -NEVER, 0
        self._topics: tuple[object, frozenset[str] | None] = (None, None)

    # Hard state

    def replay(self, value: GroupMetadataValue) -> None:
        """Apply a record. Known members keep the state that the record lacks: deadlines, tickets."""
        self.recorded = value
        if not value.members and self.state in REBALANCING and len(self.members):
            return  # the record of a new group; the first member joined in the same decision
        protocol = value.protocol or ""
        members = []
        for record in value.members:
            member = self.members.by_id.get(record.member_id) or self.arriving.get(record.member_id)
            if member is None:
                member = ClassicMember(record.member_id, None, "", "", 0, 0, {})
                self.has_replayed_members, self.due_ms = True, -NEVER
            member.set_recorded(record, protocol)
            members.append(member)
        self.members.reset(members)
        self.arriving = {}
        self.generation, self.leader = value.generation, value.leader
        self.protocol_type, self.protocol = value.protocol_type, value.protocol
        self.state_timestamp_ms = value.current_state_timestamp
        self.state = GroupState.STABLE if members else GroupState.EMPTY
        self.pending_sync &= self.members.by_id.keys()
        if not self.pending_sync:
            self.sync_due_ms = NEVER

    def record(
        self, timestamp_ms: int, assignments: dict[str, bytes] | None = None
    ) -> tuple[GroupMetadataKey, GroupMetadataValue]:
        """The record of the present group, with these assignments or the present ones."""
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
        return [(GroupMetadataKey(self.group_id), None)]

    # Time

    def loaded(self, now_ms: float) -> None:
        """Start the sessions of replayed members; the first tick checks the size of the group."""
        for member in self.members:
            if member.deadline_ms == NEVER and member.join is None and member.sync is None:
                member.begin_session(now_ms)
        self.due_ms = now_ms if self.has_replayed_members and len(self.members) else self.next_due_ms()

    def next_due_ms(self) -> float:
        """The earliest deadline: of a session, a pending id, or a half of a rebalance."""
        sessions = min((member.deadline_ms for member in self.members), default=NEVER)
        return min(sessions, min(self.pending.values(), default=NEVER), self.join_due_ms, self.sync_due_ms)

    def wake_at(self, when_ms: float) -> None:
        """Have the group ticked at this time or earlier."""
        self.due_ms = min(self.due_ms, when_ms)

    def topics_changed(self, shard: GroupShard, names: Collection[str], now_ms: float) -> Decision:
        """Do nothing: the members of a classic group watch topics themselves."""
        return Decision()

    # Soft state

    def move_to(self, state: GroupState, timestamp_ms: int) -> None:
        """Enter a state."""
        self.state, self.state_timestamp_ms = state, timestamp_ms

    def add_pending(self, member_id: str, expires_ms: float) -> None:
        """Expect a JoinGroup with this id. Beyond `MAX_PENDING` ids the oldest is forgotten."""
        expires_ms = math.ceil(expires_ms / PENDING_MS) * PENDING_MS
        if len(self.pending) >= MAX_PENDING:
            del self.pending[next(iter(self.pending))]
        self.pending[member_id] = expires_ms
        self.wake_at(expires_ms)

    def add(self, member: ClassicMember) -> None:
        """Add a member; the first becomes the leader."""
        self.pending.pop(member.member_id, None)
        self.members.add(member)
        self.leader = self.leader or member.member_id

    def remove(self, member_id: str) -> ClassicMember:
        """Remove a member. If the member led, another one becomes the leader."""
        self.pending_sync.discard(member_id)
        member = self.members.remove(member_id)
        if self.leader == member_id:
            self.leader = next(iter(self.members.by_id), None)
        return member

    def replace(self, old: ClassicMember, new: ClassicMember) -> None:
        """Replace a static member by its restarted instance; the old member's tickets are answered already."""
        self.pending_sync.discard(old.member_id)
        self.members.replace(old, new)
        if self.leader == old.member_id:
            self.leader = new.member_id

    def protocol_with(self, old: ClassicMember, new: ClassicMember) -> str:
        """The protocol that the group would select with one member in the place of another."""
        leader = new.member_id if self.leader == old.member_id else self.leader
        self.members.replace(old, new)
        selected = self.members.select_protocol(leader or "")
        self.members.replace(new, old)
        return selected

    def may_log(self, now_ms: float) -> bool:
        """Whether one more line may be logged now: clients must not fill a disk with log lines."""
        if now_ms - self._log_begun_ms >= LOG_INTERVAL_MS:
            self._log_begun_ms, self._log_lines = now_ms, 0
        self._log_lines += 1
        return self._log_lines <= LOG_LINES

    # Checks and views

    def check_commit(
        self, member_id: str, instance_id: str | None, generation: int, version: int, now_ms: float
    ) -> None:
        """Check that the member, or a client without membership (generation -1), may commit offsets.

        Raises KafkaError: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION, REBALANCE_IN_PROGRESS.
        """
        if generation < 0 and self.state is GroupState.EMPTY:
            return
        if generation < 0 and not member_id and instance_id is None:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"group {self.group_id} has members: only they may commit")
        self._check_member(member_id, instance_id, generation)
        if self.state is GroupState.COMPLETING:
            raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS)
        self.wake_at(self.members.by_id[member_id].begin_session(now_ms))

    def check_transactional_commit(self, member_id: str, instance_id: str | None, generation: int) -> None:
        """A rebalance does not matter; old producers name no member (KIP-447)."""
        if generation < 0 and (self.state is GroupState.EMPTY or (not member_id and instance_id is None)):
            return
        self._check_member(member_id, instance_id, generation)

    def _check_member(self, member_id: str, instance_id: str | None, generation: int) -> None:
        code = self.members.check(member_id, instance_id)
        if code is not ErrorCode.NONE:
            raise KafkaError(code)
        if generation != self.generation:
            raise KafkaError(ErrorCode.ILLEGAL_GENERATION)

    def check_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Allow everyone to fetch."""

    def check_delete(self) -> None:
        """Raises NON_EMPTY_GROUP while the group has or awaits members."""
        if self.state is not GroupState.EMPTY:
            raise KafkaError(
                ErrorCode.NON_EMPTY_GROUP, f"group {self.group_id} is {self.state}: stop its members first"
            )

    def check_offset_delete(self) -> None:
        """Allow the deletion for consumers, whose topics are known; for other members while the group is empty."""
        if self.protocol_type != consumer_protocol.PROTOCOL_TYPE:
            self.check_delete()

    def subscribes_to(self, topic: str) -> bool:
        """Whether a member subscribes to the topic; true for every topic if a subscription is unreadable."""
        if self.protocol_type != consumer_protocol.PROTOCOL_TYPE:
            return False
        topics = self.topics()
        return topics is None or topic in topics

    def expires_from(self, committed_ms: int) -> int | None:
        """The start of the retention (KIP-211): the time of becoming empty.

        For stable consumers and for offsets without members it is the commit; None in all other states.
        """
        if not self.protocol_type:
            return committed_ms
        if self.state is GroupState.EMPTY:
            return committed_ms if self.state_timestamp_ms < 0 else self.state_timestamp_ms
        is_known = self.protocol_type == consumer_protocol.PROTOCOL_TYPE and self.topics() is not None
        return committed_ms if is_known and self.state is GroupState.STABLE else None

    def topics(self) -> frozenset[str] | None:
        """The topics in the subscriptions of the last record's members; None if unknown."""
        if len(self.members) and not (self.recorded and self.recorded.members):
            return None  # the first rebalance
        if self._topics[0] is not self.recorded:
            self._topics = self.recorded, self._read_topics()
        return self._topics[1]

    def _read_topics(self) -> frozenset[str] | None:
        names: set[str] = set()
        try:
            for member in self.recorded.members if self.recorded else ():
                names.update(consumer_protocol.decode_topics(member.subscription))
        except MalformedRequest:
            return None
        return frozenset(names)

    def describe(self) -> DescribedGroup:
        """The row of DescribeGroups, with metadata and protocol only while the group is stable, as in Kafka."""
        stable = self.state is GroupState.STABLE
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
        """The JoinGroup response for a member of the present generation; the leader's lists all members."""
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
        """The SyncGroup response for a member of the present generation, with its assignment."""
        return SyncGroupResponse(protocol_type=self.protocol_type, protocol_name=self.protocol, assignment=assignment)


def join_refused(code: ErrorCode, member_id: str, version: int) -> JoinGroupResponse:
    """The reply to a refused JoinGroup."""
    return JoinGroupResponse(error_code=code, protocol_name=None if version >= 7 else "", member_id=member_id)


def replay(shard: GroupShard, key: GroupMetadataKey, value: GroupMetadataValue | None) -> None:
    """Replay one record of a classic group. Records of a consumer group of the same name may precede it (KIP-848)."""
    group = shard.groups.get(key.group)
    if value is None:
        if isinstance(group, ClassicGroup):
            group.state = GroupState.DEAD
            del shard.groups[key.group]
        return
    if not isinstance(group, ClassicGroup):
        group = shard.groups[key.group] = ClassicGroup(key.group)
    group.replay(value)

"""The members of a classic group, with counts over all of them.

Each request of a rebalance asks whether all members have joined and which protocols all of them share. Counts give both
answers, so a rebalance of n members costs O(n), not O(n * n).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from headgate.gateway.coordinator.decision import NEVER, Ticket
from headgate.gateway.coordinator.groups.settings import MAX_NAME_BYTES
from headgate.protocol.errors import ErrorCode
from headgate.protocol.internal.offsets import MemberMetadata
from headgate.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol

# The cost of a protocol besides its bytes: very many empty protocols must not be free.
_PROTOCOL_OVERHEAD_BYTES = 128


class ClassicMember:
    """One member: its description, its assignment, and its requests that wait for a reply.

    protocols      name -> metadata, in the member's order of preference
    deadline_ms    the end of the session; NEVER while the member waits for a reply, or before the session starts
    is_new         true before the member's first generation: until then it sends no heartbeats
    join, sync     waiting tickets; `join_version` is the version of the JoinGroup request
    """

    __slots__ = (
        "assignment",
        "client_host",
        "client_id",
        "deadline_ms",
        "instance_id",
        "is_new",
        "join",
        "join_version",
        "member_id",
        "protocols",
        "rebalance_timeout_ms",
        "session_timeout_ms",
        "sync",
    )

    def __init__(
        self,
        member_id: str,
        instance_id: str | None,
        client_id: str,
        client_host: str,
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
        protocols: dict[str, bytes],
    ) -> None:
        self.member_id = member_id
        self.instance_id = instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.session_timeout_ms = session_timeout_ms
        self.protocols = protocols
        self.assignment = b""
        self.deadline_ms = NEVER
        self.is_new = False
        self.join: Ticket | None = None
        self.join_version = 0
        self.sync: Ticket | None = None

    def begin_session(self, now_ms: float) -> float:
        """Start a session at `now_ms`; return its deadline."""
        self.deadline_ms = now_ms + self.session_timeout_ms
        return self.deadline_ms

    def record(self, protocol: str, assignment: bytes) -> MemberMetadata:
        """The member's part of the group's record, in a generation with that protocol."""
        return MemberMetadata(
            self.member_id,
            self.instance_id,
            self.client_id,
            self.client_host,
            self.rebalance_timeout_ms,
            self.session_timeout_ms,
            self.protocols[protocol],
            assignment,
        )

    def set_recorded(self, record: MemberMetadata, protocol: str) -> None:
        """Apply the member's part of a record. The record has one protocol; the others stay if its bytes are equal."""
        if self.protocols.get(protocol) != record.subscription:
            self.protocols = {protocol: record.subscription}
        self.instance_id = record.group_instance_id
        self.client_id, self.client_host = record.client_id, record.client_host
        self.session_timeout_ms = record.session_timeout
        self.rebalance_timeout_ms = record.session_timeout if record.rebalance_timeout < 0 else record.rebalance_timeout
        self.assignment = record.assignment

    def has_long_name(self) -> bool:
        """Whether a name is too long for the record of a classic group."""
        names = (self.member_id, self.instance_id or "", self.client_id, *self.protocols)
        return any(len(name) * 4 > MAX_NAME_BYTES < len(name.encode()) for name in names)

    def stored_bytes(self) -> int:
        """The approximate memory of the member: ids and protocols with their metadata, without its assignment."""
        texts = (self.member_id, self.instance_id or "", self.client_id, self.client_host)
        names = sum(len(name.encode()) + _PROTOCOL_OVERHEAD_BYTES for name in self.protocols)
        return sum(len(text.encode()) for text in texts) + names + sum(map(len, self.protocols.values()))


def protocols_of(protocols: Sequence[JoinGroupRequestProtocol]) -> dict[str, bytes]:
    """Protocols by name, in the order of the request; the first of equal names counts."""
    kept: dict[str, bytes] = {}
    for protocol in protocols:
        kept.setdefault(str(protocol.name), bytes(protocol.metadata))
    return kept


def new_member(
    member_id: str, request: JoinGroupRequest, client_id: str, client_host: str, version: int
) -> ClassicMember:
    """A member as described by its JoinGroup."""
    protocols = protocols_of(request.protocols)
    instance_id, session_ms = request.group_instance_id, request.session_timeout_ms
    rebalance_ms = rebalance_timeout_ms(request, version)
    return ClassicMember(member_id, instance_id, client_id, client_host, rebalance_ms, session_ms, protocols)


def rebalance_timeout_ms(request: JoinGroupRequest, version: int) -> int:
    """How long the others wait for the member to join. v0 has the session timeout alone (KIP-62)."""
    unsaid = version == 0 or request.rebalance_timeout_ms < 0
    return request.session_timeout_ms if unsaid else request.rebalance_timeout_ms


class ClassicMembers:
    """All members, in the order in which they joined. Only this class changes protocols, join tickets, membership."""

    __slots__ = ("_supported", "by_id", "by_instance", "joining")

    def __init__(self) -> None:
        self.by_id: dict[str, ClassicMember] = {}
        self.by_instance: dict[str, str] = {}
        self.joining = 0  # the number of members that wait for the reply to a JoinGroup
        self._supported: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self.by_id)

    def __iter__(self) -> Iterator[ClassicMember]:
        return iter(self.by_id.values())

    @property
    def all_joined(self) -> bool:
        """Whether all members wait for the next generation; also true without members."""
        return self.joining == len(self.by_id)

    def add(self, member: ClassicMember) -> None:
        self.by_id[member.member_id] = member
        if member.instance_id is not None:
            self.by_instance[member.instance_id] = member.member_id
        self._count(member, 1)
        self.joining += member.join is not None

    def remove(self, member_id: str) -> ClassicMember:
        """Remove the member. The caller has answered its tickets."""
        member = self.by_id.pop(member_id)
        if member.instance_id is not None and self.by_instance.get(member.instance_id) == member_id:
            del self.by_instance[member.instance_id]
        self._count(member, -1)
        self.joining -= member.join is not None
        return member

    def replace(self, old: ClassicMember, new: ClassicMember) -> None:
        self.reset([new if member is old else member for member in self])

    def reset(self, members: Sequence[ClassicMember]) -> None:
        self.by_id, self.by_instance, self._supported, self.joining = {}, {}, {}, 0
        for member in members:
            self.add(member)

    def set_protocols(self, member: ClassicMember, protocols: dict[str, bytes]) -> None:
        self._count(member, -1)
        member.protocols = protocols
        self._count(member, 1)

    def park_join(self, member: ClassicMember, ticket: Ticket, version: int) -> Ticket | None:
        """Park a member until the next generation; return its earlier ticket, for the caller to answer."""
        earlier = self.take_join(member)
        member.join, member.join_version = ticket, version
        self.joining += 1
        return earlier

    def take_join(self, member: ClassicMember) -> Ticket | None:
        """Remove and return the ticket of the member's JoinGroup, for the caller to answer."""
        ticket, member.join = member.join, None
        self.joining -= ticket is not None
        return ticket

    def supports_any(self, protocols: Sequence[str]) -> bool:
        return any(self._supported.get(name, 0) == len(self.by_id) for name in protocols)

    def select_protocol(self, leader: str) -> str:
        """The protocol with the most votes among those that all members support.

        Each member votes for its first one; the leader's preference decides among equals.
        """
        everybody = len(self.by_id)
        candidates = [name for name in self.by_id[leader].protocols if self._supported[name] == everybody]
        votes = dict.fromkeys(candidates, 0)
        for member in self.by_id.values():
            votes[next(name for name in member.protocols if name in votes)] += 1
        return max(candidates, key=votes.__getitem__)

    def rebalance_timeout_ms(self) -> int:
        """The longest rebalance timeout of all members."""
        return max((member.rebalance_timeout_ms for member in self), default=0)

    def check(self, member_id: str, instance_id: str | None) -> ErrorCode:
        """NONE for a known member; FENCED_INSTANCE_ID if another member has taken its instance id (KIP-345)."""
        if instance_id is not None:
            holder = self.by_instance.get(instance_id)
            if holder is not None and holder != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
            if holder is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
        return ErrorCode.NONE if member_id in self.by_id else ErrorCode.UNKNOWN_MEMBER_ID

    def _count(self, member: ClassicMember, by: int) -> None:
        for name in member.protocols:
            count = self._supported.get(name, 0) + by
            if count:
                self._supported[name] = count
            else:
                del self._supported[name]

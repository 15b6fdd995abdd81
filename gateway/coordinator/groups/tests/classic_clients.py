"""Simulated consumers of one classic group, who do what real ones do, and a wire that can lose anything.

A client has one request under way at a time. It joins until it has a generation, the leader assigns, everybody syncs,
sends heartbeats, and joins again when it is told that the others do. An eager one gives up its partitions before it
joins again; a cooperative one keeps them, says so in its metadata, and gives up after the rebalance what went to
another, which needs one more (KIP-429).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from enum import Enum, auto
from typing import Any

from headgate.gateway.coordinator.decision import Decision, Reply, Ticket
from headgate.gateway.coordinator.groups.tests.classic_desk import Asked, ClassicDesk, Joined
from headgate.gateway.coordinator.groups.tests.groups import FakeTicket
from headgate.protocol.errors import ErrorCode, KafkaError

PARTITIONS = frozenset(range(6))
LOST = KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)


class Doing(Enum):
    """What a client waits for."""

    NOTHING = auto()
    JOIN = auto()
    SYNC = auto()


class FailingDesk(ClassicDesk):
    """A desk whose disk can fail: the next write does if `is_failing`."""

    is_failing = False

    def run(self, decision: Decision, group_id: str | None = None) -> list[tuple[Ticket, Reply]]:
        if not self.is_failing or not decision.records:
            return super().run(decision, group_id)
        self.is_failing = False
        self.fail(decision)
        return super().run(Decision([], [(ticket, LOST) for ticket, _ in decision.replies]), group_id)


class Client:
    """One consumer. `owned` are its partitions, by the assignment of `owned_generation`."""

    def __init__(self, desk: ClassicDesk, instance_id: str | None, version: int, *, is_cooperative: bool) -> None:
        self.desk = desk
        self.instance_id = instance_id
        self.version = version if instance_id is None else max(version, 5)
        self.is_cooperative = is_cooperative
        self.topics = "t"
        self.member_id = ""
        self.generation = -1
        self.owned: frozenset[int] = frozenset()
        self.owned_generation = -1
        self.doing = Doing.NOTHING
        self.asked: Asked | None = None
        self.is_fenced = False
        self.needs_join = True

    def __repr__(self) -> str:
        owned = f"owns {sorted(self.owned)} of {self.owned_generation}"
        return f"{self.instance_id or ''}/{self.member_id[-6:]} generation {self.generation} {self.doing.name} {owned}"

    @property
    def member(self) -> Joined:
        return Joined(self.member_id, self.generation, self.instance_id)

    def step(self) -> None:
        """Take the reply that is there and go on; without one wait; with nothing under way send a heartbeat."""
        if self.is_fenced:
            return
        if self.asked is not None and self.asked.is_parked:
            return
        if self.doing is Doing.JOIN:
            self._joined()
        elif self.doing is Doing.SYNC:
            self._synced()
        elif self.needs_join:
            self.join()
        else:
            self._heard(self.desk.heartbeat(self.member).error)

    def join(self) -> None:
        """Send JoinGroup."""
        if not self.is_cooperative:
            self.owned = frozenset()
        metadata = json.dumps([self.topics, sorted(self.owned), self.owned_generation]).encode()
        name = "cooperative" if self.is_cooperative else "range"
        self.doing = Doing.JOIN
        self.asked = self.desk.join(self.member_id, self.instance_id, {name: metadata}, version=self.version)

    def leave(self) -> None:
        """Close properly; static members just go."""
        if self.member_id and self.instance_id is None:
            self.desk.leave(self.member_id)

    def lose_connection(self) -> None:
        """Whatever was under way, its reply never comes. The client asks again."""
        if self.asked is not None:
            self.asked.ticket.hang_up()
            self.doing, self.asked, self.needs_join = Doing.NOTHING, None, True

    def tickets(self) -> Iterator[FakeTicket]:
        """That of the request whose reply it waits for."""
        if self.asked is not None and self.asked.is_parked:
            yield self.asked.ticket

    def _take(self) -> Any:
        assert self.asked is not None
        asked, self.asked, self.doing = self.asked, None, Doing.NOTHING
        return asked.error, asked.reply

    def _joined(self) -> None:
        error, reply = self._take()
        if error is ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = reply.member_id
        elif error is not ErrorCode.NONE:
            self._heard(error)
        else:
            self.member_id, self.generation, self.needs_join = reply.member_id, reply.generation_id, False
            leads = reply.leader == reply.member_id and not reply.skip_assignment
            given = assign(reply.members, is_cooperative=self.is_cooperative) if leads else {}
            protocol = (reply.protocol_type, reply.protocol_name) if self.version >= 7 else (None, None)
            self.doing = Doing.SYNC
            self.asked = self.desk.sync(self.member, given, version=5 if self.version >= 7 else 2, protocol=protocol)

    def _synced(self) -> None:
        error, reply = self._take()
        if error is not ErrorCode.NONE:
            self._heard(error)
            return
        assigned = frozenset(json.loads(reply.assignment or b"[]"))
        revoked = self.owned - assigned
        self.owned, self.owned_generation = assigned, self.generation
        self.needs_join = self.is_cooperative and bool(revoked)

    def _heard(self, error: ErrorCode | None) -> None:
        assert error is not None
        if error is ErrorCode.FENCED_INSTANCE_ID:
            self.is_fenced = True
            self.owned = frozenset()
        elif error in {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION}:
            self.owned, self.generation, self.needs_join = frozenset(), -1, True
            if error is ErrorCode.UNKNOWN_MEMBER_ID:
                self.member_id = ""
        elif error is not ErrorCode.NONE:
            assert error in {ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE}, error
            self.needs_join = True


def assign(members: Any, *, is_cooperative: bool) -> dict[str, bytes]:
    """In turns by id; of cooperative members nobody gets what another one says that it still has."""
    claims = {row.member_id: json.loads(row.metadata)[1:] for row in members}
    newest = max(generation for _, generation in claims.values())
    holders = {part: member for member, (owned, generation) in claims.items() if generation == newest for part in owned}
    names = sorted(claims)
    given: dict[str, list[int]] = {name: [] for name in names}
    for place, partition in enumerate(sorted(PARTITIONS)):
        target = names[place % len(names)]
        if not is_cooperative or holders.get(partition, target) == target:
            given[target].append(partition)
    return {name: json.dumps(partitions).encode() for name, partitions in given.items()}

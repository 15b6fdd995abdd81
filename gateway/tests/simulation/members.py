"""Members of a classic group of a simulated cluster: each commits growing offsets of its assigned partitions.

A member goes on behind the committed offset. So an offset that falls tells of a commit that was lost, or of a commit of
a member whose generation is over.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import Any, Final

from headgate.gateway.runtime.tasks import Task, sleep
from headgate.gateway.tests.requests import commit_request
from headgate.gateway.tests.simulation.clients import ClientHost, CoordinatorKey, commit_codes
from headgate.gateway.tests.simulation.cluster import TOPIC
from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages.heartbeat import HeartbeatRequest
from headgate.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from headgate.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from headgate.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

MEMBERS: Final = "members"
_key: Final = CoordinatorKey(MEMBERS)
_PROTOCOL: Final = "even"
SESSION_MS, REBALANCE_MS = 3_000, 1_000
_TO_JOIN_AGAIN: Final = frozenset(
    (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID)
)


class _GenerationIsOver(Exception):
    """The member has to join again."""


class Member(ClientHost):
    """A member."""

    _id = ""
    _generation = -1

    def take_part(self, partitions: int, commits: int, gap_ms: float) -> Task[None]:
        """Join, and commit until the group has so many commits of each partition; then leave."""
        while self._least(partitions) < commits:
            try:
                assigned = yield from self._join(partitions)
                yield from self._work(assigned, partitions, commits, gap_ms)
            except _GenerationIsOver:
                yield from self.back_off()
        yield from self._leave()

    def _least(self, partitions: int) -> int:
        return min(self.history.committed.get((MEMBERS, index), 0) for index in range(partitions))

    def check(self, codes: Iterable[int], what: str) -> bool:
        """As `ClientHost.check`. Raises _GenerationIsOver."""
        found = {ErrorCode(code) for code in codes}
        if ErrorCode.UNKNOWN_MEMBER_ID in found:
            self._id = ""
        if not found.isdisjoint(_TO_JOIN_AGAIN):
            raise _GenerationIsOver
        return super().check(found - {ErrorCode.MEMBER_ID_REQUIRED}, what)

    def _join(self, partitions: int) -> Task[list[int]]:
        """The assigned partitions of the next generation."""
        joined: Any = None
        while joined is None or joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            protocols = [JoinGroupRequestProtocol(_PROTOCOL, b"")]
            request = JoinGroupRequest(MEMBERS, SESSION_MS, REBALANCE_MS, self._id, None, "simulated", protocols)
            joined = yield from self.insist(_key, request, 5, _code)
            self._id = joined.member_id
        self._generation = joined.generation_id
        assignments = [
            SyncGroupRequestAssignment(member.member_id, bytes(range(number, partitions, len(joined.members))))
            for number, member in enumerate(joined.members)
        ]
        synced = SyncGroupRequest(MEMBERS, self._generation, self._id, None, assignments=assignments)
        answer = yield from self.insist(_key, synced, 3, _code)
        return list(answer.assignment)

    def _work(self, assigned: list[int], partitions: int, commits: int, gap_ms: float) -> Task[None]:
        offsets = {}
        for index in assigned:
            offsets[index] = max(0, (yield from self.committed_offset(MEMBERS, index)))
        while self._least(partitions) < commits:
            yield sleep(self.scheduler, gap_ms * self.random.random() * 2)
            yield from self.insist(_key, HeartbeatRequest(MEMBERS, self._generation, self._id), 3, _code)
            for index in assigned:
                offsets[index] += 1
                request = commit_request(
                    MEMBERS,
                    {index: offsets[index]},
                    TOPIC,
                    generation_id_or_member_epoch=self._generation,
                    member_id=self._id,
                )
                yield from self.insist(_key, request, 7, commit_codes)
                self.history.committed[MEMBERS, index] = offsets[index]

    def _leave(self) -> Task[None]:
        with suppress(_GenerationIsOver):
            yield from self.insist(_key, LeaveGroupRequest(MEMBERS, members=[MemberIdentity(self._id)]), 4, _code)


def _code(answer: Any) -> list[int]:
    return [answer.error_code]

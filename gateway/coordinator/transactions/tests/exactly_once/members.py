"""Members of the group of the histories in `histories.py`: alone, in a classic group, in one of KIP-848.

`join` makes sure of the membership; it answers whether the partitions may be other ones than before. A member says its
generation with each offset that it commits, so that a late one of another generation is refused (KIP-447).
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Generator
from random import Random
from typing import Any, Final

from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages.consumer_group_heartbeat import (
    JOIN_EPOCH,
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from headgate.protocol.messages.heartbeat import HeartbeatRequest
from headgate.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from headgate.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

SESSION_MS: Final = 2_000
SETTINGS: Final = {
    "group_initial_rebalance_delay_ms": "0",
    "group_min_session_timeout_ms": "1000",
    "group_consumer_session_timeout_ms": str(SESSION_MS),
    "group_consumer_min_session_timeout_ms": "1000",
    "group_consumer_heartbeat_interval_ms": "1000",
    "group_consumer_min_heartbeat_interval_ms": "1000",
}
LOST_MEMBERSHIP = (
    ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.FENCED_MEMBER_EPOCH,
    ErrorCode.MEMBER_ID_REQUIRED,
)

Ask = Callable[..., Generator[Any, Any, Any]]
"""(request, version, error codes that the caller deals with) -> steps to the answer."""


class Member:
    """Who needs no group: its partition is its own."""

    def __init__(self, partitions: Collection[int]) -> None:
        self.partitions = list(partitions)
        self.generation = -1
        self.member_id = ""

    def join(self, _ask: Ask) -> Generator[Any, Any, bool]:
        """Make sure of the membership; whether it has changed."""
        yield from ()
        return False


class ClassicMember(Member):
    """Joins, and joins again when the others do; the leader shares the partitions out."""

    def __init__(self, partitions: Collection[int], random: Random) -> None:
        super().__init__(())
        self._all = list(partitions)
        self._random = random

    def join(self, ask: Ask) -> Generator[Any, Any, bool]:
        if self.generation >= 0:
            beat = HeartbeatRequest("g", self.generation, self.member_id)
            answer = yield from ask(beat, 4, LOST_MEMBERSHIP)
            if not answer.error_code:
                return False
            self._note(answer)
        while self.generation < 0:
            yield from self._join(ask)
        return True

    def _note(self, answer: Any) -> None:
        self.generation, self.partitions = -1, []
        if answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID:
            self.member_id = ""

    def _join(self, ask: Ask) -> Generator[Any, Any, None]:
        protocols = [JoinGroupRequestProtocol("any", b"")]
        request = JoinGroupRequest("g", SESSION_MS, SESSION_MS, self.member_id, None, "copiers", protocols)
        joined = yield from ask(request, 7, LOST_MEMBERSHIP)
        self.member_id = joined.member_id
        if joined.error_code:
            self._note(joined)
            return
        rows = []
        if joined.leader == self.member_id:
            members = sorted(member.member_id for member in joined.members)
            self._random.shuffle(members)
            rows = [
                SyncGroupRequestAssignment(each, bytes(self._all[number :: len(members)]))
                for number, each in enumerate(members)
            ]
        sync = SyncGroupRequest("g", joined.generation_id, self.member_id, None, "copiers", "any", rows)
        synced = yield from ask(sync, 5, LOST_MEMBERSHIP)
        if synced.error_code:
            self._note(synced)
            return
        self.generation, self.partitions = joined.generation_id, list(synced.assignment)


class ConsumerMember(Member):
    """Sends heartbeats, and gives up at once what it has to (KIP-848)."""

    def __init__(self, random: Random) -> None:
        super().__init__(())
        self._random = random
        self._topic_id = bytes(16)
        self._leave()

    def _leave(self) -> None:
        self.generation, self.partitions = JOIN_EPOCH, []
        self.member_id = str(uuid.UUID(int=self._random.getrandbits(128)))

    def join(self, ask: Ask) -> Generator[Any, Any, bool]:
        had = self.generation, self.partitions
        owned = [TopicPartitions(self._topic_id, self.partitions)] if self.partitions else []
        request = ConsumerGroupHeartbeatRequest(  # all its fields: an answer before this one may be lost
            "g",
            self.member_id,
            self.generation,
            rebalance_timeout_ms=SESSION_MS,
            subscribed_topic_names=["in"],
            topic_partitions=owned,
        )
        answer = yield from ask(request, 1, LOST_MEMBERSHIP)
        if answer.error_code:
            self._leave()
            return True
        self.generation = answer.member_epoch
        if answer.assignment is not None:
            self.partitions = []
            for topic in answer.assignment.topic_partitions:
                self._topic_id, self.partitions = topic.topic_id, list(topic.partitions)
        return had != (self.generation, self.partitions)

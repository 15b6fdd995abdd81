"""A coordinator over a scripted partition, with a clock that tests move."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from random import Random
from typing import Any, Generic, TypeVar, cast

from headgate.gateway.coordinator.coordinator import Coordinator
from headgate.gateway.coordinator.decision import Decision, Ticket
from headgate.gateway.coordinator.groups.group_shard import GroupShard
from headgate.gateway.coordinator.groups.settings import GroupSettings
from headgate.gateway.coordinator.groups.shard_factory import new_shard
from headgate.gateway.coordinator.groups.tests.groups import FakeTopics
from headgate.gateway.coordinator.internal_topic import InternalTopic
from headgate.gateway.coordinator.shard import CoordinatorShard
from headgate.gateway.coordinator.shard_loader import CoordinatorServices
from headgate.gateway.replication.replica import Replica
from headgate.gateway.replication.write_batcher import WriteBatcher
from headgate.gateway.runtime.tasks import Lock, Tasks, is_task
from headgate.gateway.runtime.tests.fake_scheduler import ManualTime
from headgate.gateway.tests.scripted import ScriptedPartition
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.internal.offsets import OffsetCommitKey, OffsetCommitValue, encode_key, encode_value
from headgate.protocol.messages.heartbeat import HeartbeatResponse
from headgate.protocol.messages.offset_commit import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

S = TypeVar("S", bound=CoordinatorShard)
TIMEOUT_MS = 5_000
GROUPS_LOG = InternalTopic(
    name="__consumer_offsets",
    key_name="group",
    invalid_key=ErrorCode.INVALID_GROUP_ID,
    encode_key=encode_key,
    encode_value=encode_value,
    partitions=1,
    replication_factor=1,
    configs={},
    compression_codec=0,
    load_buffer_bytes=1 << 20,
    write_timeout_ms=TIMEOUT_MS,
    logger=logging.getLogger("headgate.groups"),
)


class CoordinatorBench(Generic[S]):
    """A coordinator over a scripted partition, and what its clients hear."""

    def __init__(
        self,
        topic: InternalTopic,
        prepare: Callable[[ScriptedPartition], None] = lambda _: None,
        perform: Callable[[Sequence[object], int], None] = lambda _, __: None,
    ) -> None:
        self.time = ManualTime()
        clock, scheduler = self.time.clock, self.time.scheduler
        self.tasks = Tasks(clock, scheduler)
        self.partition = ScriptedPartition(self.tasks)
        self.batcher = WriteBatcher()
        self.threads = scheduler.hold()
        prepare(self.partition)
        services = CoordinatorServices(clock, scheduler, self.tasks, self.batcher, Lock(scheduler))
        self.coordinator = Coordinator(
            cast("Replica", self.partition), services, topic, self.new_shard, perform=perform
        )

    def new_shard(self) -> S:
        """An empty shard."""
        raise NotImplementedError

    @property
    def shard(self) -> S:
        shard = self.coordinator.shard
        assert shard is not None
        return shard

    def ask(self, decide: Callable[[S, Ticket], Decision], key: str = "g", **options: Any) -> list[Any]:
        """Put a request; returns what its client hears, in time, as a list that holds one reply in the end."""
        heard: list[Any] = []
        try:
            outcome: Any = self.coordinator.submit(key, decide, **options)
        except KafkaError as error:
            return [error.code]
        if is_task(outcome):
            self.tasks.start(
                outcome, lambda reply: heard.append(reply.code if isinstance(reply, KafkaError) else reply)
            )
        else:
            heard.append(outcome)
        return heard

    def cut(self) -> None:
        """The log ends earlier than it did."""
        self.coordinator.log_was_truncated()

    def run(self) -> None:
        """Let everything happen that needs no time."""
        for _ in range(4):
            self.time.advance()


class Bench(CoordinatorBench[GroupShard]):
    """The same with groups."""

    def __init__(self, prepare: Callable[[ScriptedPartition], None] = lambda _: None) -> None:
        super().__init__(GROUPS_LOG, prepare)

    def new_shard(self) -> GroupShard:
        return new_shard(GroupSettings(), FakeTopics({"t": 1}), Random(0), self.time.clock.now_ms)

    def commit(self, offset: int, group: str = "g") -> list[Any]:
        return self.ask(committing(offset, group), group)

    def stage(self, offset: int, group: str = "g") -> list[Any]:
        """A commit whose write is left to the end of the turn."""
        return self.ask(committing(offset, group), group, failure_response=refused)

    def offset(self, group: str = "g") -> int | None:
        value = self.shard.offsets.of(group).get(("t", 0))
        return None if value is None else value.offset


def row(code: int) -> OffsetCommitResponse:
    partitions = [OffsetCommitResponsePartition(0, code)]
    return OffsetCommitResponse(topics=[OffsetCommitResponseTopic("t", partitions=partitions)])


def refused(code: ErrorCode) -> OffsetCommitResponse:
    return row(code)


def committing(offset: int, group: str = "g") -> Callable[[GroupShard, Ticket], Decision]:
    records = [(OffsetCommitKey(group, "t", 0), OffsetCommitValue(offset, -1, "", 1))]
    return lambda _, ticket: Decision(list(records), [(ticket, row(0))])


def reading(shard: GroupShard, ticket: Ticket) -> Decision:
    value = shard.offsets.of("g").get(("t", 0))
    return Decision.reply(ticket, HeartbeatResponse(throttle_time_ms=-1 if value is None else value.offset))


def read(offset: int) -> HeartbeatResponse:
    return HeartbeatResponse(throttle_time_ms=offset)

"""Rows of consumer groups: offset commits, heartbeats, rebalances."""

import itertools
import math
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from statistics import median

from headgate.tools.bench.measuring.figures import Sample
from headgate.tools.bench.measuring.generator import LoadResult
from headgate.tools.bench.measuring.target import Target, Topic
from headgate.tools.bench.requests import frames, group_frames
from headgate.tools.bench.requests.client import BenchError, Client
from headgate.tools.bench.requests.group_frames import TopicPartitions
from headgate.tools.bench.requests.templates import template
from headgate.tools.bench.rows.coordinators.members import ClassicMember, ConsumerMember, Member, Members
from headgate.tools.bench.rows.idle import raise_file_limit
from headgate.tools.bench.rows.row import Row, Run, run_of

_SERVED_WITHIN_SECONDS = 60.0
_NOT_YET = {14, 15, 16}  # COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR
_OTHER_FILES = 200
_numbers = itertools.count()


def new_group(row: str) -> str:
    """A group id that no earlier run has used."""
    return f"{row}-{os.getpid()}-{next(_numbers)}"


def wait_until_served(client: Client, groups: Sequence[str]) -> None:
    """Wait until the coordinators of these groups answer: the first request creates `__consumer_offsets`."""
    deadline = time.monotonic() + _SERVED_WITHIN_SECONDS
    waiting = [(_found, groups[0]), *((_fetched, group) for group in groups)]
    for ask, group in waiting:
        while error := ask(client, group):
            if error not in _NOT_YET or time.monotonic() > deadline:
                raise BenchError(f"group {group} is not served: error code {error}")
            time.sleep(0.01)


def _found(client: Client, group: str) -> int:
    reader = client.call(group_frames.find_coordinator(group))
    reader.number("i")
    return reader.number("h")


def _fetched(client: Client, group: str) -> int:
    reader = client.call(group_frames.offset_fetch(group))
    reader.number("i")
    reader.count()
    return reader.number("h")


@dataclass(frozen=True, slots=True)
class OffsetCommitRow(Row):
    """Every connection commits the offset of one partition for its own group, one offset further each time."""

    api = frames.OFFSET_COMMIT

    @contextmanager
    def opened(self, target: Target) -> Iterator[Run]:
        with target.topic(self.partitions) as topic:
            groups = [new_group(self.name) for _ in range(self.connections)]
            wait_until_served(target.broker.client, groups)
            topic_partitions = [
                TopicPartitions(topic.name, [number % topic.partitions], topic.topic_id)
                for number in range(len(groups))
            ]
            templates = [
                template(group_frames.offset_commit(self.version, *each))
                for each in zip(groups, topic_partitions, strict=True)
            ]
            yield run_of(target, self.written(target, templates))


@dataclass(frozen=True, slots=True)
class HeartbeatRow(Row):
    """Members of stable groups, which send heartbeats without a pause."""

    groups: int = 8

    api = frames.HEARTBEAT

    @contextmanager
    def opened(self, target: Target) -> Iterator[Run]:
        with ExitStack() as stack:
            topic = stack.enter_context(target.topic(self.partitions))
            groups = [new_group(self.name) for _ in range(self.groups)]
            client = target.broker.client
            wait_until_served(client, groups)
            frames = []
            for group in groups:
                members = Members(client, group, topic, self.kind(), self.connections // self.groups)
                stack.enter_context(members)
                members.join()
                stack.callback(members.leave)
                frames += [template(self.heartbeat(member)) for member in members.members]
            yield run_of(target, self.written(target, frames))

    def kind(self) -> type[Member]:
        return ClassicMember

    def heartbeat(self, member: Member) -> frames.RequestWriter:
        return group_frames.heartbeat(self.version, member.group.group_id, member.member_id, member.generation)


@dataclass(frozen=True, slots=True)
class ConsumerHeartbeatRow(HeartbeatRow):
    """The same with consumer groups (KIP-848)."""

    api = frames.CONSUMER_GROUP_HEARTBEAT

    def kind(self) -> type[Member]:
        return ConsumerMember

    def heartbeat(self, member: Member) -> frames.RequestWriter:
        group_id, epoch = member.group.group_id, member.generation
        return group_frames.consumer_group_heartbeat(self.version, group_id, member.member_id, epoch)


@dataclass(frozen=True, slots=True)
class RebalanceRow(Row):
    """A group of `connections` members: all join, then members restart one after another.

    The number of restarts follows from the seconds. In a sample, requests are the members' requests, p50 and p99 are
    the times of restarts, and the mean is the time to join. The classic protocol knows no topics (the group's leader
    brings them), so no topic is created for it.
    """

    least_seconds: float = math.inf
    kind: type[Member] = ClassicMember
    restarts_per_second: int = 25

    api = frames.JOIN_GROUP

    @contextmanager
    def opened(self, target: Target) -> Iterator[Run]:
        raise_file_limit(self.connections + _OTHER_FILES)
        with ExitStack() as stack:
            topic = Topic("not-made", bytes(16), self.partitions)
            if self.kind is ConsumerMember:
                topic = stack.enter_context(target.topic(self.partitions))

            def run(seconds: float) -> Sample:
                group, restarts = new_group(self.name), max(1, round(seconds * self.restarts_per_second))
                wait_until_served(target.broker.client, [group])
                with Members(target.broker.client, group, topic, self.kind, self.connections) as members:
                    sample = target.measure(lambda: rebalance(members, restarts))
                    members.leave()
                return sample

            yield run


def rebalance(members: Members, restarts: int) -> LoadResult:
    join_seconds = members.join()
    seconds = sorted(members.restart(number) for number in range(restarts))
    p50_us, p99_us = median(seconds) * 1e6, seconds[min(restarts - 1, int(restarts * 0.99))] * 1e6
    whole = join_seconds + sum(seconds)
    return LoadResult(members.answered, 0, whole, p50_us, p99_us, mean_us=join_seconds * 1e6)

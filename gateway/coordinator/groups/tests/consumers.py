"""Members of consumer groups for tests: they know what a client knows, and ask a `Desk` what to do."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Mapping
from typing import cast

import pytest

from headgate.gateway.coordinator.decision import Decision, RequestContext
from headgate.gateway.coordinator.groups.consumer import heartbeats
from headgate.gateway.coordinator.groups.consumer.group import ConsumerGroup
from headgate.gateway.coordinator.groups.tests.groups import Desk, topic_id
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.messages.consumer_group_heartbeat import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    LEAVE_STATIC_EPOCH,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

GROUP = "group"
REBALANCE_MS = 60_000
CALLER = RequestContext("client", "/192.0.2.9", 1)

Partitions = Mapping[str, Collection[int]]
"""Partitions by the name of the topic."""


def named(topics: Collection[TopicPartitions]) -> dict[str, set[int]]:
    """By the names that `FakeTopics` makes ids of."""
    return {topic.topic_id.rstrip(b"\0").decode(): set(topic.partitions) for topic in topics if topic.partitions}


def reported(partitions: Partitions) -> list[TopicPartitions]:
    return [TopicPartitions(topic_id(name), sorted(numbers)) for name, numbers in sorted(partitions.items())]


class Client:
    """A member as a client of the consumer protocol is one: its epoch, and the partitions that it reads.

    `beat` sends a heartbeat and does what the reply says: what it has to give up is given up at once, and reported with
    the next heartbeat, unless the client is `slow`.
    """

    def __init__(
        self, desk: Desk, name: str, *topics: str, group: str = GROUP, instance_id: str | None = None, **fields: object
    ) -> None:
        self.desk = desk
        self.group_id = group
        self.name = name
        self.instance_id = instance_id
        self.topics: list[str] | None = list(topics)
        self.fields = fields
        self.epoch = JOIN_EPOCH
        self.reads: dict[str, set[int]] = {}
        self.assigned: dict[str, set[int]] = {}
        self.slow = False
        self.caller = CALLER
        self.decision = Decision()

    def request(self, **fields: object) -> ConsumerGroupHeartbeatRequest:
        """What it sends now: everything when it joins, else what changed."""
        values: dict[str, object] = {
            "group_id": self.group_id,
            "member_id": self.name,
            "member_epoch": self.epoch,
            "instance_id": self.instance_id,
        }
        if self.epoch == JOIN_EPOCH:
            values |= {
                "rebalance_timeout_ms": REBALANCE_MS,
                "subscribed_topic_names": self.topics,
                "topic_partitions": [],
                **self.fields,
            }
        elif self.reads != self.assigned or self.slow:
            values["topic_partitions"] = reported(self.reads)
        return ConsumerGroupHeartbeatRequest(**(values | fields))  # type: ignore[arg-type]

    def ask(self, request: ConsumerGroupHeartbeatRequest) -> ConsumerGroupHeartbeatResponse:
        """One heartbeat through the machine and the log. Raises KafkaError."""
        ticket = self.desk.ticket(self.name)
        self.decision = heartbeats.heartbeat(self.desk.shard, request, self.caller, ticket, self.desk.now_ms)
        replies = self.desk.run(self.decision)
        (response,) = [reply for answered, reply in replies if answered is ticket]
        assert isinstance(response, ConsumerGroupHeartbeatResponse)
        return response

    def beat(self, **fields: object) -> ConsumerGroupHeartbeatResponse:
        """Send a heartbeat, and take what it gives. Raises KafkaError."""
        response = self.ask(self.request(**fields))
        self.take(response)
        return response

    def take(self, response: ConsumerGroupHeartbeatResponse) -> None:
        """Do what a reply says."""
        self.epoch = response.member_epoch
        if response.assignment is not None:
            self.assigned = named(response.assignment.topic_partitions)
            if not self.slow:
                self.reads = {topic: set(numbers) for topic, numbers in self.assigned.items()}

    def settle(self, beats: int = 3) -> None:
        """Some heartbeats, each of which says what it reads."""
        for _ in range(beats):
            self.beat(topic_partitions=reported(self.reads) if self.epoch else [])

    def refused(self, **fields: object) -> ErrorCode:
        """The code that a heartbeat is refused with."""
        with pytest.raises(KafkaError) as caught:
            self.beat(**fields)
        return caught.value.code

    is_parked = False

    def step(self) -> None:
        """One heartbeat that says what it reads; it begins anew if it is told to."""
        try:
            self.beat(topic_partitions=reported(self.reads) if self.epoch else [])
        except KafkaError as error:
            if error.code not in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH):
                raise
            self.epoch, self.reads, self.assigned = JOIN_EPOCH, {}, {}

    def partitions(self, topic: str) -> set[int]:
        """Those of a topic that it reads."""
        return self.reads.get(topic, set())

    def lose_connection(self) -> None:
        """The broker died: nothing was under way."""

    def quit(self) -> None:
        """Leave, if it is still a member."""
        with contextlib.suppress(KafkaError):
            self.leave()

    def leave(self, epoch: int = LEAVE_EPOCH) -> ConsumerGroupHeartbeatResponse:
        """Leave; a static member for a while with LEAVE_STATIC_EPOCH."""
        response = self.ask(
            ConsumerGroupHeartbeatRequest(
                group_id=self.group_id, member_id=self.name, member_epoch=epoch, instance_id=self.instance_id
            )
        )
        self.epoch, self.reads, self.assigned = JOIN_EPOCH, {}, {}
        return response


def group_of(desk: Desk, name: str = GROUP) -> ConsumerGroup:
    """The group, which is one of consumers."""
    return cast(ConsumerGroup, desk.shard.groups[name])


def classic_members(desk: Desk) -> int:
    """How many members of the group speak the classic protocol."""
    return sum(member.classic is not None for member in group_of(desk).members.values())


def settle(*clients: Client, rounds: int = 4) -> None:
    """Heartbeats of everybody in turn, until there is nothing to do."""
    for _ in range(rounds):
        for client in clients:
            client.beat(topic_partitions=reported(client.reads) if client.epoch else [])


__all__ = ["CALLER", "GROUP", "LEAVE_EPOCH", "LEAVE_STATIC_EPOCH", "Client", "group_of", "named", "reported", "settle"]

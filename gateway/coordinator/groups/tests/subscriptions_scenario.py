"""What a broker makes of the subscriptions of a classic group's members; `test_subscriptions_like_kafka` compares.

    play(broker)        # any broker: `ask(request, version)` gives its response, `pause(ms)` lets time go on
    cd gateway/coordinator/groups/tests
    python -m headgate.gateway.coordinator.groups.tests.subscriptions_scenario PORT PORT > subscriptions_of_kafka.txt

The last line records the answers of two new Apache Kafkas on this machine with `SETTINGS`, those of `KAFKAS`: 4.1.2 and
3.9.1. A group has one static member, which subscribes to the topic `t` by the bytes of `subscriptions`; there are
offsets of `t` and of `u`. Ids that a broker makes are left out.
"""

from __future__ import annotations

import sys
import time
from typing import Any, Protocol

from headgate.gateway.coordinator.groups.tests import offsets_scenario
from headgate.protocol.errors import ErrorCode
from headgate.protocol.internal.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
    encode,
)
from headgate.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from headgate.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from headgate.protocol.messages.describe_groups import DescribeGroupsRequest
from headgate.protocol.messages.find_coordinator import GROUP, FindCoordinatorRequest
from headgate.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from headgate.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from headgate.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from headgate.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from headgate.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from headgate.protocol.schema import Message

SETTINGS = {
    "offsets.topic.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.retention.minutes": "1",
    "offsets.retention.check.interval.ms": "1000",
    "group.coordinator.rebalance.protocols": "classic,consumer",
    "group.consumer.migration.policy": "bidirectional",
}
KAFKAS = ("4.1", "3.9")
SESSION_MS = 600_000
EXPIRED_AFTER_MS = 75_000
LIMIT_S = 5.0


def _subscription(version: int, topic: str, until: int | None = None) -> bytes:
    """The subscription in one version, with the fields of the version `until` alone."""
    owned = [TopicPartition("t", [0])]
    message = ConsumerProtocolSubscription([topic], b"", owned, 1, "rack")
    return version.to_bytes(2, "big", signed=True) + encode(message, version if until is None else until)[2:]


def subscriptions(topic: str) -> dict[str, bytes]:
    """The bytes of a member's subscription to a topic, by name."""
    cut = _subscription(1, topic)
    name = len(topic).to_bytes(2, "big") + topic.encode()
    return {
        **{f"version {version}": _subscription(version, topic) for version in range(4)},
        **{
            f"version {version} with the fields of {until}": _subscription(version, topic, until)
            for version in (1, 2, 3, 9)
            for until in range(min(version, 4))
        },
        "version 0 with more bytes": _subscription(0, topic) + b"\x01\x02\x03",
        "version 1 with more bytes": cut + b"\x01\x02\x03",
        "version 1, cut in its owned partitions": cut[:-3],
        "version 1, with a count of owned partitions alone": _subscription(1, topic, 0) + b"\0\0\0\x01",
        "version -1 with the fields of 0": _subscription(-1, topic, 0),
        "version 0 without user data": b"\0\0\0\0\0\x01" + name,
        "version 0 without a topic": b"\0\0\0\0\0\x01",
        "a version alone": b"\0\0",
        "one byte": b"\0",
        "no byte": b"",
    }


_ASSIGNMENT = encode(ConsumerProtocolAssignment([TopicPartition("t", [0])]), 0)
ASSIGNMENTS = {
    "version 0": _ASSIGNMENT,
    "version 1": encode(ConsumerProtocolAssignment([TopicPartition("t", [0])]), 1),
    "version 9 with more bytes": b"\0\x09" + _ASSIGNMENT[2:] + b"x",
    "version -1": b"\xff\xff" + _ASSIGNMENT[2:],
    "without user data": _ASSIGNMENT[:-4],
    "with user data": encode(ConsumerProtocolAssignment([TopicPartition("t", [0])], b"x"), 0),
    "no byte": b"",
}
"""What a leader assigns, by name."""


class Broker(Protocol):
    """A broker; None for no answer."""

    def ask(self, request: Message, version: int) -> Any: ...

    def pause(self, for_ms: int) -> None:
        """Let time go on."""


class Play:
    """One run: a line for each question."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.answers: dict[str, str] = {}

    def note(self, group: str, question: str, *answer: object) -> None:
        self.answers[f"{group}: {question}"] = " ".join(map(str, answer))

    def commit(self, group: str) -> None:
        """Commit an offset of each topic, before there is a member."""
        topics = [
            OffsetCommitRequestTopic(name, partitions=[OffsetCommitRequestPartition(0, 5)]) for name in ("t", "u")
        ]
        for topic in self.broker.ask(OffsetCommitRequest(group, topics=topics), 8).topics:
            assert not topic.partitions[0].error_code

    def committed(self, group: str) -> None:
        topics = [OffsetFetchRequestTopic(name, [0]) for name in ("t", "u")]
        rows = self.broker.ask(OffsetFetchRequest(group, topics), 7).topics
        self.note(group, "committed", {row.name: row.partitions[0].committed_offset for row in rows})

    def join(self, group: str, question: str, metadata: bytes, member_id: str = "") -> Any:
        """JoinGroup of the static member; None if the broker does not answer."""
        protocols = [JoinGroupRequestProtocol("range", metadata)]
        request = JoinGroupRequest(group, SESSION_MS, SESSION_MS, member_id, "i", "consumer", protocols)
        answer = self.broker.ask(request, 5)
        if answer is None:
            self.note(group, question, "no answer")
            return None
        metadata_back = [row.metadata.hex() for row in answer.members]
        self.note(group, question, ErrorCode(answer.error_code).name, answer.generation_id, metadata_back)
        return answer

    def sync(self, group: str, joined: Any, assignment: bytes = ASSIGNMENTS["version 0"]) -> None:
        rows = [SyncGroupRequestAssignment(joined.member_id, assignment)]
        request = SyncGroupRequest(group, joined.generation_id, joined.member_id, "i", assignments=rows)
        answer = self.broker.ask(request, 3)
        self.note(group, f"sync {joined.generation_id}", ErrorCode(answer.error_code).name, answer.assignment.hex())

    def describe(self, group: str) -> None:
        (row,) = self.broker.ask(DescribeGroupsRequest([group]), 5).groups
        members = [(member.member_metadata.hex(), member.member_assignment.hex()) for member in row.members]
        self.note(group, "describe", row.group_state, row.protocol_data, members)

    def delete(self, group: str) -> None:
        rows = [OffsetDeleteRequestTopic(name, [OffsetDeleteRequestPartition(0)]) for name in ("t", "u")]
        answer = self.broker.ask(OffsetDeleteRequest(group, rows), 0)
        codes = {row.name: ErrorCode(row.partitions[0].error_code).name for row in answer.topics}
        self.note(group, "delete", ErrorCode(answer.error_code).name, codes)

    def upgrade(self, group: str) -> int:
        """A member of the consumer protocol joins; its epoch."""
        request = ConsumerGroupHeartbeatRequest(
            group, "m", 0, rebalance_timeout_ms=60_000, subscribed_topic_names=["u"], topic_partitions=[]
        )
        answer = self.broker.ask(request, 0)
        self.note(group, "upgrade", ErrorCode(answer.error_code).name, answer.member_epoch)
        return int(answer.member_epoch)

    def downgrade(self, group: str) -> None:
        answer = self.broker.ask(ConsumerGroupHeartbeatRequest(group, "m", -1), 0)
        self.note(group, "downgrade", ErrorCode(answer.error_code).name)


def play(broker: Broker) -> dict[str, str]:
    """Ask everything, in this order; the answers by their names."""
    made = Play(broker)
    created = broker.ask(CreateTopicsRequest([CreatableTopic(name, 1, 1) for name in ("t", "u")]), 7)
    assert not any(topic.error_code for topic in created.topics)
    broker.ask(FindCoordinatorRequest(key_type=GROUP, coordinator_keys=["first"]), 4)
    expiring = [_expiring(made, name, metadata) for name, metadata in subscriptions("t").items()]
    for name, metadata in subscriptions("t").items():
        _subscribed(made, name, metadata)
        _upgraded(made, f"upgraded, {name}", metadata, ASSIGNMENTS["version 0"])
    for name, assignment in ASSIGNMENTS.items():
        _upgraded(made, f"assigned, {name}", subscriptions("t")["version 1"], assignment)
    broker.pause(EXPIRED_AFTER_MS)
    for group in expiring:
        made.committed(group)
    return made.answers


def _expiring(made: Play, name: str, metadata: bytes) -> str:
    """A stable group, whose offsets are going to be older than the retention."""
    group = f"expiring, {name}"
    made.commit(group)
    joined = made.join(group, "join", metadata)
    if joined is not None:
        made.sync(group, joined)
    return group


def _subscribed(made: Play, group: str, metadata: bytes) -> None:
    made.commit(group)
    joined = made.join(group, "join", metadata)
    if joined is None:
        return
    made.sync(group, joined)
    made.describe(group)
    made.delete(group)
    made.join(group, "join again with other topics", subscriptions("u")[group])


def _upgraded(made: Play, group: str, metadata: bytes, assignment: bytes) -> None:
    joined = made.join(group, "join", metadata)
    if joined is None:
        return
    made.sync(group, joined, assignment)
    if made.upgrade(group) > 0:
        again = made.join(group, "join the consumer group", metadata, joined.member_id)
        if again is not None and not again.error_code:
            made.sync(group, again)
        made.downgrade(group)
        made.describe(group)


class Remote(offsets_scenario.Remote):
    """A broker behind a port of this machine. A new connection follows a question without an answer."""

    def __init__(self, port: int) -> None:
        super().__init__(port)
        self._port = port

    def ask(self, request: Message, version: int) -> Any:
        self._socket.settimeout(LIMIT_S)
        try:
            return super().ask(request, version)
        except TimeoutError:
            self._socket.close()
            super().__init__(self._port)
            return None

    def pause(self, for_ms: int) -> None:
        time.sleep(for_ms / 1000)


if __name__ == "__main__":
    lines: dict[tuple[str, str], list[str]] = {}
    for kafka, port in zip(KAFKAS, sys.argv[1:], strict=True):
        for pair in play(Remote(int(port))).items():
            lines.setdefault(pair, []).append(kafka)
    for (question, answer), kafkas in lines.items():
        sys.stdout.write(f"{', '.join(kafkas)}\t{question}\t{answer}\n")

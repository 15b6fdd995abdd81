"""Questions about consumer groups, and the answers in a form that two brokers can be compared by.

`play` asks a broker with the topics `t` (6 partitions) and `u` (2), whose groups are new. `consumers_of_kafka.txt` has
the answers of Apache Kafka 4.1.2, with `group.initial.rebalance.delay.ms=0`: a line for each. Partitions are counted,
since Kafka's assignor goes by the order of its hash maps; ids that a broker makes are "made".
"""

from __future__ import annotations

from typing import Any

from headgate.gateway.tests.scenario import Broker
from headgate.protocol.errors import ErrorCode
from headgate.protocol.internal import consumer_protocol
from headgate.protocol.internal.consumer_protocol import ConsumerProtocolSubscription
from headgate.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from headgate.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from headgate.protocol.messages.heartbeat import HeartbeatRequest
from headgate.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from headgate.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from headgate.protocol.messages.sync_group import SyncGroupRequest

JOIN: dict[str, Any] = {"rebalance_timeout_ms": 60_000, "subscribed_topic_names": ["t"], "topic_partitions": []}


class Questions:
    """The answers so far, each as a line."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.lines: list[str] = []
        topics = broker.ask(MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in "tu"]), 12).topics
        self.names = {topic.topic_id: topic.name for topic in topics}
        self.ids = {topic.name: topic.topic_id for topic in topics}

    def say(self, label: str, *answer: object) -> None:
        self.lines.append(" | ".join([label, *map(str, answer)]))

    def beat(self, label: str, member: str, epoch: int, group: str = "g", **fields: Any) -> list[TopicPartitions]:
        """A heartbeat; what it assigns."""
        request = ConsumerGroupHeartbeatRequest(group, member, epoch, **fields)
        answer = self.broker.ask(request, 1)
        partitions = None if answer.assignment is None else answer.assignment.topic_partitions
        counts = (
            None
            if partitions is None
            else sorted((self.names[row.topic_id], len(row.partitions)) for row in partitions)
        )
        code = ErrorCode(answer.error_code).name
        self.say(label, code, answer.member_id, answer.member_epoch, answer.heartbeat_interval_ms, counts)
        return partitions or []

    def describe(self, *groups: str) -> None:
        for row in self.broker.ask(ConsumerGroupDescribeRequest(list(groups)), 1).groups:
            code = ErrorCode(row.error_code).name
            self.say("describe", code, row.group_state, row.group_epoch, row.assignment_epoch, row.assignor_name)
            for member in sorted(row.members, key=lambda member: member.member_id):
                has, shall = (
                    sorted((each.topic_name, len(each.partitions)) for each in assignment.topic_partitions)
                    for assignment in (member.assignment, member.target_assignment)
                )
                said = (member.rack_id, member.subscribed_topic_names, member.subscribed_topic_regex)
                self.say("member", member.member_id, member.member_epoch, member.member_type, *said, has, shall)

    def join(self, member_id: str, protocol_type: str = "consumer") -> Any:
        metadata = consumer_protocol.encode(ConsumerProtocolSubscription(["t"]), 1)
        protocols = [JoinGroupRequestProtocol("range", metadata)]
        answer = self.broker.ask(JoinGroupRequest("m", 10_000, 60_000, member_id, None, protocol_type, protocols), 9)
        leader = "made" if answer.leader else ""
        code = ErrorCode(answer.error_code).name
        members = len(answer.members)
        self.say("join", code, answer.generation_id, answer.protocol_type, answer.protocol_name, leader, members)
        return answer

    def sync(self, member_id: str, generation: int, protocol_type: str = "consumer") -> None:
        answer = self.broker.ask(SyncGroupRequest("m", generation, member_id, None, protocol_type, "range", []), 5)
        code = ErrorCode(answer.error_code).name
        partitions = consumer_protocol.decode_assignment(answer.assignment) if answer.assignment else None
        counts = partitions and [(row.topic, len(row.partitions)) for row in partitions.assigned_partitions]
        self.say("sync", code, answer.protocol_type, answer.protocol_name, answer.assignment[:2].hex(), counts)

    def heartbeat(self, member_id: str, generation: int) -> None:
        self.say(
            "heartbeat", ErrorCode(self.broker.ask(HeartbeatRequest("m", generation, member_id), 4).error_code).name
        )


def play(broker: Broker) -> list[str]:
    """The answers to all questions."""
    questions = Questions(broker)
    _refusals(questions)
    _members(questions)
    _static_members(questions)
    _migration(questions)
    return questions.lines


def _refusals(ask: Questions) -> None:
    ask.beat("no group", "a", 3)
    ask.beat("no group to leave", "a", -1)
    for field in JOIN:
        ask.beat(f"no {field}", "a", 0, **{name: value for name, value in JOIN.items() if name != field})
    ask.beat("no id", "", 0, **JOIN)
    ask.beat("no group id", "a", 0, "", **JOIN)
    ask.beat("empty instance id", "a", 0, instance_id="", **JOIN)
    ask.beat("empty rack id", "a", 0, rack_id=" ", **JOIN)
    ask.beat("epoch -3", "a", -3)
    ask.beat("epoch -2 without an instance id", "a", -2)
    ask.beat("no such assignor", "a", 0, server_assignor="x", **JOIN)
    ask.beat("no expression", "a", 0, subscribed_topic_regex="(a", **JOIN)


def _members(ask: Questions) -> None:
    everything = ask.beat("a joins", "a", 0, **JOIN)
    ask.beat("nothing new", "a", 1)
    ask.beat("everything again", "a", 1, **(JOIN | {"topic_partitions": everything}))
    ask.beat("an epoch too high", "a", 2)
    ask.beat("a begins anew", "a", 0, **JOIN)
    ask.beat("a stranger", "x", 1)
    ask.beat("a stranger leaves", "x", -1)
    ask.beat("b joins", "b", 0, **JOIN)
    half = ask.beat("a shall give up", "a", 1)
    ask.beat("a has not", "a", 1)
    ask.beat("a has", "a", 1, topic_partitions=half)
    other = ask.beat("b gets them", "b", 2)
    ask.beat("the epoch before", "a", 1, topic_partitions=half)
    ask.beat("the epoch before, without partitions", "a", 1)
    ask.beat("a rack", "a", 2, rack_id="r")
    ask.beat("a subscribes to more", "a", 2, subscribed_topic_names=["t", "u"], topic_partitions=half)
    ask.beat("b is well", "b", 2, topic_partitions=other)
    ask.describe("g", "missing")
    ask.beat("b leaves", "b", -1)


def _static_members(ask: Questions) -> None:
    ask.beat("s joins", "s", 0, instance_id="i", **JOIN)
    ask.beat("s is there", "s2", 0, instance_id="i", **JOIN)
    ask.beat("s goes for a while", "s", -2, instance_id="i")
    ask.beat("s is away", "s", 5, instance_id="i")
    ask.beat("s is back", "s2", 0, instance_id="i", **JOIN)
    ask.beat("s of before", "s", 5, instance_id="i")
    ask.beat("s of before leaves", "s", -1, instance_id="i")
    ask.beat("no such instance", "q", 5, instance_id="j")
    ask.beat("s leaves", "s2", -1, instance_id="i")
    ask.beat("a leaves", "a", -1)
    ask.beat("a is gone", "a", 5)
    ask.describe("g")


def _migration(ask: Questions) -> None:
    ask.beat("m joins", "m", 0, "m", **JOIN)
    ask.join("", "x")
    old = ask.join("").member_id
    ask.join(old)
    for member_id, generation, protocol_type in (
        (old, 2, "consumer"),
        (old, 9, "consumer"),
        ("zz", 2, "consumer"),
        (old, 2, "x"),
    ):
        ask.sync(member_id, generation, protocol_type)
    for member_id, generation in ((old, 2), ("m", 1), (old, 7)):
        ask.heartbeat(member_id, generation)
    half = ask.beat("m shall give up", "m", 1, "m")
    ask.beat("m has", "m", 1, "m", topic_partitions=half)
    ask.heartbeat(old, 2)
    generation = ask.join(old).generation_id
    ask.sync(old, generation)
    ask.heartbeat(old, generation)
    ask.beat("m leaves, and the group is a classic one", "m", -1, "m")
    ask.heartbeat(old, generation)
    ask.join(old)

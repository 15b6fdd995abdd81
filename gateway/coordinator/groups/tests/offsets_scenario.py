"""What is asked of a broker to see its rules for offsets; `test_offsets_like_kafka` compares with Kafka's answers.

    play(broker)        # any broker: `ask(request, version)` gives its response
    cd gateway/coordinator/groups/tests
    python -m headgate.gateway.coordinator.groups.tests.offsets_scenario PORT > offsets_of_kafka.txt

The last line records the answers of an Apache Kafka on this machine that is new, as they stand in that file: 4.1.2
with group.initial.rebalance.delay.ms=0 and unstable.api.versions.enable=true, for OffsetCommit 10 and OffsetFetch 10.

Every answer to OffsetCommit, OffsetFetch, OffsetDelete and DeleteGroups gets a name. Ids of topics and of classic
members are another's on every broker: they stand as `TOPIC_ID` in the bytes, and members go by an instance id.
"""

from __future__ import annotations

import socket
import sys
import time
from collections.abc import Callable
from typing import Any

from headgate.gateway.tests.scenario import Broker
from headgate.protocol import compiler, registry
from headgate.protocol.client.connection import ClientConnection
from headgate.protocol.internal.consumer_protocol import ConsumerProtocolSubscription, encode
from headgate.protocol.messages.api_versions import ApiVersionsRequest
from headgate.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from headgate.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from headgate.protocol.messages.delete_groups import DeleteGroupsRequest
from headgate.protocol.messages.find_coordinator import GROUP, FindCoordinatorRequest
from headgate.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from headgate.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
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
from headgate.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from headgate.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from headgate.protocol.schema import Message
from headgate.protocol.wire import ZERO_UUID

TOPIC_ID = b"the id of topic "
NOBODYS_ID = b"the id of no one"
TOPICS = {"t": 3, "u": 1}

Named = dict[str, list[Any]]
"""Partitions by topic: indexes, or (index, offset, metadata), in lists that may name a topic twice by `t `, `t  `."""


class Play:
    """One run, and its named answers."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.answers: dict[str, bytes] = {}
        self.ids: dict[str, bytes] = {}

    def note(self, name: str, request: Message, version: int) -> None:
        """Ask, and keep the answer as the bytes of its version."""
        response = self.broker.ask(request, version)
        assert type(response) is registry.response_class(request.api_key)
        out = bytearray()
        compiler.write(response, version, out, [])
        key = f"{type(request).__name__.removesuffix('Request')} v{version}: {name}"
        assert key not in self.answers
        answer = bytes(out)
        for topic_id in self.ids.values():
            answer = answer.replace(topic_id, TOPIC_ID)
        self.answers[key] = answer

    def id_of(self, name: str) -> bytes:
        return {"zero": ZERO_UUID, **self.ids}.get(name, NOBODYS_ID)

    def commit(self, name: str, version: int, group: str, topics: Named, **options: Any) -> None:
        """OffsetCommit; what a partition gives short is offset 42 without a note."""
        rows = [
            OffsetCommitRequestTopic(
                topic.strip(), self.id_of(topic.strip()), [_partition(each, version) for each in partitions]
            )
            for topic, partitions in topics.items()
        ]
        self.note(name, OffsetCommitRequest(group, topics=rows, **options), version)

    def fetch(self, name: str, version: int, topics: Named | None, *groups: str, **member: Any) -> None:
        """OffsetFetch, of the same topics of every group."""
        if version < 8:
            old = [OffsetFetchRequestTopic(topic.strip(), indexes) for topic, indexes in (topics or {}).items()]
            request = OffsetFetchRequest(groups[0], None if topics is None else old)
        else:
            new = [
                OffsetFetchRequestTopics(topic.strip(), self.id_of(topic.strip()), indexes)
                for topic, indexes in (topics or {}).items()
            ]
            wanted = None if topics is None else new
            request = OffsetFetchRequest(
                groups=[OffsetFetchRequestGroup(group, topics=wanted, **member) for group in groups]
            )
        request.require_stable = version >= 7
        self.note(name, request, version)

    def delete(self, name: str, group: str, topics: Named) -> None:
        rows = [
            OffsetDeleteRequestTopic(topic.strip(), [OffsetDeleteRequestPartition(index) for index in indexes])
            for topic, indexes in topics.items()
        ]
        self.note(name, OffsetDeleteRequest(group, rows), 0)


def _partition(given: Any, version: int) -> OffsetCommitRequestPartition:
    index, offset, metadata = given if isinstance(given, tuple) else (given, 42, "")
    return OffsetCommitRequestPartition(index, offset, 3 if version >= 6 else -1, -1, metadata)


def play(broker: Broker) -> dict[str, bytes]:
    """Ask everything, in this order; the answers by their names."""
    made = Play(broker)
    created = broker.ask(CreateTopicsRequest([CreatableTopic(*topic, 1) for topic in TOPICS.items()]), 7)
    made.ids = {topic.name: topic.topic_id for topic in created.topics}
    broker.ask(FindCoordinatorRequest(key_type=GROUP, coordinator_keys=["simple"]), 4)
    steps: list[Callable[[Play], None]] = [_simple_commits, _metadata, _fetches, _deletions, _classic, _consumer]
    for step in steps:
        step(made)
    return made.answers


def _simple_commits(made: Play) -> None:
    for version in range(2, 11):
        mixed: Named = {"t": [3, 1, -1, (0, 7, "note")], "gone": [0], "u": [0], "nothing": [], "t ": [2, 5]}
        made.commit("known and unknown", version, "simple", mixed)
        made.commit("only known", version, "simple", {"t": [2], "u": [0], "t ": [1]})
        made.commit("only unknown", version, "other", {"gone": [0, 1], "gone ": [2], "t": [9]})
        made.commit("a topic without partitions", version, "simple", {"t": []})
        made.commit("no topics", version, "simple", {})
        made.commit("of a generation", version, "no group", {"t": [0, 8]}, generation_id_or_member_epoch=0)
        made.commit("of a member", version, "simple", {"t": [0]}, generation_id_or_member_epoch=1, member_id="m")
        made.commit("of a name", version, "simple", {"t": [0]}, member_id="m")
        made.commit("of no name", version, "simple", {"t": [0]}, generation_id_or_member_epoch=0)
    for version in (7, 9):
        made.commit("of an instance", version, "simple", {"t": [0]}, group_instance_id="i")
    made.commit("by no id", 10, "simple", {"zero": [0], "t": [0]})
    made.commit("empty group", 8, "", {"t": [(0, 1, "of nobody")]})
    made.fetch("empty group", 8, {"t": [0]}, "")
    for offset in (-1, -5, (1 << 63) - 1):
        made.commit(f"offset {offset}", 8, "odd", {"t": [(0, offset, None)]})
        made.fetch(f"offset {offset}", 8, {"t": [0]}, "odd")
    made.commit("twice", 8, "odd", {"t": [(0, 5, "a"), (0, 4, "b")]})
    made.fetch("twice", 8, {"t": [0, 0]}, "odd")
    for version, retention_ms in ((2, 1000), (3, 0), (4, -1), (4, -7)):
        made.commit(f"retention {retention_ms}", version, "odd", {"t": [1]}, retention_time_ms=retention_ms)


def _metadata(made: Play) -> None:
    for name, text in {
        "4096": "x" * 4096,
        "4097": "x" * 4097,
        "4096 of three bytes": "\u20ac" * 4096,
        "2048 of two characters": "\U0001f600" * 2048,
        "2048 of two characters and one": "\U0001f600" * 2048 + "x",
    }.items():
        made.commit(name, 8, "texts", {"t": [(0, 1, text), (1, 2, "short")]})


def _fetches(made: Play) -> None:
    for version in range(1, 11):
        made.fetch("asked", version, {"t": [0, 2, 7, -1], "gone": [0], "u": [0], "t ": [1]}, "simple")
        made.fetch("of no group", version, {"t": [0], "gone": [1]}, "never seen")
        made.fetch("nothing", version, {}, "simple")
        if version >= 2:
            made.fetch("all of no group", version, None, "never seen")
            made.fetch("all", version, None, "odd")
    for version in (8, 9, 10):
        made.fetch("many", version, {"t": [0]}, "odd", "never seen", "simple", "odd")
        made.fetch("none", version, {"t": [0]})
    made.fetch("by no id", 10, {"zero": [0], "t": [0], "nobody": []}, "simple")
    made.fetch("a member of a simple group", 9, {"t": [0]}, "simple", member_id="m", member_epoch=3)


def _deletions(made: Play) -> None:
    made.delete("in no group", "never seen", {"t": [0], "gone": [0]})
    made.delete("in the empty group", "", {"t": [0]})
    made.delete("of this and that", "simple", {"gone": [0], "t": [9, 0, 1], "u": [], "nothing": []})
    made.delete("of what is not there", "simple", {"t": [0, 2, 2]})
    made.delete("of nothing", "simple", {})
    made.fetch("after deletion", 8, {"t": [0, 1, 2]}, "simple")
    made.note("of a group", DeleteGroupsRequest(["simple"]), 2)
    made.note("of no group", DeleteGroupsRequest(["never seen"]), 2)
    made.fetch("after the group", 8, None, "simple")
    made.delete("after the group", "simple", {"t": [0]})


def _classic(made: Play) -> None:
    """One static member in a classic group of consumers: joined, in its generation, gone."""
    made.commit("before", 8, "classic", {"t": [0], "u": [0]})
    subscription = encode(ConsumerProtocolSubscription(topics=["t"]), 0)
    join = JoinGroupRequest(
        "classic", 30_000, 30_000, "", "i", "consumer", [JoinGroupRequestProtocol("range", subscription)]
    )
    joined = made.broker.ask(join, 5)
    member = {"member_id": joined.member_id, "generation_id_or_member_epoch": joined.generation_id}
    made.commit("completing", 8, "classic", {"t": [0]}, **member)
    made.commit("completing, by an admin", 8, "classic", {"t": [0]})
    assignment = [SyncGroupRequestAssignment(joined.member_id, b"")]
    made.broker.ask(SyncGroupRequest("classic", joined.generation_id, joined.member_id, "i", assignments=assignment), 3)
    for version in (2, 8, 9, 10):
        made.commit("stable", version, "classic", {"t": [1], "gone": [0]}, **member)
        made.commit("stable, old", version, "classic", {"t": [1]}, **{**member, "generation_id_or_member_epoch": 0})
        made.commit("stable, stranger", version, "classic", {"t": [1]}, **{**member, "member_id": "x"})
        made.commit("stable, nobody", version, "classic", {"t": [1]})
        made.commit("stable, only a name", version, "classic", {"t": [1]}, member_id=joined.member_id)
    made.commit("stable, fenced", 8, "classic", {"t": [1]}, **{**member, "member_id": "x"}, group_instance_id="i")
    made.commit("stable, unknown instance", 8, "classic", {"t": [1]}, **member, group_instance_id="j")
    made.fetch("stable", 8, {"t": [0, 1, 2]}, "classic")
    made.fetch("stable, stranger", 9, {"t": [1]}, "classic", member_id="x", member_epoch=9)
    made.delete("in use", "classic", {"t": [0, 9], "u": [0]})
    made.note("group in use", DeleteGroupsRequest(["classic"]), 2)
    made.broker.ask(LeaveGroupRequest("classic", members=[MemberIdentity(joined.member_id, "i")]), 3)
    made.commit("gone", 8, "classic", {"t": [1]}, **member)
    made.commit("gone, by an admin", 8, "classic", {"t": [1]})
    made.delete("no longer in use", "classic", {"t": [0]})


def _consumer(made: Play) -> None:
    """One member in a group of KIP-848."""
    heartbeat = ConsumerGroupHeartbeatRequest(
        "consumer", "m", 0, rebalance_timeout_ms=30_000, subscribed_topic_names=["t"], topic_partitions=[]
    )
    epoch = made.broker.ask(heartbeat, 1).member_epoch
    member = {"member_id": "m", "generation_id_or_member_epoch": epoch}
    for version in (8, 9, 10):
        made.commit("consumer", version, "consumer", {"t": [1], "u": [0]}, **member)
        made.commit("consumer, old", version, "consumer", {"t": [1]}, **{**member, "generation_id_or_member_epoch": 0})
        made.commit("consumer, stranger", version, "consumer", {"t": [1]}, **{**member, "member_id": "x"})
        made.commit("consumer, nobody", version, "consumer", {"t": [1]})
    for version in (9, 10):
        made.fetch("consumer", version, {"t": [1]}, "consumer", member_id="m", member_epoch=epoch)
        made.fetch("consumer, old", version, {"t": [1]}, "consumer", member_id="m", member_epoch=epoch + 1)
        made.fetch("consumer, all, old", version, None, "consumer", member_id="m", member_epoch=epoch + 1)
        made.fetch("consumer, stranger", version, {"t": [1]}, "consumer", member_id="x", member_epoch=epoch)
        made.fetch("consumer, name only", version, {"t": [1]}, "consumer", member_id="m")
        made.fetch("consumer, nobody", version, {"t": [1]}, "consumer")
    made.delete("consumer", "consumer", {"t": [0, 1], "u": [0]})
    made.note("consumer group in use", DeleteGroupsRequest(["consumer"]), 2)
    heartbeat = ConsumerGroupHeartbeatRequest("consumer", "m", -1)
    made.broker.ask(heartbeat, 1)
    made.commit("consumer, gone", 9, "consumer", {"t": [1]}, **member)
    made.commit("consumer, gone, by an admin", 9, "consumer", {"t": [1]})
    made.commit("consumer, gone, by an admin", 8, "consumer", {"t": [1]})


class Remote:
    """A broker behind a port of this machine. It makes its coordinators when it is first asked for one."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), 30.0)
        self._peer = ClientConnection("offsets")
        self.ask(ApiVersionsRequest("headgate", "1"), 3)

    def ask(self, request: Message, version: int) -> Any:
        for _ in range(100):
            self._socket.sendall(self._peer.request(request, version))
            answers: list[tuple[Message, Any]] = []
            while not answers:
                answers = self._peer.receive(self._socket.recv(1 << 16))
            response = answers[0][1]
            if not any(f"error_code={code}" in repr(response) for code in (14, 15, 16)):
                return response
            time.sleep(0.1)
        raise TimeoutError(f"there is no coordinator yet for {request}")


if __name__ == "__main__":
    for name, answer in play(Remote(int(sys.argv[1]))).items():
        sys.stdout.write(f"{name}\t{answer.hex()}\n")

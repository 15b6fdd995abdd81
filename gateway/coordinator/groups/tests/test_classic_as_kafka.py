"""One long conversation about groups, in every version of JoinGroup: what we answer is what Apache Kafka answers.

`transcripts/classic_groups.json` is what Apache Kafka 4.1.2 answered to these very requests, over sockets, and
`classic_records.json` what it wrote meanwhile to `__consumer_offsets`; both have what is the same in several versions
once. Member ids are numbered as they come, bytes are text, members are in the order of their numbers.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from headgate.gateway.tests.builders import HandlerBroker, over_the_wire
from headgate.protocol.errors import ErrorCode
from headgate.protocol.internal.offsets import GroupMetadataValue, MemberMetadata, UnknownType, decode
from headgate.protocol.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from headgate.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from headgate.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from headgate.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from headgate.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from headgate.protocol.records import batch
from headgate.protocol.schema import Message

TRANSCRIPTS = Path(__file__).parent / "transcripts"
# The other APIs as clients of the time of a JoinGroup had them
SYNC = (0, 0, 1, 2, 2, 3, 4, 5, 5, 5)
HEARTBEAT = (0, 0, 1, 2, 2, 3, 4, 4, 4, 4)
LEAVE = (0, 0, 1, 2, 2, 3, 4, 4, 5, 5)
DESCRIBE = 4


class Line:
    """A connection: one request at a time, whose reply may come later."""

    def __init__(self, node: HandlerBroker) -> None:
        self.node = node
        self.replies: list[Message] = []
        self.version = 0

    def send(self, request: Message, version: int) -> None:
        self.version = version
        outcome: Any = self.node.handle(over_the_wire(request, version), version)
        if isinstance(outcome, Message):
            self.replies.append(outcome)
        else:
            self.node.services.tasks.start(outcome, self.replies.append)

    def receive(self) -> Any:
        self.node.time.advance()
        assert self.replies, "the reply has not come"
        return over_the_wire(self.replies.pop(), self.version)

    def ask(self, request: Message, version: int) -> Any:
        self.send(request, version)
        return self.receive()


class Conversation:
    """The requests, in one version of JoinGroup. `steps` are their names and what was answered."""

    def __init__(self, node: HandlerBroker, version: int) -> None:
        self.version = version
        self.a, self.b, self.c, self.d = (Line(node) for _ in range(4))
        self.names: dict[str, str] = {}
        self.steps: list[tuple[str, Any]] = []

    def note(self, name: str, reply: Message) -> Any:
        self.steps.append((name, _SHOWN[type(reply)](reply, self.name)))
        return reply

    def name(self, member_id: str) -> str:
        return self.names.setdefault(member_id, f"M{len(self.names)}") if member_id else ""

    # Requests

    def join(
        self, line: Line, name: str, member_id: str = "", instance_id: str | None = None, **fields: Any
    ) -> JoinGroupResponse:
        self.send_join(line, member_id, instance_id, **fields)
        answer: JoinGroupResponse = self.note(name, line.receive())
        return answer

    def send_join(
        self,
        line: Line,
        member_id: str = "",
        instance_id: str | None = None,
        *,
        protocols: Sequence[str] = ("range",),
        session_ms: int = 6_000,
        protocol_type: str = "consumer",
        group: str | None = None,
    ) -> None:
        rows = [JoinGroupRequestProtocol(protocol, b"r") for protocol in protocols]
        group = f"g{self.version}" if group is None else group
        request = JoinGroupRequest(group, session_ms, 20_000, member_id, instance_id, protocol_type, rows, "why")
        line.send(request, self.version)

    def enter(self, line: Line) -> None:
        member_id = self.join(line, "enter").member_id if self.version >= 4 else ""
        self.send_join(line, member_id)

    def sync(self, line: Line, name: str, *arguments: Any, **fields: Any) -> None:
        self.send_sync(line, *arguments, **fields)
        self.note(name, line.receive())

    def send_sync(
        self,
        line: Line,
        member_id: str,
        generation: int,
        instance_id: str | None = None,
        *,
        given: Sequence[tuple[str, bytes]] = (),
        protocol: tuple[str | None, str | None] = ("consumer", "range"),
        group: str | None = None,
    ) -> None:
        rows = [SyncGroupRequestAssignment(*each) for each in given]
        group = f"g{self.version}" if group is None else group
        line.send(SyncGroupRequest(group, generation, member_id, instance_id, *protocol, rows), SYNC[self.version])

    def heartbeat(self, line: Line, name: str, member_id: str, generation: int, instance_id: str | None = None) -> None:
        request = HeartbeatRequest(f"g{self.version}", generation, member_id, instance_id)
        self.note(name, line.ask(request, HEARTBEAT[self.version]))

    def leave(self, line: Line, name: str, *members: MemberIdentity) -> None:
        first = members[0].member_id
        request = LeaveGroupRequest(f"g{self.version}", first, list(members))
        self.note(name, line.ask(request, LEAVE[self.version]))

    def describe(self, name: str) -> None:
        self.note(name, self.c.ask(DescribeGroupsRequest([f"g{self.version}"]), DESCRIBE))

    # What is said

    def hold(self) -> None:
        self.strangers()
        first = self.first_member()
        self.second_member(first)
        if self.version >= 5:
            self.static_member(first)
        else:
            self.leave(self.a, "leave A", MemberIdentity(first))
            self.heartbeat(self.a, "hb left", first, 3)
            self.sync(self.a, "sync left", first, 3)
            self.join(self.a, "rejoin left", first)
        self.describe("desc empty")

    def strangers(self) -> None:
        line = self.a
        self.join(line, "join nobody", "nobody")
        self.join(line, "small session", session_ms=5)
        self.join(line, "no protocols", protocols=())
        self.join(line, "no type", protocol_type="")
        self.join(line, "empty group id", protocols=(), session_ms=6_000, group="")
        self.heartbeat(line, "hb unknown group", "x", 1)
        self.sync(line, "sync unknown group", "x", 1)
        self.leave(line, "leave unknown", MemberIdentity("x"), MemberIdentity("y"))
        self.note("hb empty", line.ask(HeartbeatRequest("", 1, "x"), HEARTBEAT[self.version]))
        self.sync(line, "sync empty", "x", 1, group="")
        self.note("leave empty", line.ask(LeaveGroupRequest("", "x", [MemberIdentity("x")]), LEAVE[self.version]))

    def first_member(self) -> str:
        line = self.a
        self.enter(line)
        first: str = self.note("A", line.receive()).member_id
        self.describe("desc completing")
        self.heartbeat(line, "hb", first, 1)
        self.heartbeat(line, "hb2", first, 2)
        self.heartbeat(line, "hb nobody", "nobody", 1)
        self.heartbeat(line, "hb inst", first, 1, "i")
        self.join(line, "rejoin completing", first)
        self.sync(line, "sync gen", first, 0)
        self.sync(line, "sync proto", first, 1, protocol=("consumer", "x"))
        self.sync(line, "sync null", first, 1, protocol=(None, None))
        self.sync(line, "sync again", first, 1, given=[(first, b"1"), ("zzz", b"2")])
        self.describe("desc stable")
        self.join(self.b, "inconsistent", protocols=["x"])
        self.join(self.b, "inconsistent type", protocol_type="connect")
        return first

    def second_member(self, first: str) -> None:
        self.enter(self.b)
        self.describe("desc preparing")
        self.sync(self.a, "sync preparing", first, 1)
        self.join(self.a, "A2", first)
        second = self.note("B2", self.b.receive()).member_id
        self.send_sync(self.b, second, 2)
        self.sync(self.a, "A sync", first, 2, given=[(second, b"bb")])
        self.note("B sync", self.b.receive())
        self.join(self.b, "B rejoin", second)
        self.sync(self.b, "B sync late", second, 2)
        strangers = MemberIdentity("nobody"), MemberIdentity("", "inst"), MemberIdentity("")
        self.leave(self.c, "leave nobody", *strangers)
        self.leave(self.c, "leave B", MemberIdentity(second))
        self.heartbeat(self.a, "hb A", first, 2)
        self.sync(self.a, "A sync reb", first, 2)
        self.join(self.a, "A3", first)
        self.sync(self.a, "A3 sync", first, 3, given=[(first, b"3")])

    def static_member(self, first: str) -> None:
        self.send_join(self.c, "", "i1")
        self.join(self.a, "A4", first)
        old = self.note("C4", self.c.receive()).member_id
        self.send_sync(self.c, old, 4, "i1")
        self.sync(self.a, "A4 sync", first, 4, given=[(first, b"a4"), (old, b"c4")])
        self.note("C4 sync", self.c.receive())
        new = self.join(self.d, "C replaced", "", "i1").member_id
        self.heartbeat(self.c, "old hb", old, 4, "i1")
        self.heartbeat(self.c, "old hb no inst", old, 4)
        self.join(self.c, "old join", old, "i1")
        self.sync(self.c, "old sync", old, 4, "i1")
        self.heartbeat(self.c, "unknown inst", new, 4, "zz")
        self.leave(self.c, "old leave", MemberIdentity(old, "i1"))
        self.sync(self.d, "new sync", new, 4, "i1")
        self.heartbeat(self.d, "new hb", new, 4, "i1")
        self.join(self.d, "static rejoin with id", new, "i1")
        self.leave(self.a, "leave A", MemberIdentity(first))
        self.join(self.d, "D5", new, "i1")
        self.sync(self.d, "D5 sync", new, 5, "i1", given=[(new, b"d5")])
        self.static_leader()

    def static_leader(self) -> None:
        last = self.join(self.c, "static leader replaced", "", "i1").member_id
        self.sync(self.c, "its sync", last, 5, "i1")
        self.describe("desc static")
        self.leave(self.a, "leave by instance", MemberIdentity("", "i1"))
        self.heartbeat(self.c, "hb after", last, 5, "i1")
        self.join(self.c, "rejoin after", last, "i1")
        self.sync(self.c, "sync after", last, 5, "i1")


Name = Callable[[str], str]


def _join(reply: JoinGroupResponse, name: Name) -> list[Any]:
    leader, member_id = name(reply.leader), name(reply.member_id)
    rows = sorted([name(row.member_id), row.group_instance_id or "", row.metadata.decode()] for row in reply.members)
    told = [ErrorCode(reply.error_code).name, reply.generation_id, reply.protocol_type, reply.protocol_name]
    return [*told, leader, reply.skip_assignment, member_id, rows]


def _sync(reply: SyncGroupResponse, name: Name) -> list[Any]:
    error = ErrorCode(reply.error_code).name
    return [error, reply.protocol_type, reply.protocol_name, reply.assignment.decode()]


def _heartbeat(reply: HeartbeatResponse, name: Name) -> list[Any]:
    return [ErrorCode(reply.error_code).name]


def _leave(reply: LeaveGroupResponse, name: Name) -> list[Any]:
    rows = [[name(row.member_id), row.group_instance_id, ErrorCode(row.error_code).name] for row in reply.members]
    return [ErrorCode(reply.error_code).name, rows]


def _describe(reply: DescribeGroupsResponse, name: Name) -> list[Any]:
    (group,) = reply.groups
    rows = [
        [
            name(row.member_id),
            row.group_instance_id or "",
            row.client_id,
            row.client_host,
            row.member_metadata.decode(),
            row.member_assignment.decode(),
        ]
        for row in group.members
    ]
    error = ErrorCode(group.error_code).name
    return [error, group.group_state, group.protocol_type, group.protocol_data, sorted(rows)]


_SHOWN: dict[type[Message], Callable[[Any, Name], list[Any]]] = {
    JoinGroupResponse: _join,
    SyncGroupResponse: _sync,
    HeartbeatResponse: _heartbeat,
    LeaveGroupResponse: _leave,
    DescribeGroupsResponse: _describe,
}


@pytest.fixture
def node(tmp_path: Path) -> Iterator[HandlerBroker]:
    node = HandlerBroker(tmp_path, group_initial_rebalance_delay_ms="0", offsets_topic_num_partitions="1")
    yield node
    node.close()


def expected(version: int) -> list[tuple[str, Any]]:
    """What Kafka answered, in the order in which it was asked."""
    steps = json.loads((TRANSCRIPTS / "classic_groups.json").read_text())
    return [(step["step"], row["answer"]) for step in steps for row in step["answers"] if version in row["versions"]]


@pytest.mark.parametrize("version", range(10))
def test_every_answer_is_kafkas(node: HandlerBroker, version: int) -> None:
    conversation = Conversation(node, version)
    conversation.hold()
    assert conversation.steps == expected(version)
    assert written(node, conversation) == recorded(version)


def recorded(version: int) -> list[Any]:
    """What Kafka wrote."""
    rows = json.loads((TRANSCRIPTS / "classic_records.json").read_text())
    (records,) = [row["records"] for row in rows if version in row["versions"]]
    assert isinstance(records, list)
    return records


def written(node: HandlerBroker, conversation: Conversation) -> list[Any]:
    """What we wrote of the group, but for the time."""
    piece = node.services.partitions.get("__consumer_offsets", 0).read(0, 1 << 20, 0, at_least_one=True)
    assert piece is not None
    values = []
    records = [record for _, one in batch.split(memoryview(piece.read())) for record in batch.iterate(one)]
    for record in records:
        assert record.key is not None
        decoded = decode(record.key, record.value)
        assert not isinstance(decoded, UnknownType)
        value = decoded[1]
        assert isinstance(value, GroupMetadataValue)
        assert value.current_state_timestamp == node.time.clock.now_ms()
        members = sorted([conversation.name(row.member_id), *_member(row)] for row in value.members)
        leader = conversation.name(value.leader) if value.leader else value.leader
        values.append([value.protocol_type, value.generation, value.protocol, leader, members])
    return values


def _member(row: MemberMetadata) -> list[Any]:
    timeouts = row.rebalance_timeout, row.session_timeout
    return [row.group_instance_id, *timeouts, row.subscription.decode(), row.assignment.decode()]

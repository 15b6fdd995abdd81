"""Members of a consumer group that speak the classic protocol, rule by rule."""

from __future__ import annotations

import time
from typing import Any

import pytest

from headgate.gateway.coordinator.groups.classic import requests
from headgate.gateway.coordinator.groups.settings import GroupSettings
from headgate.gateway.coordinator.groups.tests.consumers import (
    CALLER,
    GROUP,
    LEAVE_STATIC_EPOCH,
    Client,
    classic_members,
    group_of,
    reported,
    settle,
)
from headgate.gateway.coordinator.groups.tests.groups import Desk
from headgate.gateway.coordinator.groups.tests.mixed_consumers import SESSION_MS, ClassicConsumer, code_of, settle_all
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.internal import consumer_protocol
from headgate.protocol.internal.consumer_protocol import ConsumerProtocolSubscription
from headgate.protocol.internal.offsets import UNREVOKED_PARTITIONS, GroupMetadataKey
from headgate.protocol.messages.heartbeat import HeartbeatRequest
from headgate.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from headgate.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from headgate.protocol.messages.sync_group import SyncGroupRequest

SUBSCRIPTION = consumer_protocol.encode(ConsumerProtocolSubscription(["orders"]), 1)


@pytest.fixture
def desk() -> Desk:
    """With a consumer group that has one member of the consumer protocol."""
    desk = Desk({"orders": 6})
    Client(desk, "new", "orders").settle(2)
    return desk


def ask(desk: Desk, request: Any, version: int = 9) -> Any:
    """The reply to a request of the classic protocol, or the error."""
    verbs: dict[Any, Any] = {
        JoinGroupRequest: requests.join,
        SyncGroupRequest: requests.sync,
        HeartbeatRequest: requests.heartbeat,
        LeaveGroupRequest: requests.leave,
    }
    verb = verbs[type(request)]
    try:
        ((_, reply),) = desk.run(
            verb(desk.shard, request, CALLER._replace(version=version), desk.ticket(), desk.now_ms)
        )
    except KafkaError as error:
        return error
    return reply


def joining(member_id: str = "old", instance_id: str | None = None, **fields: Any) -> JoinGroupRequest:
    values = {
        "group_id": GROUP,
        "session_timeout_ms": SESSION_MS,
        "rebalance_timeout_ms": 60_000,
        "member_id": member_id,
        "group_instance_id": instance_id,
        "protocol_type": "consumer",
        "protocols": [JoinGroupRequestProtocol("range", SUBSCRIPTION)],
    }
    return JoinGroupRequest(**(values | fields))  # type: ignore[arg-type]


def test_a_join_is_answered_at_once_with_epoch_and_first_protocol(desk: Desk) -> None:
    protocols = [JoinGroupRequestProtocol("mine", SUBSCRIPTION), JoinGroupRequestProtocol("range", SUBSCRIPTION)]
    reply = ask(desk, joining(protocols=protocols))
    assert code_of(reply) is ErrorCode.NONE
    assert (reply.member_id, reply.generation_id, reply.protocol_type, reply.protocol_name) == (
        "old",
        2,
        "consumer",
        "mine",
    )
    assert (reply.leader, reply.members) == ("", [])
    member = group_of(desk).members["old"]
    assert member.classic is not None
    assert member.classic.session_timeout_ms == SESSION_MS
    assert [each.name for each in member.classic.supported_protocols] == ["mine", "range"]
    desk.check_rebuilt()


def test_the_assignment_comes_with_sync_in_the_version_of_the_member(desk: Desk) -> None:
    ask(desk, joining())
    reply = ask(desk, SyncGroupRequest(GROUP, 2, "old", None, "consumer", "range"), 5)
    assert (reply.protocol_type, reply.protocol_name) == ("consumer", "range")
    assert reply.assignment[:2] == b"\0\1"
    assert consumer_protocol.decode_assignment(reply.assignment).assigned_partitions == []
    new = Client(desk, "new", "orders")
    settle(new)
    assert code_of(ask(desk, HeartbeatRequest(GROUP, 2, "old"))) is ErrorCode.REBALANCE_IN_PROGRESS
    ask(desk, joining())
    reply = ask(desk, SyncGroupRequest(GROUP, 2, "old"), 5)
    (topic,) = consumer_protocol.decode_assignment(reply.assignment).assigned_partitions
    assert (topic.topic, len(topic.partitions)) == ("orders", 3)
    assert code_of(ask(desk, HeartbeatRequest(GROUP, 2, "old"))) is ErrorCode.NONE


@pytest.mark.parametrize("version", [b"\0\1", b"\0\2", b"\0\x09"])
def test_a_member_without_the_later_fields_of_its_version(desk: Desk, version: bytes) -> None:
    """Of kafkajs 1, for example: version 1 with the fields of version 0."""
    short = version + consumer_protocol.encode(ConsumerProtocolSubscription(["orders"]), 0)[2:]
    reply = ask(desk, joining(protocols=[JoinGroupRequestProtocol("range", short)]))
    assert code_of(reply) is ErrorCode.NONE
    assert group_of(desk).members["old"].topics == {"orders"}
    settle(Client(desk, "new", "orders"))
    ask(desk, joining(protocols=[JoinGroupRequestProtocol("range", short)]))
    reply = ask(desk, SyncGroupRequest(GROUP, 2, "old"), 5)
    (topic,) = consumer_protocol.decode_assignment(reply.assignment).assigned_partitions
    assert (topic.topic, len(topic.partitions)) == ("orders", 3)


def test_a_cooperative_member_gives_up_by_joining_again(desk: Desk) -> None:
    old = ClassicConsumer(desk, "orders")
    new = Client(desk, "new", "orders")
    settle_all(desk, (old, new))
    third = Client(desk, "third", "orders")
    third.beat()
    generation = old.generation
    reads = set(old.reads)
    old.heartbeat()  # is told to join again, and does
    assert group_of(desk).members[old.member_id].state == UNREVOKED_PARTITIONS
    assert (old.generation, old.reads < reads) == (generation, True)
    old.step()
    assert old.generation == generation + 1
    settle_all(desk, (old, new, third))
    assert group_of(desk).state == "Stable"


def test_ids_are_made_by_the_broker(desk: Desk) -> None:
    reply = ask(desk, joining(""))
    assert code_of(reply) is ErrorCode.MEMBER_ID_REQUIRED
    assert reply.member_id.startswith("client-")
    assert len(group_of(desk).members) == 1
    assert ask(desk, joining(""), 3).member_id in group_of(desk).members
    assert ask(desk, joining("", "i")).member_id == group_of(desk).static["i"]


@pytest.mark.parametrize(
    "fields,code",
    [
        ({"protocol_type": "connect"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocols": []}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocols": [JoinGroupRequestProtocol("range", b"")]}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"session_timeout_ms": 1}, ErrorCode.INVALID_SESSION_TIMEOUT),
        (
            {"protocols": [JoinGroupRequestProtocol("range", SUBSCRIPTION + b"x" * (1 << 20))]},
            ErrorCode.MESSAGE_TOO_LARGE,
        ),
        ({"member_id": "stranger", "group_instance_id": "i"}, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_a_join_is_refused(desk: Desk, fields: dict[str, Any], code: ErrorCode) -> None:
    written = len(desk.records)
    assert code_of(ask(desk, joining(**fields))) is code
    assert len(desk.records) == written


def test_classic_members_need_a_protocol_in_common(desk: Desk) -> None:
    ask(desk, joining())
    other = joining("other", protocols=[JoinGroupRequestProtocol("sticky", SUBSCRIPTION)])
    assert code_of(ask(desk, other)) is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_a_full_group_refuses_a_classic_member_too() -> None:
    desk = Desk({"orders": 6}, GroupSettings(consumer_max_size=1))
    Client(desk, "new", "orders").beat()
    assert code_of(ask(desk, joining())) is ErrorCode.GROUP_MAX_SIZE_REACHED


@pytest.mark.parametrize(
    "request_,code",
    [
        (HeartbeatRequest(GROUP, 2, "stranger"), ErrorCode.UNKNOWN_MEMBER_ID),
        (HeartbeatRequest(GROUP, 1, "new"), ErrorCode.UNKNOWN_MEMBER_ID),
        (HeartbeatRequest(GROUP, 3, "old"), ErrorCode.ILLEGAL_GENERATION),
        (HeartbeatRequest(GROUP, 2, "old", "j"), ErrorCode.UNKNOWN_MEMBER_ID),
        (SyncGroupRequest(GROUP, 2, "stranger"), ErrorCode.UNKNOWN_MEMBER_ID),
        (SyncGroupRequest(GROUP, 1, "old"), ErrorCode.ILLEGAL_GENERATION),
        (SyncGroupRequest(GROUP, 2, "old", None, "connect"), ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        (SyncGroupRequest(GROUP, 2, "old", None, None, "sticky"), ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
    ],
)
def test_who_is_not_where_the_group_believes_is_refused(desk: Desk, request_: Any, code: ErrorCode) -> None:
    ask(desk, joining())
    assert code_of(ask(desk, request_, 4)) is code


def test_sync_of_an_older_epoch_sends_the_member_back(desk: Desk) -> None:
    ask(desk, joining())
    Client(desk, "third", "orders").beat()
    assert code_of(ask(desk, SyncGroupRequest(GROUP, 2, "old"), 4)) is ErrorCode.REBALANCE_IN_PROGRESS


def test_who_does_not_sync_or_does_not_join_again_in_time_is_given_up(desk: Desk) -> None:
    new = Client(desk, "new", "orders")
    ask(desk, joining(rebalance_timeout_ms=10_000))
    settle(new)
    desk.advance(10_001)
    assert "old" not in group_of(desk).members, "it did not send SyncGroup"

    generation = ask(desk, joining(rebalance_timeout_ms=10_000)).generation_id
    ask(desk, SyncGroupRequest(GROUP, generation, "old"), 4)
    Client(desk, "third", "orders").beat()
    for _ in range(3):
        answer = ask(desk, HeartbeatRequest(GROUP, generation, "old"))
        assert code_of(answer) is ErrorCode.REBALANCE_IN_PROGRESS
        desk.advance(4_000)
        new.beat(topic_partitions=reported(new.reads))
    assert "old" not in group_of(desk).members, "it did not join again, though it was heard of"


def test_a_session_lasts_as_the_member_said_also_after_a_restart(desk: Desk) -> None:
    generation = ask(desk, joining()).generation_id
    ask(desk, SyncGroupRequest(GROUP, generation, "old"), 4)
    desk.shard = desk.rebuilt()
    list(desk.shard.start_clocks(desk.now_ms))
    desk.advance(SESSION_MS - 1)
    assert "old" in group_of(desk).members
    desk.advance(2)
    assert "old" not in group_of(desk).members


def test_classic_members_leave_with_leave_group(desk: Desk) -> None:
    ask(desk, joining())
    static = ask(desk, joining("", "i")).member_id
    leaving = [
        MemberIdentity("old"),
        MemberIdentity("", "i"),
        MemberIdentity("new"),
        MemberIdentity("x", "i"),
        MemberIdentity("gone"),
    ]
    epoch = group_of(desk).epoch
    reply = ask(desk, LeaveGroupRequest(GROUP, "", leaving), 5)
    assert [(row.member_id, row.error_code) for row in reply.members] == [
        ("old", ErrorCode.NONE),
        (static, ErrorCode.NONE),
        ("new", ErrorCode.UNKNOWN_MEMBER_ID),
        ("x", ErrorCode.UNKNOWN_MEMBER_ID),
        ("gone", ErrorCode.UNKNOWN_MEMBER_ID),
    ]
    group = group_of(desk)
    assert (set(group.members), group.epoch) == ({"new"}, epoch + 1)
    assert ask(desk, LeaveGroupRequest(GROUP, "gone"), 1).error_code is ErrorCode.UNKNOWN_MEMBER_ID
    desk.check_rebuilt()


def test_a_static_member_keeps_its_partitions_in_another_protocol(desk: Desk) -> None:
    static = Client(desk, "s", "orders", instance_id="i")
    new = Client(desk, "new", "orders")
    settle(new, static)
    reads, epoch = static.reads["orders"], group_of(desk).epoch
    reply = ask(desk, joining("", "i"))
    assert reply.generation_id == epoch
    member = group_of(desk).members[reply.member_id]
    assert next(iter(member.assigned.values())) == reads
    assert "s" not in group_of(desk).members
    again = Client(desk, "s2", "orders", instance_id="i")
    assert again.beat().member_epoch == epoch
    assert again.reads["orders"] == reads
    assert classic_members(desk) == 0


def test_the_last_static_member_of_a_protocol_leaves_a_classic_group(desk: Desk) -> None:
    static = Client(desk, "s", "orders", instance_id="i")
    ask(desk, joining())
    static.beat()
    Client(desk, "new").leave()
    static.leave(LEAVE_STATIC_EPOCH)
    ask(desk, joining("", "i"))
    assert desk.shard.groups[GROUP].kind == "classic"
    assert isinstance(desk.batches[-1][-1][0], GroupMetadataKey)
    desk.check_rebuilt()


def seconds_with(protocols: int) -> float:
    """CPU seconds that members take who speak so many protocols, until their group becomes a classic one."""

    def speaking(member_id: str, name: str) -> JoinGroupRequest:
        names = [f"{name}{number}" for number in range(protocols)]
        return joining(member_id, protocols=[JoinGroupRequestProtocol(each, SUBSCRIPTION) for each in names])

    desk = Desk({"orders": 6})
    new = Client(desk, "new", "orders")
    new.settle(2)
    started = time.process_time()
    assert ask(desk, speaking("first", "p")).error_code == ErrorCode.NONE
    assert ask(desk, speaking("other", "q")).code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    turned = speaking("second", "p")
    turned.protocols.reverse()
    assert ask(desk, turned).error_code == ErrorCode.NONE
    new.leave()
    assert desk.shard.groups[GROUP].kind == "classic"
    return time.process_time() - started


@pytest.mark.slow
def test_members_with_thousands_of_protocols_are_no_burden() -> None:
    few, many = min(seconds_with(800) for _ in range(3)), min(seconds_with(6_400) for _ in range(3))
    assert many < 24 * few, "eight times as many take eight times as long, and 64 times as searches through lists"


@pytest.mark.parametrize("fields", [{"member_id": "m" * 40_000}, {"member_id": "", "instance_id": "i" * 40_000}])
def test_nobody_joins_with_a_name_that_no_record_can_hold(desk: Desk, fields: dict[str, str]) -> None:
    assert ask(desk, joining(**fields)).code is ErrorCode.MESSAGE_TOO_LARGE

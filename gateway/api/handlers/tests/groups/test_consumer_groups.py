"""ConsumerGroupHeartbeat and ConsumerGroupDescribe over the wire, in every version; the rules are tested purely."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headgate.gateway.api import authorized_operations
from headgate.gateway.tests.builders import HandlerBroker
from headgate.gateway.tests.requests import commit_request
from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages.consumer_group_describe import (
    CONSUMER_MEMBER,
    UNKNOWN_MEMBER,
    ConsumerGroupDescribeRequest,
)
from headgate.protocol.messages.consumer_group_heartbeat import LEAVE_EPOCH, ConsumerGroupHeartbeatRequest
from headgate.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from headgate.protocol.messages.list_groups import ListGroupsRequest

VERSIONS = range(2)


@pytest.fixture
def node(tmp_path: Path) -> Any:
    node = HandlerBroker(tmp_path, group_initial_rebalance_delay_ms="0")
    yield node
    node.close()


def make_topic(node: HandlerBroker, partitions: int) -> bytes:
    """The topic `t`, and its id."""
    node.services.metadata.create_topic("t", partitions)
    return node.services.metadata.image.topics["t"].topic_id


def joining(member_id: str = "m", group_id: str = "group", **fields: Any) -> ConsumerGroupHeartbeatRequest:
    values = {
        "group_id": group_id,
        "member_id": member_id,
        "member_epoch": 0,
        "rebalance_timeout_ms": 60_000,
        "subscribed_topic_names": ["t"],
        "topic_partitions": [],
    }
    return ConsumerGroupHeartbeatRequest(**(values | fields))  # type: ignore[arg-type]


@pytest.mark.parametrize("version", VERSIONS)
def test_join_stay_and_leave(node: HandlerBroker, version: int) -> None:
    topic = make_topic(node, 2)
    answer = node.ask(joining("" if version == 0 else "m"), version)
    assert (answer.error_code, answer.member_epoch, answer.heartbeat_interval_ms) == (ErrorCode.NONE, 1, 5_000)
    assert [(row.topic_id, row.partitions) for row in answer.assignment.topic_partitions] == [(topic, [0, 1])]
    member_id = answer.member_id
    answer = node.ask(ConsumerGroupHeartbeatRequest("group", member_id, 1), version)
    assert (answer.error_code, answer.member_epoch, answer.assignment) == (ErrorCode.NONE, 1, None)
    answer = node.ask(ConsumerGroupHeartbeatRequest("group", member_id, LEAVE_EPOCH), version)
    assert (answer.error_code, answer.member_epoch) == (ErrorCode.NONE, LEAVE_EPOCH)
    answer = node.ask(ConsumerGroupHeartbeatRequest("group", member_id, 1), version)
    assert answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_refusal_says_why(node: HandlerBroker) -> None:
    answer = node.ask(joining(subscribed_topic_regex="(t"), 1)
    assert answer.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
    assert "missing )" in answer.error_message
    answer = node.ask(joining(""), 1)
    assert (answer.error_code, answer.error_message) == (ErrorCode.INVALID_REQUEST, "the member id is empty")
    answer = node.ask(joining(group_id=""), 1)
    assert answer.error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("version", VERSIONS)
def test_describe(node: HandlerBroker, version: int) -> None:
    topic = make_topic(node, 2)
    node.ask(joining(), 1)
    node.ask(JoinGroupRequest("classic", 10_000, 60_000, "", None, "x", [JoinGroupRequestProtocol("p", b"")]), 3)
    request = ConsumerGroupDescribeRequest(["group", "classic", "missing"], include_authorized_operations=True)
    group, classic, missing = node.ask(request, version).groups
    assert (group.error_code, group.group_state, group.group_epoch, group.assignor_name) == (0, "Stable", 1, "uniform")
    assert group.authorized_operations == authorized_operations.GROUP
    (member,) = group.members
    assert (member.member_id, member.member_epoch) == ("m", 1)
    assert member.member_type == (CONSUMER_MEMBER if version >= 1 else UNKNOWN_MEMBER)
    (row,) = member.assignment.topic_partitions
    assert (row.topic_id, row.topic_name, row.partitions) == (topic, "t", [0, 1])
    assert member.target_assignment == member.assignment
    for other, reason in ((classic, "is not a consumer group"), (missing, "not found")):
        assert other.error_code == ErrorCode.GROUP_ID_NOT_FOUND
        assert reason in other.error_message
        assert other.authorized_operations == authorized_operations.UNKNOWN


def test_a_group_that_is_named_often_is_described_once(node: HandlerBroker) -> None:
    rows = node.ask(ConsumerGroupDescribeRequest(["a", "b", *["a"] * 1_000]), 1).groups
    assert [row.group_id for row in rows] == ["a", "b"]


def test_a_group_is_listed_with_its_type(node: HandlerBroker) -> None:
    node.ask(joining(), 1)
    (row,) = node.ask(ListGroupsRequest(types_filter=["consumer"]), 5).groups
    assert (row.group_id, row.group_type, row.group_state, row.protocol_type) == (
        "group",
        "consumer",
        "Stable",
        "consumer",
    )


def test_topics_that_come_reach_the_group(node: HandlerBroker) -> None:
    node.ask(joining(), 1)
    topic = make_topic(node, 3)
    answer = node.ask(ConsumerGroupHeartbeatRequest("group", "m", 1), 1)
    assert answer.member_epoch == 2
    assert [(row.topic_id, row.partitions) for row in answer.assignment.topic_partitions] == [(topic, [0, 1, 2])]


def test_a_member_commits_with_its_epoch(node: HandlerBroker) -> None:
    make_topic(node, 1)
    node.ask(joining(), 1)
    for epoch, code in ((1, ErrorCode.NONE), (2, ErrorCode.STALE_MEMBER_EPOCH)):
        request = commit_request("group", {0: 5}, generation_id_or_member_epoch=epoch, member_id="m")
        answer = node.ask(request, 9)
        assert answer.topics[0].partitions[0].error_code == code

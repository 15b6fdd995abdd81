"""Questions of members and administrators of groups."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from headgate.gateway.api.tests.under_acls.questions import Ids, Question, named, question
from headgate.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from headgate.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from headgate.protocol.messages.delete_groups import DeleteGroupsRequest
from headgate.protocol.messages.describe_groups import DescribeGroupsRequest
from headgate.protocol.messages.find_coordinator import FindCoordinatorRequest
from headgate.protocol.messages.heartbeat import HeartbeatRequest
from headgate.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from headgate.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from headgate.protocol.messages.list_groups import ListGroupsRequest
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
from headgate.protocol.messages.sync_group import SyncGroupRequest

GROUPS = ("g", "h", "nobody")
"""A group of ACLs, another one, and one that does not exist. Nor do k, of ACLs, and l, which is of none."""
TOPICS = ("t", "u", "new")
MEMBER = "no-such-member"


def group_questions() -> Iterator[Question]:
    yield from _coordinators()
    yield from _members()
    yield from _offsets()
    yield from _administration()


def _coordinators() -> Iterator[Question]:
    for key_type, keys in {0: ["g", "h"], 1: ["x", "y"]}.items():
        for key in keys:
            yield question(
                f"key type {key_type}, {key}", FindCoordinatorRequest(key, key_type), range(int(key_type > 0), 4)
            )
        request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=keys)
        yield question(f"key type {key_type}", request, range(4, 7))


def _members() -> Iterator[Question]:
    """An allowed request is refused for its session timeout, or as the member does not exist: no group changes."""
    protocols = [JoinGroupRequestProtocol("range", b"")]
    for group in ("g", "h"):
        yield question(group, JoinGroupRequest(group, 1, 1000, "", None, "consumer", protocols))
        yield question(group, SyncGroupRequest(group, 1, MEMBER, None, "consumer", "range"))
        yield question(group, HeartbeatRequest(group, 1, MEMBER))
        yield question(group, LeaveGroupRequest(group, MEMBER, [MemberIdentity(MEMBER)]))
    for group in ("k", "l"):
        for topics in (["t"], ["t", "u"], ["new"]):
            beat = ConsumerGroupHeartbeatRequest(group, MEMBER, 5, subscribed_topic_names=topics, topic_partitions=[])
            yield question(f"{group}, subscribed to {' '.join(topics)}", beat)
        yield question(f"{group}, no topics", ConsumerGroupHeartbeatRequest(group, MEMBER, 5))


def commit(group: str, ids: Ids, version: int) -> OffsetCommitRequest:
    """Offset 1 of each topic, without a member."""
    rows = [OffsetCommitRequestPartition(0, 1, committed_metadata="")]
    return OffsetCommitRequest(
        group,
        topics=[
            OffsetCommitRequestTopic(name, topic_id=named(ids, name) if version >= 10 else bytes(16), partitions=rows)
            for name in TOPICS
        ],
    )


def _offsets() -> Iterator[Question]:
    for group in ("g", "h"):
        yield Question(group, partial(commit, group), range(1, 11))
        named_topics = [OffsetFetchRequestTopic(name, [0]) for name in TOPICS]
        yield question(group, OffsetFetchRequest(group, named_topics), range(1, 8))
        yield question(f"{group}, all topics", OffsetFetchRequest(group, None), range(2, 8))
        deleted = [OffsetDeleteRequestTopic(name, [OffsetDeleteRequestPartition(0)]) for name in TOPICS]
        yield question(group, OffsetDeleteRequest(group, deleted), restore=("g", "h"))

    def fetched(ids: Ids, version: int) -> OffsetFetchRequest:
        rows = [
            OffsetFetchRequestTopics(name, named(ids, name), [0])
            if version >= 10
            else OffsetFetchRequestTopics(name, partition_indexes=[0])
            for name in TOPICS
        ]
        return OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group, topics=rows) for group in GROUPS])

    yield Question("groups", fetched, range(8, 11))
    everything = [OffsetFetchRequestGroup(group, topics=None) for group in GROUPS]
    yield question("groups, all topics", OffsetFetchRequest(groups=everything), range(8, 11))


def _administration() -> Iterator[Question]:
    yield question("some", DescribeGroupsRequest([*GROUPS]))
    yield question("with operations", DescribeGroupsRequest([*GROUPS], True), range(3, 7))
    yield question("some", ConsumerGroupDescribeRequest([*GROUPS]))
    yield question("with operations", ConsumerGroupDescribeRequest([*GROUPS], True))
    yield question("all", ListGroupsRequest())
    yield question("some", DeleteGroupsRequest([*GROUPS]), restore=("g", "h"))

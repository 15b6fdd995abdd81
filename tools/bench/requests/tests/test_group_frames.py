"""Requests of groups, in every version that the bench sends, against kio; and what members tell each other."""

import struct
from collections.abc import Iterator

import pytest

from headgate.protocol.internal.consumer_protocol import decode_assignment, decode_subscription
from headgate.tools.bench.requests import frames, group_frames
from headgate.tools.bench.requests.group_frames import TopicPartitions
from headgate.tools.bench.requests.tests.test_frames import TOPIC_ID, read_with_kio

PLACE = TopicPartitions("topic", [3, 7], TOPIC_ID)


def every_request() -> Iterator[frames.RequestWriter]:
    yield group_frames.find_coordinator("group")
    for version in range(2, 11):
        yield group_frames.offset_commit(version, "group", PLACE, "note")
    yield group_frames.offset_fetch("group")
    yield group_frames.offset_fetch("group", PLACE)
    yield group_frames.join_group("group", "", group_frames.subscription("topic"))
    yield group_frames.sync_group("group", "member")
    yield group_frames.sync_group("group", "member", {"member": group_frames.assignment("topic", [1])})
    yield group_frames.leave_group("group", "member")
    for version in range(5):
        yield group_frames.heartbeat(version, "group", "member", 3)
    for version in range(2):
        yield group_frames.consumer_group_heartbeat(
            version, "group", "member", 0, ["topic"], TopicPartitions("topic", (), TOPIC_ID)
        )
        yield group_frames.consumer_group_heartbeat(version, "group", "member", 5)
        yield group_frames.consumer_group_heartbeat(version, "group", "member", 5, owned=PLACE)


@pytest.mark.parametrize("writer", list(every_request()), ids=lambda writer: f"{writer.key} v{writer.version}")
def test_kio_reads_the_same(writer: frames.RequestWriter) -> None:
    header, _ = read_with_kio(writer.frame())
    assert (header.request_api_key, header.request_api_version) == (writer.key, writer.version)


@pytest.mark.parametrize("version", range(2, 11))
def test_the_mark_of_a_commit_is_its_last_partitions_offset(version: int) -> None:
    writer = group_frames.offset_commit(version, "group", PLACE)
    frame = bytearray(writer.frame())
    struct.pack_into(">q", frame, writer.marks["committed_offset"], 123_456_789_012)
    _, request = read_with_kio(bytes(frame))
    assert [(each.partition_index, each.committed_offset) for each in request.topics[0].partitions] == [
        (3, 0),
        (7, 123_456_789_012),
    ]
    assert request.group_id == "group"
    assert request.generation_id_or_member_epoch == -1


def test_a_generation_is_patched_where_it_is() -> None:
    for writer in (group_frames.sync_group("group", "member"), group_frames.heartbeat(4, "group", "member")):
        frame = bytearray(writer.frame())
        struct.pack_into(">i", frame, writer.marks["generation"], 77)
        _, request = read_with_kio(bytes(frame))
        assert (request.generation_id, request.member_id) == (77, "member")


def test_a_joining_member_owns_nothing_a_staying_one_is_silent() -> None:
    _, joins = read_with_kio(
        group_frames.consumer_group_heartbeat(
            1, "group", "member", 0, ["topic"], TopicPartitions("topic", (), TOPIC_ID)
        ).frame()
    )
    assert (joins.subscribed_topic_names, joins.topic_partitions) == (("topic",), ())
    _, stays = read_with_kio(group_frames.consumer_group_heartbeat(1, "group", "member", 5).frame())
    assert (stays.subscribed_topic_names, stays.topic_partitions, stays.member_epoch) == (None, None, 5)
    _, owns = read_with_kio(group_frames.consumer_group_heartbeat(1, "group", "member", 5, owned=PLACE).frame())
    assert [(each.topic_id.bytes, each.partitions) for each in owns.topic_partitions] == [(TOPIC_ID, (3, 7))]


def test_members_understand_each_other() -> None:
    assert decode_subscription(group_frames.subscription("topic")).topics == ["topic"]
    (assigned,) = decode_assignment(group_frames.assignment("topic", [3, 7])).assigned_partitions
    assert (assigned.topic, assigned.partitions) == ("topic", [3, 7])

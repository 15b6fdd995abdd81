"""A consumer group as others see it: commits, fetches, deletion, views; and logs that were compacted."""

from __future__ import annotations

import pytest

from headgate.gateway.coordinator.groups.consumer import group, group_records
from headgate.gateway.coordinator.groups.consumer.group import ConsumerGroup
from headgate.gateway.coordinator.groups.consumer.members import ConsumerMember
from headgate.gateway.coordinator.groups.tests.consumers import GROUP, LEAVE_STATIC_EPOCH, Client, group_of, settle
from headgate.gateway.coordinator.groups.tests.groups import Desk, persistent_state, state_of_group, topic_id
from headgate.gateway.coordinator.groups.tests.mixed_consumers import ClassicConsumer, settle_all
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.internal.offsets import ConsumerGroupMetadataKey
from headgate.protocol.messages.consumer_group_describe import CLASSIC_MEMBER, CONSUMER_MEMBER

T = b"t" * 16


@pytest.fixture
def desk() -> Desk:
    return Desk({"orders": 4})


def refusal(group: ConsumerGroup, member_id: str, epoch: int, version: int = 9) -> ErrorCode:
    try:
        group.check_commit(member_id, None, epoch, version, 0.0)
    except KafkaError as error:
        return error.code
    return ErrorCode.NONE


def test_only_members_with_their_epoch_commit_while_there_are_any(desk: Desk) -> None:
    member = Client(desk, "a", "orders")
    member.settle(2)
    group = group_of(desk)
    assert refusal(group, "a", 1) is ErrorCode.NONE
    assert refusal(group, "a", 0) is refusal(group, "a", 2) is ErrorCode.STALE_MEMBER_EPOCH
    assert refusal(group, "a", 1, version=8) is ErrorCode.UNSUPPORTED_VERSION
    assert refusal(group, "b", 1) is refusal(group, "", -1) is ErrorCode.UNKNOWN_MEMBER_ID
    member.leave()
    assert refusal(group, "", -1) is ErrorCode.NONE
    assert refusal(group, "a", 1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_within_a_transaction_only_a_named_member_is_checked(desk: Desk) -> None:
    member = Client(desk, "a", "orders")
    member.settle(2)
    consumers = group_of(desk)

    def refused(member_id: str, epoch: int, instance_id: str | None = None) -> ErrorCode:
        try:
            consumers.check_transactional_commit(member_id, instance_id, epoch)
        except KafkaError as error:
            return error.code
        return ErrorCode.NONE

    assert refused("a", 1) is refused("", -1) is ErrorCode.NONE
    assert refused("a", 0) is refused("a", -1) is ErrorCode.STALE_MEMBER_EPOCH
    assert refused("b", 1) is refused("b", -1) is refused("", -1, "i") is ErrorCode.UNKNOWN_MEMBER_ID
    member.leave()
    assert refused("b", -1) is ErrorCode.NONE


def test_members_fetch_with_their_epoch_and_who_names_none_may(desk: Desk) -> None:
    Client(desk, "a", "orders").settle(2)
    group = group_of(desk)
    group.check_fetch(None, -1)
    group.check_fetch("a", 1)
    for member_id, epoch, code in (
        ("a", 2, ErrorCode.STALE_MEMBER_EPOCH),
        ("b", 1, ErrorCode.UNKNOWN_MEMBER_ID),
        ("", -1, ErrorCode.UNKNOWN_MEMBER_ID),
    ):
        with pytest.raises(KafkaError) as caught:
            group.check_fetch(member_id, epoch)
        assert caught.value.code is code


def test_a_classic_member_hears_of_generations(desk: Desk) -> None:
    classic = ClassicConsumer(desk, "orders")
    settle_all(desk, (classic, Client(desk, "a", "orders")))
    assert refusal(group_of(desk), classic.member_id, classic.generation + 1) is ErrorCode.ILLEGAL_GENERATION
    assert refusal(group_of(desk), classic.member_id, classic.generation, version=3) is ErrorCode.NONE


def test_an_empty_group_may_be_deleted(desk: Desk) -> None:
    member = Client(desk, "a", "orders")
    member.settle(2)
    group = group_of(desk)
    with pytest.raises(KafkaError) as caught:
        group.check_delete()
    assert caught.value.code is ErrorCode.NON_EMPTY_GROUP
    group.check_offset_delete()
    member.leave()
    group.check_delete()
    for key, value in group.tombstones():
        desk.shard.replay(key, value, 0)
    assert desk.shard.groups == {}
    assert group.state == "Dead"


def test_states_follow_members_and_epochs(desk: Desk) -> None:
    first, second = Client(desk, "a", "orders"), Client(desk, "b", "orders")
    first.beat()
    group = group_of(desk)
    assert group.state == "Stable"
    second.beat()
    assert group.state == "Reconciling"
    settle(first, second)
    assert group.state == "Stable"
    second.leave()
    assert group.state == "Assigning"
    first.leave()
    assert group.state == "Empty"


def test_the_description_has_names_types_and_both_assignments(desk: Desk) -> None:
    first = Client(desk, "a", "orders", rack_id="r")
    first.beat()
    Client(desk, "b", "orders").beat()
    row = group_of(desk).describe(desk.topics, "uniform")
    assert (row.group_id, row.group_state, row.group_epoch, row.assignment_epoch) == (GROUP, "Reconciling", 2, 2)
    assert row.assignor_name == "uniform"
    one, other = row.members
    assert (one.member_id, one.rack_id, one.member_epoch, one.member_type) == ("a", "r", 1, CONSUMER_MEMBER)
    assert (one.client_id, one.client_host, one.subscribed_topic_names) == ("client", "/192.0.2.9", ["orders"])
    (has,) = one.assignment.topic_partitions
    (shall,) = one.target_assignment.topic_partitions
    assert (has.topic_id, has.topic_name, has.partitions) == (topic_id("orders"), "orders", [0, 1, 2, 3])
    assert len(shall.partitions) == 2
    assert other.assignment.topic_partitions == []
    desk.topics.set("orders", 0)
    assert group_of(desk).describe(desk.topics, "uniform").members[0].assignment.topic_partitions == []


def test_the_description_tells_classic_members_apart(desk: Desk) -> None:
    classic = ClassicConsumer(desk, "orders")
    settle_all(desk, (classic, Client(desk, "a", "orders")))
    types = {row.member_id: row.member_type for row in group_of(desk).describe(desk.topics, "uniform").members}
    assert types == {classic.member_id: CLASSIC_MEMBER, "a": CONSUMER_MEMBER}


def test_offsets_of_a_consumer_group_count_from_their_commit(desk: Desk) -> None:
    member = Client(desk, "a", "orders")
    member.settle(2)
    group = group_of(desk)
    assert group.expires_from(123) == 123
    assert group.subscribes_to("orders")
    assert not group.subscribes_to("other")


def test_a_compacted_log_may_have_the_next_owner_before_the_release() -> None:
    group = ConsumerGroup("g")
    first, second = ConsumerMember("a", assigned={T: frozenset({1})}), ConsumerMember("b", assigned={T: frozenset({1})})
    for record in (
        group_records.current("g", first),
        group_records.current("g", second),
        group_records.current("g", first.moved_to(2, 0, {})),
    ):
        group.apply(*record)
    assert group.owners == {T: {1: "b"}}


def test_tombstones_without_a_group_are_nothing(desk: Desk) -> None:
    group.replay(desk.shard, ConsumerGroupMetadataKey("g"), None)
    assert desk.shard.groups == {}
    for record in group_records.no_member("g", "a"):
        group.replay(desk.shard, *record)
    assert desk.shard.groups == {}


def test_a_copy_is_equal_and_of_its_own(desk: Desk) -> None:
    static = Client(desk, "a", "orders", instance_id="i", subscribed_topic_regex="o.*")
    static.settle(2)
    group = group_of(desk)
    copy = group.copy()
    assert state_of_group(copy) == state_of_group(group)
    before = persistent_state(desk.shard)
    for record in (*group_records.no_member(GROUP, "a"), group_records.no_resolved(GROUP, "o.*")):
        copy.apply(*record)
    assert (copy.members, copy.owners, copy.static, copy.resolved) == ({}, {}, {}, {})
    assert persistent_state(desk.shard) == before
    static.leave(LEAVE_STATIC_EPOCH)
    assert group.members["a"].epoch == LEAVE_STATIC_EPOCH

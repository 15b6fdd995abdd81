"""A classic group seen from outside: records in any order, what commits, deletions and tools may ask of it."""

from typing import Any

import pytest

from headgate.gateway.coordinator.groups.classic.group import ClassicGroup, GroupState
from headgate.gateway.coordinator.groups.tests.classic_desk import REBALANCE_MS, SESSION_MS, ClassicDesk
from headgate.gateway.coordinator.groups.tests.groups import START_MS, WALL_MS
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.internal.consumer_protocol import ConsumerProtocolSubscription, encode
from headgate.protocol.internal.offsets import (
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
)
from headgate.protocol.messages.describe_groups import DescribedGroup, DescribedGroupMember
from headgate.protocol.schema import Message

KEY = GroupMetadataKey("group")


def member(member_id: str, instance_id: str | None = None, topics: tuple[str, ...] = ("a",)) -> MemberMetadata:
    subscription = encode(ConsumerProtocolSubscription(list(topics)), 0)
    return MemberMetadata(member_id, instance_id, "client", "/h", REBALANCE_MS, SESSION_MS, subscription, b"mine")


def generation(number: int, *members: MemberMetadata) -> GroupMetadataValue:
    leader = members[0].member_id if members else None
    return GroupMetadataValue("consumer", number, "range" if members else None, leader, 7, list(members))


def loaded(*values: GroupMetadataValue | None) -> ClassicDesk:
    """A desk that begins with these records."""
    desk = ClassicDesk()
    records: list[tuple[Message, Message | None]] = [(KEY, value) for value in values]
    desk.batches.append(records)
    desk.restart()
    return desk


def code_of(error: pytest.ExceptionInfo[KafkaError]) -> ErrorCode:
    return error.value.code


# Replay


def test_the_last_record_counts() -> None:
    desk = loaded(generation(1, member("a"), member("b")), generation(2, member("c", "i")))
    assert desk.is_in(GroupState.STABLE)
    assert desk.group.generation == 2
    assert desk.group.leader == "c"
    assert list(desk.group.members.by_id) == ["c"]
    assert desk.group.members.by_instance == {"i": "c"}
    assert desk.group.members.by_id["c"].assignment == b"mine"


def test_a_group_becomes_empty() -> None:
    desk = loaded(generation(1, member("a")), generation(2))
    assert desk.is_in(GroupState.EMPTY)
    assert desk.group.generation == 2
    assert not len(desk.group.members)
    assert desk.group.leader is None
    assert desk.group.due_ms == float("inf")


def test_the_next_generation_of_a_group_that_was_loaded() -> None:
    desk = loaded(generation(41))
    _, asked = desk.enter()
    assert asked.reply.generation_id == 42


def test_a_tombstone_takes_the_group_away() -> None:
    assert not loaded(generation(1, member("a")), None).shard.groups
    assert not loaded(None).shard.groups, "of a group that is not there"
    assert loaded(None, generation(1, member("a"))).group.generation == 1


def test_a_member_that_comes_again_has_what_its_last_record_says() -> None:
    changed = member("a", topics=("b",))
    changed.session_timeout = 7_000
    desk = loaded(generation(1, member("a")), generation(2, changed))
    assert desk.group.members.by_id["a"].protocols == {"range": changed.subscription}
    assert desk.group.members.by_id["a"].session_timeout_ms == 7_000
    desk.advance(6_999)
    assert desk.is_in(GroupState.STABLE)
    desk.advance(1)
    assert desk.is_in(GroupState.EMPTY)


def test_a_group_from_a_record_in_operation_gets_its_sessions() -> None:
    desk = ClassicDesk()
    desk.shard.replay(KEY, generation(3, member("a"), member("b")), WALL_MS)
    desk.shard.note_due("group")
    desk.advance(SESSION_MS - 1)
    assert len(desk.group.members) == 2
    desk.advance(1)
    assert desk.is_in(GroupState.EMPTY)


def test_a_group_that_was_a_consumer_group_rebalances() -> None:
    downgraded = generation(9, member("a"), member("b"))
    downgraded.leader = None
    desk = ClassicDesk()
    desk.shard.replay(KEY, downgraded, WALL_MS)
    desk.shard.note_due("group")
    desk.advance(0)
    assert desk.is_in(GroupState.PREPARING)
    first, second = (desk.join(member_id) for member_id in "ab")
    assert first.reply.generation_id == second.reply.generation_id == 10
    assert first.reply.leader == "a"


# Groups of the other kind (KIP-848)


def with_consumer_group(epoch: int, **settings: Any) -> ClassicDesk:
    """A desk with an empty consumer group."""
    desk = ClassicDesk(**settings)
    records: list[tuple[Message, Message | None]] = [
        (ConsumerGroupMetadataKey("group"), ConsumerGroupMetadataValue(epoch)),
        (ConsumerGroupTargetAssignmentMetadataKey("group"), ConsumerGroupTargetAssignmentMetadataValue(epoch)),
    ]
    desk.batches.append(records)
    desk.restart()
    return desk


def test_an_empty_consumer_group_becomes_a_classic_one() -> None:
    desk = with_consumer_group(5)
    assert desk.join("nobody").error is ErrorCode.UNKNOWN_MEMBER_ID
    assert desk.shard.groups["group"].kind == "consumer"
    asked = desk.join()
    assert asked.error is ErrorCode.MEMBER_ID_REQUIRED
    (batch,) = desk.batches[1:]
    assert [type(key) for key, value in batch if value is not None] == [GroupMetadataKey]
    assert {type(key) for key, value in batch if value is None} >= {ConsumerGroupMetadataKey}
    assert desk.join(asked.reply.member_id).reply.generation_id == 1
    desk.check_rebuilt()


def test_a_consumer_group_stays_if_that_cannot_be_written() -> None:
    desk = with_consumer_group(5, initial_rebalance_delay_ms=3_000)
    ticket = desk.ticket()
    decision = desk.decide_join(ticket, version=3)
    assert not decision.replies
    desk.fail(decision)
    assert [answered for answered, _ in decision.replies] == [ticket]
    assert desk.shard.groups["group"].kind == "consumer"
    desk.check_rebuilt()


# Commits


def test_anybody_commits_to_a_group_without_members() -> None:
    ClassicGroup("group").check_commit("", None, -1, 9, START_MS)
    desk = loaded(generation(2))
    desk.group.check_commit("whoever", None, -1, 9, desk.now_ms)
    with pytest.raises(KafkaError) as error:
        desk.group.check_commit("whoever", None, 2, 9, desk.now_ms)
    assert code_of(error) is ErrorCode.UNKNOWN_MEMBER_ID


def test_only_members_commit_to_a_group_that_has_some() -> None:
    desk = ClassicDesk()
    one, static = desk.stable(1, ["worker"])
    for arguments, code in {
        ("", None, -1): ErrorCode.UNKNOWN_MEMBER_ID,
        ("nobody", None, 1): ErrorCode.UNKNOWN_MEMBER_ID,
        ("nobody", "worker", 1): ErrorCode.FENCED_INSTANCE_ID,
        (static.member_id, "nobody", 1): ErrorCode.UNKNOWN_MEMBER_ID,
        (one.member_id, None, 0): ErrorCode.ILLEGAL_GENERATION,
        (one.member_id, None, -1): ErrorCode.ILLEGAL_GENERATION,
    }.items():
        with pytest.raises(KafkaError) as error:
            desk.group.check_commit(*arguments, 9, desk.now_ms)
        assert code_of(error) is code
    desk.group.check_commit(one.member_id, None, 1, 9, desk.now_ms)
    desk.group.check_commit(static.member_id, "worker", 1, 9, desk.now_ms)


def test_members_commit_during_joins_but_not_during_the_assignment() -> None:
    desk = ClassicDesk()
    leader, follower = desk.stable(2)
    desk.join(leader.member_id)
    desk.group.check_commit(follower.member_id, None, 1, 9, desk.now_ms)
    desk.join(follower.member_id)
    with pytest.raises(KafkaError) as error:
        desk.group.check_commit(follower.member_id, None, 2, 9, desk.now_ms)
    assert code_of(error) is ErrorCode.REBALANCE_IN_PROGRESS


def test_within_a_transaction_only_a_named_member_is_checked() -> None:
    desk = ClassicDesk()
    one, static = desk.stable(1, ["worker"])
    for arguments, code in {
        ("nobody", None, 1): ErrorCode.UNKNOWN_MEMBER_ID,
        ("nobody", None, -1): ErrorCode.UNKNOWN_MEMBER_ID,
        ("", None, 1): ErrorCode.UNKNOWN_MEMBER_ID,
        ("nobody", "worker", 1): ErrorCode.FENCED_INSTANCE_ID,
        (one.member_id, None, 0): ErrorCode.ILLEGAL_GENERATION,
        (one.member_id, None, -1): ErrorCode.ILLEGAL_GENERATION,
    }.items():
        with pytest.raises(KafkaError) as error:
            desk.group.check_transactional_commit(*arguments)
        assert code_of(error) is code
    for member_id, instance_id, generation_id in (
        ("", None, -1),
        (one.member_id, None, 1),
        (static.member_id, "worker", 1),
    ):
        desk.group.check_transactional_commit(member_id, instance_id, generation_id)
    ClassicGroup("group").check_transactional_commit("whoever", None, -1)


def test_a_transaction_commits_while_the_leader_assigns() -> None:
    desk = ClassicDesk()
    leader, follower = desk.stable(2)
    desk.join(leader.member_id)
    desk.join(follower.member_id)
    desk.group.check_transactional_commit(follower.member_id, None, 2)


def test_a_commit_is_a_heartbeat() -> None:
    desk = ClassicDesk()
    one = desk.stable()[0]
    desk.advance(SESSION_MS - 1)
    desk.group.check_commit(one.member_id, None, 1, 9, desk.now_ms)
    desk.advance(SESSION_MS - 1)
    assert desk.heartbeat(one).error is ErrorCode.NONE


# Deletion and expiry


def test_only_empty_groups_are_deleted() -> None:
    desk = ClassicDesk()
    one = desk.stable()[0]
    for _ in range(2):
        with pytest.raises(KafkaError) as error:
            desk.group.check_delete()
        assert code_of(error) is ErrorCode.NON_EMPTY_GROUP
        desk.join(one.member_id)
    desk.leave(one.member_id)
    desk.group.check_delete()
    assert desk.group.tombstones() == [(KEY, None)]


def test_offsets_of_consumers_may_be_deleted_but_not_of_others() -> None:
    desk = ClassicDesk()
    desk.stable()
    desk.group.check_offset_delete()
    other = ClassicDesk()
    one = other.stable(protocol_type="connect", protocols=["default"])[0]
    with pytest.raises(KafkaError) as error:
        other.group.check_offset_delete()
    assert code_of(error) is ErrorCode.NON_EMPTY_GROUP
    other.leave(one.member_id)
    other.group.check_offset_delete()


def test_the_topics_of_all_members_are_subscribed() -> None:
    desk = loaded(generation(1, member("a", topics=("x", "y")), member("b", topics=("z",))))
    assert [desk.group.subscribes_to(topic) for topic in "xyzo"] == [True, True, True, False]
    assert not loaded(generation(2)).group.subscribes_to("x")


def test_topics_of_a_new_generation_are_read_anew() -> None:
    desk = loaded(generation(1, member("a", topics=("x",))))
    assert desk.group.subscribes_to("x")
    desk.shard.replay(KEY, generation(2, member("a", topics=("y",))), WALL_MS)
    assert not desk.group.subscribes_to("x")
    assert desk.group.subscribes_to("y")


@pytest.mark.parametrize("version", [-1, 1, 2, 3, 4])
@pytest.mark.parametrize("rest", [b"", b"\0\0\0\1"])
def test_topics_are_those_of_version_0_whatever_comes_behind(version: int, rest: bytes) -> None:
    """As in Kafka; kafkajs 1 writes version 1 with the fields of version 0."""
    short = member("a", topics=("x",))
    short.subscription = version.to_bytes(2, "big", signed=True) + short.subscription[2:] + rest
    group = loaded(generation(1, short)).group
    assert [group.subscribes_to(topic) for topic in "xy"] == [True, False]
    assert group.expires_from(5) == 5


def test_a_consumer_with_an_unknown_subscription_reads_everything() -> None:
    garbled = member("a")
    garbled.subscription = b"?"
    group = loaded(generation(1, garbled)).group
    assert group.subscribes_to("x")
    assert group.expires_from(5) is None


def test_before_the_first_generation_everything_is_subscribed() -> None:
    desk = ClassicDesk()
    desk.enter()
    assert desk.group.subscribes_to("x")


def test_of_other_kinds_of_members_no_topics_are_known() -> None:
    desk = ClassicDesk()
    desk.stable(protocol_type="connect", protocols=["default"])
    assert not desk.group.subscribes_to("x")
    assert desk.group.expires_from(5) is None


def test_from_when_offsets_expire() -> None:
    assert ClassicGroup("group").expires_from(5) == 5, "offsets without members"
    desk = loaded(generation(1, member("a")), generation(2))
    assert desk.group.expires_from(5) == 7, "since it is empty"
    old = generation(2)
    old.current_state_timestamp = -1
    assert loaded(old).group.expires_from(5) == 5, "records before v2 do not say since when"
    desk = loaded(generation(1, member("a")))
    assert desk.group.expires_from(5) == 5, "stable consumers; what they read is kept by subscribes_to"
    desk.join("a", protocols={"range": b"else"})
    assert desk.group.expires_from(5) is None, "in a rebalance nothing expires"


# Views


def test_how_a_stable_group_is_described() -> None:
    desk = ClassicDesk()
    one, static = desk.stable(1, ["worker"])
    assert desk.group.describe() == DescribedGroup(
        ErrorCode.NONE,
        None,
        "group",
        "Stable",
        "consumer",
        "range",
        [
            DescribedGroupMember(one.member_id, None, "client", "/192.0.2.9", b"wants", b"0"),
            DescribedGroupMember(static.member_id, "worker", "client", "/192.0.2.9", b"wants", b"1"),
        ],
    )


def test_in_a_rebalance_metadata_is_not_shown() -> None:
    desk = ClassicDesk()
    leader, _ = desk.stable(2)
    desk.join(leader.member_id)
    row = desk.group.describe()
    assert (row.group_state, row.protocol_type, row.protocol_data) == ("PreparingRebalance", "consumer", "")
    assert [(each.member_metadata, each.member_assignment) for each in row.members] == [(b"", b"0"), (b"", b"1")]


def test_states_have_kafkas_names() -> None:
    desk = ClassicDesk()
    member_id, _ = desk.enter()
    assert str(desk.group.state) == "CompletingRebalance"
    assert desk.group.kind == "classic"
    desk.leave(member_id)
    assert str(desk.group.state) == "Empty"
    assert desk.group.describe() == DescribedGroup(ErrorCode.NONE, None, "group", "Empty", "consumer", "", [])

"""ConsumerGroupHeartbeat, rule by rule: given a state and a request, then these records and this reply."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from headgate.gateway.coordinator.groups.consumer import heartbeats, subscriptions
from headgate.gateway.coordinator.groups.settings import GroupSettings
from headgate.gateway.coordinator.groups.tests.consumers import (
    CALLER,
    GROUP,
    LEAVE_EPOCH,
    LEAVE_STATIC_EPOCH,
    REBALANCE_MS,
    Client,
    group_of,
    named,
    reported,
    settle,
)
from headgate.gateway.coordinator.groups.tests.groups import WALL_MS, Desk, topic_id
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.internal.offsets import (
    STABLE,
    UNRELEASED_PARTITIONS,
    UNREVOKED_PARTITIONS,
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    TopicPartitions,
)
from headgate.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest

ORDERS = topic_id("orders")


@pytest.fixture
def desk() -> Desk:
    return Desk({"orders": 6})


def keys(desk: Desk, batch: int = -1) -> list[str]:
    return [type(key).__name__.removeprefix("ConsumerGroup").removesuffix("Key") for key, _ in desk.batches[batch]]


def pair(desk: Desk, **fields: Any) -> tuple[Client, Client]:
    """Two members with three partitions each."""
    members = Client(desk, "a", "orders", **fields), Client(desk, "b", "orders", **fields)
    settle(*members)
    assert group_of(desk).state == "Stable"
    return members


# Joining


def test_the_first_member_gets_all_partitions_at_once(desk: Desk) -> None:
    response = Client(desk, "a", "orders").beat()
    assert (response.member_id, response.member_epoch, response.heartbeat_interval_ms) == ("a", 1, 5_000)
    assert response.assignment is not None
    assert named(response.assignment.topic_partitions) == {"orders": {0, 1, 2, 3, 4, 5}}
    everything = [TopicPartitions(ORDERS, [0, 1, 2, 3, 4, 5])]
    hash_of_topics = subscriptions.fingerprint(["orders"], desk.topics)
    assert desk.records == [
        (
            ConsumerGroupMemberMetadataKey(GROUP, "a"),
            ConsumerGroupMemberMetadataValue(
                None, None, "client", "/192.0.2.9", ["orders"], "", REBALANCE_MS, None, None
            ),
        ),
        (ConsumerGroupMetadataKey(GROUP), desk.records[1][1]),
        (ConsumerGroupTargetAssignmentMemberKey(GROUP, "a"), ConsumerGroupTargetAssignmentMemberValue(everything)),
        (ConsumerGroupTargetAssignmentMetadataKey(GROUP), ConsumerGroupTargetAssignmentMetadataValue(1)),
        (
            ConsumerGroupCurrentMemberAssignmentKey(GROUP, "a"),
            ConsumerGroupCurrentMemberAssignmentValue(1, 0, STABLE, everything, []),
        ),
    ]
    group = group_of(desk)
    assert (group.epoch, group.metadata_hash, group.target_epoch) == (1, hash_of_topics, 1)
    desk.check_rebuilt()


def test_a_partition_moves_only_after_its_owner_reports_the_release(desk: Desk) -> None:
    first, second = Client(desk, "a", "orders"), Client(desk, "b", "orders")
    first.beat()
    assert second.beat().member_epoch == 2
    assert second.reads == {}
    group = group_of(desk)
    assert group.members["b"].state == UNRELEASED_PARTITIONS
    assert first.beat().member_epoch == 1, "it stays in its epoch until it has given up"
    assert first.assigned == {"orders": {0, 1, 2}}
    assert group.members["a"].state == UNREVOKED_PARTITIONS
    assert second.beat().assignment is None, "they are not free yet"
    response = first.beat(topic_partitions=reported({"orders": {0, 1, 2, 3}}))
    assert response.member_epoch == 1, "one is still read"
    assert first.beat(topic_partitions=reported({"orders": {0, 1, 2}})).member_epoch == 2
    second.beat()
    assert second.reads == {"orders": {3, 4, 5}}
    assert group.state == "Stable"
    desk.check_rebuilt()


def test_a_member_without_topics_or_with_unknown_ones_has_nothing(desk: Desk) -> None:
    nothing, missing = Client(desk, "a"), Client(desk, "b", "later")
    settle(nothing, missing)
    assert (nothing.reads, missing.reads) == ({}, {})
    assert group_of(desk).state == "Stable"
    desk.change_topic("later", 2)
    settle(missing)
    assert missing.reads == {"later": {0, 1}}


def test_version_0_gets_its_member_id_from_the_broker(desk: Desk) -> None:
    request = Client(desk, "", "orders").request()
    request_context = CALLER._replace(version=0)
    decision = heartbeats.heartbeat(desk.shard, request, request_context, desk.ticket(), desk.now_ms)
    member_id = decision.replies[0][1].member_id  # type: ignore[union-attr]
    assert len(member_id) == 36
    desk.run(decision)
    assert group_of(desk).members.keys() == {member_id}


@pytest.mark.parametrize(
    "fields",
    [
        {"member_id": ""},
        {"group_id": " "},
        {"instance_id": ""},
        {"rack_id": " "},
        {"rebalance_timeout_ms": -1},
        {"topic_partitions": None},
        {"topic_partitions": [TopicPartitions(ORDERS, [0])]},
        {"subscribed_topic_names": None},
        {"member_epoch": -3},
        {"member_epoch": LEAVE_STATIC_EPOCH},
        {"subscribed_topic_names": ["x" * (1 << 20)]},
    ],
)
def test_what_is_no_request_is_refused(desk: Desk, fields: dict[str, Any]) -> None:
    assert Client(desk, "a", "orders").refused(**fields) is ErrorCode.INVALID_REQUEST
    assert not desk.records


def test_an_assignor_that_is_not_there_is_refused(desk: Desk) -> None:
    member = Client(desk, "a", "orders")
    with pytest.raises(KafkaError, match=r"assignor 'sticky' does not exist.*uniform, range") as caught:
        member.beat(server_assignor="sticky")
    assert caught.value.code is ErrorCode.UNSUPPORTED_ASSIGNOR


def test_the_assignor_is_the_most_wanted_or_else_the_first_configured(desk: Desk) -> None:
    desk.change_topic("payments", 3)
    members = [Client(desk, name, "orders", "payments", server_assignor="range") for name in "ab"]
    members.append(Client(desk, "c", "orders", "payments", server_assignor="uniform"))
    settle(*members, rounds=6)
    assert members[0].reads == {"orders": {0, 1}, "payments": {0}}
    assert group_of(desk).describe(desk.topics, "uniform").assignor_name == "range"


def test_a_full_group_takes_nobody_but_a_static_member_that_is_back(desk: Desk) -> None:
    desk = Desk({"orders": 6}, GroupSettings(consumer_max_size=1))
    static = Client(desk, "a", "orders", instance_id="i")
    static.beat()
    assert Client(desk, "b", "orders").refused() is ErrorCode.GROUP_MAX_SIZE_REACHED
    static.leave(LEAVE_STATIC_EPOCH)
    static.name = "a2"
    assert static.beat().member_epoch == 1


def test_the_protocol_can_be_switched_off() -> None:
    desk = Desk({"orders": 1}, GroupSettings(rebalance_protocols=("classic",)))
    assert Client(desk, "a", "orders").refused() is ErrorCode.UNSUPPORTED_VERSION


# Staying


def test_a_heartbeat_without_news_only_prolongs_the_session(desk: Desk) -> None:
    member = Client(desk, "a", "orders")
    member.settle(2)
    written = len(desk.records)
    for _ in range(20):
        desk.advance(40_000)
        response = member.beat()
        assert (response.member_epoch, response.assignment, member.decision.records) == (1, None, [])
    assert len(desk.records) == written


def test_the_steady_heartbeat_costs_the_same_in_a_group_of_any_size() -> None:
    def cost(members: int) -> float:
        desk = Desk({"orders": members})
        clients = [Client(desk, f"m{number:03}", "orders") for number in range(members)]
        settle(*clients, rounds=3)
        request = clients[0].request()
        ticket = desk.ticket()
        best = float("inf")
        for _ in range(5):
            started = time.process_time()
            for _ in range(200):
                heartbeats.heartbeat(desk.shard, request, CALLER, ticket, desk.now_ms)
            best = min(best, time.process_time() - started)
        return best

    assert cost(30) < 3 * cost(2)


def test_a_full_heartbeat_is_answered_with_the_assignment(desk: Desk) -> None:
    member = Client(desk, "a", "orders")
    member.settle(2)
    response = member.beat(
        rebalance_timeout_ms=REBALANCE_MS, subscribed_topic_names=["orders"], topic_partitions=reported(member.reads)
    )
    assert response.assignment is not None
    assert named(response.assignment.topic_partitions) == member.reads
    assert member.decision.records == []


@pytest.mark.parametrize("change", [{"rack_id": "r"}, {"rebalance_timeout_ms": 5}, {"server_assignor": "range"}])
def test_what_a_member_says_anew_is_written_without_an_epoch(desk: Desk, change: dict[str, Any]) -> None:
    member = Client(desk, "a", "orders")
    member.settle(2)
    assert member.beat(**change).member_epoch == 1
    assert keys(desk) == ["MemberMetadata"]
    assert member.beat().member_epoch == 1
    desk.check_rebuilt()


def test_the_group_has_settings_of_its_own(desk: Desk) -> None:
    desk.configs[GROUP] = {"consumer.heartbeat.interval.ms": "7000", "consumer.session.timeout.ms": "50000"}
    member = Client(desk, "a", "orders")
    assert member.beat().heartbeat_interval_ms == 7_000
    desk.advance(49_000)
    assert member.beat().heartbeat_interval_ms == 7_000
    desk.configs[GROUP]["consumer.heartbeat.interval.ms"] = "9000"
    assert member.beat().heartbeat_interval_ms == 9_000
    desk.advance(50_001)
    assert member.refused() is ErrorCode.UNKNOWN_MEMBER_ID


# Epochs


def test_a_member_whose_reply_was_lost_goes_on_from_the_epoch_before(desk: Desk) -> None:
    first, second = pair(desk)
    second.leave()
    first.ask(first.request())  # goes to the next epoch, and the reply is lost
    assert group_of(desk).members["a"].epoch == first.epoch + 1
    response = first.beat(topic_partitions=reported({"orders": {0, 1, 2}}))
    assert response.member_epoch == group_of(desk).members["a"].epoch


@pytest.mark.parametrize(
    "epoch,owned",
    [
        (lambda now, _: now + 1, {"orders": {0}}),
        (lambda _, before: before, None),
        (lambda _, before: before, {"orders": {0, 99}}),
        (lambda _, before: before, {"other": {0}}),
        (lambda _, before: before - 1, {"orders": {0}}),
    ],
)
def test_a_member_that_is_elsewhere_is_fenced(
    desk: Desk, epoch: Callable[[int, int], int], owned: dict[str, set[int]] | None
) -> None:
    first, second = pair(desk)
    second.leave()
    first.ask(first.request())
    member = group_of(desk).members["a"]
    first.epoch = epoch(member.epoch, member.previous_epoch)
    said = None if owned is None else reported(owned)
    assert first.refused(topic_partitions=said) is ErrorCode.FENCED_MEMBER_EPOCH


def test_a_fenced_member_begins_anew_with_its_own_id(desk: Desk) -> None:
    member = Client(desk, "a", "orders")
    member.settle(2)
    member.epoch = 0
    response = member.beat()
    assert (response.member_epoch, member.reads) == (1, {"orders": {0, 1, 2, 3, 4, 5}})


def test_who_is_not_known_is_told_so(desk: Desk) -> None:
    stranger = Client(desk, "x", "orders")
    stranger.epoch = 3
    assert stranger.refused() is ErrorCode.GROUP_ID_NOT_FOUND
    Client(desk, "a", "orders").beat()
    assert stranger.refused() is ErrorCode.UNKNOWN_MEMBER_ID
    with pytest.raises(KafkaError) as caught:
        stranger.leave()
    assert caught.value.code is ErrorCode.UNKNOWN_MEMBER_ID
    with pytest.raises(KafkaError) as caught:
        Client(desk, "x", group="elsewhere").leave()
    assert caught.value.code is ErrorCode.GROUP_ID_NOT_FOUND


# Leaving, and being given up


def test_after_a_member_leaves_the_next_heartbeat_assigns_anew(desk: Desk) -> None:
    first, second = pair(desk)
    response = second.leave()
    assert (response.member_id, response.member_epoch) == ("b", LEAVE_EPOCH)
    assert keys(desk) == ["CurrentMemberAssignment", "TargetAssignmentMember", "MemberMetadata", "Metadata"]
    assert [value for _, value in desk.batches[-1]][:3] == [None, None, None]
    assert group_of(desk).state == "Assigning"
    first.beat()
    assert first.reads == {"orders": {0, 1, 2, 3, 4, 5}}
    assert group_of(desk).state == "Stable"
    desk.check_rebuilt()


def test_a_silent_member_is_given_up_at_the_end_of_its_session(desk: Desk) -> None:
    first, _ = pair(desk)
    desk.advance(44_000)
    first.beat()
    assert len(group_of(desk).members) == 2
    desk.advance(1_001)
    assert group_of(desk).members.keys() == {"a"}
    desk.check_rebuilt()


def test_a_member_that_releases_partitions_too_late_is_removed(desk: Desk) -> None:
    first, second = Client(desk, "a", "orders"), Client(desk, "b", "orders")
    first.beat()
    second.beat()
    first.beat()
    for _ in range(11):
        desk.advance(5_000)
        first.beat(topic_partitions=reported({"orders": set(range(6))}))
        second.beat()
    assert group_of(desk).members.keys() == {"a", "b"}
    desk.advance(REBALANCE_MS - 55_000 + 1)
    assert group_of(desk).members.keys() == {"b"}
    second.beat()
    assert second.reads == {"orders": {0, 1, 2, 3, 4, 5}}


def test_sessions_and_revocations_begin_anew_after_a_restart(desk: Desk) -> None:
    first, second = Client(desk, "a", "orders"), Client(desk, "b", "orders")
    first.beat()
    second.beat()
    first.beat()
    desk.advance(40_000)
    desk.shard = desk.rebuilt()
    list(desk.shard.start_clocks(desk.now_ms))
    desk.advance(44_000)
    second.beat()
    first.beat(topic_partitions=reported({"orders": set(range(6))}))
    assert group_of(desk).members.keys() == {"a", "b"}
    desk.advance(16_001)
    assert group_of(desk).members.keys() == {"b"}, "60 s for revocations, since the restart"


@pytest.mark.parametrize("field", ["member_id", "instance_id"])
def test_a_name_that_no_record_can_hold(desk: Desk, field: str) -> None:
    assert Client(desk, "a", "orders").refused(**{field: "m" * 40_000}) is ErrorCode.INVALID_REQUEST
    assert not desk.shard.groups


def test_a_failed_write_leaves_the_member_as_it_was(desk: Desk) -> None:
    member = Client(desk, "a", "orders")
    member.settle(2)
    desk.change_topic("orders", 7)
    desk.fail(heartbeats.heartbeat(desk.shard, member.request(), CALLER, desk.ticket(), desk.now_ms))
    assert group_of(desk).epoch == 1
    settle(member)
    assert member.reads == {"orders": set(range(7))}
    desk.fail(heartbeats.heartbeat(desk.shard, Client(desk, "b").request(), CALLER, desk.ticket(), desk.now_ms))
    desk.advance(50_000)
    assert group_of(desk).clocks == {}
    desk.check_rebuilt()


def test_a_revocation_that_could_not_be_written_has_no_deadline(desk: Desk) -> None:
    """A deadline that passes and has no effect would be due at every turn, until the session ends."""
    member = Client(desk, "a", "orders", rebalance_timeout_ms=5_000)
    member.settle()
    Client(desk, "b", "orders").beat()
    desk.fail(heartbeats.heartbeat(desk.shard, member.request(), CALLER, desk.ticket(), desk.now_ms))
    desk.now_ms += 6_000
    assert desk.shard.take_due(desk.now_ms) == GROUP
    desk.run(desk.shard.tick(group_of(desk).group_id, desk.now_ms))
    assert desk.shard.timers.due_ms > desk.now_ms
    assert "a" in group_of(desk).members


# Static members (KIP-345)


def test_a_static_member_keeps_its_place_for_its_successor(desk: Desk) -> None:
    first, second = Client(desk, "a", "orders", instance_id="i"), Client(desk, "b", "orders")
    settle(first, second)
    reads, epoch = first.reads, group_of(desk).epoch
    assert first.leave(LEAVE_STATIC_EPOCH).member_epoch == LEAVE_STATIC_EPOCH
    assert keys(desk) == ["CurrentMemberAssignment"]
    second.settle(1)
    assert second.reads != {"orders": {0, 1, 2, 3, 4, 5}}
    successor = Client(desk, "a2", "orders", instance_id="i")
    assert successor.beat().member_epoch == epoch
    assert successor.reads == reads
    group = group_of(desk)
    assert (group.epoch, set(group.members), group.static) == (epoch, {"a2", "b"}, {"i": "a2"})
    first.epoch = epoch
    assert first.refused() is ErrorCode.FENCED_INSTANCE_ID
    desk.check_rebuilt()


def test_a_static_member_that_stays_away_is_given_up(desk: Desk) -> None:
    first, second = Client(desk, "a", "orders", instance_id="i"), Client(desk, "b", "orders")
    settle(first, second)
    first.leave(LEAVE_STATIC_EPOCH)
    desk.advance(44_000)
    second.beat()
    desk.advance(1_001)
    assert group_of(desk).members.keys() == {"b"}


def test_an_instance_id_that_is_in_use_is_not_given_away(desk: Desk) -> None:
    member = Client(desk, "a", "orders", instance_id="i")
    member.beat()
    assert Client(desk, "b", "orders", instance_id="i").refused() is ErrorCode.UNRELEASED_INSTANCE_ID
    member.leave(LEAVE_STATIC_EPOCH)
    member.epoch = 1
    assert member.refused() is ErrorCode.FENCED_MEMBER_EPOCH, "it has left"
    other = Client(desk, "c", "orders", instance_id="j")
    other.epoch = 1
    assert other.refused() is ErrorCode.UNKNOWN_MEMBER_ID
    member.epoch = 0
    assert member.beat().member_epoch == 1, "it is back with the id that it had"


# Topics and expressions


def test_grown_and_new_topics_make_one_epoch_at_the_next_heartbeat(desk: Desk) -> None:
    member = Client(desk, "a", "orders", "later")
    member.settle(2)
    desk.change_topic("orders", 8)
    desk.change_topic("later", 1)
    desk.change_topic("unrelated", 1)
    written = len(desk.batches)
    member.beat()
    assert member.reads == {"orders": set(range(8)), "later": {0}}
    assert len(desk.batches) == written + 1
    assert group_of(desk).epoch == 2
    desk.change_topic("unrelated", 2)
    member.beat()
    assert member.decision.records == []


def test_a_topic_that_is_deleted_and_made_again_is_another_one(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = pair(desk)
    anew = b"again".ljust(16, b"\0")
    monkeypatch.setattr(desk.topics, "id_of", {"orders": anew}.get)
    desk.change_topic("orders", 6)
    settle(first, second)
    assert {**first.reads, **second.reads}.keys() == {"again"}
    assert first.reads["again"] | second.reads["again"] == set(range(6))
    assert group_of(desk).owners.keys() == {anew}
    desk.check_rebuilt()


def test_an_expression_is_resolved_and_refreshed_for_new_topics(desk: Desk) -> None:
    member = Client(desk, "a", subscribed_topic_names=None, subscribed_topic_regex="ord.*")
    member.beat()
    assert member.reads == {"orders": set(range(6))}
    assert desk.records[1] == (
        ConsumerGroupRegularExpressionKey(GROUP, "ord.*"),
        ConsumerGroupRegularExpressionValue(["orders"], desk.topics.generation, WALL_MS),
    )
    desk.advance(2_000)
    desk.change_topic("order-lines", 1)
    member.beat()
    assert member.reads == {"orders": set(range(6)), "order-lines": {0}}
    desk.change_topic("ordinary", 1)
    member.beat()
    assert "ordinary" not in member.reads, "a second has not passed"
    desk.advance(1_000)
    member.beat()
    assert "ordinary" in member.reads
    assert group_of(desk).subscribes_to("ordinary")
    desk.check_rebuilt()


def test_an_expression_matches_what_the_client_may_describe(desk: Desk) -> None:
    desk.change_topic("order-lines", 1)
    known = {"orders"}
    member = Client(desk, "a", subscribed_topic_names=None, subscribed_topic_regex="ord.*")
    member.caller = CALLER._replace(may_describe=known.__contains__)
    member.beat()
    assert member.reads == {"orders": set(range(6))}
    known.add("order-lines")
    desk.advance(2_000)
    group_of(desk).mark_stale()
    member.beat()
    assert member.reads == {"orders": set(range(6)), "order-lines": {0}}
    desk.check_rebuilt()


def test_an_expression_that_nobody_has_any_more_is_deleted(desk: Desk) -> None:
    members = [Client(desk, name, subscribed_topic_names=None, subscribed_topic_regex="ord.*") for name in "ab"]
    settle(*members)
    members[0].beat(subscribed_topic_regex="")
    assert group_of(desk).resolved.keys() == {"ord.*"}
    settle(*members)
    assert (members[0].reads, members[1].reads) == ({}, {"orders": set(range(6))})
    members[1].leave()
    assert (ConsumerGroupRegularExpressionKey(GROUP, "ord.*"), None) in desk.batches[-1]
    assert group_of(desk).resolved == {}
    desk.check_rebuilt()


def test_what_is_no_expression_is_refused_and_writes_nothing(desk: Desk) -> None:
    member = Client(desk, "a", subscribed_topic_names=None, subscribed_topic_regex="(orders")
    with pytest.raises(KafkaError, match=r"missing \)") as caught:
        member.beat()
    assert caught.value.code is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert not desk.shard.groups


def test_the_expressions_of_a_group_are_counted(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subscriptions, "MAX_EXPRESSIONS", 1)
    Client(desk, "a", subscribed_topic_regex="a").beat()
    assert Client(desk, "b", subscribed_topic_regex="b").refused() is ErrorCode.INVALID_REGULAR_EXPRESSION
    Client(desk, "b", subscribed_topic_regex="a").beat()


def test_who_unsubscribes_gives_up_at_once_what_it_does_not_want(desk: Desk) -> None:
    desk.change_topic("payments", 2)
    member = Client(desk, "a", "orders", "payments")
    member.settle(2)
    response = member.beat(subscribed_topic_names=["payments"], topic_partitions=reported(member.reads))
    assert response.assignment is not None
    assert named(response.assignment.topic_partitions) == {"payments": {0, 1}}
    assert group_of(desk).members["a"].state == UNREVOKED_PARTITIONS


def test_a_group_that_an_older_kafka_wrote_loses_its_record_of_topics(desk: Desk) -> None:
    member = Client(desk, "a", "orders")
    member.settle(2)
    desk.shard.replay(ConsumerGroupPartitionMetadataKey(GROUP), ConsumerGroupPartitionMetadataValue([]), 0)
    member.beat(subscribed_topic_names=[])
    assert (ConsumerGroupPartitionMetadataKey(GROUP), None) in desk.batches[-1]
    assert not group_of(desk).has_partition_metadata


def test_a_request_keeps_no_list_of_the_client(desk: Desk) -> None:
    names = ["orders"]
    request = ConsumerGroupHeartbeatRequest(GROUP, "a", 0, None, None, 1, names, None, None, [])
    Client(desk, "a").ask(request)
    names.append("other")
    assert group_of(desk).members["a"].topics == {"orders"}


def test_names_of_clients_do_not_break_log_lines(caplog: pytest.LogCaptureFixture) -> None:
    desk = Desk({"orders": 6})
    for number in range(20):
        Client(desk, f"m\n{number}", "orders", group="a\ngroup").beat()
    with caplog.at_level("INFO", "headgate.groups"):
        desk.advance(46_000)
    (line,) = caplog.messages
    assert "removes 20 members that sent no heartbeat" in line
    assert "\n" not in line
    assert len(line) < 400

"""Targets: which assignor, of which topics, and that only what is new is written."""

from __future__ import annotations

from headgate.gateway.coordinator.groups.consumer import group_records, targets
from headgate.gateway.coordinator.groups.consumer.assignors import ASSIGNORS
from headgate.gateway.coordinator.groups.consumer.group import ConsumerGroup
from headgate.gateway.coordinator.groups.consumer.members import ConsumerMember
from headgate.gateway.coordinator.groups.settings import GroupSettings
from headgate.gateway.coordinator.groups.tests.groups import FakeTopics, topic_id
from headgate.protocol.internal.offsets import (
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
)

SETTINGS = GroupSettings()


def group_with(*members: ConsumerMember) -> ConsumerGroup:
    group = ConsumerGroup("g")
    for member in members:
        group.apply(*group_records.member("g", member))
    group.apply(*group_records.epoch("g", 4, 0))
    return group


def test_only_what_is_new_is_written() -> None:
    topics = FakeTopics({"t": 4})
    group = group_with(
        ConsumerMember("a", topics=frozenset("t")), ConsumerMember("b", topics=frozenset("t")), ConsumerMember("c")
    )
    records = targets.compute(group, topics, SETTINGS)
    assert [key for key, _ in records] == [
        *(ConsumerGroupTargetAssignmentMemberKey("g", name) for name in "abc"),
        ConsumerGroupTargetAssignmentMetadataKey("g"),
    ]
    assert records[-1][1] == ConsumerGroupTargetAssignmentMetadataValue(4)
    for record in records:
        group.apply(*record)
    assert [type(key) for key, _ in targets.compute(group, topics, SETTINGS)] == [
        ConsumerGroupTargetAssignmentMetadataKey
    ]
    topics.set("t", 5)
    assert len(targets.compute(group, topics, SETTINGS)) == 2, "one member gets one more"


def test_topics_that_are_not_there_are_left_out() -> None:
    topics = FakeTopics({"t": 1})
    group = group_with(ConsumerMember("a", topics=frozenset({"t", "gone"})))
    for record in targets.compute(group, topics, SETTINGS):
        group.apply(*record)
    assert group.targets == {"a": {topic_id("t"): frozenset({0})}}


def test_the_assignor_is_that_of_most_members_if_it_still_exists() -> None:
    group = group_with(
        ConsumerMember("a", assignor="range"),
        ConsumerMember("b", assignor="range"),
        ConsumerMember("c", assignor="uniform"),
    )
    assert targets.assignor_of(group, SETTINGS) is ASSIGNORS["range"]
    assert targets.assignor_of(group, GroupSettings(consumer_assignors=("uniform",))) is ASSIGNORS["uniform"]
    assert (
        targets.assignor_of(group_with(ConsumerMember("a")), GroupSettings(consumer_assignors=("range",)))
        is (ASSIGNORS["range"])
    )


def test_assignors_that_nobody_wrote_are_not_supported() -> None:
    assert targets.supported(GroupSettings(consumer_assignors=("org.example.Mine", "range"))) == ["range"]
    assert targets.supported(GroupSettings(consumer_assignors=("org.example.Mine",))) == ["uniform", "range"]

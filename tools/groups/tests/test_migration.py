"""The pure plan of a migration: what each step does to a group in each state, and why stores differ."""

import pytest

from headgate.protocol.client.failure import Failure
from headgate.protocol.topic_partition import TopicPartition
from headgate.tools.groups.members import ZOOKEEPER, MemberDescription
from headgate.tools.groups.migration import (
    GroupStores,
    MigrationStep,
    StepDecision,
    StepEffect,
    compare,
    decide,
    effects,
    have_moved,
)
from headgate.tools.groups.offsets import CommittedOffsets, OffsetAndMetadata
from headgate.tools.groups.stores import StoreSettings, ZooKeeperOffsets

SEPARATE, KAFKA = StoreSettings("separate"), StoreSettings("kafka")
CARRIED, CARRYING = StoreSettings("dual", "zookeeper", "carried"), StoreSettings("dual", "zookeeper", "carrying")
OLD_MEMBER = MemberDescription("g_host-1", None, ZOOKEEPER, "/host", [])
NEW_MEMBER = MemberDescription("m-1", None, "app", "/host", [])


def offsets(*numbers: int | None) -> CommittedOffsets:
    """Offsets of t-0, t-1 and so on."""
    return {TopicPartition("t", index): OffsetAndMetadata(one) for index, one in enumerate(numbers) if one is not None}


def group(
    settings: StoreSettings, zookeeper: CommittedOffsets, kafka: CommittedOffsets, *members: MemberDescription
) -> GroupStores:
    ours = [member for member in members if member.is_of_zookeeper]
    theirs = [member for member in members if not member.is_of_zookeeper]
    return GroupStores("g", settings, ZooKeeperOffsets(zookeeper, {}), kafka, ours, theirs)


@pytest.mark.parametrize(
    "settings, step, after",
    [
        (SEPARATE, MigrationStep.START, StoreSettings("dual", "zookeeper")),
        (CARRIED, MigrationStep.START, None),
        (CARRYING, MigrationStep.START, None),
        (CARRIED, MigrationStep.FINISH, KAFKA),
        (StoreSettings("dual", "kafka"), MigrationStep.FINISH, KAFKA),
        (KAFKA, MigrationStep.FINISH, None),
        (KAFKA, MigrationStep.BACK, StoreSettings("dual", "kafka")),
        (CARRIED, MigrationStep.BACK, None),
        (CARRIED, MigrationStep.FINISH_IN_ZOOKEEPER, SEPARATE),
        (SEPARATE, MigrationStep.FINISH_IN_ZOOKEEPER, None),
    ],
)
def test_a_step_is_made_once(settings: StoreSettings, step: MigrationStep, after: StoreSettings | None) -> None:
    assert decide(group(settings, offsets(5), offsets(5)), step) == StepDecision(after)


@pytest.mark.parametrize(
    "settings, step, refusal",
    [
        (
            KAFKA,
            MigrationStep.START,
            "its offsets are the coordinator's alone already; `back` returns it to both stores",
        ),
        (SEPARATE, MigrationStep.FINISH, "it is separate, not dual; `start` comes first"),
        (KAFKA, MigrationStep.FINISH_IN_ZOOKEEPER, "it is kafka, not dual; `back` comes first"),
        (SEPARATE, MigrationStep.BACK, "its stores are separate; `start --source kafka`"),
        (CARRYING, MigrationStep.FINISH, "its offsets are not in both stores yet: carrying"),
        (
            StoreSettings("dual", "kafka", "carrying"),
            MigrationStep.START,
            "are carried over from the coordinator at this moment",
        ),
    ],
)
def test_a_step_that_does_not_follow_is_refused(settings: StoreSettings, step: MigrationStep, refusal: str) -> None:
    decision = decide(group(settings, offsets(5), offsets(5)), step)
    assert decision.settings is None
    assert refusal in decision.refusal


def test_a_finish_is_refused_while_the_stores_differ() -> None:
    different = group(CARRIED, offsets(5, 6), offsets(5, 7))
    decision = decide(different, MigrationStep.FINISH, differences=list(compare(different)), is_forced=True)
    assert decision.refusal == "the stores differ in t-1; `verify` says why"


@pytest.mark.parametrize(
    "settings, step, member, word",
    [
        (SEPARATE, MigrationStep.START, NEW_MEMBER, "ZooKeeper's offsets would replace those"),
        (CARRIED, MigrationStep.FINISH, OLD_MEMBER, "only you know their offsets.storage: g_host-1"),
        (CARRIED, MigrationStep.FINISH_IN_ZOOKEEPER, NEW_MEMBER, "commit to Kafka: m-1"),
    ],
)
def test_members_of_the_other_side_are_in_the_way(
    settings: StoreSettings, step: MigrationStep, member: MemberDescription, word: str
) -> None:
    live = group(settings, offsets(5), offsets(5), member)
    assert word in decide(live, step).refusal
    assert decide(live, step, is_forced=True).settings is not None


def test_a_group_with_a_slash_does_not_start() -> None:
    named = group(SEPARATE, {}, offsets(5))._replace(name="a/b")
    assert "has a slash" in decide(named, MigrationStep.START, "kafka").refusal


def test_the_side_that_leads_wins_and_the_other_fills_its_gaps() -> None:
    both = group(SEPARATE, offsets(5, 6, 7), offsets(5, 9, None, 3))
    t1, t2, t3 = (TopicPartition("t", number) for number in (1, 2, 3))
    assert list(effects(both, "zookeeper")) == [
        StepEffect(t1, 6, 9, 6, "kafka moves by -3"),
        StepEffect(t2, 7, None, 7, "kafka gets it"),
        StepEffect(t3, None, 3, 3, "zookeeper gets it"),
    ]
    assert list(effects(both, "kafka")) == [
        StepEffect(t1, 6, 9, 9, "zookeeper moves by +3"),
        StepEffect(t2, 7, None, 7, "kafka gets it"),
        StepEffect(t3, None, 3, 3, "zookeeper gets it"),
    ]


def test_each_difference_has_a_cause() -> None:
    both = group(SEPARATE, offsets(5, 6, 7), offsets(5, 9, None, 3))
    unreadable = {TopicPartition("t", 4): Failure(-1, "not a number")}
    both = both._replace(zookeeper=ZooKeeperOffsets(both.zookeeper.offsets, unreadable))
    problems = {TopicPartition("t", 2): Failure(3, "there is no such topic")}
    assert [
        (str(one.partition), one.zookeeper, one.kafka, one.records, one.cause) for one in compare(both, problems)
    ] == [
        ("t-1", 6, 9, 3, "the coordinator is 3 ahead; the stores are separate"),
        ("t-2", 7, None, 0, "only ZooKeeper has an offset; there is no such topic"),
        ("t-3", None, 3, 0, "only the coordinator has an offset; the stores are separate"),
        ("t-4", None, None, 0, "the node in ZooKeeper cannot be read: not a number; the stores are separate"),
    ]


@pytest.mark.parametrize(
    "settings, cause",
    [
        (KAFKA, "ZooKeeper is not kept any more"),
        (StoreSettings("dual", "zookeeper", "failed: no connection"), "failed: no connection"),
        (CARRIED, "see the broker's log"),
    ],
)
def test_the_state_is_the_cause_of_a_difference(settings: StoreSettings, cause: str) -> None:
    (difference,) = compare(group(settings, offsets(5), offsets(4)))
    assert difference.cause == f"ZooKeeper is 1 ahead; {cause}"


def test_a_partition_has_moved_if_both_stores_have() -> None:
    before = group(CARRIED, offsets(5, 5), offsets(5, 5))
    after = group(CARRIED, offsets(6, 6), offsets(7, 5))
    assert [have_moved(before, after, TopicPartition("t", number)) for number in (0, 1)] == [True, False]

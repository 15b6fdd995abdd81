"""A change of offsets: what it comes to, when it is refused, and that refused means nothing was written."""

from collections.abc import Mapping
from typing import Any

import pytest

from headgate.protocol.client.failure import Failure
from headgate.protocol.messages.list_offsets import EARLIEST, LATEST, ListOffsetsRequest
from headgate.protocol.messages.offset_commit import OffsetCommitRequest
from headgate.protocol.topic_partition import TopicPartition
from headgate.tools.client.client import ClientError
from headgate.tools.client.cluster import Cluster
from headgate.tools.groups.arguments import Offset, Shift, Time
from headgate.tools.groups.offsets import OffsetAndMetadata, commit_offsets
from headgate.tools.groups.reset import END, START, OffsetChange, ResetTarget, apply_changes, plan_reset
from headgate.tools.tests.model_cluster import Log, ModelCluster, ModelGroup, ModelMember, opened

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


def populate(model: ModelCluster, **of_group: Any) -> None:
    """a-0 has the offsets 10 to 20 with the times 1000, 1010 ...; a-1 is empty; b is led by another broker."""
    log = Log(start=0)
    log.append(*range(900, 1100, 10))
    log.start = 10
    model.topics = model.topics | {"a": [log, Log(end=0)], "b": [Log(leader=1, end=50)]}
    model.groups["g"] = ModelGroup(offsets={("a", 0): (12, 4, "note"), ("a", 1): (0, -1, "")}, **of_group)


def wish(model: ModelCluster, wanted: ResetTarget, partition: TopicPartition = A0) -> OffsetChange:
    with opened() as cluster:
        changes, problems = plan_reset(cluster, {"g": {partition: wanted}})
    assert not problems
    (change,) = changes
    return change


@pytest.mark.parametrize(
    "wanted, after, note, bound",
    [
        (Time(EARLIEST), 10, "", START),
        (Time(LATEST), 20, "", END),
        (Time(1045), 15, "", ""),
        (Time(1050), 15, "", ""),
        (Time(1), 10, "", ""),
        (Time(5000), 20, "nothing is so new: the end", END),
        (Offset(15), 15, "", ""),
        (Offset(20), 20, "", ""),
        (Offset(3), 10, "3 is below the start", START),
        (Offset(99), 20, "99 is beyond the end", END),
        (Shift(3), 15, "", ""),
        (Shift(-1), 11, "", ""),
        (Shift(-5), 10, "7 is below the start", START),
    ],
)
def test_a_target_becomes_an_offset_and_a_note(
    model: ModelCluster, wanted: ResetTarget, after: int, note: str, bound: str
) -> None:
    populate(model)
    assert wish(model, wanted) == OffsetChange(
        "g", A0, OffsetAndMetadata(12, 4, "note"), OffsetAndMetadata(after), 10, 20, note, bound
    )


@pytest.mark.parametrize("wanted", [Offset(12), Shift(0), Time(1015)])
def test_an_unchanged_offset_keeps_metadata_and_epoch(model: ModelCluster, wanted: ResetTarget) -> None:
    populate(model)
    change = wish(model, wanted)
    assert change.is_unchanged
    with opened() as cluster:
        assert apply_changes(cluster, [change]) == ([change], [])
    assert not model.of(OffsetCommitRequest)


def test_an_import_brings_its_own_metadata_and_epoch(model: ModelCluster) -> None:
    populate(model)
    assert wish(model, OffsetAndMetadata(12, 2, "other")).after == OffsetAndMetadata(12, 2, "other")
    assert wish(model, OffsetAndMetadata(99, 2, "other")).after == OffsetAndMetadata(20, -1, "other"), (
        "the end has another epoch"
    )


def test_every_target_in_an_empty_partition_is_its_start(model: ModelCluster) -> None:
    populate(model)
    for wanted in (Time(EARLIEST), Time(LATEST), Time(5), Offset(7)):
        assert wish(model, wanted, A1).after.offset == 0


def test_the_note_tells_a_new_group(model: ModelCluster) -> None:
    populate(model)
    with opened() as cluster:
        changes, problems = plan_reset(cluster, {"typo": {A0: Offset(3), B0: Offset(1)}})
        assert not problems
        assert [(one.before, one.after.offset, one.note) for one in changes] == [
            (None, 10, "3 is below the start; the group is new"),
            (None, 1, "the group is new"),
        ]
        assert all(one.is_of_new_group for one in changes)
        assert "typo" not in model.groups
        apply_changes(cluster, changes)
    assert model.groups["typo"].offsets == {("a", 0): (10, -1, ""), ("b", 0): (1, -1, "")}


def test_a_group_of_offsets_alone_is_not_new(model: ModelCluster) -> None:
    """A broker before 0.11 describes it as Dead."""
    populate(model, state="Dead")
    with opened() as cluster:
        changes, problems = plan_reset(cluster, {"g": {A0: Offset(11)}})
    assert not problems
    assert [(change.before, change.note) for change in changes] == [(OffsetAndMetadata(12, 4, "note"), "")]


def test_a_plan_is_committed_in_one_request_for_each_group(model: ModelCluster) -> None:
    populate(model)
    model.groups["h"] = ModelGroup(coordinator=2)
    with opened() as cluster:
        changes, _ = plan_reset(
            cluster, {"g": {A0: Offset(11), B0: Time(LATEST), A1: Offset(0)}, "h": {A0: Offset(13)}}
        )
        assert apply_changes(cluster, changes) == (changes, [])
    assert model.groups["g"].offsets == {("a", 0): (11, -1, ""), ("a", 1): (0, -1, ""), ("b", 0): (50, -1, "")}
    assert model.groups["h"].offsets == {("a", 0): (13, -1, "")}
    assert [(node, one.group_id) for node, one, _ in model.asked if isinstance(one, OffsetCommitRequest)] == [
        (0, "g"),
        (2, "h"),
    ]
    first = model.of(OffsetCommitRequest)[0]
    assert [topic.name for topic in first.topics] == ["a", "b"]
    assert len(first.topics[0].partitions) == 1, "what stays is not written"


@pytest.mark.parametrize("kind", ["classic", "consumer"])
def test_an_active_group_is_refused_by_the_names_of_its_members(model: ModelCluster, kind: str) -> None:
    populate(model, state="Stable", type=kind, members=[ModelMember("m-1"), ModelMember("m-2")])
    with opened() as cluster:
        changes, problems = plan_reset(cluster, {"g": {A0: Offset(11)}})
    assert not changes
    (problem,) = problems
    assert problem == (
        "group g is Stable, its offsets belong to its members: m-1 (client app at /10.0.0.1), "
        "m-2 (client app at /10.0.0.1); stop them first"
    )


def test_a_member_that_joins_after_the_plan_stops_the_change(model: ModelCluster) -> None:
    populate(model)
    with opened() as cluster:
        changes, problems = plan_reset(cluster, {"g": {A0: Offset(11)}})
        assert not problems
        model.groups["g"].members = [ModelMember("late")]
        done, failures = apply_changes(cluster, changes)
    assert not done
    (failure,) = failures
    assert failure.startswith("group g: not changed were a-0: ")
    assert failure.endswith("(UNKNOWN_MEMBER_ID); a member has joined meanwhile")
    assert model.groups["g"].offsets["a", 0] == (12, 4, "note")


@pytest.mark.parametrize(
    "partition, sentence",
    [
        (TopicPartition("gone", 0), "gone-0: there is no such topic"),
        (TopicPartition("a", 2), "a-2: there is no such partition: the topic has 2"),
        (
            TopicPartition("gone", 1),
            "gone-1: there is no such topic; `headgate groups delete GROUP --topic TOPIC` forgets the offsets",
        ),
    ],
)
def test_missing_partitions_are_problems(model: ModelCluster, partition: TopicPartition, sentence: str) -> None:
    populate(model)
    model.groups["g"].offsets["gone", 1] = (5, -1, "")
    with opened() as cluster:
        changes, problems = plan_reset(cluster, {"g": {partition: Offset(1), A0: Offset(11)}})
    assert [one.partition for one in changes] == [A0]
    assert problems == [sentence]


def test_a_shift_needs_a_committed_offset(model: ModelCluster) -> None:
    populate(model)
    with opened() as cluster:
        assert plan_reset(cluster, {"g": {B0: Shift(5)}}) == (
            [],
            ["group g has committed nothing for b-0, so it cannot be moved by 5; use --to"],
        )


def test_a_leader_too_old_for_times_is_a_problem(model: ModelCluster) -> None:
    populate(model)
    model.served[ListOffsetsRequest] = (0, 0)
    with opened() as cluster:
        changes, problems = plan_reset(cluster, {"g": {A0: Time(1000)}})
    assert not changes
    assert "it has ListOffsets 0, this needs 1-11" in problems[0]


def test_an_unreachable_group_is_a_problem_not_a_new_group(model: ModelCluster) -> None:
    populate(model, coordinator=2)
    model.dead = {2}
    with opened() as cluster:
        changes, problems = plan_reset(cluster, {"g": {A0: Offset(11)}})
    assert not changes
    assert any(text.startswith("group g: broker 2 is advertised at") for text in problems)


def test_the_changed_groups_are_told_if_the_cluster_is_gone_then(model: ModelCluster) -> None:
    populate(model)
    model.groups["h"] = ModelGroup(offsets={("a", 0): (12, -1, "")})

    def commit_once(
        cluster: Cluster, group: str, offsets: Mapping[TopicPartition, OffsetAndMetadata]
    ) -> dict[TopicPartition, Failure]:
        if group == lost:
            raise ClientError("no broker answers")
        return commit_offsets(cluster, group, offsets)

    with opened() as cluster:
        changes, _ = plan_reset(cluster, {"g": {A0: Offset(15)}, "h": {A0: Offset(15)}})
        lost = "h"
        applied, failures = apply_changes(cluster, changes, commit_once)
        assert ([change.group for change in applied], failures) == (
            ["g"],
            ["group h: not changed were a-0: no broker answers"],
        )
        lost = "g"
        with pytest.raises(ClientError, match="no broker answers"):
            apply_changes(cluster, changes, commit_once)

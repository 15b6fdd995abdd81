"""Which offsets are deleted, and the sentences about the others."""

from __future__ import annotations

from headgate.protocol.topic_partition import TopicPartition
from headgate.tools.groups.deletion import (
    active_group_sentence,
    delete_selected,
    delete_whole_groups,
    is_of_topics,
    select_offsets,
)
from headgate.tools.groups.members import describe_groups
from headgate.tools.groups.offsets import OffsetAndMetadata
from headgate.tools.tests.model_cluster import ModelCluster, ModelGroup, ModelMember, opened

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


def test_partitions_of_topics() -> None:
    assert [is_of_topics(A1, topics) for topics in ({"a": None}, {"a": [0, 1]}, {"a": [0]}, {"b": None})] == [
        True,
        True,
        False,
        False,
    ]


def test_topics_without_an_offset_are_named() -> None:
    offsets = {B0: OffsetAndMetadata(1), A1: OffsetAndMetadata(2), A0: OffsetAndMetadata(3)}
    assert select_offsets("g", offsets, {"a": None, "b": [2, 3], "c": None}) == (
        [A0, A1],
        ["group g has committed nothing for b:2,3", "group g has committed nothing for c"],
    )


def test_refused_offsets_are_named_with_the_members(model: ModelCluster) -> None:
    model.groups["g"] = ModelGroup(
        "Stable", members=[ModelMember("m-1", {"a": [0, 1]})], offsets={("b", 0): (1, -1, "")}
    )
    with opened() as cluster:
        groups, _ = describe_groups(cluster, ["g"])
        gone, [failure] = delete_selected(cluster, groups["g"], [A0, A1, B0])
        assert delete_selected(cluster, groups["g"], []) == ([], [])
    assert gone == [B0]
    assert failure.startswith("group g: not deleted were the offsets of a-0, a-1: ")
    assert failure.endswith(": m-1 (client app at /10.0.0.1); stop them first")
    assert active_group_sentence(groups["g"]) == (
        "group g was not deleted, it is Stable: m-1 (client app at /10.0.0.1); stop them first"
    )


def test_groups_are_deleted_or_named(model: ModelCluster) -> None:
    model.groups = {"g": ModelGroup(), "h": ModelGroup(members=[ModelMember("m-1")])}
    with opened() as cluster:
        gone, [failure] = delete_whole_groups(cluster, ["g", "h"])
    assert gone == ["g"]
    assert failure.startswith("group h was not deleted: ")
    assert list(model.groups) == ["h"]

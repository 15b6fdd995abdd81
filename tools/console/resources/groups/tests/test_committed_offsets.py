"""Committed offsets by topic: the lag beside a topic, and an answer that is kept for a while."""

from headgate.protocol.messages.offset_fetch import OffsetFetchRequest
from headgate.protocol.topic_partition import TopicPartition
from headgate.tools.console.resources.groups.committed_offsets import (
    KEPT_S,
    GroupOffset,
    OffsetsByTopic,
    RecentOffsets,
    arrange_by_topic,
    ask_offsets,
    group_lags,
)
from headgate.tools.groups.offsets import OffsetAndMetadata
from headgate.tools.tests.model_cluster import Clock, ModelCluster, ModelGroup, opened

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


def test_offsets_are_arranged_by_topic() -> None:
    offsets = {"y": {A0: OffsetAndMetadata(3)}, "x": {A1: OffsetAndMetadata(4), B0: OffsetAndMetadata(5)}}
    assert arrange_by_topic(offsets) == {
        "a": [GroupOffset("x", 1, 4), GroupOffset("y", 0, 3)],
        "b": [GroupOffset("x", 0, 5)],
    }


def test_the_group_that_is_farthest_behind_comes_first() -> None:
    offsets = OffsetsByTopic(
        {
            "a": [
                GroupOffset("near", 0, 9),
                GroupOffset("far", 0, 2),
                GroupOffset("far", 1, 7),
                GroupOffset("beyond", 0, 99),
                GroupOffset("gone", 5, 1),
            ]
        },
        [],
    )
    ends = {A0: 10, A1: 10}
    assert group_lags(offsets, "a", ends) == [("far", 11), ("near", 1), ("beyond", 0), ("gone", None)]
    assert group_lags(offsets, "b", ends) == []


def test_offsets_in_zookeeper_count_too(model: ModelCluster) -> None:
    model.groups["old"] = ModelGroup(type="zookeeper")
    model.zookeeper["old"]["a", 0] = 4
    model.groups["shared"] = ModelGroup(type="Share")
    with opened() as cluster:
        assert ask_offsets(cluster).topics == {"a": [GroupOffset("old", 0, 4)]}


def test_an_answer_is_kept_for_a_while(model: ModelCluster) -> None:
    model.groups["g"] = ModelGroup(offsets={("a", 0): (4, 0, "")})
    clock = Clock()
    recent = RecentOffsets(clock)
    with opened() as cluster, opened() as other:
        recent.get(cluster)
        clock.now_s = KEPT_S - 1
        assert recent.get(cluster) is recent.get(cluster)
        assert len(model.of(OffsetFetchRequest)) == 1
        recent.get(other)
        assert len(model.of(OffsetFetchRequest)) == 2, "another user may see other groups"
        clock.now_s = KEPT_S
        model.groups["g"].offsets["a", 0] = (5, 0, "")
        assert recent.get(cluster).topics == {"a": [GroupOffset("g", 0, 5)]}

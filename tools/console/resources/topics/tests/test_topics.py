"""All topics in one answer, and the figures of those in sight."""

import pytest

from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from headgate.protocol.messages.list_offsets import ListOffsetsRequest
from headgate.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse, OffsetFetchResponseGroup
from headgate.tools.console.parameters import BadParameter, Parameters
from headgate.tools.console.resources.topics.topics import COLUMNS, topic_figures, topics
from headgate.tools.tests.model_cluster import Log, ModelCluster, ModelGroup, opened

NOTHING = Parameters()


def named(*topics: str) -> Parameters:
    return Parameters([("topic", name) for name in topics])


def stored(**sizes: int) -> list[DescribeLogDirsResult]:
    """A log directory with partition 0 of these topics."""
    return [
        DescribeLogDirsResult(
            0,
            "/data",
            [DescribeLogDirsTopic(name, [DescribeLogDirsPartition(0, size, 0, False)]) for name, size in sizes.items()],
        )
    ]


def populate(model: ModelCluster) -> None:
    """`orders` has two replicas; a part of it is deleted; two groups read it. `cold` has no leader."""
    model.topics["orders"] = [Log(0, replicas=[0, 1], isr=[0, 1]), Log(1, replicas=[1, 0], isr=[1])]
    model.topics["orders"][0].append(1, 2, 3, 4)
    model.topics["orders"][0].start = 1
    model.topics["orders"][1].append(1, 2)
    model.topics["cold"] = [Log(-1, replicas=[2], isr=[])]
    model.topics["__odd"] = [Log(2, replicas=[2], isr=[2])]
    model.groups["near"] = ModelGroup(offsets={("orders", 0): (4, 0, ""), ("orders", 1): (1, 0, "")})
    model.groups["far"] = ModelGroup(offsets={("orders", 0): (1, 0, ""), ("orders", 9): (1, 0, "")}, coordinator=1)
    model.groups["shared"] = ModelGroup(type="share")
    model.log_directories = {0: stored(orders=100), 1: stored(orders=90), 2: stored(cold=7)}


def test_all_topics_are_compact_rows(model: ModelCluster) -> None:
    populate(model)
    with opened() as cluster:
        answer = topics(cluster, NOTHING)
    assert answer == {
        "cluster_id": "model",
        "columns": list(COLUMNS),
        "rows": [["__odd", 1, 1, True, 0, 0], ["cold", 1, 1, False, 1, 1], ["orders", 2, 2, False, 0, 1]],
    }
    assert len(model.asked) == 1


def test_sizes_offsets_and_lags_of_topics_in_sight(model: ModelCluster) -> None:
    populate(model)
    with opened() as cluster:
        answer = topic_figures(cluster, named("orders", "gone"))
    assert answer["topics"] == [
        {
            "topic": "orders",
            "records": 5,
            "end_offsets": 6,
            "size_bytes": 190,
            "leaders_size_bytes": 100,
            "groups": [{"group": "far", "lag_records": 3}, {"group": "near", "lag_records": 1}],
        }
    ]
    assert answer["missing"] == {}
    assert model.of(DescribeLogDirsRequest)[0].topics[0].partitions == [0, 1]


def test_a_partition_without_a_leader_leaves_the_others(model: ModelCluster) -> None:
    populate(model)
    with opened() as cluster:
        answer = topic_figures(cluster, named("orders", "cold"))
    cold, orders = answer["topics"]
    assert (cold["records"], cold["end_offsets"], cold["size_bytes"], cold["groups"]) == (None, None, 7, [])
    assert orders["records"] == 5
    assert answer["missing"] == {"records": "cold-0: the partition has no leader at the moment"}


def test_a_refused_part_has_a_reason(model: ModelCluster) -> None:
    populate(model)
    model.unserved = {DescribeLogDirsRequest}
    model.served[OffsetFetchRequest] = (0, 0)
    with opened() as cluster:
        answer = topic_figures(cluster, named("orders"))
    assert answer["topics"][0]["size_bytes"] is None
    assert answer["topics"][0]["records"] == 5
    assert answer["missing"]["size"].startswith("broker 0, 1, 2: the broker has no DescribeLogDirs")
    assert "OffsetFetch" in answer["missing"]["lag"]


def test_offsets_of_groups_are_asked_once_for_many_views(model: ModelCluster) -> None:
    populate(model)
    with opened() as cluster:
        for _ in range(5):
            topic_figures(cluster, named("orders"))
    assert len(model.of(OffsetFetchRequest)) == 2, "one for each coordinator"


def test_offsets_are_asked_before_the_ends(model: ModelCluster) -> None:
    populate(model)
    with opened() as cluster:
        topic_figures(cluster, named("orders"))
    kinds = [type(request) for _, request, _ in model.asked]
    assert kinds.index(OffsetFetchRequest) < kinds.index(ListOffsetsRequest)


def test_no_topics_ask_nothing_but_metadata(model: ModelCluster) -> None:
    populate(model)
    with opened() as cluster:
        assert topic_figures(cluster, NOTHING)["topics"] == []
    assert len(model.asked) == 1


def test_too_many_topics_in_one_question_are_refused(model: ModelCluster) -> None:
    with opened() as cluster, pytest.raises(BadParameter, match="at most 500"):
        topic_figures(cluster, named(*map(str, range(501))))


def test_a_group_without_permission_is_named(model: ModelCluster) -> None:
    populate(model)
    refusal = OffsetFetchResponse(
        groups=[OffsetFetchResponseGroup("far", error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)]
    )

    def disturb(node: int, request: object, version: int) -> OffsetFetchResponse | None:
        return refusal if isinstance(request, OffsetFetchRequest) and node == 1 else None

    model.disturb = disturb
    with opened() as cluster:
        answer = topic_figures(cluster, named("orders"))
    assert answer["topics"][0]["groups"] == [{"group": "near", "lag_records": 1}]
    assert answer["missing"]["lag"].startswith("group far: ")
    assert "GROUP_AUTHORIZATION_FAILED" in answer["missing"]["lag"]

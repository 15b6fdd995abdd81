"""Offsets from place to place: never backwards unless told, nothing beyond an end, every partition for Spark."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from headgate.protocol.messages.offset_commit import OffsetCommitRequest
from headgate.protocol.topic_partition import TopicPartition
from headgate.spark.positions.locations import LocationOffsets, OffsetLocation, read_location
from headgate.spark.positions.transfer import (
    apply,
    build_file,
    format_offsets,
    plan,
    refuse_target,
    starting_offsets,
    write_file,
)
from headgate.tools.client.cluster import Cluster
from headgate.tools.groups.offsets import OffsetAndMetadata
from headgate.tools.output import UsageError
from headgate.tools.tests.model_cluster import Log, ModelCluster, ModelGroup, ModelMember, opened

T0, T1, T2 = (TopicPartition("t", number) for number in range(3))


def source(**offsets: int) -> LocationOffsets:
    return LocationOffsets({TopicPartition("t", int(name[1:])): OffsetAndMetadata(at) for name, at in offsets.items()})


def no_cluster() -> Cluster:
    raise AssertionError("no broker is needed")


@pytest.fixture
def cluster(model: ModelCluster) -> Iterator[Cluster]:
    with opened() as cluster:
        yield cluster


def test_into_a_group(model: ModelCluster, cluster: Cluster) -> None:
    target = OffsetLocation("group", "g")
    model.groups["g"] = ModelGroup(offsets={("t", 0): (2, 0, "")})
    found = plan(cluster, source(t0=5, t1=6), target)
    assert not found.problems
    assert not model.of(OffsetCommitRequest), "a plan changes nothing"
    applied, failures = apply(cluster, found.changes, target)
    assert (len(applied), failures) == (2, [])
    assert model.groups["g"].offsets == {("t", 0): (5, -1, ""), ("t", 1): (6, -1, "")}


def test_into_zookeeper(model: ModelCluster, cluster: Cluster) -> None:
    target = OffsetLocation("zookeeper", "g")
    model.zookeeper["g"] = {("t", 0): 2}
    found = plan(cluster, source(t0=5, t1=6), target)
    assert [(one.before and one.before.offset, one.after.offset) for one in found.changes] == [(2, 5), (None, 6)]
    apply(cluster, found.changes, target)
    assert model.zookeeper["g"] == {("t", 0): 5, ("t", 1): 6}
    assert "g" not in model.groups, "the coordinator has nothing"
    assert [version for _, request, version in model.asked if isinstance(request, OffsetCommitRequest)] == [0]


@pytest.mark.parametrize("kind", ["group", "zookeeper"])
def test_never_backwards_unless_told(model: ModelCluster, cluster: Cluster, kind: str) -> None:
    model.groups["g"] = ModelGroup(offsets={("t", 0): (8, 0, "")})
    model.zookeeper["g"] = {("t", 0): 8}
    (problem,) = plan(cluster, source(t0=5), OffsetLocation(kind, "g")).problems
    assert problem == "t-0: from 8 back to 5: 3 offsets would be read again; --backwards allows it"
    assert not plan(cluster, source(t0=5), OffsetLocation(kind, "g"), allows_backwards=True).problems
    assert not plan(cluster, source(t0=8), OffsetLocation(kind, "g")).problems


def test_an_offset_beyond_the_end_belongs_to_another_log(cluster: Cluster) -> None:
    for allows_backwards in (False, True):
        (problem,) = plan(
            cluster, source(t0=11), OffsetLocation("group", "g"), allows_backwards=allows_backwards
        ).problems
        assert problem.startswith("t-0: offset 11 is beyond the end, 10: ")


def test_an_offset_below_the_start_is_noted(model: ModelCluster, cluster: Cluster) -> None:
    model.topics["t"][0].start = 4
    found = plan(cluster, source(t0=3), OffsetLocation("group", "g"))
    assert not found.problems
    assert [(one.after.offset, one.note) for one in found.changes] == [(4, "3 is below the start; the group is new")]


def test_a_group_with_members_is_refused(model: ModelCluster, cluster: Cluster) -> None:
    model.groups["g"] = ModelGroup("Stable", members=[ModelMember("m", {"t": [0]})])
    (problem,) = plan(cluster, source(t0=3), OffsetLocation("group", "g")).problems
    assert "its offsets belong to its members" in problem


def test_every_partition_is_named_for_spark(model: ModelCluster, cluster: Cluster) -> None:
    model.topics["t"].append(Log(0, start=2, end=9))
    text, problems, notes = starting_offsets(cluster, source(t0=5, t2=1))
    assert json.loads(text) == {"t": {"0": 5, "1": -2, "2": 2}}
    assert not problems
    assert notes == [
        "t-1: nothing was read; it begins at its start, 0",
        "t-2: 1 unread offsets are gone; it begins at its start, 2",
    ]


def test_what_spark_would_fail_over(cluster: Cluster) -> None:
    offsets = {**source(t0=11, t7=1).offsets, TopicPartition("gone", 0): OffsetAndMetadata(1)}
    _, problems, _ = starting_offsets(cluster, LocationOffsets(offsets))
    assert sorted(one.partition(":")[0] for one in problems) == ["gone-0", "t-0", "t-7"]


def test_offsets_of_a_topic_that_was_made_anew_are_refused(model: ModelCluster, cluster: Cluster) -> None:
    epochs = {T0: OffsetAndMetadata(5, 4), T1: OffsetAndMetadata(5, 3)}
    noted = source(t0=5, t1=6)._replace(topic_ids={"t": b"x" * 16, "u": b"u" * 16})
    for found in (noted, LocationOffsets(epochs, "model")):
        for kind in ("group", "zookeeper"):
            (problem,) = plan(cluster, found, OffsetLocation(kind, "g"), allows_backwards=True).problems
            assert problem.startswith("t: the topic was made anew")
        assert starting_offsets(cluster, found)[1] == [problem]
    for found in (
        noted._replace(topic_ids={"t": b"t" * 16}),
        LocationOffsets(epochs, "other"),
        LocationOffsets(epochs),
    ):
        assert not plan(cluster, found, OffsetLocation("group", "g")).problems
    for log in model.topics["t"]:
        log.leader_epoch = -1  # before Metadata 7
    with opened() as other:
        assert not plan(other, LocationOffsets(epochs, "model"), OffsetLocation("group", "g")).problems


def test_the_text_of_spark() -> None:
    assert format_offsets({T1: 4, T0: 3, TopicPartition("a", 10): 2}) == '{"a": {"10": 2}, "t": {"0": 3, "1": 4}}'


@pytest.mark.parametrize("kind", ["checkpoint", "table", "time"])
def test_places_that_are_not_written_to(kind: str) -> None:
    assert refuse_target(kind) is not None
    assert refuse_target("group") is None


def test_a_file_is_that_of_an_export(tmp_path: Path) -> None:
    path = tmp_path / "offsets.json"
    write_file(str(path), build_file("g", source(t0=5, t1=6)))
    assert read_location(OffsetLocation("file", str(path)), no_cluster, {}, "g").offsets == source(t0=5, t1=6).offsets
    with pytest.raises(UsageError, match="exists; name another file"):
        write_file(str(path), "")
    with pytest.raises(UsageError, match="cannot write"):
        write_file(str(tmp_path / "no folder" / "x"), "")

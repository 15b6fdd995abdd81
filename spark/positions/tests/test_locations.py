"""Places of offsets: their names, and what is read there."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages.offset_fetch import OffsetFetchRequest
from headgate.protocol.schema import Message
from headgate.protocol.topic_partition import TopicPartition
from headgate.spark.positions.locations import LocationOffsets, OffsetLocation, parse_location, read_location
from headgate.spark.positions.tests.checkpoints import CheckpointWriter
from headgate.tools.client.cluster import Cluster
from headgate.tools.groups.offsets import OffsetAndMetadata
from headgate.tools.output import UsageError
from headgate.tools.tests.model_cluster import ModelCluster, ModelGroup, opened

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
NOW_MS = 1_700_000_000_000


@pytest.fixture
def cluster(model: ModelCluster) -> Iterator[Cluster]:
    with opened() as cluster:
        yield cluster


def no_cluster() -> Cluster:
    raise AssertionError("no broker is needed")


def numbers(found: LocationOffsets) -> dict[TopicPartition, int]:
    return {partition: one.offset for partition, one in found.offsets.items()}


@pytest.mark.parametrize(
    "text, place",
    [
        ("checkpoint:/a/b", OffsetLocation("checkpoint", "/a/b")),
        ("checkpoint:s3://b/c", OffsetLocation("checkpoint", "s3://b/c")),
        ("group:a:b", OffsetLocation("group", "a:b")),
        ("time:2026-11-21T15:00Z", OffsetLocation("time", "2026-11-21T15:00Z")),
    ],
)
def test_names(text: str, place: OffsetLocation) -> None:
    assert parse_location(text) == place
    assert str(place) == text


def test_the_bare_path_of_a_checkpoint(written: CheckpointWriter) -> None:
    assert parse_location(str(written.path)) == OffsetLocation("checkpoint", str(written.path))


@pytest.mark.parametrize(
    "text, advice",
    [
        ("grup:a", "did you mean group:a"),
        ("nothing", "write one of checkpoint:..."),
        ("group:", "did you mean group:"),
        ("spark:", "write one of checkpoint:..."),
    ],
)
def test_a_wrong_name(text: str, advice: str) -> None:
    with pytest.raises(UsageError, match="is no place of offsets here; ") as error:
        parse_location(text)
    assert advice in str(error.value)


def test_spark_is_a_place_to_write_to() -> None:
    assert parse_location("spark:", ("spark",)) == OffsetLocation("spark", "")


def test_a_checkpoint(written: CheckpointWriter) -> None:
    place = OffsetLocation("checkpoint", str(written.path))
    for batch in range(4):
        written.do(batch, {"t": {0: batch, 1: 2 * batch}}, '{"logOffset":1}', planned_ms=1000 * (batch + 1))
    written.plan(4, {"t": {0: 9, 1: 9}}, planned_ms=5000)
    found = read_location(place, no_cluster, {})
    assert numbers(found) == {T0: 3, T1: 6}
    assert found.rates == {T0: 1.0, T1: 2.0}
    assert len(found.notes) == 1
    assert "batch 4 is planned but not done" in found.notes[0]
    assert numbers(read_location(place, no_cluster, {"t": [1]})) == {T1: 6}
    written.commit(4)
    written.do(5, {"t": {0: 9, 1: 9}}, '{"logOffset":1}')
    assert "the sources 1 do not read Kafka" in read_location(place, no_cluster, {}).notes[0]


def test_a_group(model: ModelCluster, cluster: Cluster) -> None:
    model.groups["g"] = ModelGroup(offsets={("t", 0): (7, 3, "note"), ("u", 0): (1, 0, "")})
    found = read_location(OffsetLocation("group", "g"), lambda: cluster, {"t": None})
    assert found.offsets == {T0: OffsetAndMetadata(7, 3, "note")}
    assert read_location(OffsetLocation("group", "nobody"), lambda: cluster, {}).offsets == {}


def refuse_fetches(node: int, request: object, version: int) -> Message | None:
    if isinstance(request, OffsetFetchRequest):
        return request.error_response(version, ErrorCode.INVALID_GROUP_ID)
    return None


@pytest.mark.parametrize("kind", ["group", "zookeeper"])
def test_a_coordinator_that_refuses(model: ModelCluster, cluster: Cluster, kind: str) -> None:
    model.disturb = refuse_fetches
    model.groups["g"] = ModelGroup()
    with pytest.raises(UsageError, match=f"the offsets of {kind}:g are not known: "):
        read_location(OffsetLocation(kind, "g"), lambda: cluster, {})


@pytest.mark.parametrize("is_kafka", [False, True])
def test_zookeeper(model: ModelCluster, cluster: Cluster, is_kafka: bool) -> None:
    model.is_kafka = is_kafka
    model.zookeeper["g"] = {("t", 0): 4, ("t", 1): 5}
    assert numbers(read_location(OffsetLocation("zookeeper", "g"), lambda: cluster, {})) == {T0: 4, T1: 5}
    assert numbers(read_location(OffsetLocation("zookeeper", "g"), lambda: cluster, {"t": [1]})) == {T1: 5}


def test_zookeeper_with_a_node_without_a_number(model: ModelCluster, cluster: Cluster) -> None:
    model.zookeeper["g"] = {("t", 0): 4, ("t", 1): None}
    with pytest.raises(UsageError, match="zookeeper:g: t-1: its data are no number"):
        read_location(OffsetLocation("zookeeper", "g"), lambda: cluster, {})


def test_times(model: ModelCluster, cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headgate.spark.positions.locations.now_ms", lambda: NOW_MS)
    model.topics["t"][1].batches.clear()
    for when, expected in (("3s", 7), ("earliest", 0), ("latest", 10)):
        found = read_location(OffsetLocation("time", when), lambda: cluster, {"t": [0]})
        assert numbers(found) == {T0: expected}
    found = read_location(OffsetLocation("time", "3s"), lambda: cluster, {"t": None})
    assert numbers(found) == {T0: 7, T1: 10}
    assert found.notes == ("t-1: nothing is so new: the end",)


@pytest.mark.parametrize(
    "when, topics, reason",
    [
        ("4711", {"t": None}, "time:4711 is no time"),
        ("soon", {"t": None}, "'soon' is no target"),
        ("2h", {}, "name the topics: --topic"),
        ("2h", {"gone": None}, "gone: there is no such topic"),
        ("2h", {"t": [7]}, "t-7: there is no such partition"),
    ],
)
def test_a_wrong_time(cluster: Cluster, when: str, topics: dict[str, list[int] | None], reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        read_location(OffsetLocation("time", when), lambda: cluster, topics)


def test_files(tmp_path: Path) -> None:
    rows = [{"topic": "t", "partition": 0, "offset": 3, "leader_epoch": 2}]
    groups = [{"group": "a", "offsets": rows}, {"group": "b", "offsets": rows}]
    document = {"format": "headgate group offsets", "version": 1, "cluster_id": "c", "groups": groups[:1]}
    file = tmp_path / "offsets.json"
    place = OffsetLocation("file", str(file))
    file.write_text(json.dumps(document))
    found = read_location(place, no_cluster, {})
    assert (found.offsets, found.cluster_id) == ({T0: OffsetAndMetadata(3, 2)}, "c")
    file.write_text(json.dumps({**document, "groups": groups}))
    assert numbers(read_location(place, no_cluster, {}, "b")) == {T0: 3}
    with pytest.raises(UsageError, match="has the groups a, b; name one: --group"):
        read_location(place, no_cluster, {})
    file.write_text("/consumers/g/offsets/t/0:8\n")
    assert numbers(read_location(place, no_cluster, {})) == {T0: 8}
    file.write_text("{}")
    with pytest.raises(UsageError, match=r"offsets.json: this is no export"):
        read_location(place, no_cluster, {})
    with pytest.raises(UsageError, match="cannot read"):
        read_location(OffsetLocation("file", str(tmp_path)), no_cluster, {})


def test_the_output_of_a_load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = parse_location(f"table:{tmp_path}")
    with pytest.raises(UsageError, match="has no published load"):
        read_location(place, no_cluster, {})
    monkeypatch.setattr("headgate.spark.load.positions.positions", lambda out: {T0: 5})
    monkeypatch.setattr("headgate.spark.load.positions.topic_ids", lambda out: {"t": b"t" * 16})
    assert numbers(read_location(place, no_cluster, {})) == {T0: 5}

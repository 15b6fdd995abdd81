"""Committed offsets and ends of partitions, at every version that a broker may have."""

import pytest

from headgate.protocol.client.failure import Failure
from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages.list_offsets import EARLIEST, LATEST, ListOffsetsRequest
from headgate.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from headgate.protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from headgate.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from headgate.protocol.topic_partition import TopicPartition
from headgate.tools.groups.offsets import (
    OffsetAndMetadata,
    commit_offsets,
    delete_offsets,
    fetch_committed,
    is_unknown_partition,
    list_offsets,
)
from headgate.tools.tests.model_cluster import Log, ModelCluster, ModelGroup, opened

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


@pytest.mark.parametrize("version", range(1, 11))
def test_all_committed_offsets_are_fetched(model: ModelCluster, version: int) -> None:
    model.served[OffsetFetchRequest] = (0, version)
    model.topics["a"] = [Log(), Log()]
    model.groups = {
        "g": ModelGroup(offsets={("a", 1): (5, 3, "note"), ("gone", 0): (9, -1, "")}),
        "h": ModelGroup(coordinator=1),
    }
    with opened() as cluster:
        found, failed = fetch_committed(cluster, ["g", "h", "unknown"])
    epoch = 3 if version >= 5 else -1
    offsets = {A1: OffsetAndMetadata(5, epoch, "note"), TopicPartition("gone", 0): OffsetAndMetadata(9)}
    assert (found, failed) == ({"g": offsets, "h": {}, "unknown": {}}, {})
    assert len(model.of(OffsetFetchRequest)) == (2 if version >= 8 else 3), "one for each coordinator"
    if version == 1:  # cannot ask for all
        assert [(one.name, one.partition_indexes) for one in model.of(OffsetFetchRequest)[0].topics] == [("a", [0, 1])]


def test_version_0_which_means_zookeeper_is_never_used(model: ModelCluster) -> None:
    model.served = {OffsetFetchRequest: (0, 0), OffsetCommitRequest: (0, 0)}
    with opened() as cluster:
        _, failed = fetch_committed(cluster, ["g"])
        refused = commit_offsets(cluster, "g", {A0: OffsetAndMetadata(1)})
    assert "too old or too new for this: it has OffsetFetch 0, this needs 1-9" in failed["g"].text
    assert "OffsetCommit 0, this needs 1-9" in refused[A0].text


def test_many_groups_are_asked_in_parts(model: ModelCluster) -> None:
    model.groups = {f"g{i}": ModelGroup(offsets={("a", 0): (i, -1, "")}) for i in range(450)}
    with opened() as cluster:
        found, _ = fetch_committed(cluster, model.groups)
    assert [len(request.groups) for request in model.of(OffsetFetchRequest)] == [200, 200, 50]
    assert found["g449"] == {A0: OffsetAndMetadata(449)}


@pytest.mark.parametrize("is_at_the_partition", [True, False])
def test_an_error_of_a_partition_fails_the_group(model: ModelCluster, is_at_the_partition: bool) -> None:
    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    rows = [OffsetFetchResponsePartitions(0, -1, -1, "", code)]
    group = OffsetFetchResponseGroup("g", [OffsetFetchResponseTopics(name="a", partitions=rows)])
    if not is_at_the_partition:
        group = OffsetFetchResponseGroup("g", [], code)
    answer = OffsetFetchResponse(groups=[group])
    model.disturb = lambda node, request, version: answer if isinstance(request, OffsetFetchRequest) else None
    with opened() as cluster:
        assert fetch_committed(cluster, ["g"]) == ({}, {"g": Failure.of(code)})


@pytest.mark.parametrize("version", range(1, 11))
def test_a_group_is_committed_in_one_request(model: ModelCluster, version: int) -> None:
    model.served[OffsetCommitRequest] = (0, version)
    with opened() as cluster:
        assert (
            commit_offsets(
                cluster, "g", {A0: OffsetAndMetadata(1), B0: OffsetAndMetadata(2, 4, "b"), A1: OffsetAndMetadata(3)}
            )
            == {}
        )
    epoch = 4 if version >= 6 else -1
    assert model.groups["g"].offsets == {("a", 0): (1, -1, ""), ("a", 1): (3, -1, ""), ("b", 0): (2, epoch, "b")}
    (request,) = model.of(OffsetCommitRequest)
    assert (request.retention_time_ms, request.group_instance_id) == (-1, None)


def refuse(code: ErrorCode) -> OffsetCommitResponse:
    rows = [OffsetCommitResponsePartition(0, code), OffsetCommitResponsePartition(1, 0)]
    return OffsetCommitResponse(topics=[OffsetCommitResponseTopic(name="a", partitions=rows)])


def test_refusals_are_failures_of_partitions(model: ModelCluster) -> None:
    answer = refuse(ErrorCode.OFFSET_METADATA_TOO_LARGE)
    model.disturb = lambda node, request, version: answer if isinstance(request, OffsetCommitRequest) else None
    with opened() as cluster:
        refused = commit_offsets(cluster, "g", {A0: OffsetAndMetadata(1), A1: OffsetAndMetadata(1)})
    assert refused == {A0: Failure.of(ErrorCode.OFFSET_METADATA_TOO_LARGE)}


def test_a_commit_to_a_loading_coordinator_is_retried(model: ModelCluster) -> None:
    answers = [refuse(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS), refuse(ErrorCode.NOT_COORDINATOR)]
    model.disturb = lambda node, request, version: (
        answers.pop(0) if answers and isinstance(request, OffsetCommitRequest) else None
    )
    with opened() as cluster:
        assert commit_offsets(cluster, "g", {A0: OffsetAndMetadata(1), A1: OffsetAndMetadata(1)}) == {}
    assert len(model.of(OffsetCommitRequest)) == 3
    assert model.groups["g"].offsets == {("a", 0): (1, -1, ""), ("a", 1): (1, -1, "")}


def test_a_commit_whose_coordinator_is_dead_fails_for_all(model: ModelCluster) -> None:
    model.groups["g"] = ModelGroup(coordinator=1)
    model.dead = {1}
    with opened() as cluster:
        refused = commit_offsets(cluster, "g", {A0: OffsetAndMetadata(1), B0: OffsetAndMetadata(1)})
    assert set(refused) == {A0, B0}
    assert "broker 1 is advertised at" in refused[B0].text


def test_offsets_are_deleted(model: ModelCluster) -> None:
    model.groups["g"] = ModelGroup(offsets={("a", 0): (1, -1, ""), ("a", 1): (1, -1, ""), ("b", 0): (1, -1, "")})
    with opened() as cluster:
        assert delete_offsets(cluster, "g", [A0, B0]) == {}
    assert set(model.groups["g"].offsets) == {("a", 1)}


def test_a_refused_deletion_fails_all_partitions(model: ModelCluster) -> None:
    answer = OffsetDeleteResponse(error_code=ErrorCode.NON_EMPTY_GROUP)
    model.disturb = lambda node, request, version: answer if isinstance(request, OffsetDeleteRequest) else None
    with opened() as cluster:
        assert delete_offsets(cluster, "g", [A0, B0]) == dict.fromkeys([A0, B0], Failure.of(ErrorCode.NON_EMPTY_GROUP))


@pytest.mark.parametrize("version", range(12))
def test_both_ends_of_partitions_are_listed(model: ModelCluster, version: int) -> None:
    model.served[ListOffsetsRequest] = (0, version)
    model.topics["a"] = [Log(0, 2, 10), Log(1, 3, 11)]
    model.topics["b"] = [Log(1, 4, 12)]
    with opened() as cluster:
        assert list_offsets(cluster, [A0, A1, B0], LATEST) == ({A0: 10, A1: 11, B0: 12}, {})
        assert list_offsets(cluster, [A0, A1, B0], EARLIEST) == ({A0: 2, A1: 3, B0: 4}, {})
    assert [node for node, request, _ in model.asked if isinstance(request, ListOffsetsRequest)] == [0, 1, 0, 1]


def test_offsets_of_a_time_are_listed(model: ModelCluster) -> None:
    model.topics["a"] = [Log(), Log()]
    model.topics["a"][0].append(1000, 2000, 3000)
    with opened() as cluster:
        assert list_offsets(cluster, [A0, A1], 1001) == ({A0: 1, A1: -1}, {})


def test_list_offsets_0_is_not_asked_for_a_time(model: ModelCluster) -> None:
    model.served[ListOffsetsRequest] = (0, 0)
    model.topics["a"] = [Log()]
    with opened() as cluster:
        _, failed = list_offsets(cluster, [A0], 1001)
    assert "it has ListOffsets 0, this needs 1-11" in failed[A0].text


def test_only_unknown_partitions_do_not_exist() -> None:
    assert is_unknown_partition(Failure.of(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
    assert not is_unknown_partition(Failure.of(ErrorCode.LEADER_NOT_AVAILABLE))

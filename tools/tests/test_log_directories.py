"""Log directories of brokers of any age, and the reasons for those that are not shown."""

import pytest

from headgate.protocol.client.failure import Failure
from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from headgate.protocol.topic_partition import TopicPartition
from headgate.tools.log_directories import DirectoryDescription, ReplicaSize, describe_log_directories
from headgate.tools.tests.model_cluster import ModelCluster, opened

A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)


def directory(path: str = "/data", *, error: int = 0, total: int = 1000, usable: int = 400) -> DescribeLogDirsResult:
    rows = [DescribeLogDirsPartition(1, 70, 0, False), DescribeLogDirsPartition(0, 30, 5, True)]
    topics = [] if error else [DescribeLogDirsTopic("a", rows)]
    return DescribeLogDirsResult(error, path, topics, total, usable)


def test_directories_are_listed_by_broker_and_path(model: ModelCluster) -> None:
    model.log_directories = {
        0: [directory("/b"), directory("/a", error=ErrorCode.KAFKA_STORAGE_ERROR)],
        1: [directory()],
        2: [directory()],
    }
    with opened() as cluster:
        found, failed = describe_log_directories(cluster)
    assert not failed
    offline, healthy = found[0]
    assert offline == DirectoryDescription("/a", Failure.of(ErrorCode.KAFKA_STORAGE_ERROR), 1000, 400, False, [])
    assert healthy.replicas == [ReplicaSize(A1, 70, 0, False), ReplicaSize(A0, 30, 5, True)]
    assert healthy.size_bytes == 100
    assert [request.topics for request in model.of(DescribeLogDirsRequest)] == [None, None, None]


def test_only_named_partitions_are_asked_for(model: ModelCluster) -> None:
    model.log_directories = {node: [directory()] for node in range(3)}
    with opened() as cluster:
        describe_log_directories(cluster, [A0, A1, TopicPartition("b", 3)])
    request = model.of(DescribeLogDirsRequest)[0]
    assert [(topic.topic, topic.partitions) for topic in request.topics] == [("a", [0, 1]), ("b", [3])]


def test_an_old_broker_names_no_space_of_its_volume(model: ModelCluster) -> None:
    model.log_directories = {node: [directory()] for node in range(3)}
    model.served[DescribeLogDirsRequest] = (0, 3)
    with opened() as cluster:
        found, _ = describe_log_directories(cluster)
    assert {(one.total_bytes, one.usable_bytes) for one in found[0]} == {(None, None)}


@pytest.mark.parametrize("version", [2, 4])
def test_a_refusal_is_a_failure_in_every_version(model: ModelCluster, version: int) -> None:
    model.served[DescribeLogDirsRequest] = (0, version)
    if version > 2:
        refusal = DescribeLogDirsResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        model.disturb = lambda node, request, version: refusal if isinstance(request, DescribeLogDirsRequest) else None
    with opened() as cluster:
        found, failed = describe_log_directories(cluster)
    assert not found
    assert {why.code for why in failed.values()} == {ErrorCode.CLUSTER_AUTHORIZATION_FAILED}


def test_a_broker_before_kafka_1_says_so(model: ModelCluster) -> None:
    model.unserved = {DescribeLogDirsRequest}
    with opened() as cluster:
        found, failed = describe_log_directories(cluster)
    assert not found
    assert failed[2].text == "the broker has no DescribeLogDirs: Kafka has it since 1.0"

"""Log directories of all brokers, and the replicas in one of them."""

from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from headgate.tools.console.parameters import Parameters
from headgate.tools.console.resources.topics.log_directories import log_directories, log_directory
from headgate.tools.tests.model_cluster import ModelCluster, opened


def populate(model: ModelCluster) -> None:
    rows = [DescribeLogDirsPartition(0, 70, 0, False), DescribeLogDirsPartition(1, 90, 4, True)]
    model.log_directories = {
        0: [DescribeLogDirsResult(0, "/data", [DescribeLogDirsTopic("a", rows)], 1000, 400)],
        2: [DescribeLogDirsResult(ErrorCode.KAFKA_STORAGE_ERROR, "/broken", [])],
    }


def test_directories_with_sums(model: ModelCluster) -> None:
    populate(model)
    with opened() as cluster:
        answer = log_directories(cluster, Parameters())
    healthy, broken = answer["log_directories"]
    assert healthy == {
        "broker": 0,
        "log_directory": "/data",
        "error": None,
        "is_cordoned": False,
        "total_bytes": 1000,
        "usable_bytes": 400,
        "size_bytes": 160,
        "replicas": 1,
        "replicas_moving_here": 1,
    }
    assert (broken["broker"], "KAFKA_STORAGE_ERROR" in broken["error"], broken["total_bytes"]) == (2, True, None)
    assert list(answer["missing"]) == ["log_directories"]
    assert answer["missing"]["log_directories"].startswith("broker 1: the broker shows no log directory")


def test_old_brokers_name_no_space(model: ModelCluster) -> None:
    populate(model)
    model.log_directories = dict.fromkeys(range(3), model.log_directories[0])
    model.served[DescribeLogDirsRequest] = (0, 3)
    with opened() as cluster:
        answer = log_directories(cluster, Parameters())
    assert list(answer["missing"]) == ["volumes"]


def test_replicas_of_a_directory_by_size(model: ModelCluster) -> None:
    populate(model)
    with opened() as cluster:
        answer = log_directory(cluster, Parameters([("broker", "0"), ("log_directory", "/data")]))
        other = log_directory(cluster, Parameters([("broker", "0"), ("log_directory", "/none")]))
    assert [(row["partition"], row["size_bytes"]) for row in answer["replicas"]] == [(1, 90), (0, 70)]
    assert answer["missing"] == {}
    assert other["missing"] == {"replicas": "broker 0 has no log directory /none"}

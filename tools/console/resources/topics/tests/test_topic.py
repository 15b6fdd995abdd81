"""One topic: partitions, replicas, configs, readers and writers, each part with its reason where it is not known."""

import pytest

from headgate.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResourceResult
from headgate.protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from headgate.protocol.messages.describe_producers import DescribeProducersRequest, ProducerState
from headgate.protocol.messages.fetch import FetchRequest
from headgate.protocol.messages.list_offsets import ListOffsetsRequest
from headgate.protocol.messages.list_transactions import ListTransactionsRequest
from headgate.tools.client.client import ClientError
from headgate.tools.console.parameters import Parameters
from headgate.tools.console.resources.topics.topic import (
    text_of_html,
    topic,
    topic_configs,
    topic_groups,
    topic_producers,
)
from headgate.tools.tests.model_cluster import Log, ModelCluster, ModelGroup, ModelMember, ModelTransaction, opened

ORDERS = Parameters([("topic", "orders")])


@pytest.fixture
def logs(model: ModelCluster) -> list[Log]:
    """Two partitions of `orders`; an open transaction begins at offset 2 of the first one."""
    model.topics["orders"] = [Log(0, replicas=[0, 1], isr=[0]), Log(1, replicas=[1, 0], isr=[1, 0])]
    logs = model.topics["orders"]
    logs[0].append(1, 2, 3)
    logs[0].stable = 2
    logs[1].append(5)
    return logs


def test_partitions_with_offsets_and_replicas(model: ModelCluster, logs: list[Log]) -> None:
    moving = DescribeLogDirsResult(
        0, "/new", [DescribeLogDirsTopic("orders", [DescribeLogDirsPartition(0, 5, 3, True)])]
    )
    here = DescribeLogDirsResult(
        0, "/data", [DescribeLogDirsTopic("orders", [DescribeLogDirsPartition(0, 9, 0, False)])]
    )
    model.log_directories = {0: [moving, here]}
    with opened() as cluster:
        answer = topic(cluster, ORDERS)
    first, second = answer["partitions"]
    assert first == {
        "partition": 0,
        "leader": 0,
        "leader_epoch": 3,
        "replicas": [0, 1],
        "isr": [0],
        "offline_replicas": [],
        "start_offset": 0,
        "end_offset": 3,
        "last_stable_offset": 2,
    }
    assert (second["end_offset"], second["last_stable_offset"]) == (1, 1)
    assert [(row["log_directory"], row["size_bytes"], row["is_future"]) for row in answer["replicas"]] == [
        ("/data", 9, False),
        ("/new", 5, True),
    ]
    assert answer["topic_id"] is None
    assert list(answer["missing"]) == ["sizes"], "of two brokers that show no directory"


def test_a_partition_without_a_leader_is_shown(model: ModelCluster, logs: list[Log]) -> None:
    logs[1].leader = -1
    with opened() as cluster:
        answer = topic(cluster, ORDERS)
    assert [(row["leader"], row["end_offset"]) for row in answer["partitions"]] == [(0, 3), (-1, None)]
    assert answer["missing"]["offsets"] == "orders-1: the partition has no leader at the moment"


def test_a_broker_without_transactions_has_no_stable_offsets(model: ModelCluster, logs: list[Log]) -> None:
    model.served[ListOffsetsRequest] = (0, 1)
    with opened() as cluster:
        answer = topic(cluster, ORDERS)
    assert [(row["end_offset"], row["last_stable_offset"]) for row in answer["partitions"]] == [(3, None), (1, None)]
    assert "ListOffsets" in answer["missing"]["last_stable_offset"]


@pytest.mark.parametrize("resource", [topic, topic_producers])
def test_a_topic_that_does_not_exist_is_an_error(model: ModelCluster, resource: object) -> None:
    assert callable(resource)
    with opened() as cluster, pytest.raises(ClientError, match="there is no topic orders"):
        resource(cluster, ORDERS)


def test_a_topic_that_was_deleted_meanwhile_is_an_error(model: ModelCluster, logs: list[Log]) -> None:
    with opened() as cluster:
        topic(cluster, ORDERS)
        del model.topics["orders"]
        with pytest.raises(ClientError, match="there is no topic orders"):
            topic(cluster, ORDERS)


# ------------------------------------------------------------------------------------------------------------- configs


def test_configs_with_sources(model: ModelCluster, logs: list[Log]) -> None:
    model.topic_configs["orders"] = [
        DescribeConfigsResourceResult(name="retention.ms", value="5", config_source=1, config_type=5)
    ]
    with opened() as cluster:
        answer = topic_configs(cluster, ORDERS)
    (row,) = answer["configs"]
    assert (row["name"], row["value"], row["source"], row["synonyms"]) == (
        "retention.ms",
        "5",
        "DYNAMIC_TOPIC_CONFIG",
        [],
    )
    assert answer["missing"] == {}


def test_an_old_broker_has_neither_sources_nor_documentation(model: ModelCluster, logs: list[Log]) -> None:
    model.topic_configs["orders"] = [DescribeConfigsResourceResult(name="retention.ms", value="5")]
    model.served[DescribeConfigsRequest] = (0, 0)
    with opened() as cluster:
        answer = topic_configs(cluster, ORDERS)
    assert sorted(answer["missing"]) == ["documentation", "source"]


def test_configs_of_an_unknown_topic_are_missing(model: ModelCluster) -> None:
    with opened() as cluster:
        answer = topic_configs(cluster, ORDERS)
    assert answer["configs"] == []
    assert answer["missing"]["configs"].startswith("topic orders: ")


def test_documentation_is_text_and_no_html() -> None:
    document = "The <code>delete</code> policy,\n see <a href='#x'>there</a>. <script>alert(1)</script> a &lt; b <p"
    assert text_of_html(document) == "The delete policy, see there. alert(1) a < b <p"


# -------------------------------------------------------------------------------------------------------------- groups


def test_groups_read_a_topic_by_offsets_or_by_members(model: ModelCluster, logs: list[Log]) -> None:
    model.topics["other"] = [Log()]
    model.groups = {
        "committed": ModelGroup(offsets={("orders", 0): (1, 0, "note"), ("other", 0): (0, 0, "")}),
        "assigned": ModelGroup("Stable", "consumer", members=[ModelMember("m", {"orders": [1]})], coordinator=1),
        "elsewhere": ModelGroup("Stable", members=[ModelMember("m", {"other": [0]})]),
        "shared": ModelGroup(type="share"),
    }
    with opened() as cluster:
        answer = topic_groups(cluster, ORDERS)
    assigned, committed = answer["groups"]
    assert (assigned["group"], assigned["state"], assigned["type"], assigned["members"]) == (
        "assigned",
        "Stable",
        "consumer",
        1,
    )
    assert (assigned["lag_records"], assigned["partitions_out_of_range"]) == (None, 0)
    assert [row["partition"] for row in assigned["partitions"]] == [1]
    assert (committed["group"], committed["lag_records"], committed["members"]) == ("committed", 2, 0)
    (row,) = committed["partitions"]
    assert (row["committed_offset"], row["metadata"], row["lag_records"], row["lag_ms"] > 0) == (1, "note", 2, True)
    assert answer["missing"] == {}
    assert {topic.topic for request in model.of(FetchRequest) for topic in request.topics} == {"orders"}


# ----------------------------------------------------------------------------------------------------------- producers


def test_producers_with_their_transactional_ids(model: ModelCluster, logs: list[Log]) -> None:
    logs[0].producers = [ProducerState(7, 1, 4, 1000, 2, 2), ProducerState(9, 0, 5, 2000, -1, -1)]
    model.transactions["billing"] = ModelTransaction(producer_id=7)
    with opened() as cluster:
        answer = topic_producers(cluster, ORDERS)
    assert answer["producers"] == [
        {
            "partition": 0,
            "producer_id": 7,
            "producer_epoch": 1,
            "last_sequence": 4,
            "last_timestamp_ms": 1000,
            "coordinator_epoch": 2,
            "transaction_start_offset": 2,
            "transactional_id": "billing",
        },
        {
            "partition": 0,
            "producer_id": 9,
            "producer_epoch": 0,
            "last_sequence": 5,
            "last_timestamp_ms": 2000,
            "coordinator_epoch": None,
            "transaction_start_offset": None,
            "transactional_id": None,
        },
    ]
    assert answer["missing"] == {}


def test_brokers_without_these_questions_say_so(model: ModelCluster, logs: list[Log]) -> None:
    logs[0].producers = [ProducerState(7, 1, 4, 1000, 2, 2)]
    model.unserved = {ListTransactionsRequest}
    with opened() as cluster:
        answer = topic_producers(cluster, ORDERS)
    assert len(answer["producers"]) == 1
    assert "ListTransactions" in answer["missing"]["transactional_id"]
    model.unserved = {DescribeProducersRequest}
    with opened() as cluster:
        answer = topic_producers(cluster, ORDERS)
    assert answer["producers"] == []
    assert "DescribeProducers" in answer["missing"]["producers"]

"""The brokers of a modelled cluster."""

from headgate.protocol.messages.metadata import MetadataResponse, MetadataResponseBroker, MetadataResponseTopic
from headgate.protocol.messages.metadata import MetadataResponsePartition as Partition
from headgate.tools.console.parameters import Parameters
from headgate.tools.console.resources.cluster.brokers import broker_rows, brokers
from headgate.tools.tests.model_cluster import ModelCluster, opened


def test_a_cluster_is_described(model: ModelCluster) -> None:
    with opened() as cluster:
        answer = brokers(cluster, Parameters())
    assert [row["address"] for row in answer["brokers"]] == ["127.0.0.1:9092", "127.0.0.1:9093", "127.0.0.1:9094"]
    assert answer["missing"] == {}


def test_replicas_are_counted_where_they_lie() -> None:
    partitions = [
        Partition(partition_index=0, leader_id=1, replica_nodes=[1, 2], isr_nodes=[1, 2]),
        Partition(partition_index=1, leader_id=1, replica_nodes=[2, 1], isr_nodes=[1]),
    ]
    found = broker_rows(
        MetadataResponse(
            brokers=[MetadataResponseBroker(node_id=node, host=f"b{node}", port=9092) for node in (2, 1)],
            controller_id=2,
            topics=[MetadataResponseTopic(name="a", partitions=partitions)],
        )
    )
    assert [(row["node_id"], row["partitions_led"], row["replicas"], row["replicas_behind"]) for row in found] == [
        (1, 2, 2, 0),
        (2, 0, 2, 1),
    ]
    assert [row["is_controller"] for row in found] == [False, True]

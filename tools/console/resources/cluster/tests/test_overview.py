"""The numbers of the cluster, and the partitions that need attention."""

from headgate.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from headgate.protocol.messages.metadata import MetadataResponse, MetadataResponseTopic
from headgate.protocol.messages.metadata import MetadataResponsePartition as Partition
from headgate.tools.console.parameters import Parameters
from headgate.tools.console.resources.cluster.overview import numbers, overview
from headgate.tools.console.resources.tests.answering_cluster import answering_cluster


def test_partitions_that_need_attention_come_first_without_a_leader() -> None:
    partitions = [
        Partition(partition_index=0, leader_id=1, replica_nodes=[1, 2], isr_nodes=[1, 2]),
        Partition(partition_index=1, leader_id=1, replica_nodes=[1, 2], isr_nodes=[1]),
        Partition(partition_index=2, leader_id=-1, replica_nodes=[2], isr_nodes=[2]),
    ]
    found = numbers(MetadataResponse(topics=[MetadataResponseTopic(name="a", partitions=partitions)]))
    assert [(row["partition"], row["leader"], row["behind"]) for row in found["attention"]] == [
        (2, None, []),
        (1, 1, [2]),
    ]
    assert (found["partitions"], found["partitions_without_leader"], found["partitions_behind"]) == (3, 1, 1)
    assert (found["topics"], found["controller_id"]) == (1, None)


def test_partitions_on_the_move() -> None:
    move = OngoingPartitionReassignment(partition_index=3, replicas=[0, 1], adding_replicas=[1], removing_replicas=[0])
    answer = ListPartitionReassignmentsResponse(topics=[OngoingTopicReassignment(name="a", partitions=[move])])
    with answering_cluster({ListPartitionReassignmentsRequest: answer}) as cluster:
        found = overview(cluster, Parameters())
    row = {"topic": "a", "partition": 3, "replicas": [0, 1], "adding": [1], "removing": [0]}
    assert (found["reassignments"], found["missing"]) == ([row], {})


def test_an_older_broker_says_what_it_lacks() -> None:
    with answering_cluster({}) as cluster:
        found = overview(cluster, Parameters())
    assert found["reassignments"] is None
    assert "since Kafka 2.4" in found["missing"]["reassignments"]

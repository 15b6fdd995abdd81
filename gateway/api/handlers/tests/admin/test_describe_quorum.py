"""DescribeQuorum: a quorum of one. What is refused is compared with Kafka in `like_kafka`."""

import pytest

from headgate.gateway.tests.builders import HandlerBroker
from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages.describe_quorum import DescribeQuorumRequest, RequestedPartitionData, RequestedTopicData


@pytest.mark.parametrize("version", [0, 1, 2])
def test_this_node_is_the_quorum(node: HandlerBroker, version: int) -> None:
    node.services.metadata.create_topic("t", 3)
    wanted = RequestedTopicData("__cluster_metadata", [RequestedPartitionData(0)])
    response = node.ask(DescribeQuorumRequest([wanted]), version)
    ((partition,),) = (topic.partitions for topic in response.topics)
    assert (response.error_code, partition.error_code) == (ErrorCode.NONE, ErrorCode.NONE)
    assert (partition.leader_id, partition.leader_epoch) == (0, 0)
    written = node.services.metadata.end_offset
    assert written >= 4
    assert partition.high_watermark == written
    (voter,) = partition.current_voters
    assert (voter.replica_id, voter.log_end_offset, partition.observers) == (0, written, [])
    now_ms = node.services.clock.now_ms() if version else -1
    assert (voter.last_fetch_timestamp, voter.last_caught_up_timestamp) == (now_ms, now_ms)
    addresses = [(row.name, row.host, row.port) for each in response.nodes for row in each.listeners]
    assert addresses == ([("PLAINTEXT", "192.0.2.1", 9092)] if version >= 2 else [])

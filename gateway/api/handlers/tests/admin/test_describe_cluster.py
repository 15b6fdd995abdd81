"""DescribeCluster."""

from pathlib import Path

import pytest

from headgate.gateway.api import authorized_operations
from headgate.gateway.tests.builders import HandlerBroker
from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages.describe_cluster import DescribeClusterRequest


@pytest.mark.parametrize("version", range(3))
def test_the_cluster_is_this_node(tmp_path: Path, version: int) -> None:
    node = HandlerBroker(tmp_path, node_id="3", broker_rack="r1")
    response = node.ask(DescribeClusterRequest(), version)
    assert (response.error_code, response.error_message) == (ErrorCode.NONE, None)
    assert (response.cluster_id, response.controller_id) == (node.services.metadata.image.cluster_id, 3)
    rows = [(row.broker_id, row.host, row.port, row.rack, row.is_fenced) for row in response.brokers]
    assert rows == [(3, "192.0.2.1", 9092, "r1", False)]
    assert response.cluster_authorized_operations == authorized_operations.UNKNOWN
    node.close()


def test_operations_are_told_when_asked(node: HandlerBroker) -> None:
    response = node.ask(DescribeClusterRequest(include_cluster_authorized_operations=True), 1)
    assert response.cluster_authorized_operations == authorized_operations.CLUSTER > 0


@pytest.mark.parametrize(
    "endpoint_type, code", [(2, ErrorCode.MISMATCHED_ENDPOINT_TYPE), (9, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE)]
)
def test_there_are_only_brokers(node: HandlerBroker, endpoint_type: int, code: ErrorCode) -> None:
    assert node.ask(DescribeClusterRequest(endpoint_type=endpoint_type), 1).error_code == code

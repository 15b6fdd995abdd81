"""DescribeCluster: the brokers and the controller (KIP-700).

v1 endpoint type (KIP-919)   v2 fenced brokers (KIP-1073)
"""

from headgate.gateway.api import authorized_operations
from headgate.gateway.api.authorization import Authorization
from headgate.gateway.api.authorization_rules import cluster_operations
from headgate.gateway.api.broker_endpoints import endpoints
from headgate.gateway.api.context import HandlerContext
from headgate.gateway.api.handler_registration import handles
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

BROKERS, CONTROLLERS = 1, 2


def _authorize(authorization: Authorization) -> None:
    """Allow every client to list the brokers; limit the cluster's authorized operations to the client's."""
    if authorization.request.include_cluster_authorized_operations:
        authorization.amends.append(
            lambda response: setattr(response, "cluster_authorized_operations", cluster_operations(authorization))
        )


@handles(DescribeClusterRequest, versions="0-2", authorize=_authorize)
def describe_cluster(request: DescribeClusterRequest, context: HandlerContext) -> DescribeClusterResponse:
    """Describe the brokers; there is no controller endpoint."""
    if request.endpoint_type == CONTROLLERS:
        raise KafkaError(ErrorCode.MISMATCHED_ENDPOINT_TYPE, "this is a broker endpoint; request endpoint type 1")
    if request.endpoint_type != BROKERS:
        raise KafkaError(ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, f"endpoint type {request.endpoint_type} does not exist")
    image = context.broker.metadata.image
    wants_operations = request.include_cluster_authorized_operations
    return DescribeClusterResponse(
        cluster_id=image.cluster_id,
        controller_id=image.controller_id,
        brokers=[DescribeClusterBroker(*endpoint) for endpoint in endpoints(context)],
        cluster_authorized_operations=authorized_operations.CLUSTER
        if wants_operations
        else authorized_operations.UNKNOWN,
    )

"""ListConfigResources: the resources with configs.

v0 client metrics subscriptions, of which there are none (KIP-1000)   v1 every type (KIP-1142)
"""

from headgate.gateway.api.authorization import AclOperation
from headgate.gateway.api.authorization_rules import cluster
from headgate.gateway.api.context import HandlerContext
from headgate.gateway.api.handler_registration import handles
from headgate.gateway.config.resource_type import ResourceType
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)


@handles(ListConfigResourcesRequest, versions="0-1", authorize=cluster(AclOperation.DESCRIBE_CONFIGS))
def list_config_resources(request: ListConfigResourcesRequest, context: HandlerContext) -> ListConfigResourcesResponse:
    """The names by type; an empty list of types means all."""
    if context.version == 0:
        return ListConfigResourcesResponse()
    wanted = dict.fromkeys(request.resource_types or [*ResourceType])
    rows = [ConfigResource(name, resource_type) for resource_type in wanted for name in _names(resource_type, context)]
    return ListConfigResourcesResponse(config_resources=rows)


def _names(resource_type: int, context: HandlerContext) -> list[str]:
    image = context.broker.metadata.image
    if resource_type == ResourceType.TOPIC:
        return list(image.topics)
    if resource_type in {ResourceType.BROKER, ResourceType.BROKER_LOGGER}:
        return [str(node_id) for node_id in image.brokers]
    if resource_type == ResourceType.GROUP:
        return [name for kind, name in image.configs if kind == resource_type and image.configs[kind, name]]
    if resource_type not in list(ResourceType):
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"resource type {resource_type} does not exist")
    return []  # no client metrics are collected

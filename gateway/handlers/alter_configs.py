"""AlterConfigs: replace all settings of topics (KIP-133). Superseded by IncrementalAlterConfigs; old tools send it.

v2 flexible
"""

from collections import Counter

from gateway.context import Context
from gateway.handlers import handles
from gateway.handlers.each import each
from gateway.resources import ResourceType
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)


@handles(AlterConfigsRequest, versions="0-2")
def alter_configs(request: AlterConfigsRequest, context: Context) -> AlterConfigsResponse:
    """Give every resource these settings and no others, all or nothing of each."""
    counts = Counter((resource.resource_type, resource.resource_name) for resource in request.resources)

    def answer(resource: AlterConfigsResource) -> AlterConfigsResourceResponse:
        if counts[resource.resource_type, resource.resource_name] > 1:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, f"{resource.resource_name} stands in the request more than once"
            )
        _alter(resource, request.validate_only, context)
        return AlterConfigsResourceResponse(ErrorCode.NONE, None, resource.resource_type, resource.resource_name)

    unique = {(resource.resource_type, resource.resource_name): resource for resource in request.resources}
    return AlterConfigsResponse(responses=each(unique.values(), answer, _refuse))


def _alter(resource: AlterConfigsResource, validate_only: bool, context: Context) -> None:
    if resource.resource_type != ResourceType.TOPIC:
        message = "only settings of topics can be changed while the broker runs; set others in its server.properties"
        raise KafkaError(ErrorCode.INVALID_REQUEST, message)
    metadata = context.broker.metadata
    topic = metadata.image.topic(resource.resource_name)
    changes: dict[str, str | None] = dict.fromkeys(topic.configs)
    for config in resource.configs:
        if config.value is None:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"{config.name} is to be null; leave it out instead")
        changes[config.name] = config.value
    metadata.change_topic_configs(topic.name, changes, validate_only=validate_only)


def _refuse(resource: AlterConfigsResource, code: ErrorCode, message: str) -> AlterConfigsResourceResponse:
    return AlterConfigsResourceResponse(code, message, resource.resource_type, resource.resource_name)

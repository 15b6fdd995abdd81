"""IncrementalAlterConfigs: change single settings of topics, the others stay (KIP-339).

v1 flexible

Settings of brokers are read when a broker starts; to change one while it runs is refused, not ignored.
"""

from collections import Counter
from collections.abc import Mapping

from gateway.config import catalogue
from gateway.config.definition import Type
from gateway.context import Context
from gateway.handlers import handles
from gateway.handlers.each import each
from gateway.metadata.image import Topic
from gateway.resources import ResourceType
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.incremental_alter_configs import (
    APPEND,
    DELETE,
    SET,
    SUBTRACT,
    AlterableConfig,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

Changes = Mapping[str, str | None]
"""Name -> the new text; None takes a topic's own setting away."""


@handles(IncrementalAlterConfigsRequest, versions="0-1")
def incremental_alter_configs(
    request: IncrementalAlterConfigsRequest, context: Context
) -> IncrementalAlterConfigsResponse:
    """Change every resource, all or nothing of each."""
    counts = Counter((resource.resource_type, resource.resource_name) for resource in request.resources)

    def answer(resource: AlterConfigsResource) -> AlterConfigsResourceResponse:
        if counts[resource.resource_type, resource.resource_name] > 1:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, f"{resource.resource_name} stands in the request more than once"
            )
        _alter(resource, request.validate_only, context)
        return AlterConfigsResourceResponse(ErrorCode.NONE, None, resource.resource_type, resource.resource_name)

    unique = {(resource.resource_type, resource.resource_name): resource for resource in request.resources}
    return IncrementalAlterConfigsResponse(responses=each(unique.values(), answer, _refuse))


def _alter(resource: AlterConfigsResource, validate_only: bool, context: Context) -> None:
    if resource.resource_type != ResourceType.TOPIC:
        message = "only settings of topics can be changed while the broker runs; set others in its server.properties"
        raise KafkaError(ErrorCode.INVALID_REQUEST, message)
    metadata = context.broker.metadata
    topic = metadata.image.topic(resource.resource_name)
    changes = {config.name: _changed(config, topic, context) for config in resource.configs}
    if len(changes) != len(resource.configs):
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"a setting of {topic.name} stands in the request more than once")
    metadata.change_topic_configs(topic.name, changes, validate_only=validate_only)


def _changed(change: AlterableConfig, topic: Topic, context: Context) -> str | None:
    if change.config_operation == DELETE:
        return None
    if change.value is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{change.name} is to be null; delete it instead")
    if change.config_operation == SET:
        return change.value
    if change.config_operation not in {APPEND, SUBTRACT}:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"there is no operation {change.config_operation} on {change.name}")
    items = _items(change.name, topic, context)
    named = [item.strip() for item in change.value.split(",")]
    if change.config_operation == SUBTRACT:
        return ",".join(item for item in items if item not in named)
    return ",".join([*items, *(item for item in named if item not in items)])


def _items(name: str, topic: Topic, context: Context) -> list[str]:
    """What a list of the topic has now, be it its own or the broker's."""
    definition = catalogue.TOPIC.get(name)
    if definition is None or definition.type is not Type.LIST:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"{name} is no list, to which could be added or from which taken")
    value = context.broker.config.topic_value(name, topic.configs)
    return list(value) if isinstance(value, tuple) else []


def _refuse(resource: AlterConfigsResource, code: ErrorCode, message: str) -> AlterConfigsResourceResponse:
    return AlterConfigsResourceResponse(code, message, resource.resource_type, resource.resource_name)

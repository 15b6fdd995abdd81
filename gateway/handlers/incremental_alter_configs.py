"""IncrementalAlterConfigs: change single settings of topics and groups, the others stay (KIP-339).

v1 flexible

Settings of brokers are read when a broker starts; to change one while it runs is refused, not ignored.
"""

from gateway.config import catalogue
from gateway.config.definition import Type
from gateway.context import Context
from gateway.handlers import handles
from gateway.handlers.each import alter_each
from gateway.metadata.image import Topic
from gateway.resources import ResourceType, altered_topic
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


@handles(IncrementalAlterConfigsRequest, versions="0-1")
def incremental_alter_configs(
    request: IncrementalAlterConfigsRequest, context: Context
) -> IncrementalAlterConfigsResponse:
    """Change every resource, all or nothing of each."""

    def alter(resource: AlterConfigsResource) -> None:
        if len({config.name for config in resource.configs}) != len(resource.configs):
            message = f"a setting of {resource.resource_name} stands in the request more than once"
            raise KafkaError(ErrorCode.INVALID_REQUEST, message)
        if resource.resource_type == ResourceType.GROUP:
            _alter_group(resource, context, request.validate_only)
            return
        topic = altered_topic(resource, context)
        changes = {config.name: _changed(config, topic, context) for config in resource.configs}
        context.broker.metadata.change_topic_configs(topic.name, changes, validate_only=request.validate_only)

    return IncrementalAlterConfigsResponse(responses=alter_each(request.resources, alter, AlterConfigsResourceResponse))


def _alter_group(resource: AlterConfigsResource, context: Context, validate_only: bool) -> None:
    if not resource.resource_name:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "the group whose settings are to be changed is not named")
    changes = {config.name: _changed(config, None, context) for config in resource.configs}
    context.broker.metadata.change_group_configs(resource.resource_name, changes, validate_only=validate_only)


def _changed(change: AlterableConfig, topic: Topic | None, context: Context) -> str | None:
    """The new value; None takes it away. Lists are settings of topics only."""
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


def _items(name: str, topic: Topic | None, context: Context) -> list[str]:
    """What a list of the topic has now, be it its own or the broker's."""
    definition = catalogue.TOPIC.get(name)
    if topic is None or definition is None or definition.type is not Type.LIST:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"{name} is no list, to which could be added or from which taken")
    value = context.broker.config.topic_value(name, topic.configs)
    return list(value) if isinstance(value, tuple) else []

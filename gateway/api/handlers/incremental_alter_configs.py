"""IncrementalAlterConfigs: change single configs of topics, brokers, groups and loggers (KIP-339).

v1 flexible

A broker's changeable configs are those that Kafka changes at run time, except listeners.
"""

from collections.abc import Callable, Sequence
from functools import partial

from headgate.gateway.api.authorization import AclOperation
from headgate.gateway.api.authorization_rules import configs
from headgate.gateway.api.config_resources import (
    Check,
    altered_broker,
    altered_group,
    altered_topic,
    has_no_settings,
    this_broker,
    with_stores_tried,
)
from headgate.gateway.api.context import HandlerContext
from headgate.gateway.api.handler_registration import handles
from headgate.gateway.api.handlers.each import alter_each
from headgate.gateway.config import catalogue, dynamic, loggers
from headgate.gateway.config.definition import Type
from headgate.gateway.config.resource_type import ResourceType
from headgate.gateway.metadata.image import Topic
from headgate.gateway.metadata.store import Change
from headgate.gateway.runtime.tasks import Outcome
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.internal.metadata import BROKER_RESOURCE
from headgate.protocol.messages.alter_configs import AlterConfigsResourceResponse
from headgate.protocol.messages.incremental_alter_configs import (
    APPEND,
    DELETE,
    SET,
    SUBTRACT,
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

# The present items of a list config, by name; None for a config that is not a list
Items = Callable[[str], Sequence[str] | None]


@handles(IncrementalAlterConfigsRequest, versions="0-1", authorize=configs(AclOperation.ALTER_CONFIGS, "responses"))
def incremental_alter_configs(
    request: IncrementalAlterConfigsRequest, context: HandlerContext
) -> Outcome[IncrementalAlterConfigsResponse]:
    """Change each resource, or refuse the resource as a whole."""

    def alter(check: Check, resource: AlterConfigsResource) -> Change:
        if len({config.name for config in resource.configs}) != len(resource.configs):
            message = f"Error due to duplicate config keys: one of {resource.resource_name} is there more than once"
            raise KafkaError(ErrorCode.INVALID_REQUEST, message)
        kind = _KINDS.get(resource.resource_type)
        if kind is None:
            raise has_no_settings(resource)
        check(resource)
        return kind(resource, context, request.validate_only)

    def respond(rows: list[AlterConfigsResourceResponse]) -> IncrementalAlterConfigsResponse:
        return IncrementalAlterConfigsResponse(responses=rows)

    def alter_all(check: Check) -> Outcome[IncrementalAlterConfigsResponse]:
        return alter_each(request.resources, partial(alter, check), AlterConfigsResourceResponse, respond, context)

    return with_stores_tried(request.resources, lambda resource: _broker_changes(resource, context), alter_all, context)


def _alter_topic(resource: AlterConfigsResource, context: HandlerContext, validate_only: bool) -> Change:
    topic = altered_topic(resource, context)
    changes = _changes(resource, lambda name: _items_of_topic(name, topic, context))
    return context.broker.metadata.change_topic_configs(topic.name, changes, validate_only=validate_only)


def _items_of_topic(name: str, topic: Topic, context: HandlerContext) -> tuple[str, ...] | None:
    definition = catalogue.TOPIC.get(name)
    if definition is None or definition.type is not Type.LIST:
        return None
    value = context.broker.config.topic_value(name, topic.configs)
    return value if isinstance(value, tuple) else None


def _alter_broker(resource: AlterConfigsResource, context: HandlerContext, validate_only: bool) -> Change:
    node_id, changes = altered_broker(resource, context), _broker_changes(resource, context)
    return context.broker.metadata.change_broker_configs(node_id, changes, validate_only=validate_only)


def _broker_changes(resource: AlterConfigsResource, context: HandlerContext) -> dict[str, str | None]:
    configs = context.broker.metadata.planned.configs.get((BROKER_RESOURCE, resource.resource_name), {})
    return _changes(resource, lambda name: dynamic.items(context.broker.config, name, configs))


def _alter_loggers(resource: AlterConfigsResource, context: HandlerContext, validate_only: bool) -> Change:
    this_broker(resource, context)
    if any(change.config_operation in {APPEND, SUBTRACT} for change in resource.configs):
        message = "APPEND operation is not allowed for the BROKER_LOGGER resource, nor is SUBTRACT; set the level"
        raise KafkaError(ErrorCode.INVALID_REQUEST, message)
    levels = _changes(resource, lambda _: None)
    for name, level in levels.items():
        loggers.check(name, level)
    if not validate_only:
        loggers.change(levels)
    return context.broker.metadata.submit(())


def _alter_group(resource: AlterConfigsResource, context: HandlerContext, validate_only: bool) -> Change:
    group_id, changes = altered_group(resource), _changes(resource, lambda _: None)
    return context.broker.metadata.change_group_configs(group_id, changes, validate_only=validate_only)


_KINDS: dict[int, Callable[[AlterConfigsResource, HandlerContext, bool], Change]] = {
    ResourceType.TOPIC: _alter_topic,
    ResourceType.BROKER: _alter_broker,
    ResourceType.BROKER_LOGGER: _alter_loggers,
    ResourceType.GROUP: _alter_group,
}


def _changes(resource: AlterConfigsResource, items: Items) -> dict[str, str | None]:
    return {config.name: _changed(config, items) for config in resource.configs}


def _changed(change: AlterableConfig, items: Items) -> str | None:
    """The new value; None removes the config."""
    if change.config_operation == DELETE:
        return None
    if change.value is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {change.name}; delete it")
    if change.config_operation == SET:
        return change.value
    if change.config_operation not in {APPEND, SUBTRACT}:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"operation {change.config_operation} on {change.name} does not exist"
        )
    present = items(change.name)
    if present is None:
        operation = "APPEND" if change.config_operation == APPEND else "SUBTRACT"
        message = f"Can't {operation} to key {change.name} because its type is not LIST."
        raise KafkaError(ErrorCode.INVALID_CONFIG, message)
    named = [item.strip() for item in change.value.split(",")]
    if change.config_operation == SUBTRACT:
        return ",".join(item for item in present if item not in named)
    return ",".join([*present, *(item for item in named if item not in present)])

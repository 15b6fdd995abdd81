"""AlterConfigs: replace all configs of topics, brokers and groups (KIP-133).

v2 flexible

Superseded by IncrementalAlterConfigs; old tools send it. A config without a value in the request returns to its
default.
"""

from collections.abc import Mapping
from functools import partial

from headgate.gateway.api.authorization import AclOperation
from headgate.gateway.api.authorization_rules import configs
from headgate.gateway.api.config_resources import (
    Check,
    altered_broker,
    altered_group,
    altered_topic,
    has_no_settings,
    with_stores_tried,
)
from headgate.gateway.api.context import HandlerContext
from headgate.gateway.api.handler_registration import handles
from headgate.gateway.api.handlers.each import alter_each
from headgate.gateway.config.resource_type import ResourceType
from headgate.gateway.metadata.store import Change
from headgate.gateway.runtime.tasks import Outcome
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.messages.alter_configs import (
    AlterableConfig,
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)


@handles(AlterConfigsRequest, versions="0-2", authorize=configs(AclOperation.ALTER_CONFIGS, "responses"))
def alter_configs(request: AlterConfigsRequest, context: HandlerContext) -> Outcome[AlterConfigsResponse]:
    """Replace the configs of each resource, or refuse the resource as a whole."""

    def alter(check: Check, resource: AlterConfigsResource) -> Change:
        check(resource)
        return _alter(resource, context, request.validate_only)

    def respond(rows: list[AlterConfigsResourceResponse]) -> AlterConfigsResponse:
        return AlterConfigsResponse(responses=rows)

    def alter_all(check: Check) -> Outcome[AlterConfigsResponse]:
        return alter_each(request.resources, partial(alter, check), AlterConfigsResourceResponse, respond, context)

    return with_stores_tried(request.resources, lambda resource: _all_changes(resource, context), alter_all, context)


def _alter(resource: AlterConfigsResource, context: HandlerContext, validate_only: bool) -> Change:
    metadata, name = context.broker.metadata, resource.resource_name
    if resource.resource_type == ResourceType.TOPIC:
        topic = altered_topic(resource, context)
        return metadata.change_topic_configs(name, _changes(resource, topic.configs), validate_only=validate_only)
    changes = _all_changes(resource, context)
    if resource.resource_type == ResourceType.BROKER:
        return metadata.change_broker_configs(altered_broker(resource, context), changes, validate_only=validate_only)
    if resource.resource_type == ResourceType.GROUP:
        return metadata.change_group_configs(altered_group(resource), changes, validate_only=validate_only)
    raise has_no_settings(resource)


def _all_changes(resource: AlterConfigsResource, context: HandlerContext) -> dict[str, str | None]:
    configs = context.broker.metadata.planned.configs
    return _changes(resource, configs.get((resource.resource_type, resource.resource_name), {}))


def _changes(resource: AlterConfigsResource, present: Mapping[str, str]) -> dict[str, str | None]:
    return dict.fromkeys(present) | dict(map(_given, resource.configs))


def _given(config: AlterableConfig) -> tuple[str, str | None]:
    if config.value is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {config.name}; omit it")
    return config.name, config.value

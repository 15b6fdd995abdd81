"""DescribeConfigs: the configs of brokers, topics, groups and loggers, with the sources of their values.

v1 sources and synonyms (KIP-226)   v3 types and documentation (KIP-569)   v4 flexible
"""

from collections.abc import Iterable
from copy import copy

from headgate.gateway.api.authorization import AclOperation
from headgate.gateway.api.authorization_rules import configs
from headgate.gateway.api.config_resources import altered_group, has_no_settings, this_broker
from headgate.gateway.api.context import HandlerContext
from headgate.gateway.api.handler_registration import handles
from headgate.gateway.api.handlers.each import ROWS_A_STEP, each_row
from headgate.gateway.config import BrokerConfig, describe, group_config, loggers
from headgate.gateway.config.describe import ConfigEntry, TopicRows
from headgate.gateway.config.resource_type import ResourceType
from headgate.gateway.metadata.image import Image
from headgate.gateway.metadata.new_topics import check_name
from headgate.gateway.runtime.tasks import Outcome, at_once_if_few
from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from headgate.protocol.steps import Steps


@handles(DescribeConfigsRequest, versions="0-4", authorize=configs(AclOperation.DESCRIBE_CONFIGS, "results"))
def describe_configs(request: DescribeConfigsRequest, context: HandlerContext) -> Outcome[DescribeConfigsResponse]:
    """Describe every named resource once."""
    return at_once_if_few(_describe(request, context), len(request.resources))


def _describe(request: DescribeConfigsRequest, context: HandlerContext) -> Steps[DescribeConfigsResponse]:
    resources = yield from _unique(request.resources)
    image = context.broker.metadata.image
    config = copy(context.broker.config)  # the broker's own may change while rows are made
    topics = TopicRows(config, lambda entry: _row(entry, request))

    def rows(resource: DescribeConfigsResource) -> list[DescribeConfigsResourceResult]:
        if resource.resource_type != ResourceType.TOPIC:
            return [_row(entry, request) for entry in _entries(resource, config, image, context)]
        check_name(resource.resource_name)
        topic = image.topic(resource.resource_name)
        return topics.of(topic.configs, resource.configuration_keys)

    def answer(resource: DescribeConfigsResource) -> DescribeConfigsResult:
        return DescribeConfigsResult(
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
            error_message=None,
            configs=rows(resource),
        )

    return DescribeConfigsResponse(results=each_row(context.broker, resources, answer, _refuse))


def _unique(resources: Iterable[DescribeConfigsResource]) -> Steps[list[DescribeConfigsResource]]:
    """Merge repeated resources, with all their names: a description takes too long to repeat it."""
    wanted: dict[tuple[int, str], dict[str, None] | None] = {}
    for number, resource in enumerate(resources, 1):
        key = resource.resource_type, resource.resource_name
        names = wanted.setdefault(key, {})
        if not resource.configuration_keys:  # an empty list means all, like null
            wanted[key] = None
        elif names is not None:
            names.update(dict.fromkeys(resource.configuration_keys))
        if not number % ROWS_A_STEP:
            yield
    return [DescribeConfigsResource(*key, None if names is None else list(names)) for key, names in wanted.items()]


def _entries(
    resource: DescribeConfigsResource, config: BrokerConfig, image: Image, context: HandlerContext
) -> list[ConfigEntry]:
    names = resource.configuration_keys
    if resource.resource_type == ResourceType.BROKER:
        return _broker_entries(resource, names, config, context)
    if resource.resource_type == ResourceType.BROKER_LOGGER:
        this_broker(resource, context)
        return loggers.describe(names)
    if resource.resource_type == ResourceType.GROUP:
        configs = image.configs.get((ResourceType.GROUP, altered_group(resource)), {})
        return group_config.describe(config, configs, names)
    if resource.resource_type == ResourceType.CLIENT_METRICS:
        return describe.describe_client_metrics(resource.resource_name, names)
    raise has_no_settings(resource)


def _broker_entries(
    resource: DescribeConfigsResource, names: list[str] | None, config: BrokerConfig, context: HandlerContext
) -> list[ConfigEntry]:
    """The configs of this broker; for an empty name, the dynamic configs of all brokers."""
    if not resource.resource_name:
        return describe.describe_all_brokers(config, names)
    this_broker(resource, context)
    return describe.describe_broker(config, names)


def _row(entry: ConfigEntry, request: DescribeConfigsRequest) -> DescribeConfigsResourceResult:
    synonyms = [DescribeConfigsSynonym(*synonym) for synonym in entry.synonyms] if request.include_synonyms else []
    return DescribeConfigsResourceResult(
        name=entry.name,
        value=entry.value,
        read_only=entry.read_only,
        is_default=entry.is_default,
        config_source=entry.source,
        is_sensitive=entry.is_sensitive,
        synonyms=synonyms,
        config_type=entry.type,
        documentation=entry.documentation if request.include_documentation else None,
    )


def _refuse(resource: DescribeConfigsResource, code: ErrorCode, message: str) -> DescribeConfigsResult:
    return DescribeConfigsResult(
        error_code=code,
        error_message=message,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )

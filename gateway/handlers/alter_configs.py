"""AlterConfigs: replace all settings of topics (KIP-133). Superseded by IncrementalAlterConfigs; old tools send it.

v2 flexible
"""

from gateway.context import Context
from gateway.handlers import handles
from gateway.handlers.each import alter_each
from gateway.resources import altered_topic
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.alter_configs import (
    AlterableConfig,
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)


@handles(AlterConfigsRequest, versions="0-2")
def alter_configs(request: AlterConfigsRequest, context: Context) -> AlterConfigsResponse:
    """Give every resource these settings and no others, all or nothing of each."""

    def alter(resource: AlterConfigsResource) -> None:
        topic = altered_topic(resource, context)
        changes = dict.fromkeys(topic.configs) | dict(map(_given, resource.configs))
        context.broker.metadata.change_topic_configs(topic.name, changes, validate_only=request.validate_only)

    return AlterConfigsResponse(responses=alter_each(request.resources, alter, AlterConfigsResourceResponse))


def _given(config: AlterableConfig) -> tuple[str, str | None]:
    if config.value is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{config.name} is to be null; leave it out instead")
    return config.name, config.value

"""IncrementalAlterConfigs: change single configs of topics, brokers and their loggers (KIP-339).

v1 flexible
"""

from headgate.protocol.messages.alter_configs import AlterConfigsResourceResponse
from headgate.protocol.schema import Message, Struct, array, boolean, int8, int32, nullable_string, string, v

SET = 0
DELETE = 1
APPEND = 2
SUBTRACT = 3


class AlterableConfig(Struct):
    """A change. The operation is a constant of this module; the last two are for lists."""

    name: string = v("0+")
    config_operation: int8 = v("0+")
    value: nullable_string = v("0+")


class AlterConfigsResource(Struct):
    """A resource (type 2 topic, 4 broker, 8 logger of a broker) and its changes: all are made, or none."""

    resource_type: int8 = v("0+")
    resource_name: string = v("0+")
    configs: array[AlterableConfig] = v("0+")


class IncrementalAlterConfigsRequest(Message, key=44, versions="0-1", flexible="1+"):
    """Change configs, or with `validate_only` only validate the request."""

    resources: array[AlterConfigsResource] = v("0+")
    validate_only: boolean = v("0+")


class IncrementalAlterConfigsResponse(Message, key=44, response=True, versions="0-1", flexible="1+"):
    """One result for each resource of the request."""

    throttle_time_ms: int32 = v("0+")
    responses: array[AlterConfigsResourceResponse] = v("0+")

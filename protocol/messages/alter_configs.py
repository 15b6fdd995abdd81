"""AlterConfigs: replace all configs of topics and brokers (KIP-133); superseded by IncrementalAlterConfigs.

v2 flexible
"""

from headgate.protocol.schema import Message, Struct, array, boolean, int8, int16, int32, nullable_string, string, v


class AlterableConfig(Struct):
    """A config and its value; null for the default."""

    name: string = v("0+")
    value: nullable_string = v("0+")


class AlterConfigsResource(Struct):
    """A resource (type 2 topic, 4 broker) and all its configs: any other config returns to its default."""

    resource_type: int8 = v("0+")
    resource_name: string = v("0+")
    configs: array[AlterableConfig] = v("0+")


class AlterConfigsRequest(Message, key=33, versions="0-2", flexible="2+"):
    """Replace configs, or with `validate_only` only validate the request."""

    resources: array[AlterConfigsResource] = v("0+")
    validate_only: boolean = v("0+")


class AlterConfigsResourceResponse(Struct):
    """The result for a resource."""

    error_code: int16 = v("0+")
    error_message: nullable_string = v("0+")
    resource_type: int8 = v("0+")
    resource_name: string = v("0+")


class AlterConfigsResponse(Message, key=33, response=True, versions="0-2", flexible="2+"):
    """One result for each resource of the request."""

    throttle_time_ms: int32 = v("0+")
    responses: array[AlterConfigsResourceResponse] = v("0+")

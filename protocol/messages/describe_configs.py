"""DescribeConfigs: the configs of topics, brokers and their loggers, with their sources (KIP-133).

v1 sources and synonyms instead of `is_default` (KIP-226)   v3 types and documentation (KIP-569)   v4 flexible
"""

from headgate.protocol.schema import (
    Message,
    Struct,
    array,
    boolean,
    int8,
    int16,
    int32,
    nullable_array,
    nullable_string,
    string,
    v,
)


class DescribeConfigsResource(Struct):
    """A resource: type 2 topic, 4 broker, 8 logger of a broker. Null `configuration_keys`: all its configs."""

    resource_type: int8 = v("0+")
    resource_name: string = v("0+")
    configuration_keys: nullable_array[string] = v("0+")


class DescribeConfigsRequest(Message, key=32, versions="0-4", flexible="4+"):
    """Ask for configs."""

    resources: array[DescribeConfigsResource] = v("0+")
    include_synonyms: boolean = v("1+")
    include_documentation: boolean = v("3+")


class DescribeConfigsSynonym(Struct):
    """A further source of the config; the first synonym wins."""

    name: string = v("1+")
    value: nullable_string = v("1+")
    source: int8 = v("1+")


class DescribeConfigsResourceResult(Struct):
    """A config. The value of a sensitive one is null. v0 has `is_default`, later versions `config_source`."""

    name: string = v("0+")
    value: nullable_string = v("0+")
    read_only: boolean = v("0+")
    is_default: boolean = v("0")
    config_source: int8 = v("1+", default=-1)
    is_sensitive: boolean = v("0+")
    synonyms: array[DescribeConfigsSynonym] = v("1+")
    config_type: int8 = v("3+")
    documentation: nullable_string = v("3+")


class DescribeConfigsResult(Struct):
    """A resource with its configs, or its error."""

    error_code: int16 = v("0+")
    error_message: nullable_string = v("0+")
    resource_type: int8 = v("0+")
    resource_name: string = v("0+")
    configs: array[DescribeConfigsResourceResult] = v("0+")


class DescribeConfigsResponse(Message, key=32, response=True, versions="0-4", flexible="4+"):
    """One result for each resource of the request."""

    throttle_time_ms: int32 = v("0+")
    results: array[DescribeConfigsResult] = v("0+")

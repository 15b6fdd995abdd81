"""ListConfigResources: the resources that can have configs. v0 lists only client metrics subscriptions (KIP-1000).

v1 every type (KIP-1142)
"""

from headgate.protocol.schema import Message, Struct, array, int8, int16, int32, string, v

CLIENT_METRICS = 16


class ListConfigResourcesRequest(Message, key=74, versions="0-1", flexible="0+"):
    """Ask for resources by type; no type: all of them."""

    resource_types: array[int8] = v("1+")


class ConfigResource(Struct):
    """A resource: type 2 topic, 4 broker, 8 logger of a broker, 16 client metrics, 32 group."""

    resource_name: string = v("0+")
    resource_type: int8 = v("1+", default=CLIENT_METRICS)


class ListConfigResourcesResponse(Message, key=74, response=True, versions="0-1", flexible="0+"):
    """The resources."""

    throttle_time_ms: int32 = v("0+")
    error_code: int16 = v("0+")
    config_resources: array[ConfigResource] = v("0+")

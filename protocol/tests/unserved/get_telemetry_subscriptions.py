"""GetTelemetrySubscriptions: the metrics that a client should push, and the interval (KIP-714)."""

from headgate.protocol.schema import Message, array, boolean, int8, int16, int32, string, uuid, v


class GetTelemetrySubscriptionsRequest(Message, key=71, versions="0", flexible="0+"):
    """Ask for the metrics to push. A client without an id sends zeros, and gets an id."""

    client_instance_id: uuid = v("0+")


class GetTelemetrySubscriptionsResponse(Message, key=71, response=True, versions="0", flexible="0+"):
    """The metrics to push, as prefixes of names: no prefix for none, an empty prefix for all."""

    throttle_time_ms: int32 = v("0+")
    error_code: int16 = v("0+")
    client_instance_id: uuid = v("0+")
    subscription_id: int32 = v("0+")
    accepted_compression_types: array[int8] = v("0+")
    push_interval_ms: int32 = v("0+")
    telemetry_max_bytes: int32 = v("0+")
    delta_temporality: boolean = v("0+")
    requested_metrics: array[string] = v("0+")

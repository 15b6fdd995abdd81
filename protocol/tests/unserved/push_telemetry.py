"""PushTelemetry: the metrics of a client, by its subscription (KIP-714)."""

from headgate.protocol.schema import Message, blob, boolean, int8, int16, int32, uuid, v


class PushTelemetryRequest(Message, key=72, versions="0", flexible="0+"):
    """Metrics: OpenTelemetry's MetricsData in protobuf, compressed with a codec of record batches."""

    client_instance_id: uuid = v("0+")
    subscription_id: int32 = v("0+")
    terminating: boolean = v("0+")
    compression_type: int8 = v("0+")
    metrics: blob = v("0+")


class PushTelemetryResponse(Message, key=72, response=True, versions="0", flexible="0+"):
    """The result of the request."""

    throttle_time_ms: int32 = v("0+")
    error_code: int16 = v("0+")

"""GetTelemetrySubscriptions: which of its metrics a client is to push, and how often (KIP-714)."""

from headgate.protocol.errors import ErrorCode
from headgate.protocol.schema import Message, array, boolean, int8, int16, int32, string, uuid, v


class GetTelemetrySubscriptionsRequest(Message, key=71, versions="0", flexible="0+"):
    """Ask what to push; a client that has no id yet gives zeros and is told one."""

    client_instance_id: uuid = v("0+")

    def error_response(
        self, version: int, error: ErrorCode, message: str | None = None
    ) -> "GetTelemetrySubscriptionsResponse":
        return GetTelemetrySubscriptionsResponse(error_code=error)


class GetTelemetrySubscriptionsResponse(Message, key=71, response=True, versions="0", flexible="0+"):
    """What to push: prefixes of names; none for nothing, the empty one for everything."""

    throttle_time_ms: int32 = v("0+")
    error_code: int16 = v("0+")
    client_instance_id: uuid = v("0+")
    subscription_id: int32 = v("0+")
    accepted_compression_types: array[int8] = v("0+")
    push_interval_ms: int32 = v("0+")
    telemetry_max_bytes: int32 = v("0+")
    delta_temporality: boolean = v("0+")
    requested_metrics: array[string] = v("0+")

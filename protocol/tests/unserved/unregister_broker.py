"""UnregisterBroker: remove a broker from the cluster for good (KIP-500)."""

from headgate.protocol.schema import Message, int16, int32, nullable_string, v


class UnregisterBrokerRequest(Message, key=64, versions="0", flexible="0+"):
    """Unregister a stopped broker."""

    broker_id: int32 = v("0+")


class UnregisterBrokerResponse(Message, key=64, response=True, versions="0", flexible="0+"):
    """The result of the request."""

    throttle_time_ms: int32 = v("0+")
    error_code: int16 = v("0+")
    error_message: nullable_string = v("0+")

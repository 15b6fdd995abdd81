"""FindCoordinator: which broker coordinates a group or a transactional id. Here it is always this one.

v1 key types, throttle   v3 flexible   v4 many keys (KIP-699)   v5 TRANSACTION_ABORTABLE   v6 share groups (KIP-932)

Served from version 0 from the first day: librdkafka compresses with lz4 only if it is.
"""

from gateway.advertised import own_endpoint
from gateway.context import Context
from gateway.handlers import handles
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.find_coordinator import (
    GROUP,
    TRANSACTION,
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

MAX_KEYS = 10_000
"""Of one request; nobody has that many groups, and the reply must not hold up everybody else."""


@handles(FindCoordinatorRequest, versions="0-6")
def find_coordinator(request: FindCoordinatorRequest, context: Context) -> FindCoordinatorResponse:
    """Answer every key with this broker."""
    if request.key_type not in (GROUP, TRANSACTION):
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"nothing of key type {request.key_type} is coordinated here")
    if len(request.coordinator_keys) > MAX_KEYS:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{len(request.coordinator_keys)} keys exceed {MAX_KEYS}")
    node_id, host, port, _ = own_endpoint(context)
    if context.version < 4:
        return FindCoordinatorResponse(node_id=node_id, host=host, port=port)
    return FindCoordinatorResponse(
        coordinators=[Coordinator(key=key, node_id=node_id, host=host, port=port) for key in request.coordinator_keys]
    )

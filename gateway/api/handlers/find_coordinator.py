"""FindCoordinator: the broker that coordinates a group or a transactional id.

v1 key types, throttle   v3 flexible   v4 many keys (KIP-699)   v5 TRANSACTION_ABORTABLE   v6 share groups (KIP-932)

The coordinator of a group leads its partition of `__consumer_offsets`, that of a transactional id its partition of
`__transaction_state`. The first request creates the topic; if the creation fails, clients get
COORDINATOR_NOT_AVAILABLE and retry.

Supported since version 0, because librdkafka compresses with lz4 only then.
"""

from typing import Any

from headgate.gateway.api.authorization import DENIALS, AclOperation, AclResource, Authorization
from headgate.gateway.api.broker_endpoints import Endpoint, endpoints, own_endpoint
from headgate.gateway.api.context import HandlerContext
from headgate.gateway.api.handler_registration import handles
from headgate.gateway.api.handlers.each import each_row, settled
from headgate.gateway.coordinator.runtime import CoordinatorRuntime
from headgate.gateway.runtime.tasks import Outcome
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.messages.find_coordinator import (
    GROUP,
    TRANSACTION,
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

MAX_KEYS = 10_000
"""The maximum of one request; no client has that many groups, and a larger reply would delay all other clients."""


def _authorize(authorization: Authorization) -> None:
    """Require DESCRIBE on each group or transactional id."""
    request = authorization.request
    resource = _RESOURCES.get(request.key_type)
    if resource is None:  # the handler refuses the type
        return
    if authorization.context.version < 4:
        authorization.require(AclOperation.DESCRIBE, resource, request.key)
    else:
        authorization.split(
            "coordinator_keys",
            "coordinators",
            lambda key: authorization.allows(AclOperation.DESCRIBE, resource, key),
            code=DENIALS[resource],
        )


_RESOURCES = {GROUP: AclResource.GROUP, TRANSACTION: AclResource.TRANSACTIONAL_ID}


@handles(FindCoordinatorRequest, versions="0-6", authorize=_authorize)
def find_coordinator(request: FindCoordinatorRequest, context: HandlerContext) -> Outcome[FindCoordinatorResponse]:
    """The coordinator of every key."""
    key_type = request.key_type
    if key_type not in (GROUP, TRANSACTION):
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"key type {key_type} has no coordinator here")
    if len(request.coordinator_keys) > MAX_KEYS:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{len(request.coordinator_keys)} keys exceed {MAX_KEYS}")
    change = _coordinators(key_type, context).prepare()
    return settled(context, change, lambda: _find(request, context), in_any_case=True)


def _find(request: FindCoordinatorRequest, context: HandlerContext) -> FindCoordinatorResponse:
    key_type = request.key_type
    if context.version < 4:
        node_id, host, port, _ = _coordinator(request.key, key_type, context)
        return FindCoordinatorResponse(node_id=node_id, host=host, port=port)

    def answer(key: str) -> Coordinator:
        node_id, host, port, _ = _coordinator(key, key_type, context)
        return Coordinator(key=key, node_id=node_id, host=host, port=port)

    return FindCoordinatorResponse(coordinators=each_row(context.broker, request.coordinator_keys, answer, _refuse))


def _coordinators(key_type: int, context: HandlerContext) -> CoordinatorRuntime[Any]:
    return context.broker.groups if key_type == GROUP else context.broker.transactions


def _coordinator(key: str, key_type: int, context: HandlerContext) -> Endpoint:
    own = own_endpoint(context)
    leader = _coordinators(key_type, context).leader_of(key)
    if leader == own.node_id:
        return own
    for endpoint in endpoints(context):
        if endpoint.node_id == leader:
            return endpoint
    state = "has no leader" if leader < 0 else f"is led by broker {leader}, which this listener does not reach"
    raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"the partition that coordinates {key} {state}")


def _refuse(key: str, code: ErrorCode, message: str) -> Coordinator:
    return Coordinator(key=key, node_id=-1, port=-1, error_code=code, error_message=message)

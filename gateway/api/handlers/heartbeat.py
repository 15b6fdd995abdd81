"""Heartbeat: stay a member of a classic group.

v1 throttle   v3 static members (KIP-345)   v4 flexible
"""

from headgate.gateway.api.authorization import AclOperation
from headgate.gateway.api.authorization_rules import group
from headgate.gateway.api.context import HandlerContext
from headgate.gateway.api.handler_registration import handles
from headgate.gateway.api.handlers.each import ask_group, check_group_id
from headgate.gateway.coordinator.groups.classic import requests
from headgate.gateway.runtime.tasks import Outcome
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse


@handles(HeartbeatRequest, versions="0-4", authorize=group(AclOperation.READ))
def heartbeat(request: HeartbeatRequest, context: HandlerContext) -> Outcome[HeartbeatResponse]:
    """Let the group decide. While the group is loading, the reply has no error, as in Kafka: sessions begin later."""
    check_group_id(request.group_id)
    try:
        response: Outcome[HeartbeatResponse] = ask_group(requests.heartbeat, request, context)
    except KafkaError as error:
        if error.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            return HeartbeatResponse()
        raise
    return response

"""LeaveGroup: leave a classic group, without a wait for the session timeout.

v1 throttle   v3 many members, static ones too (KIP-345)   v4 flexible   v5 reasons (KIP-800)
"""

from headgate.gateway.api.authorization import AclOperation
from headgate.gateway.api.authorization_rules import group
from headgate.gateway.api.context import HandlerContext
from headgate.gateway.api.handler_registration import handles
from headgate.gateway.api.handlers.each import ask_group, check_group_id
from headgate.gateway.coordinator.groups.classic import requests
from headgate.gateway.runtime.tasks import Outcome
from headgate.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse


@handles(LeaveGroupRequest, versions="0-5", authorize=group(AclOperation.READ))
def leave_group(request: LeaveGroupRequest, context: HandlerContext) -> Outcome[LeaveGroupResponse]:
    """Let the group decide."""
    check_group_id(request.group_id)
    return ask_group(requests.leave, request, context)

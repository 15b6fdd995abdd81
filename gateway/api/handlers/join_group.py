"""JoinGroup: become a member of a classic group, and wait for the others.

v1 rebalance timeout (KIP-62)   v2 throttle   v4 MEMBER_ID_REQUIRED (KIP-394)   v5 static members (KIP-345)
v6 flexible   v7 protocol type in the response (KIP-559)   v8 reasons (KIP-800)   v9 skip_assignment (KIP-814)
"""

from headgate.gateway.api.authorization import AclOperation
from headgate.gateway.api.authorization_rules import every, group, known_topics
from headgate.gateway.api.context import HandlerContext
from headgate.gateway.api.handler_registration import handles
from headgate.gateway.api.handlers.each import ask_group, check_group_id
from headgate.gateway.coordinator.groups.classic import requests
from headgate.gateway.runtime.tasks import Outcome
from headgate.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse


@handles(JoinGroupRequest, versions="0-9", authorize=every(group(AclOperation.READ), known_topics))
def join_group(request: JoinGroupRequest, context: HandlerContext) -> Outcome[JoinGroupResponse]:
    """Let the group decide; the reply usually comes with the next generation."""
    check_group_id(request.group_id)
    return ask_group(requests.join, request, context)

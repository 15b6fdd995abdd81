"""SyncGroup: the leader sends the assignments of a generation, and every member gets its own.

v1 throttle   v3 static members (KIP-345)   v4 flexible   v5 protocol type and name (KIP-559)
"""

from headgate.gateway.api.authorization import AclOperation
from headgate.gateway.api.authorization_rules import group
from headgate.gateway.api.context import HandlerContext
from headgate.gateway.api.handler_registration import handles
from headgate.gateway.api.handlers.each import ask_group, check_group_id
from headgate.gateway.coordinator.groups.classic import requests
from headgate.gateway.runtime.tasks import Outcome
from headgate.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse


@handles(SyncGroupRequest, versions="0-5", authorize=group(AclOperation.READ))
def sync_group(request: SyncGroupRequest, context: HandlerContext) -> Outcome[SyncGroupResponse]:
    """Let the group decide; the reply comes after the leader's assignments."""
    check_group_id(request.group_id)
    return ask_group(requests.sync, request, context)

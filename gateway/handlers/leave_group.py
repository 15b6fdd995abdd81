"""LeaveGroup: cease to be a member of a classic group, without waiting for the session to time out.

v1 throttle   v3 many members, static ones too (KIP-345)   v4 flexible   v5 reasons (KIP-800)
"""

from gateway.context import Context
from gateway.coordinator import classic
from gateway.coordinator.decision import Decision, Ticket
from gateway.coordinator.groups import Shard
from gateway.handlers import handles
from gateway.handlers.each import check_group_id
from gateway.waiting import Waiting
from protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse


@handles(LeaveGroupRequest, versions="0-5")
def leave_group(request: LeaveGroupRequest, context: Context) -> LeaveGroupResponse | Waiting:
    """Have the group decide."""
    check_group_id(request.group_id)
    caller, clock = context.caller, context.broker.clock

    def decide(shard: Shard, ticket: Ticket) -> Decision:
        return classic.leave(shard, request, caller, ticket, clock.monotonic_ms())

    response: LeaveGroupResponse | Waiting = context.broker.groups.submit(request.group_id, decide)
    return response

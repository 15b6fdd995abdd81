"""Heartbeat: stay a member of a classic group.

v1 throttle   v3 static members (KIP-345)   v4 flexible
"""

from gateway.context import Context
from gateway.coordinator import classic
from gateway.coordinator.decision import Decision, Ticket
from gateway.coordinator.groups import Shard
from gateway.handlers import handles
from gateway.handlers.each import check_group_id
from gateway.waiting import Waiting
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse


@handles(HeartbeatRequest, versions="0-4")
def heartbeat(request: HeartbeatRequest, context: Context) -> HeartbeatResponse | Waiting:
    """Have the group decide. While it is being loaded all is well, as with Kafka: sessions begin after that."""
    check_group_id(request.group_id)
    caller, clock = context.caller, context.broker.clock

    def decide(shard: Shard, ticket: Ticket) -> Decision:
        return classic.heartbeat(shard, request, caller, ticket, clock.monotonic_ms())

    try:
        response: HeartbeatResponse | Waiting = context.broker.groups.submit(request.group_id, decide)
    except KafkaError as error:
        if error.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            return HeartbeatResponse()
        raise
    return response

"""ControlledShutdown: a broker that will stop asks the controller to move its leads.

v0 a request header without client id   v2 broker epochs (KIP-380)   v3 flexible
"""

from __future__ import annotations

from typing import Final

from headgate.gateway.api.context import HandlerContext
from headgate.gateway.api.handler_registration import handles_between_brokers
from headgate.gateway.runtime.tasks import Task, at_most
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.messages.controlled_shutdown import ControlledShutdownRequest, ControlledShutdownResponse

MOVED_WITHIN_MS: Final = 25_000.0
"""The longest wait for ZooKeeper: brokers give up the request after 30 s."""


@handles_between_brokers(ControlledShutdownRequest, versions="0-3")
def controlled_shutdown(
    request: ControlledShutdownRequest, context: HandlerContext
) -> Task[ControlledShutdownResponse]:
    """Answer once the leads are moved, with the partitions that no other broker can lead."""
    moved = context.broker.metadata.shut_down(request.broker_id, request.broker_epoch)
    response: ControlledShutdownResponse | None = yield at_most(context.broker.scheduler, MOVED_WITHIN_MS, moved)
    if response is None:
        raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, "ZooKeeper has not taken the new leaders in time; ask again")
    return response

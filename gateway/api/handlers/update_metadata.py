"""UpdateMetadata: know the partitions and the live brokers of the cluster, as the controller orders.

v1 many listeners a broker (KIP-2)   v2 racks (KIP-36)   v3 names of listeners (KIP-103)   v4 offline replicas (KIP-112)
v5 broker epochs (KIP-380), partitions by topic   v6 flexible   v7 topic ids (KIP-516)   v8 full requests (KIP-866)
"""

from __future__ import annotations

from headgate.gateway.api.context import HandlerContext
from headgate.gateway.api.handler_registration import handles_between_brokers
from headgate.gateway.runtime.tasks import Task
from headgate.protocol.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse


@handles_between_brokers(UpdateMetadataRequest, versions="0-8", in_steps=True)
def update_metadata(request: UpdateMetadataRequest, context: HandlerContext) -> Task[UpdateMetadataResponse]:
    """Obey, and answer once the image has the change."""
    orders = context.broker.controller_orders
    assert orders is not None, "the API is served with ZooKeeper alone"
    yield from orders.update_metadata(request)
    return UpdateMetadataResponse()

"""ConsumerGroupHeartbeat: join, stay in and leave a consumer group (KIP-848).

v1 regular expressions; the member makes its own id (KIP-1082)
"""

from headgate.gateway.api.context import Context
from headgate.gateway.api.handlers import handles
from headgate.gateway.api.handlers.each import ask_group
from headgate.gateway.coordinator.groups import consumer
from headgate.gateway.metadata import features
from headgate.gateway.runtime.purgatory import Waiting
from headgate.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)


@handles(ConsumerGroupHeartbeatRequest, versions="0-1")
def consumer_group_heartbeat(
    request: ConsumerGroupHeartbeatRequest, context: Context
) -> ConsumerGroupHeartbeatResponse | Waiting:
    """Have the group decide. The machine checks the ids too: with INVALID_REQUEST, as Kafka does in this API."""
    features.check_is_on(features.GROUP_VERSION, context.broker.metadata.image)
    response: ConsumerGroupHeartbeatResponse | Waiting = ask_group(consumer.heartbeat, request, context)
    return response

"""ConsumerGroupHeartbeat: join, stay in and leave a consumer group (KIP-848).

v1 regular expressions; the member chooses its own id (KIP-1082)
"""

from headgate.gateway.api.authorization import AclOperation, AclResource, Authorization
from headgate.gateway.api.authorization_rules import every, group, known_topics
from headgate.gateway.api.context import HandlerContext
from headgate.gateway.api.handler_registration import handles
from headgate.gateway.api.handlers.each import ask_group
from headgate.gateway.coordinator.groups.consumer import heartbeats
from headgate.gateway.metadata import features
from headgate.gateway.runtime.tasks import Outcome
from headgate.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)


def _authorize_topics(authorization: Authorization) -> None:
    """Require DESCRIBE on each topic that is subscribed by name; one denied topic denies the request."""
    for name in authorization.request.subscribed_topic_names or ():
        authorization.require(AclOperation.DESCRIBE, AclResource.TOPIC, name)


@handles(
    ConsumerGroupHeartbeatRequest,
    versions="0-1",
    authorize=every(group(AclOperation.READ), _authorize_topics, known_topics),
)
def consumer_group_heartbeat(
    request: ConsumerGroupHeartbeatRequest, context: HandlerContext
) -> Outcome[ConsumerGroupHeartbeatResponse]:
    """Let the group decide. The state machine also checks ids: with INVALID_REQUEST, as Kafka does in this API."""
    features.check_is_on(features.GROUP_VERSION, context.broker.metadata.image)
    return ask_group(heartbeats.heartbeat, request, context)

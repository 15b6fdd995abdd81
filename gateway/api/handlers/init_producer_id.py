"""InitProducerId: an id and an epoch for an idempotent producer, the default of Java clients since 3.0 (KIP-98).

v2 flexible   v3 present id and epoch (KIP-360)   v4 PRODUCER_FENCED   v5 TRANSACTION_ABORTABLE (KIP-890)
"""

from headgate.gateway.api.authorization import AclOperation, AclResource, Authorization, denied
from headgate.gateway.api.context import HandlerContext
from headgate.gateway.api.handler_registration import handles
from headgate.gateway.api.handlers.each import settled
from headgate.gateway.runtime.purgatory import Waiting
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse


def _authorize(authorization: Authorization) -> None:
    """Require WRITE on the transactional id; without an id, IDEMPOTENT_WRITE, or WRITE on any topic (KIP-679)."""
    transactional_id = authorization.request.transactional_id
    if transactional_id is not None:
        authorization.require(AclOperation.WRITE, AclResource.TRANSACTIONAL_ID, transactional_id)
    elif not (
        authorization.allows_cluster(AclOperation.IDEMPOTENT_WRITE)
        or authorization.allows_any(AclOperation.WRITE, AclResource.TOPIC)
    ):
        raise denied(AclResource.CLUSTER)


@handles(InitProducerIdRequest, versions="0-5", authorize=_authorize)
def init_producer_id(request: InitProducerIdRequest, context: HandlerContext) -> InitProducerIdResponse | Waiting:
    """Allocate a new id with epoch 0. As in Kafka, an idempotent producer that has an id gets a new one too."""
    if request.transactional_id is not None:
        message = (
            f"transactions are not supported yet; use a producer without transactional.id ({request.transactional_id})"
        )
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, message)
    if (request.producer_id == -1) != (request.producer_epoch == -1):
        message = f"producer id {request.producer_id} and epoch {request.producer_epoch} contradict each other"
        raise KafkaError(ErrorCode.INVALID_REQUEST, message)
    producer_id, change = context.broker.producer_ids.next()
    response = InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)
    settled_response: InitProducerIdResponse | Waiting = settled(context, change, lambda: response)
    return settled_response

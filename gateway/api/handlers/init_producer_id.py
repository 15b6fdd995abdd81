"""InitProducerId: an id and an epoch for an idempotent producer, the default of Java clients since 3.0 (KIP-98).

v2 flexible   v3 the id and epoch to be raised (KIP-360)   v4 PRODUCER_FENCED   v5 TRANSACTION_ABORTABLE (KIP-890)
"""

from headgate.gateway.api.context import Context
from headgate.gateway.api.handlers import handles
from headgate.gateway.api.handlers.each import settled
from headgate.gateway.runtime.purgatory import Waiting
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse


@handles(InitProducerIdRequest, versions="0-5")
def init_producer_id(request: InitProducerIdRequest, context: Context) -> InitProducerIdResponse | Waiting:
    """Hand out a new id with epoch 0. An idempotent producer with an id gets a new one too, as in Kafka."""
    if request.transactional_id is not None:
        message = (
            f"transactions are not served yet; use a producer without transactional.id ({request.transactional_id})"
        )
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, message)
    if (request.producer_id == -1) != (request.producer_epoch == -1):
        message = f"producer id {request.producer_id} and epoch {request.producer_epoch} contradict each other"
        raise KafkaError(ErrorCode.INVALID_REQUEST, message)
    producer_id, change = context.broker.producer_ids.next()
    response = InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)
    settled_response: InitProducerIdResponse | Waiting = settled(context, change, lambda: response)
    return settled_response

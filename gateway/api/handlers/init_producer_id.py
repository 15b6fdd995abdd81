"""InitProducerId: an id and an epoch, for an idempotent producer, or for the producer of a transactional id (KIP-98).

Java clients ask for an idempotent one by default since 3.0.

v2 flexible   v3 present id and epoch (KIP-360)   v4 PRODUCER_FENCED   v5 TRANSACTION_ABORTABLE (KIP-890)
"""

from headgate.gateway.api.authorization import AclOperation, AclResource, Authorization, denied
from headgate.gateway.api.context import HandlerContext
from headgate.gateway.api.handler_registration import handles
from headgate.gateway.api.handlers.each import settled
from headgate.gateway.coordinator.decision import Decision, Ticket
from headgate.gateway.coordinator.transactions import initialization
from headgate.gateway.coordinator.transactions.transaction_shard import TransactionShard
from headgate.gateway.runtime.tasks import Outcome
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse


def _authorize(authorization: Authorization) -> None:
    """Require WRITE on the transactional id; without an id, IDEMPOTENT_WRITE, or WRITE on any topic (KIP-679)."""
    transactional_id = authorization.request.transactional_id
    if transactional_id is not None:
        authorization.require(AclOperation.WRITE, AclResource.TRANSACTIONAL_ID, transactional_id)
    elif not (
        authorization.holds_cluster(AclOperation.IDEMPOTENT_WRITE)
        or authorization.allows_any(AclOperation.WRITE, AclResource.TOPIC)
    ):
        raise denied(AclResource.CLUSTER)


@handles(InitProducerIdRequest, versions="0-5", authorize=_authorize)
def init_producer_id(request: InitProducerIdRequest, context: HandlerContext) -> Outcome[InitProducerIdResponse]:
    """Have the coordinator of a transactional id decide; without one, allocate a new id with epoch 0.

    As in Kafka, an idempotent producer that has an id gets a new one too.
    """
    if (request.producer_id == -1) != (request.producer_epoch == -1):
        message = f"producer id {request.producer_id} and epoch {request.producer_epoch} contradict each other"
        raise KafkaError(ErrorCode.INVALID_REQUEST, message)
    if request.transactional_id is not None:
        return _transactional(request.transactional_id, request, context)
    producer_id, change = context.broker.producer_ids.next()
    response = InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)
    return settled(context, change, lambda: response)


def _transactional(
    transactional_id: str, request: InitProducerIdRequest, context: HandlerContext
) -> Outcome[InitProducerIdResponse]:
    if not transactional_id:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "the transactional id is empty")
    services, version = context.broker, context.version

    def decide(shard: TransactionShard, ticket: Ticket) -> Decision:
        return initialization.init_producer_id(shard, transactional_id, request, version, ticket)

    def submit() -> Outcome[InitProducerIdResponse]:
        return services.transactions.submit(transactional_id, decide)

    # A client that came again for a new id would wait for its own backoff, half a second with librdkafka
    return settled(context, services.producer_ids.prepare(), submit, in_any_case=True)

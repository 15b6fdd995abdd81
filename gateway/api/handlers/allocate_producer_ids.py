"""AllocateProducerIds: a broker takes a block of producer ids from the controller (KIP-730).

Brokers of Apache Kafka ask for that. A Headgate takes a block from ZooKeeper itself.
"""

from headgate.gateway.api.context import HandlerContext
from headgate.gateway.api.handler_registration import handles_between_brokers
from headgate.gateway.api.handlers.each import settled
from headgate.gateway.runtime.tasks import Outcome
from headgate.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse


@handles_between_brokers(AllocateProducerIdsRequest, versions="0")
def allocate_producer_ids(
    request: AllocateProducerIdsRequest, context: HandlerContext
) -> Outcome[AllocateProducerIdsResponse]:
    """Answer once the block is stored: no other broker gets these ids."""
    metadata = context.broker.metadata
    metadata.check_registration(request.broker_id, request.broker_epoch)
    block, change = metadata.take_producer_ids()
    response = AllocateProducerIdsResponse(producer_id_start=block.start, producer_id_len=len(block))
    return settled(context, change, lambda: response)

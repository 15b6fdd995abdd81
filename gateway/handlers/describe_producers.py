"""DescribeProducers: the idempotent producers that partitions know (KIP-664).

Tools that look for hanging transactions ask for it.
"""

from gateway.context import Context
from gateway.handlers import handles
from gateway.handlers.each import each
from gateway.metadata.topics import check_name
from protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicRequest,
    TopicResponse,
)
from storage.producers import Producer


@handles(DescribeProducersRequest, versions="0")
def describe_producers(request: DescribeProducersRequest, context: Context) -> DescribeProducersResponse:
    """Tell of every partition that is named, once, who wrote last in which epoch and with which sequence."""
    return DescribeProducersResponse(
        topics=[TopicResponse(name=topic.name, partitions=_partitions(topic, context)) for topic in request.topics]
    )


def _partitions(topic: TopicRequest, context: Context) -> list[PartitionResponse]:
    def answer(index: int) -> PartitionResponse:
        check_name(topic.name)
        partition = context.broker.partitions.get(topic.name, index)
        known = partition.log.producers.by_id
        return PartitionResponse(index, active_producers=[_state(*each) for each in known.items()])

    # A partition of many producers must not be told as often as it is named
    return each(dict.fromkeys(topic.partition_indexes), answer, PartitionResponse)


def _state(producer_id: int, producer: Producer) -> ProducerState:
    return ProducerState(
        producer_id=producer_id,
        producer_epoch=producer.epoch,
        last_sequence=producer.last_sequence,
        last_timestamp=producer.last_timestamp,
        coordinator_epoch=producer.coordinator_epoch,
        current_txn_start_offset=producer.transaction_start,
    )

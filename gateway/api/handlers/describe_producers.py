"""DescribeProducers: the idempotent producers of partitions (KIP-664).

Tools that look for hanging transactions send this request.
"""

from collections.abc import Iterable

from headgate.gateway.api.authorization import AclOperation
from headgate.gateway.api.authorization_rules import partitions
from headgate.gateway.api.context import HandlerContext
from headgate.gateway.api.handler_registration import handles
from headgate.gateway.api.handlers.each import each_row
from headgate.gateway.metadata.new_topics import check_name
from headgate.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from headgate.protocol.steps import lazy_map
from headgate.storage.log.producers import Producer


@handles(DescribeProducersRequest, versions="0", authorize=partitions(AclOperation.READ))
def describe_producers(request: DescribeProducersRequest, context: HandlerContext) -> DescribeProducersResponse:
    """The active producers of every partition, with epoch and last sequence.

    A repeated partition is described once: a partition may have many producers.
    """
    topics: dict[str, dict[int, None]] = {}
    for topic in request.topics:
        topics.setdefault(topic.name, {}).update(dict.fromkeys(topic.partition_indexes))
    return DescribeProducersResponse(
        topics=lazy_map(
            list(topics), lambda name: TopicResponse(name=name, partitions=_partitions(name, topics[name], context))
        )
    )


def _partitions(topic: str, indexes: Iterable[int], context: HandlerContext) -> list[PartitionResponse]:
    def answer(index: int) -> PartitionResponse:
        check_name(topic)
        known = context.broker.partitions.get(topic, index).log.producers.by_id
        return PartitionResponse(index, active_producers=lazy_map(list(known.items()), lambda entry: _state(*entry)))

    return each_row(context.broker, list(indexes), answer, PartitionResponse)


def _state(producer_id: int, producer: Producer) -> ProducerState:
    return ProducerState(
        producer_id=producer_id,
        producer_epoch=producer.epoch,
        last_sequence=producer.last_sequence,
        last_timestamp=producer.last_timestamp,
        coordinator_epoch=producer.coordinator_epoch,
        current_txn_start_offset=producer.transaction_start,
    )

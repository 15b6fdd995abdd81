"""Requests of leaders for other in-sync sets: AlterPartition (KIP-497), by the rules of Apache Kafka in ZooKeeper mode.

Leaders of Apache Kafka ask the controller; leaders of this broker write to the store themselves.
"""

from __future__ import annotations

from collections.abc import Container, Mapping

from headgate.gateway.metadata.image import PartitionState
from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    PartitionData,
    RequestedPartitionData,
    TopicData,
)
from headgate.protocol.topic_partition import TopicPartition

TOPIC_IDS_FROM = 2
"""The first version with topic ids, and with INELIGIBLE_REPLICA."""
EPOCHS_FROM = 3
RECOVERING = 1


class IsrRequest:
    """The in-sync sets that one request wants, and their results. `topic_names`: by topic id."""

    def __init__(
        self, ticket: object, request: AlterPartitionRequest, version: int, topic_names: Mapping[bytes, str]
    ) -> None:
        self.ticket = ticket
        self._leader = request.broker_id
        self._version = version
        names = [
            topic_names.get(topic.topic_id) if version >= TOPIC_IDS_FROM else topic.topic_name
            for topic in request.topics
        ]
        self._topics = list(zip(request.topics, names, strict=True))
        self.waiting: dict[TopicPartition, RequestedPartitionData] = {
            TopicPartition(name, row.partition_index): row
            for topic, name in self._topics
            if name is not None
            for row in topic.partitions
        }
        self._results: dict[TopicPartition, PartitionState | ErrorCode] = {}

    def evaluate(
        self, partition: TopicPartition, state: PartitionState, eligible: Container[int]
    ) -> PartitionState | None:
        """The state to write; None if the partition has its result. After a write the partition is evaluated again.

        `eligible`: the brokers that may enter a set.
        """
        row = self.waiting[partition]
        isr = [each.broker_id for each in row.new_isr_with_epochs] if self._version >= EPOCHS_FROM else row.new_isr
        error = self._error(row, state, isr, eligible)
        if error is None and set(isr) != set(state.isr):
            return state._replace(isr=tuple(isr), partition_epoch=state.partition_epoch + 1)
        self.finish(partition, error or state)
        return None

    def _error(
        self, row: RequestedPartitionData, state: PartitionState, isr: list[int], eligible: Container[int]
    ) -> ErrorCode | None:
        if row.leader_epoch > state.leader_epoch or row.partition_epoch > state.partition_epoch:
            return ErrorCode.NOT_CONTROLLER  # a newer controller has written that
        if row.leader_epoch < state.leader_epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        if state.leader != self._leader or self._leader not in isr or not set(isr) <= set(state.replicas):
            return ErrorCode.INVALID_REQUEST
        if row.leader_recovery_state == RECOVERING:  # each stored state is of a leader that has recovered
            return ErrorCode.INVALID_REQUEST
        if set(isr) == set(state.isr):
            return None
        if row.partition_epoch < state.partition_epoch:
            return ErrorCode.INVALID_UPDATE_VERSION
        if any(broker not in eligible for broker in isr if broker != self._leader):
            is_new = self._version >= TOPIC_IDS_FROM
            return ErrorCode.INELIGIBLE_REPLICA if is_new else ErrorCode.OPERATION_NOT_ATTEMPTED
        return None

    def finish(self, partition: TopicPartition, result: PartitionState | ErrorCode) -> None:
        """Give a partition its result."""
        self.waiting.pop(partition, None)
        self._results[partition] = result

    def response(self) -> AlterPartitionResponse:
        """The reply, once no partition waits."""
        return AlterPartitionResponse(
            topics=[
                TopicData(
                    topic.topic_name, topic.topic_id, [self._row(name, row.partition_index) for row in topic.partitions]
                )
                for topic, name in self._topics
            ]
        )

    def _row(self, name: str | None, index: int) -> PartitionData:
        result = ErrorCode.UNKNOWN_TOPIC_ID if name is None else self._results[TopicPartition(name, index)]
        if not isinstance(result, PartitionState):
            return PartitionData(index, result)
        return PartitionData(
            index, ErrorCode.NONE, result.leader, result.leader_epoch, list(result.isr), 0, result.partition_epoch
        )

"""Requests for elections of single partitions: by ElectLeaders (KIP-183, KIP-460), or by the controller itself."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from headgate.gateway.controller.elections import preferred_state, unclean_state
from headgate.gateway.metadata.image import PartitionState
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.messages.elect_leaders import (
    PREFERRED,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from headgate.protocol.topic_partition import TopicPartition, by_topic

_DONE: Final = KafkaError(ErrorCode.NONE, None)


class ElectionRequest:
    """The elections of one request, and their results. Without a `ticket` there is no reply.

    `names_all`: the request names no partitions; its reply omits those whose leader stays.
    """

    def __init__(
        self, ticket: object, election_type: int, partitions: Iterable[TopicPartition], *, names_all: bool = False
    ) -> None:
        self.ticket = ticket
        self.waiting = set(partitions)
        self._elect = preferred_state if election_type == PREFERRED else unclean_state
        self._names_all = names_all
        self._written: set[TopicPartition] = set()
        self._results: dict[TopicPartition, KafkaError] = {}

    def evaluate(
        self, partition: TopicPartition, state: PartitionState, online: Sequence[int], stopping: frozenset[int]
    ) -> PartitionState | None:
        """The state to write; None if the election has its result. After a write the partition is evaluated again."""
        try:
            wanted = self._elect(state, online, stopping)
        except KafkaError as error:
            is_done = error.code is ErrorCode.ELECTION_NOT_NEEDED and partition in self._written
            self.finish(partition, _DONE if is_done else error)
            return None
        self._written.add(partition)
        return wanted

    def finish(self, partition: TopicPartition, error: KafkaError) -> None:
        """Give a partition its result."""
        self.waiting.discard(partition)
        self._results[partition] = error

    def response(self) -> ElectLeadersResponse:
        """The reply, once no partition waits."""
        shown = [
            partition
            for partition, error in self._results.items()
            if not (self._names_all and error.code is ErrorCode.ELECTION_NOT_NEEDED)
        ]
        return ElectLeadersResponse(
            replica_election_results=[
                ReplicaElectionResult(topic, [self._row(partition) for partition in partitions])
                for topic, partitions in by_topic(sorted(shown)).items()
            ]
        )

    def _row(self, partition: TopicPartition) -> PartitionResult:
        error = self._results[partition]
        return PartitionResult(partition.number, error.code, error.message)

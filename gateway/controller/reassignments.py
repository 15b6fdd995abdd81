"""Reassignments: a partition gets other replicas. Pure, by the rules of Apache Kafka in ZooKeeper mode (KIP-455).

    begun       the replicas are the target, then the other ones of before; the added replicas fetch, and join the set
    completed   once the whole target is in sync: the replicas are the target, and the other ones are deleted

The stored state has the adding and the removing replicas, so the next controller completes a reassignment. A write
takes only leaving replicas from the in-sync set, and the leader is one of the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from headgate.gateway.controller.elections import NO_EPOCH, NO_LEADER, Ids, next_state
from headgate.gateway.metadata.image import PartitionState, raised_by
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from headgate.protocol.topic_partition import TopicPartition, by_topic

_DONE: Final = KafkaError(ErrorCode.NONE, None)


def begun_state(state: PartitionState, target: Sequence[int], online: Ids, stopping: Ids) -> PartitionState:
    """The state in which a reassignment begins, or takes the place of the present one.

    The original replicas as the target cancel a reassignment. Raises KafkaError(INVALID_REPLICA_ASSIGNMENT).
    """
    original = state.original_replicas
    replicas = (*target, *[broker for broker in original if broker not in target])
    begun = state._replace(
        replicas=replicas,
        adding_replicas=tuple([broker for broker in replicas if broker not in original]),
        removing_replicas=tuple([broker for broker in replicas if broker not in target]),
    )
    if begun == state:
        return state
    if state.leader_epoch == NO_EPOCH:
        found = next_state(begun, online, stopping, is_unclean=False)
    else:
        found = _with_remaining(begun, online, stopping)
    if found is None:
        raise _refused(f"no replica on brokers {list(replicas)} is in sync and can lead; retry once one is")
    return found


def completed_state(state: PartitionState, online: Ids, stopping: Ids) -> PartitionState | None:
    """The state without the replicas that are removed; None while a part of the target is not in sync."""
    target = state.target_replicas
    if not state.is_reassigning or state.leader == NO_LEADER or not set(target) <= set(state.isr):
        return None
    completed = state._replace(replicas=target, adding_replicas=(), removing_replicas=())
    return _with_remaining(completed, online, stopping)


def _with_remaining(state: PartitionState, online: Ids, stopping: Ids) -> PartitionState | None:
    """The next state, without the in-sync brokers that have left the replicas; None if no other one can lead."""
    isr, leader = [broker for broker in state.isr if broker in state.replicas], state.leader
    if leader != NO_LEADER and leader not in state.replicas:
        electable = [broker for broker in state.replicas if broker in isr and broker in online]
        leader = next((broker for broker in electable if broker not in stopping), NO_LEADER)
        if leader == NO_LEADER:
            return None
    return raised_by(state._replace(leader=leader, isr=tuple(isr)), 1) if isr else None


class ReassignmentRequest:
    """The reassignments of one request, and their results. `wanted`: the targets; None cancels a reassignment."""

    def __init__(
        self,
        ticket: object,
        wanted: Mapping[TopicPartition, Sequence[int] | None],
        *,
        may_change_factor: bool = True,
    ) -> None:
        self.ticket = ticket
        self.waiting = set(wanted)
        self._wanted = wanted
        self._may_change_factor = may_change_factor
        self._written: set[TopicPartition] = set()
        self._results: dict[TopicPartition, KafkaError] = {}

    def evaluate(
        self, partition: TopicPartition, state: PartitionState, online: Sequence[int], stopping: frozenset[int]
    ) -> PartitionState | None:
        """The state to write; None if the partition has its result. After a write the partition is evaluated again.

        `online`: the live brokers, without those whose replica of the partition has failed.
        """
        try:
            wanted = begun_state(state, self._target(partition, state, online), online, stopping)
        except KafkaError as error:
            is_done = error.code is ErrorCode.NO_REASSIGNMENT_IN_PROGRESS and partition in self._written
            self.finish(partition, _DONE if is_done else error)
            return None
        if wanted == state:
            self.finish(partition, _DONE)
            return None
        self._written.add(partition)
        return wanted

    def _target(self, partition: TopicPartition, state: PartitionState, online: Sequence[int]) -> Sequence[int]:
        """Raises KafkaError: NO_REASSIGNMENT_IN_PROGRESS, INVALID_REPLICA_ASSIGNMENT, INVALID_REPLICATION_FACTOR."""
        target, original = self._wanted[partition], state.original_replicas
        if target is None:
            if not state.is_reassigning:
                message = f"no reassignment of {partition} is in progress"
                raise KafkaError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, message)
            return original
        if not target:
            raise _refused(f"Empty replica list specified for {partition}")
        if len(set(target)) < len(target):
            raise _refused(f"Duplicate replica ids in the replica list {list(target)} for {partition}")
        dead = [broker for broker in target if broker not in original and broker not in online]
        if dead:
            raise _refused(f"Replica assignment of {partition} has brokers that are not alive: {dead}")
        if not self._may_change_factor and len(target) != len(original):
            message = f"The replication factor is changed from {len(original)} to {len(target)}"
            raise KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, message)
        return target

    def finish(self, partition: TopicPartition, error: KafkaError) -> None:
        """Give a partition its result."""
        self.waiting.discard(partition)
        self._results[partition] = error

    def response(self) -> AlterPartitionReassignmentsResponse:
        """The reply, once no partition waits."""
        return AlterPartitionReassignmentsResponse(
            allow_replication_factor_change=self._may_change_factor,
            error_message=None,
            responses=[
                ReassignableTopicResponse(topic, [self._row(partition) for partition in partitions])
                for topic, partitions in by_topic(self._wanted).items()
            ],
        )

    def _row(self, partition: TopicPartition) -> ReassignablePartitionResponse:
        error = self._results[partition]
        return ReassignablePartitionResponse(partition.number, error.code, error.message or None)


def _refused(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)

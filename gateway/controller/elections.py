"""Elections: the next state of one partition. Pure, by the rules of Apache Kafka in ZooKeeper mode.

A clean election takes the first replica, in the order of the assignment, that is in sync and online. Each new state
raises both epochs by one, so that brokers refuse orders about an older state, and the store an older write.
"""

from __future__ import annotations

from collections.abc import Container, Iterable

from headgate.gateway.metadata.image import PartitionState
from headgate.protocol.errors import ErrorCode, KafkaError

NO_LEADER = -1
NO_EPOCH = -1
"""The leader epoch of a partition that was assigned to brokers and has no state yet."""

Ids = Container[int]


def next_state(state: PartitionState, online: Ids, stopping: Ids, *, is_unclean: bool) -> PartitionState | None:
    """The state that a partition has to take; None if it keeps its state.

    `online`: the brokers with a working replica. `stopping`: the brokers in a controlled shutdown, which lead only what
    no other broker can lead. Replicas that are lost or stopping leave the in-sync set in the same write, but the set
    is never empty: its last members may hold the only copy of acknowledged records.
    """
    serving = [broker for broker in state.replicas if broker in online and broker not in stopping]
    if state.leader_epoch == NO_EPOCH:
        return _next(state, serving[0], serving) if serving else None
    leader = state.leader
    if leader not in online or leader in stopping:
        elected = [broker for broker in serving if broker in state.isr]
        if elected:
            leader = elected[0]
        elif leader not in online:
            if is_unclean and serving:
                return _next(state, serving[0], serving[:1])
            return None if leader == NO_LEADER else _next(state, NO_LEADER, state.isr)
    isr = [broker for broker in state.isr if broker == leader or (broker in online and broker not in stopping)]
    isr = isr or list(state.isr)  # a foreign writer may have named a leader outside the set
    return None if leader == state.leader and len(isr) == len(state.isr) else _next(state, leader, isr)


def preferred_state(state: PartitionState, online: Ids, stopping: Ids) -> PartitionState:
    """The state in which the first replica leads.

    Raises KafkaError: ELECTION_NOT_NEEDED, PREFERRED_LEADER_NOT_AVAILABLE.
    """
    preferred = state.replicas[0] if state.replicas else NO_LEADER
    if preferred == NO_LEADER:
        raise KafkaError(ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, "The partition has no replicas.")
    if state.leader == preferred:
        raise KafkaError(ErrorCode.ELECTION_NOT_NEEDED, "The preferred replica, the first one, leads already.")
    if preferred not in online or preferred in stopping or preferred not in state.isr:
        message = f"The preferred leader, broker {preferred}, is not alive or not in the in-sync set; retry later."
        raise KafkaError(ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, message)
    return _next(state, preferred, state.isr)


def unclean_state(state: PartitionState, online: Ids, stopping: Ids) -> PartitionState:
    """The state in which any online replica leads a partition that has no leader.

    Raises KafkaError: ELECTION_NOT_NEEDED, ELIGIBLE_LEADERS_NOT_AVAILABLE.
    """
    if state.leader in online:
        raise KafkaError(ErrorCode.ELECTION_NOT_NEEDED, f"The partition has a leader, broker {state.leader}.")
    elected = next_state(state, online, stopping, is_unclean=True)
    if elected is None or elected.leader == NO_LEADER:
        message = "No replica of the partition is alive; start a broker that has one."
        raise KafkaError(ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, message)
    return elected


def is_unclean(before: PartitionState, leader: int) -> bool:
    """Whether a new leader was not in sync: records that were acknowledged before may be lost."""
    return leader != NO_LEADER and before.leader_epoch != NO_EPOCH and leader not in before.isr


def _next(state: PartitionState, leader: int, isr: Iterable[int]) -> PartitionState:
    return state._replace(
        leader=leader,
        isr=tuple(isr),
        leader_epoch=state.leader_epoch + 1,
        partition_epoch=state.partition_epoch + 1,
    )

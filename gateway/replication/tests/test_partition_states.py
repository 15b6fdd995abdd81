"""The states of partitions: one state each, counted, in order, and only by the transitions that are allowed."""

from typing import cast

import pytest

from headgate.gateway.replication.partition_states import (
    TRANSITIONS,
    PartitionState,
    PartitionStates,
    Unavailable,
)
from headgate.gateway.replication.replica import Replica
from headgate.protocol.errors import ErrorCode, KafkaError

A, B, C = ("t", 0), ("t", 1), ("u", 0)
NONE, ONLINE = PartitionState.NONE, PartitionState.ONLINE
REPLICA = cast("Replica", object())


def test_each_is_in_one_state() -> None:
    states = PartitionStates()
    opening = states.within(PartitionState.LOADING, PartitionState.CREATING)
    offline = states.within(PartitionState.OFFLINE)
    assert not opening
    for key in (A, C):
        states.move(key, Unavailable(PartitionState.LOADING))
    states.move(B, Unavailable(PartitionState.CREATING))
    states.move(A, Unavailable(PartitionState.OFFLINE))
    assert (list(opening), list(offline)) == ([C, B], [A])
    assert (len(opening), len(offline)) == (2, 1)
    assert A not in opening
    assert A in offline
    states.move(C, None)
    states.move(C, None)
    assert list(opening) == [B]
    states.move(A, Unavailable(PartitionState.OFFLINE, error=KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "full")))
    assert list(offline) == [A]
    states.move(A, REPLICA)
    states.move(B, None)
    assert not opening
    assert not offline
    assert (states.state(A), states.replica(A), states.unavailable(A)) == (ONLINE, REPLICA, None)
    assert (states.state(B), states.replica(B)) == (NONE, None)


def test_a_replica_that_waits_for_an_epoch_is_still_known() -> None:
    states = PartitionStates()
    states.move(A, REPLICA)
    states.move(A, Unavailable(PartitionState.AWAITING_EPOCH, replica=REPLICA))
    assert (list(states), states.awaiting_epoch(), states.online) == ([REPLICA], [REPLICA], {})
    assert states.replica(A) is REPLICA
    states.move(A, REPLICA)
    assert (list(states), states.awaiting_epoch(), states.online) == ([REPLICA], [], {A: REPLICA})


@pytest.mark.parametrize("state", [PartitionState.FOLLOWING, PartitionState.BECOMING_LEADER])
def test_a_followed_replica_counts_but_is_not_online(state: PartitionState) -> None:
    states = PartitionStates()
    states.move(A, Unavailable(PartitionState.FOLLOWING, leader=5, replica=REPLICA))
    if state is PartitionState.BECOMING_LEADER:
        states.move(A, Unavailable(state, replica=REPLICA))
    assert (list(states), states.replica(A), states.online) == ([REPLICA], REPLICA, {})
    assert states.awaiting_epoch() == []


def record(state: PartitionState) -> Replica | Unavailable | None:
    return None if state is NONE else REPLICA if state is ONLINE else Unavailable(state)


def in_state(state: PartitionState) -> PartitionStates:
    """The partition A in this state, by the shortest way that there is."""
    states, ways = PartitionStates(), {NONE: [NONE]}
    while state not in ways:
        for before, way in list(ways.items()):
            for after in TRANSITIONS[before]:
                ways.setdefault(after, [*way, after])
    for step in ways[state]:
        states.move(A, record(step))
    return states


@pytest.mark.parametrize("before", PartitionState)
def test_a_transition_that_the_table_lacks_is_an_error(before: PartitionState) -> None:
    for after in PartitionState:
        states = in_state(before)
        if after in TRANSITIONS[before]:
            states.move(A, record(after))
            assert states.state(A) is after
        else:
            with pytest.raises(AssertionError, match=f"t-0 cannot go from {before.name} to {after.name}"):
                states.move(A, record(after))
            assert states.state(A) is before


def test_the_errors_for_clients() -> None:
    full = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "full")
    unavailable = [state for state in PartitionState if state not in (NONE, ONLINE)]
    told = {state: Unavailable(state, error=full, leader=5).refusal("t", 3) for state in unavailable}
    assert {state: error.code for state, error in told.items()} == {
        PartitionState.FOLLOWING: ErrorCode.NOT_LEADER_OR_FOLLOWER,
        PartitionState.BECOMING_LEADER: ErrorCode.NOT_LEADER_OR_FOLLOWER,
        PartitionState.LOADING: ErrorCode.NOT_LEADER_OR_FOLLOWER,
        PartitionState.CREATING: ErrorCode.NOT_LEADER_OR_FOLLOWER,
        PartitionState.AWAITING_EPOCH: ErrorCode.NOT_LEADER_OR_FOLLOWER,
        PartitionState.OFFLINE: ErrorCode.KAFKA_STORAGE_ERROR,
        PartitionState.RETRYING: ErrorCode.KAFKA_STORAGE_ERROR,
        PartitionState.REMOTE: ErrorCode.NOT_LEADER_OR_FOLLOWER,
        PartitionState.DELETING: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert told[PartitionState.OFFLINE] is not full, "who raises it leaves a traceback in it"
    assert told[PartitionState.REMOTE].message == "t-3: node 5 leads it"
    assert told[PartitionState.FOLLOWING].message == "t-3: node 5 leads it"
    assert Unavailable(PartitionState.REMOTE).refusal("t", 3).message == "t-3: it has no leader at present"

"""Partitions that are not served: one state each, counted, in order."""

from headgate.gateway.replication.unavailable import Unavailable, UnavailablePartitions, UnavailableState
from headgate.protocol.errors import ErrorCode, KafkaError

A, B, C = ("t", 0), ("t", 1), ("u", 0)


def test_each_is_in_one_state() -> None:
    absences = UnavailablePartitions()
    opening, offline = (
        absences.within(UnavailableState.OPENING, UnavailableState.MAKING),
        absences.within(UnavailableState.OFFLINE),
    )
    assert not opening
    for key in (A, B, C):
        absences.put(key, Unavailable(UnavailableState.OPENING))
    absences.put(B, Unavailable(UnavailableState.MAKING))
    absences.put(A, Unavailable(UnavailableState.OFFLINE))
    assert (list(opening), list(offline)) == ([C, B], [A])
    assert (len(opening), len(offline)) == (2, 1)
    assert A not in opening
    assert A in offline
    absences.drop(C)
    assert absences.drop(C) is None
    assert list(opening) == [B]
    absences.put(A, Unavailable(UnavailableState.OFFLINE, error=KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "full")))
    assert list(offline) == [A]
    absences.drop(A)
    absences.drop(B)
    assert not opening
    assert not offline


def test_what_clients_are_told() -> None:
    full = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "full")
    told = {state: Unavailable(state, error=full, leader=5).refusal("t", 3) for state in UnavailableState}
    assert {state: error.code for state, error in told.items()} == {
        UnavailableState.OPENING: ErrorCode.NOT_LEADER_OR_FOLLOWER,
        UnavailableState.MAKING: ErrorCode.NOT_LEADER_OR_FOLLOWER,
        UnavailableState.RAISING: ErrorCode.NOT_LEADER_OR_FOLLOWER,
        UnavailableState.OFFLINE: ErrorCode.KAFKA_STORAGE_ERROR,
        UnavailableState.RETRYING: ErrorCode.KAFKA_STORAGE_ERROR,
        UnavailableState.ELSEWHERE: ErrorCode.NOT_LEADER_OR_FOLLOWER,
        UnavailableState.LEAVING: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert told[UnavailableState.OFFLINE] is not full, "who raises it leaves a traceback in it"
    assert told[UnavailableState.ELSEWHERE].message == "t-3: node 5 leads it"
    assert Unavailable(UnavailableState.ELSEWHERE).refusal("t", 3).message == "t-3: it has no leader at present"

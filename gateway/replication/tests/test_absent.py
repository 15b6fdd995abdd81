"""Partitions that are not served: one state each, counted, in order."""

from headgate.gateway.replication.absent import Absences, Absent, State
from headgate.protocol.errors import ErrorCode, KafkaError

A, B, C = ("t", 0), ("t", 1), ("u", 0)


def test_each_is_in_one_state() -> None:
    absences = Absences()
    opening, offline = absences.within(State.OPENING, State.MAKING), absences.within(State.OFFLINE)
    assert not opening
    for key in (A, B, C):
        absences.put(key, Absent(State.OPENING))
    absences.put(B, Absent(State.MAKING))
    absences.put(A, Absent(State.OFFLINE))
    assert (list(opening), list(offline)) == ([C, B], [A])
    assert (len(opening), len(offline)) == (2, 1)
    assert A not in opening
    assert A in offline
    absences.drop(C)
    assert absences.drop(C) is None
    assert list(opening) == [B]
    absences.put(A, Absent(State.OFFLINE, error=KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "full")))
    assert list(offline) == [A]
    absences.drop(A)
    absences.drop(B)
    assert not opening
    assert not offline


def test_what_clients_are_told() -> None:
    full = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "full")
    told = {state: Absent(state, error=full, leader=5).refusal("t", 3) for state in State}
    assert {state: error.code for state, error in told.items()} == {
        State.OPENING: ErrorCode.NOT_LEADER_OR_FOLLOWER,
        State.MAKING: ErrorCode.NOT_LEADER_OR_FOLLOWER,
        State.RAISING: ErrorCode.NOT_LEADER_OR_FOLLOWER,
        State.OFFLINE: ErrorCode.KAFKA_STORAGE_ERROR,
        State.RETRYING: ErrorCode.KAFKA_STORAGE_ERROR,
        State.ELSEWHERE: ErrorCode.NOT_LEADER_OR_FOLLOWER,
        State.LEAVING: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert told[State.OFFLINE] is not full, "who raises it leaves a traceback in it"
    assert told[State.ELSEWHERE].message == "t-3: node 5 leads it"
    assert Absent(State.ELSEWHERE).refusal("t", 3).message == "t-3: it has no leader at present"

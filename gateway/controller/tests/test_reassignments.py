"""Reassignments: states in, states and results out; and whole ones by the machine."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from headgate.gateway.controller.controller import ControllerMachine
from headgate.gateway.controller.reassignments import begun_state, completed_state
from headgate.gateway.controller.tests.clusters import T0, TOPIC_ID, brokers, controller, settle, state, view
from headgate.gateway.metadata.image import PartitionState
from headgate.gateway.metadata.records import partition_records
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.internal.metadata import RemoveTopicRecord
from headgate.protocol.messages.alter_partition_reassignments import AlterPartitionReassignmentsResponse
from headgate.protocol.messages.elect_leaders import PREFERRED
from headgate.protocol.topic_partition import TopicPartition

ALL = (1, 2, 3, 4)
NONE = frozenset[int]()


def moving(
    leader: int, isr: Sequence[int], target: Sequence[int], original: Sequence[int], *, epoch: int = 1
) -> PartitionState:
    """The state during a reassignment."""
    replicas = (*target, *[broker for broker in original if broker not in target])
    return state(leader, isr, replicas, epoch=epoch)._replace(
        adding_replicas=tuple(broker for broker in replicas if broker not in original),
        removing_replicas=tuple(broker for broker in replicas if broker not in target),
    )


def test_a_move_begins_with_all_replicas_and_the_same_set() -> None:
    before = state(1, (1, 2), (1, 2))
    assert begun_state(before, (3, 2), ALL, NONE) == moving(1, (1, 2), (3, 2), (1, 2))
    assert begun_state(before, (1, 2, 3), ALL, NONE) == moving(1, (1, 2), (1, 2, 3), (1, 2))
    assert begun_state(before, (2,), ALL, NONE) == moving(1, (1, 2), (2,), (1, 2))
    assert begun_state(before, (2, 1), ALL, NONE) == state(1, (1, 2), (2, 1), epoch=1)  # nothing moves
    assert begun_state(before, (1, 2), ALL, NONE) == before


@pytest.mark.parametrize("isr", [(1, 2), (1, 2, 3), (1, 3)])
def test_a_move_waits_until_the_whole_target_is_in_sync(isr: Sequence[int]) -> None:
    assert completed_state(moving(1, isr, (3, 4), (1, 2)), ALL, NONE) is None


def test_a_leader_that_stays_leads_on_and_any_other_is_replaced() -> None:
    assert completed_state(moving(1, (1, 2, 3), (1, 3), (1, 2)), ALL, NONE) == state(1, (1, 3), (1, 3), epoch=2)
    away = moving(1, (1, 4, 3), (3, 4), (1, 2))
    assert completed_state(away, ALL, NONE) == state(3, (4, 3), (3, 4), epoch=2)
    assert completed_state(away, (1, 2, 4), NONE) == state(4, (4, 3), (3, 4), epoch=2)
    assert completed_state(away, ALL, frozenset({3})) == state(4, (4, 3), (3, 4), epoch=2)
    assert completed_state(away, (1, 2), NONE) is None
    assert completed_state(away._replace(leader=-1), ALL, NONE) is None  # an election comes first
    assert completed_state(state(1, (1, 2)), ALL, NONE) is None


def test_a_cancelled_move_keeps_what_is_in_sync() -> None:
    assert begun_state(moving(1, (1, 3), (3, 4), (1, 2)), (1, 2), ALL, NONE) == state(1, (1,), (1, 2), epoch=2)
    led_by_added = moving(3, (3, 2), (3, 4), (1, 2))
    assert begun_state(led_by_added, (1, 2), ALL, NONE) == state(2, (2,), (1, 2), epoch=2)
    leaderless = moving(-1, (2,), (3, 4), (1, 2))
    assert begun_state(leaderless, (1, 2), ALL, NONE) == state(-1, (2,), (1, 2), epoch=2)


@pytest.mark.parametrize("online", [ALL, (1, 3, 4)])
def test_no_move_takes_the_last_copy_away(online: Sequence[int]) -> None:
    """The replicas of before are not in sync, or not alive: records would be lost, or no broker could lead."""
    isr = (3, 4) if online == ALL else (3, 2)
    with pytest.raises(KafkaError, match="no replica on brokers \\[1, 2\\] is in sync and can lead") as refused:
        begun_state(moving(3, isr, (3, 4), (1, 2)), (1, 2), online, NONE)
    assert refused.value.code is ErrorCode.INVALID_REPLICA_ASSIGNMENT


def test_a_move_takes_the_place_of_another_one() -> None:
    first = moving(1, (1, 2, 3), (3,), (1, 2))
    assert begun_state(first, (4, 1), ALL, NONE) == moving(1, (1, 2), (4, 1), (1, 2), epoch=2)
    assert begun_state(first, (3, 4), ALL, NONE) == moving(1, (1, 2, 3), (3, 4), (1, 2), epoch=2)
    assert begun_state(first, (3,), ALL, NONE) == first


def test_a_partition_without_a_state_begins_on_its_target() -> None:
    unled = PartitionState(-1, -1, (1,), (), -1)
    assert begun_state(unled, (3,), (2, 3), NONE) == moving(3, (3,), (3,), (1,), epoch=0)
    with pytest.raises(KafkaError):
        begun_state(unled, (3,), (), NONE)


# The machine


def codes(replies: list[tuple[object, object]]) -> list[int]:
    ((_, response),) = replies
    assert isinstance(response, AlterPartitionReassignmentsResponse)
    return [row.error_code for topic in response.responses for row in topic.partitions]


def join(machine: ControllerMachine, *isr: int) -> None:
    """The leader takes followers into the set."""
    before = machine.view.state(T0)
    assert before is not None
    after = before._replace(isr=isr, partition_epoch=before.partition_epoch + 1)
    machine.replay(partition_records(TOPIC_ID, 0, [after]))
    settle(machine)


def started(target: Sequence[int] | None = (3, 4), before: PartitionState | None = None) -> ControllerMachine:
    machine = controller(view(before or state(1, (1, 2), (1, 2)), live=ALL))
    settle(machine)
    machine.reassign("ticket", {T0: target})
    assert codes(settle(machine)) == [ErrorCode.NONE]
    return machine


def test_a_partition_moves_once_the_new_replicas_are_in_sync() -> None:
    machine = started()
    assert machine.view.state(T0) == moving(1, (1, 2), (3, 4), (1, 2))
    join(machine, 1, 2, 3)
    assert machine.view.state(T0) == moving(1, (1, 2, 3), (3, 4), (1, 2))._replace(partition_epoch=2)
    join(machine, 1, 2, 3, 4)
    assert machine.view.state(T0) == state(3, (3, 4), (3, 4), epoch=2, version=4)


def test_the_answer_waits_for_the_store() -> None:
    machine = controller(view(state(1, (1, 2), (1, 2)), live=ALL))
    machine.reassign("ticket", {T0: (3, 2)})
    decision = machine.decide(0)
    assert not decision.replies
    machine.write_failed(decision.records)
    machine.replay(partition_records(TOPIC_ID, 0, [state(1, (1,), (1, 2), version=1)]))  # the leader was quicker
    decision = machine.decide(0)
    assert decision.records == partition_records(
        TOPIC_ID, 0, [moving(1, (1,), (3, 2), (1, 2))._replace(partition_epoch=2)]
    )
    machine.replay(decision.records)
    assert codes(settle(machine)) == [ErrorCode.NONE]


def test_another_controller_completes_what_it_finds() -> None:
    fresh = controller(view(moving(1, (1, 3, 4), (3, 4), (1, 2)), live=ALL))
    settle(fresh)
    assert fresh.view.state(T0) == state(3, (3, 4), (3, 4), epoch=2)


def test_a_lost_new_replica_is_waited_for() -> None:
    machine = started()
    machine.set_brokers(brokers(1, 2, 3))
    join(machine, 1, 2, 3)
    settle(machine)
    found = machine.view.state(T0)
    assert found is not None
    assert (found.leader, found.is_reassigning, found.replicas) == (1, True, (3, 4, 1, 2))
    machine.set_brokers(brokers(*ALL))
    join(machine, 1, 2, 3, 4)
    assert machine.view.state(T0) == state(3, (3, 4), (3, 4), epoch=2, version=4)


def test_a_lost_leader_is_replaced_during_a_move() -> None:
    machine = started()
    join(machine, 1, 2, 3)
    machine.set_brokers(brokers(2, 3, 4))
    settle(machine)
    assert machine.view.state(T0) == moving(3, (2, 3), (3, 4), (1, 2), epoch=2)._replace(partition_epoch=3)


def test_what_cannot_be_moved_is_refused() -> None:
    machine = controller(view(*[state(1, (1, 2), (1, 2))] * 6, live=ALL))
    settle(machine)
    keys = [TopicPartition("t", number) for number in range(7)]
    targets: list[Sequence[int] | None] = [(), (1, 1), (1, 5), (1, -2), None, (2, 1), (1,)]
    machine.reassign("ticket", dict(zip(keys, targets, strict=True)))
    invalid = [ErrorCode.INVALID_REPLICA_ASSIGNMENT] * 4
    others = [ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert codes(settle(machine)) == [*invalid, *others]
    machine.reassign("ticket", {T0: (1,)}, may_change_factor=False)
    assert codes(settle(machine)) == [ErrorCode.INVALID_REPLICATION_FACTOR]
    machine.set_brokers(brokers(1, 3))
    settle(machine)
    machine.reassign("ticket", {T0: (1, 2, 3)})  # a replica of before need not be alive
    assert codes(settle(machine)) == [ErrorCode.NONE]


def test_a_move_is_cancelled_once() -> None:
    machine = started()
    join(machine, 1, 2, 3)
    for code in ErrorCode.NONE, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS:
        machine.reassign("ticket", {T0: None})
        assert codes(settle(machine)) == [code]
    assert machine.view.state(T0) == state(1, (1, 2), (1, 2), epoch=2, version=3)


def test_a_deleted_topic_moves_no_more() -> None:
    machine = controller(view(state(1, (1, 2), (1, 2)), live=ALL))
    settle(machine)
    machine.reassign("ticket", {T0: (3,)})
    machine.replay([RemoveTopicRecord(topic_id=TOPIC_ID)])
    assert codes(settle(machine)) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


def test_a_moving_partition_keeps_its_leader_until_the_end() -> None:
    """The first of the new replicas is the preferred leader, but the balance of leaders waits for the end."""
    machine = started()
    join(machine, 1, 2, 3)
    settle(machine, machine.rebalance_at_ms)
    found = machine.view.state(T0)
    assert found is not None
    assert found.leader == 1
    machine.elect("ticket", PREFERRED, [T0])  # but an operator may want it
    settle(machine)
    found = machine.view.state(T0)
    assert found is not None
    assert found.leader == 3

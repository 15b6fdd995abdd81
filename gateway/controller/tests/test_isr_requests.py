"""Leaders that ask the controller for other in-sync sets."""

from __future__ import annotations

import pytest

from headgate.gateway.controller.cluster_view import ClusterView
from headgate.gateway.controller.controller import ControllerMachine
from headgate.gateway.controller.tests.clusters import T0, TOPIC_ID, brokers, controller, settle, state, view
from headgate.gateway.metadata.records import partition_records
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.internal.metadata import RemoveTopicRecord
from headgate.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    BrokerState,
    PartitionData,
    RequestedPartitionData,
    RequestedTopicData,
)

BEFORE = state(1, (1, 2), epoch=4, version=6)


def wanted(
    *isr: int, leader: int = 1, epoch: int = 4, version: int = 6, recovery: int = 0, index: int = 0
) -> AlterPartitionRequest:
    """A request of a leader, for every version."""
    row = RequestedPartitionData(index, epoch, list(isr), [BrokerState(one) for one in isr], recovery, version)
    return AlterPartitionRequest(leader, 100 + leader, [RequestedTopicData("t", TOPIC_ID, [row])])


def answer(request: AlterPartitionRequest, version: int = 3, present: ClusterView | None = None) -> PartitionData:
    """The row of the answer, once everything is written."""
    machine = controller(view(BEFORE) if present is None else present)
    machine.alter_partition("ticket", request, version)
    return settled_row(machine)


def settled_row(machine: ControllerMachine) -> PartitionData:
    ((ticket, response),) = settle(machine)
    assert ticket == "ticket"
    assert isinstance(response, AlterPartitionResponse)
    return response.topics[0].partitions[0]


@pytest.mark.parametrize("version", range(4))
@pytest.mark.parametrize("isr", [(1,), (1, 3), (1, 2, 3)])
def test_a_wanted_set_is_stored_in_the_same_leader_epoch(isr: tuple[int, ...], version: int) -> None:
    assert answer(wanted(*isr), version) == PartitionData(0, ErrorCode.NONE, 1, 4, list(isr), 0, 7)


@pytest.mark.parametrize(
    "request_, code",
    [
        (wanted(1, epoch=5), ErrorCode.NOT_CONTROLLER),
        (wanted(1, version=7), ErrorCode.NOT_CONTROLLER),
        (wanted(1, epoch=3), ErrorCode.FENCED_LEADER_EPOCH),
        (wanted(1, version=5), ErrorCode.INVALID_UPDATE_VERSION),
        (wanted(2, leader=2), ErrorCode.INVALID_REQUEST),  # another broker leads
        (wanted(2), ErrorCode.INVALID_REQUEST),  # the leader is not in its set
        (wanted(1, 4), ErrorCode.INVALID_REQUEST),  # not a replica
        (wanted(1, recovery=1), ErrorCode.INVALID_REQUEST),
        (wanted(1, index=1), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_a_set_that_must_not_be_is_refused(request_: AlterPartitionRequest, code: ErrorCode) -> None:
    assert answer(request_) == PartitionData(request_.topics[0].partitions[0].partition_index, code)


@pytest.mark.parametrize("version", range(4))
def test_a_broker_that_is_gone_or_stops_enters_no_set(version: int) -> None:
    lost = view(BEFORE, live=(1, 2))
    stopping = view(BEFORE)._replace(stopping=frozenset((3,)))
    for present in lost, stopping:
        code = ErrorCode.INELIGIBLE_REPLICA if version >= 2 else ErrorCode.OPERATION_NOT_ATTEMPTED
        assert answer(wanted(1, 2, 3), version, present).error_code == code


def test_a_repeated_request_finds_its_set() -> None:
    """The first answer was lost: the leader knows the state from before."""
    assert answer(wanted(2, 1, version=3)) == PartitionData(0, ErrorCode.NONE, 1, 4, [1, 2], 0, 6)


def test_an_election_overtakes_a_wanted_set() -> None:
    machine = controller(view(BEFORE))
    machine.alter_partition("ticket", wanted(1), 3)
    machine.set_brokers(brokers(2, 3))
    assert settled_row(machine).error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert machine.view.state(T0) == state(2, (2,), epoch=5, version=7)


def test_a_write_that_was_overtaken_is_decided_again() -> None:
    machine = controller(view(BEFORE))
    machine.alter_partition("ticket", wanted(1), 3)
    decision = machine.decide(0)
    machine.write_failed(decision.records)
    machine.replay(partition_records(TOPIC_ID, 0, (BEFORE._replace(isr=(1, 2, 3), partition_epoch=7),)))
    assert settled_row(machine).error_code == ErrorCode.INVALID_UPDATE_VERSION


def test_a_set_of_an_unknown_or_deleted_topic_is_refused() -> None:
    request = wanted(1)
    request.topics[0].topic_id = b"u" * 16
    assert answer(request) == PartitionData(0, ErrorCode.UNKNOWN_TOPIC_ID)
    machine = controller(view(BEFORE))
    machine.alter_partition("ticket", wanted(1), 3)
    machine.replay([RemoveTopicRecord(topic_id=TOPIC_ID)])
    assert settled_row(machine).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    request = wanted(1)
    request.topics[0].topic_name = "u"
    assert answer(request, 1).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_leader_of_an_earlier_registration_is_refused() -> None:
    machine = controller(view(BEFORE))
    request = wanted(1)
    request.broker_epoch = 7
    with pytest.raises(KafkaError) as refused:
        machine.alter_partition("ticket", request, 3)
    assert refused.value.code is ErrorCode.STALE_BROKER_EPOCH
    with pytest.raises(KafkaError) as refused:
        machine.alter_partition("ticket", wanted(9, leader=9), 3)
    assert refused.value.code is ErrorCode.STALE_BROKER_EPOCH


def test_a_repeated_request_replaces_the_last_one() -> None:
    machine = controller(view(BEFORE))
    machine.alter_partition("given up", wanted(1), 3)
    machine.alter_partition("ticket", wanted(1, 2, 3), 3)
    assert [ticket for ticket, _ in settle(machine)] == ["ticket"]
    assert machine.view.state(T0) == BEFORE._replace(isr=(1, 2, 3), partition_epoch=7)

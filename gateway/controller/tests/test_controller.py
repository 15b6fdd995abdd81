"""The controller as a machine: facts in, records and replies out."""

from __future__ import annotations

import pytest

from headgate.gateway.controller.orders import Sender, leader_and_isr, update_metadata
from headgate.gateway.controller.tests.clusters import T0, TOPIC_ID, brokers, controller, settle, state, view
from headgate.gateway.metadata.image import PartitionState
from headgate.gateway.metadata.records import partition_records
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.internal.metadata import PartitionRecord, RemoveTopicRecord
from headgate.protocol.messages.controlled_shutdown import ControlledShutdownResponse, RemainingPartition
from headgate.protocol.messages.elect_leaders import PREFERRED, UNCLEAN, ElectLeadersResponse
from headgate.protocol.topic_partition import TopicPartition


def test_a_lost_leader_is_replaced_by_one_write() -> None:
    machine = controller(view(state(1, (1, 2, 3))))
    assert not settle(machine)
    machine.set_brokers(brokers(2, 3))
    decision = machine.decide(0)
    assert decision.records == partition_records(TOPIC_ID, 0, [state(2, (2, 3), epoch=1)])
    assert machine.view.state(T0) == state(1, (1, 2, 3))  # what is not confirmed is not stored
    assert not machine.decide(0).records  # one write of a partition at a time
    machine.replay(decision.records)
    machine.replay(decision.records)  # a doubled answer
    assert machine.view.state(T0) == state(2, (2, 3), epoch=1)
    assert not machine.decide(0).records


@pytest.mark.parametrize("is_killed", [True, False])
def test_lost_leads_are_decided_before_lost_followers(is_killed: bool) -> None:
    machine = controller(view(state(2, (2, 1)), state(1, (1, 2)), state(3, (3, 1)), state(1, (1, 3))))
    settle(machine)
    if is_killed:
        machine.set_brokers(brokers(2, 3))
    else:
        machine.shut_down("ticket", 1, -1)
    records = machine.decide(0, limit=2).records
    assert [record.partition_id for record in records if isinstance(record, PartitionRecord)] == [1, 3]


def test_a_broker_that_was_back_at_once_still_loses_its_lead() -> None:
    machine = controller(view(state(1, (1, 2)), state(1, (1,))))
    settle(machine)
    machine.set_brokers(brokers(1, 2, 3) | brokers(1, epoch=2))
    settle(machine)
    assert machine.view.state(T0) == state(2, (2,), epoch=1)
    assert machine.view.state(TopicPartition("t", 1)) == state(1, (1,), epoch=2)  # without a leader in between


def test_a_restarted_leader_is_ordered_to_lead_in_a_new_epoch() -> None:
    """The process before may have added a follower to the set, and have died before the controller knew."""
    machine = controller(view(state(1, (1, 2)), state(1, (1,))))
    settle(machine)
    machine.set_brokers(brokers(1, 2, 3) | brokers(1, epoch=2))
    for broker_id in (1, 2):
        order = leader_and_isr(Sender(3, 7, "INTERNAL"), broker_id, None, machine.view, 7)
        update = update_metadata(Sender(3, 7, "INTERNAL"), broker_id, None, machine.view, 8)
        assert order is not None
        assert update is not None
        assert {row.leader for topic in order.topic_states for row in topic.partition_states} == {-1}
        assert [row.leader for topic in update.topic_states for row in topic.partition_states] == [-1, -1]
    settle(machine)
    order = leader_and_isr(Sender(3, 7, "INTERNAL"), 1, None, machine.view, 7)
    assert order is not None
    rows = [(row.leader, row.leader_epoch) for topic in order.topic_states for row in topic.partition_states]
    assert rows == [(2, 1), (1, 2)]


def test_a_leader_that_restarted_unnoticed_leaves_the_set() -> None:
    machine = controller(view(state(-1, (1, 2)), state(-1, (1,))), "t")  # a store shows no leader that has departed
    for number in range(2):
        machine.note_departed(TopicPartition("t", number), 1)
    settle(machine)
    assert machine.view.state(T0) == state(2, (2,), epoch=1)
    assert machine.view.state(TopicPartition("t", 1)) == state(1, (1,), epoch=1)  # the only copy, in one write


def test_a_broker_that_was_back_loses_no_lead_uncleanly() -> None:
    machine = controller(view(state(1, (1,))), "t")
    settle(machine)
    machine.set_brokers(brokers(1, 2, 3) | brokers(1, epoch=2))
    settle(machine)
    assert machine.view.state(T0) == state(1, (1,), epoch=2)


def test_a_view_shares_the_image_of_its_store() -> None:
    machine = controller(view(state(1, (1, 2, 3))))
    machine.set_brokers(brokers(2, 3))
    records = machine.decide(0).records
    image = machine.view.image.apply_all(records)
    machine.replay(records, image)
    assert machine.view.image is image
    assert not machine.decide(0).records


def test_a_broker_lost_again_during_a_write_leaves_the_set() -> None:
    machine = controller(view(state(1, (1, 2, 3))))
    machine.set_brokers(brokers(2, 3))
    decision = machine.decide(0)
    machine.set_brokers(brokers(3) | brokers(2, epoch=2))
    machine.replay(decision.records)
    settle(machine)
    assert machine.view.state(T0) == state(3, (3,), epoch=2)


def test_a_refused_write_is_decided_again_from_what_is_there() -> None:
    machine = controller(view(state(1, (1, 2, 3))))
    machine.set_brokers(brokers(2, 3))
    decision = machine.decide(0)
    machine.write_failed(decision.records)
    assert not machine.decide(0).records  # what is there is unknown
    machine.replay(partition_records(TOPIC_ID, 0, [state(1, (1, 3), epoch=0, version=1)]))  # the leader was quicker
    assert machine.decide(0).records == partition_records(TOPIC_ID, 0, [state(3, (3,), epoch=1, version=2)])


def test_an_older_state_that_is_read_late_is_skipped() -> None:
    machine = controller(view(state(2, (2, 3), epoch=4)))
    machine.replay(partition_records(TOPIC_ID, 0, [state(1, (1, 2, 3), epoch=3)]))
    assert machine.view.state(T0) == state(2, (2, 3), epoch=4)


def test_unclean_elections_happen_only_where_they_are_allowed() -> None:
    for unclean, leader in ((), -1), (("t",), 2):
        machine = controller(view(state(1, (1,)), live=(2, 3)), *unclean)
        settle(machine)
        found = machine.view.state(T0)
        assert found is not None
        assert found.leader == leader


def test_a_new_partition_waits_for_a_broker() -> None:
    machine = controller(view(PartitionState(-1, -1, (1, 2), (), -1), live=(3,)))
    assert not machine.decide(0).records
    machine.set_brokers(brokers(2, 3))
    assert machine.decide(0).records == partition_records(TOPIC_ID, 0, [state(2, (2,), (1, 2))])


def test_a_term_that_ends_names_the_requests_that_wait() -> None:
    machine = controller(view(state(1, (1, 2)), state(2, (1, 2))))
    machine.shut_down("stop", 1, 101)
    machine.elect("election", PREFERRED, [T0])
    machine.elect(None, PREFERRED, [T0])
    assert machine.end() == ["election", "stop"]
    assert not settle(machine)


def test_a_controlled_shutdown_is_answered_when_the_leads_moved() -> None:
    single, only = state(1, (1,), (1,)), state(1, (1,))
    machine = controller(view(state(1, (1, 2)), state(2, (1, 2)), single, only))
    machine.shut_down("ticket", 1, 101)
    decision = machine.decide(0)
    assert not decision.replies
    machine.replay(decision.records)
    (reply,) = settle(machine)
    assert reply == ("ticket", ControlledShutdownResponse(remaining_partitions=[RemainingPartition("t", 3)]))
    assert machine.view.state(T0) == state(2, (2,), epoch=1)
    assert machine.view.state(TopicPartition("t", 1)) == state(2, (2,), epoch=1)
    machine.set_brokers(brokers(2, 3) | brokers(1, epoch=2))  # started again: a broker as any other
    assert not machine.view.stopping


def test_a_stop_by_an_older_registration_is_refused() -> None:
    machine = controller(view(state(1, (1, 2))))
    for broker, epoch, code in (1, 7, ErrorCode.STALE_BROKER_EPOCH), (9, -1, ErrorCode.BROKER_NOT_AVAILABLE):
        with pytest.raises(KafkaError) as refused:
            machine.shut_down("ticket", broker, epoch)
        assert refused.value.code is code


def test_a_failed_log_directory_takes_its_replicas_offline() -> None:
    machine = controller(view(state(1, (1, 2, 3)), state(1, (1, 2, 3))))
    machine.set_failed(1, [T0], [])
    settle(machine)
    assert machine.view.state(T0) == state(2, (2, 3), epoch=1)
    assert machine.view.state(TopicPartition("t", 1)) == state(1, (1, 2, 3))
    machine.set_failed(1, [], [T0])
    assert not machine.view.failed


def test_a_replica_that_lost_records_leads_in_a_higher_epoch_at_most() -> None:
    machine = controller(view(state(1, (1, 2)), state(1, (1,)), state(1, (1,), epoch=3), live=(1, 2)))
    for number, epoch in enumerate((0, 0, 8)):
        machine.note_departed(TopicPartition("t", number), 1, epoch)
    decision = machine.decide(0)
    machine.write_failed(decision.records)
    for number in range(3):
        machine.was_read(TopicPartition("t", number))
    assert machine.decide(0).records == decision.records, "a lost write is repeated"
    machine.replay(decision.records)
    settle(machine)
    assert machine.view.state(T0) == state(2, (2,), epoch=1)
    assert machine.view.state(TopicPartition("t", 1)) == state(1, (1,), epoch=1)
    assert machine.view.state(TopicPartition("t", 2)) == state(1, (1,), epoch=9)._replace(partition_epoch=4)


def test_elections_are_answered_when_they_are_stored() -> None:
    machine = controller(view(state(2, (1, 2)), state(1, (1, 2)), state(2, (2,)), state(-1, (3,)), live=(1, 2)))
    settle(machine)
    partitions = [TopicPartition("t", number) for number in range(5)]
    machine.elect("preferred", PREFERRED, partitions)
    decision = machine.decide(0)
    assert decision.records == partition_records(TOPIC_ID, 0, [state(1, (1, 2), epoch=1)])
    assert not decision.replies
    machine.replay(decision.records)
    ((ticket, response),) = settle(machine)
    assert ticket == "preferred"
    assert _codes(response) == [
        ErrorCode.NONE,
        ErrorCode.ELECTION_NOT_NEEDED,
        ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
        ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    machine.elect("unclean", UNCLEAN, None)
    ((_, response),) = settle(machine)
    assert _codes(response) == [ErrorCode.NONE]  # of a request for all, only what was elected
    assert machine.view.state(TopicPartition("t", 3)) == state(1, (1,), epoch=1)


def _codes(response: object) -> list[int]:
    assert isinstance(response, ElectLeadersResponse)
    return [row.error_code for topic in response.replica_election_results for row in topic.partition_result]


def test_preferred_leaders_come_back_when_too_many_are_elsewhere() -> None:
    machine = controller(view(state(2, (1, 2)), *[state(1, (1, 2))] * 9))
    settle(machine, machine.rebalance_at_ms)
    assert machine.view.state(T0) == state(2, (1, 2))  # one of ten is not over ten percent
    machine = controller(view(state(2, (1, 2)), *[state(1, (1, 2))] * 8))
    due_ms = machine.rebalance_at_ms
    settle(machine, due_ms - 1)
    assert machine.view.state(T0) == state(2, (1, 2))
    settle(machine, due_ms)
    assert machine.view.state(T0) == state(1, (1, 2), epoch=1)
    assert machine.rebalance_at_ms == due_ms + 300_000


def test_elections_of_a_topic_that_is_deleted_end() -> None:
    machine = controller(view(state(1, (1, 2))))
    settle(machine)
    machine.elect("ticket", PREFERRED, [T0])
    machine.replay([RemoveTopicRecord(topic_id=TOPIC_ID)] * 2)
    assert [_codes(response) for _, response in settle(machine)] == [[ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]]
    assert not machine.view.image.topics


def test_many_partitions_are_decided_in_slices() -> None:
    machine = controller(view(*[state(1, (1, 2, 3))] * 5, live=(2, 3)))
    decision = machine.decide(0, limit=3)
    assert (len(decision.records), decision.has_more) == (3, True)
    decision = machine.decide(0, limit=3)
    assert (len(decision.records), decision.has_more) == (2, False)

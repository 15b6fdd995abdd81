"""Brokers beside each other: one is the controller, the other serves on, and the controllership moves."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from headgate.gateway.zookeeper.layout.topics import DeletedTopic
from headgate.gateway.zookeeper.session import Create, Delete, Operation, Refused, SetData
from headgate.gateway.zookeeper.tests.two_brokers import TwoBrokers
from headgate.protocol.errors import ErrorCode, KafkaError


@pytest.fixture
def two(tmp_path: Path) -> Iterator[TwoBrokers]:
    brokers = TwoBrokers(tmp_path)
    yield brokers
    brokers.stop()


def test_the_first_broker_is_the_controller_for_both(two: TwoBrokers) -> None:
    assert [store.image.controller_id for store in two.stores] == [0, 0]
    assert [store.election.is_elected for store in two.stores] == [True, False]
    two.change(lambda: two.stores[0].create_topic("t", assignments={0: [0, 1]}))
    assert two.stores[1].image.topics == two.stores[0].image.topics


def test_only_the_controller_changes_topics(two: TwoBrokers) -> None:
    other = two.stores[1]
    with pytest.raises(KafkaError, match="Broker 1 is not the controller, broker 0 is") as refused:
        other.create_topic("t", 1)
    assert refused.value.code is ErrorCode.NOT_CONTROLLER
    assert other.planned is other.image


def test_any_broker_changes_configs(two: TwoBrokers) -> None:
    two.change(lambda: two.stores[0].create_topic("t", 1, configs={"segment.ms": "9"}))
    two.settle()
    assert two.stores[1].image.topics["t"].configs == {"segment.ms": "9"}
    changes = (
        lambda: two.stores[1].change_topic_configs("t", {"retention.ms": "5"}),
        lambda: two.stores[1].change_group_configs("g", {"consumer.session.timeout.ms": "50000"}),
    )
    assert [two.change(change).error for change in changes] == [None, None]
    for store in two.stores:
        assert store.image.topics["t"].configs == {"segment.ms": "9", "retention.ms": "5"}
    assert two.stores[0].image.configs == two.stores[1].image.configs


def test_configs_of_a_deleted_topic_are_refused(two: TwoBrokers) -> None:
    two.change(lambda: two.stores[0].create_topic("t", 1))
    two.cut()
    two.change(lambda: two.stores[0].delete_topic("t"))
    change = two.change(lambda: two.stores[1].change_topic_configs("t", {"retention.ms": "5"}))
    assert change.error is not None
    assert "/config/topics/t" not in two.keeper.tree.nodes


def test_brokers_take_different_producer_ids(two: TwoBrokers) -> None:
    taken = set[int]()
    for store in (*two.stores, *reversed(two.stores)):
        block, change = store.take_producer_ids()
        two.settle()
        assert change.error is None
        assert taken.isdisjoint(block)
        taken.update(block)


def test_a_broker_that_loses_the_election_serves_on(two: TwoBrokers) -> None:
    controller = two.stores[0]
    two.change(lambda: controller.create_topic("t", assignments={0: [0]}))
    two.settle()
    two.keeper.freeze()
    pending = controller.create_topic("u", 1)
    config = controller.change_topic_configs("t", {"retention.ms": "5"})
    assert not pending.is_settled
    two.keeper.start()
    two.brokers[0].delete("/controller")
    transacted = two.keeper.transact(
        two.keeper.sessions[1].session_id,
        [Create("/controller", b'{"version":1,"brokerid":1,"timestamp":"1"}', is_ephemeral=True)],
    )
    assert transacted
    two.settle()
    assert [store.image.controller_id for store in two.stores] == [1, 1]
    assert pending.error is None or pending.error.code is ErrorCode.NOT_CONTROLLER
    assert config.error is None
    assert controller.image.topics["t"].partitions[0].leader == 0
    with pytest.raises(KafkaError, match="broker 1 is"):
        controller.delete_topic("t")


def test_requests_to_a_term_that_ends_are_refused(two: TwoBrokers) -> None:
    """A stop of the broker would wait for its own former term as long as for a controller that is gone."""
    controller, replies = two.stores[0], list[object]()
    two.change(lambda: controller.create_topic("t", assignments={0: [0, 1]}))
    controller.shut_down(0, -1)(replies.append)
    node = Create("/controller", b'{"version":1,"brokerid":1,"timestamp":"1"}', is_ephemeral=True)
    operations: list[Operation] = [Delete("/controller"), node, SetData("/controller_epoch", b"2")]
    assert not isinstance(two.keeper.transact(two.keeper.sessions[1].session_id, operations), Refused)
    two.settle()
    (error,) = replies
    assert isinstance(error, KafkaError)
    assert error.code is ErrorCode.NOT_CONTROLLER


def test_a_broker_that_wins_reads_everything_again(two: TwoBrokers) -> None:
    controller, other = two.stores
    two.change(lambda: controller.create_topic("kept", assignments={0: [0, 1]}))
    two.change(lambda: controller.create_topic("gone", assignments={0: [0, 1]}))
    two.cut()
    two.change(lambda: controller.create_topic("new", assignments={0: [1, 0]}))
    two.change(lambda: controller.create_partitions("kept", 2, {1: [1, 0]}))
    two.change(lambda: controller.delete_topic("gone"))
    note = DeletedTopic(other.image.topics["gone"].topic_id, "gone", 5)  # offsets of dual groups are not removed yet
    assert two.brokers[1].write(note.path(note.topic_id), note.encode())
    two.kill_first()
    assert other.election.is_elected
    assert other.image.controller_id == 1
    assert set(other.image.topics) == {"kept", "new"}
    leaders = [state.leader for name in ("kept", "new") for state in other.image.topics[name].partitions]
    assert leaders == [1, 1, 1]
    assert two.change(lambda: other.create_topic("later", 1)).error is None
    assert other.image.topics["later"].partitions[0].leader == 1

"""Offsets of transactions in a dual group."""

from typing import Any

import pytest

from headgate.gateway.coordinator.decision import Decision, Ticket
from headgate.gateway.coordinator.groups import offset_requests
from headgate.gateway.coordinator.groups.group_shard import GroupShard
from headgate.gateway.coordinator.transactions.markers import Marker
from headgate.gateway.zookeeper.offsets.tests.broker_parts import GROUP
from headgate.gateway.zookeeper.offsets.tests.two_stores import TwoStores
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)


@pytest.fixture
def stores() -> TwoStores:
    stores = TwoStores()
    stores.enter()
    stores.committed(40)
    return stores


def commit(stores: TwoStores, offset: int, index: int = 0, group: str = GROUP) -> None:
    rows = [TxnOffsetCommitRequestPartition(index, offset)]
    request = TxnOffsetCommitRequest("id", group, 7, 0, topics=[TxnOffsetCommitRequestTopic("t", partitions=rows)])

    def decide(shard: GroupShard, ticket: Ticket) -> Decision:
        return offset_requests.commit_in_transaction(shard, request, 3, ticket)

    stores.put(lambda: stores.broker.groups.submit(group, decide))
    stores.run()


def mark(stores: TwoStores, *, is_commit: bool = True) -> list[KafkaError | None]:
    ends: list[Any] = []
    stores.broker.markers.append(Marker(7, 0, is_commit, 0, 1), "__consumer_offsets", 0, ends.append)
    stores.broker.markers.commit()
    return ends


def test_zookeeper_has_the_offsets_before_the_marker(stores: TwoStores) -> None:
    commit(stores, 50)
    commit(stores, 51, 1)
    assert (stores.in_zookeeper(), stores.in_log()) == (40, 40)
    stores.partition.is_slow = True
    ends = mark(stores)
    stores.keeper.run()
    stores.broker.scheduler.run_due()
    stores.run()
    # The write of nothing is taken up first; then the marker is on its way
    while stores.partition._writes and stores.in_log() == 40:
        assert ends == []
        stores.partition.finish_write()
        stores.run()
    assert ends == [None]
    assert (stores.in_zookeeper(), stores.in_zookeeper(1)) == (50, 51)
    assert (stores.in_log(), stores.in_log(1)) == (50, 51)


def test_an_abort_changes_nothing(stores: TwoStores) -> None:
    commit(stores, 50)
    assert mark(stores, is_commit=False) == [None]
    stores.run()
    assert (stores.in_zookeeper(), stores.in_log()) == (40, 40)


def test_a_marker_without_offsets_of_dual_groups_does_not_wait(stores: TwoStores) -> None:
    commit(stores, 50, group="other")
    assert mark(stores) == [None]


def test_what_others_wrote_since_supersedes_the_transaction(stores: TwoStores) -> None:
    commit(stores, 50)
    commit(stores, 51, 1)
    stores.write(9)
    ends = mark(stores)
    stores.run()
    assert ends == [None]
    assert (stores.in_zookeeper(), stores.in_log()) == (9, 9)
    assert (stores.in_zookeeper(1), stores.in_log(1)) == (51, 51)


def test_a_crash_between_both_steps(stores: TwoStores) -> None:
    commit(stores, 50)
    stores.write(50)  # as the broker did before it crashed
    stores.start()
    ends = mark(stores)
    stores.run()
    assert ends == [None]
    assert (stores.in_zookeeper(), stores.in_log()) == (50, 50)


def test_a_marker_without_zookeeper_is_to_be_sent_again(stores: TwoStores) -> None:
    commit(stores, 50)
    stores.keeper.stop()
    (error,) = mark(stores) or [None]
    stores.run()
    stores.keeper.start()
    stores.run()
    ends = mark(stores)
    stores.run()
    assert ends == [None]
    assert stores.in_log() == 50
    assert error is None or error.code is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_marker_after_a_restart_waits_for_the_stores(stores: TwoStores) -> None:
    commit(stores, 50)
    stores.keeper.stop()
    stores.start()
    (error,) = mark(stores)
    assert error is not None
    assert error.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS or error.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (stores.in_zookeeper(), stores.in_log()) == (40, 40)

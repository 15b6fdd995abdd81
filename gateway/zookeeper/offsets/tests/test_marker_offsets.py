"""Offsets of transactions in a dual group."""

from typing import Any

import pytest

from headgate.gateway.coordinator.decision import Decision, Ticket
from headgate.gateway.coordinator.groups import offset_requests
from headgate.gateway.coordinator.groups.group_shard import GroupShard
from headgate.gateway.coordinator.transactions.markers import Marker
from headgate.gateway.zookeeper.offsets.offset_nodes import OffsetNodes
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
    put(stores, TxnOffsetCommitRequestPartition(index, offset), group)
    stores.run()


def put(stores: TwoStores, row: TxnOffsetCommitRequestPartition, group: str = GROUP) -> None:
    request = TxnOffsetCommitRequest("id", group, 7, 0, topics=[TxnOffsetCommitRequestTopic("t", partitions=[row])])

    def decide(shard: GroupShard, ticket: Ticket) -> Decision:
        return offset_requests.commit_in_transaction(shard, request, 3, ticket)

    stores.put(lambda: stores.broker.groups.submit(group, decide))


def mark(stores: TwoStores, *, is_commit: bool = True) -> list[KafkaError | None]:
    ends: list[Any] = []
    stores.broker.markers.append(Marker(7, 0, is_commit, 0, 1), "__consumer_offsets", 0, ends.append)
    stores.broker.markers.write_staged()
    return ends


def mark_and_run(stores: TwoStores) -> list[KafkaError | None]:
    ends = mark(stores)
    stores.run()
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
    while stores.partition.writes and stores.in_log() == 40:
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


@pytest.mark.parametrize("has_offsets", [False, True])
def test_a_marker_commits_no_late_offsets_that_zookeeper_lacks(stores: TwoStores, has_offsets: bool) -> None:
    """A request of the producer comes late, and waits for a slow disk. The marker waits behind that request."""
    if has_offsets:
        commit(stores, 50)
    stores.partition.is_slow = True
    commit(stores, 60, 1)
    ends = mark(stores)
    for _ in range(20):
        stores.run()
        if stores.partition.writes:
            stores.partition.finish_write()
        elif ends != [None]:
            assert [error and error.code for error in ends] == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
            ends = mark(stores)
        assert stores.in_log(1) in (None, stores.in_zookeeper(1))
    assert ends == [None]
    assert stores.in_zookeeper(1) == stores.in_log(1) == 60
    assert stores.in_zookeeper() == stores.in_log() == (50 if has_offsets else 40)


def test_what_others_wrote_supersedes_a_late_offset(stores: TwoStores) -> None:
    """A marker waits for ZooKeeper. Meanwhile a late request adds an offset, and then a consumer commits."""
    commit(stores, 50)
    mark(stores)
    put(stores, TxnOffsetCommitRequestPartition(1, 60))
    stores.write(9, 1)
    stores.run()
    ends = mark(stores)
    stores.run()
    assert ends == [None]
    assert stores.in_zookeeper() == stores.in_log() == 50
    assert stores.in_zookeeper(1) == stores.in_log(1) == 9


def test_a_crash_between_both_steps(stores: TwoStores) -> None:
    commit(stores, 50)
    stores.write(50)  # as the broker did before it crashed
    stores.start()
    ends = mark(stores)
    stores.run()
    assert ends == [None]
    assert (stores.in_zookeeper(), stores.in_log()) == (50, 50)


def test_a_repeated_marker_spares_a_new_commit(stores: TwoStores, monkeypatch: pytest.MonkeyPatch) -> None:
    """A consumer goes on from the offset of the transaction, just when the broker writes that offset again."""
    commit(stores, 50)
    stores.write(50)
    stores.start()
    write = OffsetNodes.write

    def write_later(*arguments: Any, **options: Any) -> Any:
        stores.write(60)
        return write(*arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(OffsetNodes, "write", write_later)
        (error,) = mark_and_run(stores)
    assert error is not None
    assert error.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert mark_and_run(stores) == [None]
    assert stores.in_zookeeper() == stores.in_log() == 60


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

"""One group with its offsets in both stores."""

import pytest

from headgate.gateway.config.offset_store import KAFKA
from headgate.gateway.tests.scripted import STORAGE_ERROR
from headgate.gateway.zookeeper.offsets.dual_group import REFRESH_AFTER_MS
from headgate.gateway.zookeeper.offsets.tests.broker_parts import GROUP
from headgate.gateway.zookeeper.offsets.tests.two_stores import TwoStores
from headgate.gateway.zookeeper.tests.model import Fault
from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)


@pytest.fixture
def stores() -> TwoStores:
    stores = TwoStores()
    stores.enter()
    return stores


@pytest.mark.parametrize("version", [0, 2])
def test_a_commit_is_in_both_stores(stores: TwoStores, version: int) -> None:
    assert stores.committed(41, version=version) == ErrorCode.NONE
    assert (stores.in_zookeeper(), stores.in_log()) == (41, 41)
    assert stores.committed(7, version=version) == ErrorCode.NONE
    assert (stores.in_zookeeper(), stores.in_log()) == (7, 7)


def test_zookeeper_has_a_commit_before_the_log(stores: TwoStores) -> None:
    stores.keeper.freeze()
    heard = stores.commit(41)
    stores.run()
    assert heard == []
    assert (stores.in_zookeeper(), stores.in_log()) == (None, None)
    stores.partition.is_slow = True
    stores.keeper.is_frozen = False
    stores.run()
    assert heard == []
    assert (stores.in_zookeeper(), stores.in_log()) == (41, None)
    stores.partition.finish_write()
    stores.run()
    assert len(heard) == 1
    assert stores.in_log() == 41


def test_a_refused_commit_is_in_neither_store(stores: TwoStores) -> None:
    assert stores.committed(41, version=2, metadata="m" * 5_000) == ErrorCode.OFFSET_METADATA_TOO_LARGE
    assert stores.committed(41, 9) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert (stores.in_zookeeper(), stores.in_log(), stores.in_zookeeper(9)) == (None, None, None)


def test_who_comes_from_zookeeper_is_read(stores: TwoStores) -> None:
    stores.committed(41)
    stores.write(60)
    assert stores.fetched() == (60, 0)
    assert stores.in_log() == 60
    stores.write(5)
    assert stores.fetched(version=0) == (5, 0)
    assert stores.in_log() == 5


def test_what_others_write_is_taken_up_by_itself(stores: TwoStores) -> None:
    stores.write(60)
    stores.run()
    stores.wait(REFRESH_AFTER_MS)
    assert stores.in_log() == 60
    for offset in (61, 7):
        stores.write(offset)
        stores.run()
        assert stores.in_log() != offset
        stores.wait(REFRESH_AFTER_MS)
        assert stores.in_log() == offset


def test_a_deleted_node_is_no_offset(stores: TwoStores) -> None:
    stores.committed(41)
    stores.write(None)
    assert stores.fetched() == (-1, 0)
    assert stores.fetched(version=0) == (-1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert stores.in_log() is None


def test_data_that_are_no_number_change_nothing(stores: TwoStores) -> None:
    stores.committed(41)
    stores.write(b"forty-one")
    assert stores.fetched() == (41, 0)
    assert stores.committed(42) == ErrorCode.NONE
    assert stores.in_zookeeper() == 42


def test_metadata_stay_as_long_as_the_offset_does(stores: TwoStores) -> None:
    stores.committed(41, version=6, metadata="a note", leader_epoch=3)
    stores.write(41)
    stores.fetched()
    record = stores.record()
    assert record is not None
    assert (record.metadata, record.leader_epoch) == ("a note", 3)
    stores.write(42)
    stores.fetched()
    record = stores.record()
    assert record is not None
    assert (record.metadata, record.leader_epoch) == ("", -1)


def test_a_fetch_waits_for_a_commit_under_way(stores: TwoStores) -> None:
    stores.keeper.delayed = stores.broker.session
    commit, fetch, other = stores.commit(41), stores.fetch(), stores.fetch(1)
    stores.run()
    stores.keeper.delayed = None
    stores.run()
    assert len(commit) == len(other) == 1
    assert fetch[0].topics[0].partitions[0].committed_offset == 41


def test_requests_without_a_connection_come_again(stores: TwoStores) -> None:
    stores.committed(41)
    stores.keeper.stop()
    assert stores.committed(42) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert stores.fetched() == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert stores.fetched(version=0) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    stores.keeper.start()
    stores.run()
    assert stores.fetched() == (41, 0)


@pytest.mark.parametrize("fault", Fault)
def test_a_commit_that_is_lost_on_its_way(stores: TwoStores, fault: Fault) -> None:
    stores.committed(41)
    stores.broker.session.faults.append(fault)
    assert stores.committed(42) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    stores.keeper.connect(stores.broker.session)
    stores.run()
    expected = 42 if fault is Fault.AFTER else 41
    assert stores.fetched() == (expected, 0)
    assert stores.in_log() == expected
    assert stores.committed(43) == ErrorCode.NONE


def test_a_slow_zookeeper_is_told_in_time(stores: TwoStores) -> None:
    stores.committed(41)
    stores.keeper.delayed = stores.broker.session
    heard = [stores.commit(42), stores.commit(43), stores.fetch()]
    stores.wait(5_000)
    assert [one[0].code for one in heard] == [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS] * 3
    stores.write(100)
    stores.keeper.delayed = None
    stores.run()
    assert stores.in_zookeeper() == 100, "what nobody awaits any more does not replace a later commit"


def test_a_client_that_has_gone_writes_nothing_later(stores: TwoStores) -> None:
    stores.keeper.delayed = stores.broker.session
    stores.commit(42)
    stores.commit(43)
    stores.running.cancel()
    stores.keeper.delayed = None
    stores.run()
    assert stores.in_zookeeper() == 42


def test_the_log_fails_after_zookeeper_has_a_commit(stores: TwoStores) -> None:
    stores.committed(41)
    stores.partition.fails = STORAGE_ERROR
    assert stores.committed(42) == ErrorCode.NOT_COORDINATOR
    assert (stores.in_zookeeper(), stores.in_log()) == (42, 41)
    assert stores.fetched() == ErrorCode.NOT_COORDINATOR, "an old offset would be wrong"
    stores.partition.fails = None
    assert stores.fetched() == (42, 0)


def test_everything_is_looked_at_when_the_connection_is_back(stores: TwoStores) -> None:
    stores.committed(41)
    stores.keeper.cut(stores.broker.session)
    stores.write(50)
    stores.write(51, 1)
    stores.keeper.connect(stores.broker.session)
    stores.run()
    assert (stores.in_log(), stores.in_log(1)) == (50, 51)


def test_deleted_offsets_are_deleted_in_both_stores(stores: TwoStores) -> None:
    stores.committed(41)
    rows = [OffsetDeleteRequestPartition(0)]
    request = OffsetDeleteRequest(GROUP, [OffsetDeleteRequestTopic("t", rows)])
    dual = stores.broker.stores.dual(GROUP)
    assert dual is not None
    from headgate.gateway.coordinator.groups import offset_requests

    heard = stores.put(lambda: dual.commit(None, lambda shard, ticket: offset_requests.delete(shard, request, ticket)))
    stores.run()
    assert heard[0].topics[0].partitions[0].error_code == ErrorCode.NONE
    assert (stores.in_zookeeper(), stores.in_log()) == (None, None)


def test_offsets_of_a_deleted_topic_are_deleted_in_zookeeper(stores: TwoStores) -> None:
    stores.committed(41)
    stores.delete_topic()
    assert stores.in_zookeeper() is None


def test_too_many_requests_wait(stores: TwoStores) -> None:
    stores.keeper.delayed = stores.broker.session
    heard = [stores.fetch() for _ in range(1_002)]
    assert heard[-1][0].code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert heard[-2] == []


def test_requests_that_wait_while_the_group_leaves_come_again(stores: TwoStores) -> None:
    stores.keeper.delayed = stores.broker.session
    heard = [stores.commit(1), stores.commit(2)]
    stores.configure(KAFKA, runs=False)
    heard.append(stores.commit(3))
    stores.keeper.delayed = None
    stores.run()
    codes = [getattr(one[0], "code", None) for one in heard]
    assert codes == [None, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]
    assert stores.in_log() == 1
    assert stores.committed(4) == ErrorCode.NONE
    assert (stores.in_zookeeper(), stores.in_log()) == (1, 4)

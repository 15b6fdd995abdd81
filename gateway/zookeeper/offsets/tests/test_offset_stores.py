"""Which store a group has, and its way from one to another."""

import logging
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from headgate.gateway.config.offset_store import DUAL, KAFKA, SEPARATE, parse_patterns
from headgate.gateway.zookeeper.offsets import offset_stores
from headgate.gateway.zookeeper.offsets.offset_stores import DISCOVER_MS
from headgate.gateway.zookeeper.offsets.tests.broker_parts import GROUP
from headgate.gateway.zookeeper.offsets.tests.two_stores import MARK, TwoStores
from headgate.gateway.zookeeper.session import Delete, KeeperError
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.messages.delete_groups import DeletableGroupResult


def test_the_stores_are_separate_by_default() -> None:
    stores = TwoStores()
    assert stores.committed(41, version=0) == ErrorCode.NONE
    assert stores.committed(7, version=2) == ErrorCode.NONE
    assert (stores.in_zookeeper(), stores.in_log()) == (41, 7)
    assert stores.fetched(version=0) == (41, 0)
    assert stores.fetched() == (7, 0)


def test_a_group_of_the_coordinator_alone() -> None:
    stores = TwoStores()
    stores.configure(KAFKA)
    assert stores.fetched(version=0) == (-1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert stores.committed(41, version=0) == ErrorCode.NONE
    assert (stores.in_zookeeper(), stores.in_log()) == (None, 41)
    assert stores.fetched(version=0) == (41, 0)


def test_requests_wait_until_the_offsets_are_carried_over() -> None:
    stores = TwoStores()
    stores.write(1)
    stores.keeper.delayed = stores.broker.session
    stores.configure(DUAL, "zookeeper")
    fetch, commit = stores.fetch(), stores.commit(5, 1)
    stores.run()
    assert fetch == commit == []
    stores.keeper.delayed = None
    stores.run()
    assert fetch[0].topics[0].partitions[0].committed_offset == 1
    assert len(commit) == 1
    assert stores.in_zookeeper(1) == 5


def test_a_group_leaves_with_the_last_offset_of_zookeeper() -> None:
    stores = TwoStores()
    stores.enter()
    stores.committed(41)
    stores.write(60)
    stores.configure(KAFKA)
    assert MARK not in stores.keeper.tree.nodes
    assert stores.in_log() == 60
    assert stores.committed(61) == ErrorCode.NONE
    assert (stores.in_zookeeper(), stores.in_log()) == (60, 61)


def test_a_restart_knows_what_was_carried_over() -> None:
    stores = TwoStores()
    stores.committed(10)
    stores.enter("kafka")
    stores.write(60)
    stores.start()
    stores.wait(1_000)
    assert stores.in_log() == 60, "not carried over again: that would undo what others wrote"
    assert stores.committed(61) == ErrorCode.NONE
    assert stores.in_zookeeper() == 61


def test_a_restart_finishes_what_was_begun() -> None:
    stores = TwoStores()
    stores.enter()
    stores.write(60)
    stores.keeper.stop()
    stores.configure(SEPARATE)
    stores.keeper.start()
    stores.start()
    assert stores.in_log() == 60
    assert MARK not in stores.keeper.tree.nodes


def test_a_group_goes_on_once_there_is_a_connection() -> None:
    stores = TwoStores()
    stores.write(1)
    stores.keeper.stop()
    stores.configure(DUAL, "zookeeper")
    stores.wait(3_000)
    assert MARK not in stores.keeper.tree.nodes
    stores.keeper.start()
    stores.run()
    stores.wait(1_000)
    assert stores.in_log() == 1
    stores.keeper.stop()
    stores.configure(KAFKA)
    stores.wait(3_000)
    assert stores.committed(2) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    stores.keeper.start()
    stores.run()
    stores.wait(1_000)
    assert stores.committed(2) == ErrorCode.NONE


def test_a_change_of_mind() -> None:
    stores = TwoStores()
    stores.write(1)
    stores.configure(DUAL, "zookeeper", runs=False)
    stores.configure(SEPARATE, runs=False)
    stores.configure(DUAL, "zookeeper", runs=False)
    stores.configure(SEPARATE)
    assert MARK not in stores.keeper.tree.nodes
    assert stores.committed(5, version=2) == ErrorCode.NONE
    assert stores.in_zookeeper() == 1
    stores.enter("kafka")
    assert stores.in_zookeeper() == 5


def test_nothing_is_served_until_the_stores_are_known() -> None:
    stores = TwoStores()
    stores.keeper.stop()
    stores.start()
    assert stores.committed(1) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    stores.keeper.start()
    stores.run()
    assert stores.committed(1) == ErrorCode.NONE


@pytest.mark.parametrize("group", ["payments-eu", "payments-us"])
def test_groups_without_requests_are_found_by_patterns(group: str) -> None:
    stores = TwoStores()
    stores.write(5, group=group)
    stores.start(headgate_offsets_store=parse_patterns("payments-*=dual:zookeeper, *=kafka"))
    stores.run()
    assert f"/headgate/offsets/{group}" in stores.keeper.tree.nodes
    assert stores.shard.offsets.of(group)["t", 0].offset == 5
    assert f"/headgate/offsets/{GROUP}" not in stores.keeper.tree.nodes
    stores.write(6, group="payments-later")
    stores.wait(DISCOVER_MS)
    assert stores.shard.offsets.of("payments-later")["t", 0].offset == 6


def test_a_pattern_is_followed_at_the_first_request() -> None:
    stores = TwoStores()
    stores.start(headgate_offsets_store=parse_patterns("dual:kafka"))
    heard = stores.commit(41)
    stores.run()
    assert len(heard) == 1
    assert (stores.in_zookeeper(), stores.in_log()) == (41, 41)


def test_clients_cannot_name_any_number_of_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offset_stores, "MOST_BY_PATTERN", 2)
    stores = TwoStores()
    stores.start(headgate_offsets_store=parse_patterns("dual:kafka"))
    for group_id in ("a", "b", "a"):
        assert stores.broker.stores.dual(group_id) is not None
    with pytest.raises(KafkaError, match="two stores"):
        stores.broker.stores.dual("c")


def test_a_deleted_group_has_no_offsets_in_zookeeper() -> None:
    stores = TwoStores()
    stores.enter()
    stores.committed(41)

    def decide(shard: Any, group_id: str, ticket: Any) -> Any:
        records = [*shard.offsets.tombstones(group_id), *shard.groups[group_id].tombstones()]
        return SimpleNamespace(records=records, replies=[(ticket, DeletableGroupResult(group_id))], is_atomic=False)

    heard = stores.put(lambda: stores.broker.stores.gather([GROUP], decide, lambda rows: rows[0]))
    stores.run()
    assert heard[0].error_code == ErrorCode.NONE
    assert (stores.in_zookeeper(), stores.in_log()) == (None, None)


def test_a_group_that_zookeeper_refuses_has_separate_stores() -> None:
    stores = TwoStores()
    stores.start(headgate_offsets_store=parse_patterns("dual:kafka"))
    assert stores.broker.stores.dual("a/b") is None
    assert stores.broker.stores.dual("a/b") is None


def test_a_mark_that_somebody_has_deleted_is_written_again() -> None:
    stores = TwoStores()
    stores.enter()
    stores.committed(41)
    stores.keeper.transact(99, [Delete(MARK)])
    stores.start()
    stores.wait(1_000)
    assert MARK in stores.keeper.tree.nodes
    assert stores.in_log() == 41


def test_a_group_that_cannot_enter_is_named_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    stores = TwoStores()
    errors = [KeeperError.NO_AUTH]
    session, sync = stores.broker.session, stores.broker.session.sync

    def refuse(path: str, done: Callable[[KeeperError | None], None]) -> None:
        if errors:
            stores.keeper.put(session.refusals, partial(done, errors[0]))
        else:
            sync(path, done)

    monkeypatch.setattr(session, "sync", refuse)
    stores.configure("dual", "zookeeper")
    for _ in range(30):
        stores.wait(1_000)
    errors[0] = KeeperError.OTHER
    for _ in range(3):
        stores.wait(1_000)
    errors.clear()
    stores.wait(1_000)
    lines = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    sentence = "group g is entering its two stores, and the broker tries again: ZooKeeper: "
    assert lines == [sentence + "NO_AUTH", sentence + "OTHER"]
    assert stores.committed(41) == ErrorCode.NONE
    assert stores.in_zookeeper() == 41

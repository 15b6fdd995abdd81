"""A ZooKeeper that has lost data: the coordinator's offsets stay."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from headgate.gateway.config.offset_store import SEPARATE
from headgate.gateway.metadata.image import CONSUMER_OFFSETS
from headgate.gateway.zookeeper.offsets.dual_group import State
from headgate.gateway.zookeeper.offsets.tests.broker_parts import GROUP
from headgate.gateway.zookeeper.offsets.tests.two_stores import MARK, TwoStores
from headgate.gateway.zookeeper.session import Delete, SessionEvent
from headgate.gateway.zookeeper.tests.model import ZooKeeperModel
from headgate.gateway.zookeeper.tests.whole_broker import TOOL, WholeBroker
from headgate.protocol.errors import ErrorCode


def lose(keeper: ZooKeeperModel, *parents: str) -> None:
    """Everything below these is gone."""
    paths = [path for path in keeper.tree.nodes if path != "/" and path.startswith(parents)]
    for path in sorted(paths, key=len, reverse=True):
        keeper.transact(TOOL, [Delete(path)])


@pytest.fixture
def stores() -> TwoStores:
    """A group of the broker, which ZooKeeper leads, with two offsets."""
    stores = TwoStores()
    stores.enter()
    assert (stores.committed(41), stores.committed(42, 1)) == (ErrorCode.NONE, ErrorCode.NONE)
    stores.wait(2_000)
    assert (stores.in_zookeeper(), stores.in_log()) == (41, 41)
    return stores


def wait(stores: TwoStores) -> None:
    for _ in range(8):
        stores.wait(500)


def _in_one_session(stores: TwoStores, lose: Callable[[], None]) -> None:
    lose()
    wait(stores)


def _between_two_sessions(stores: TwoStores, lose: Callable[[], None]) -> None:
    session = stores.broker.session
    stores.keeper.cut(session)
    stores.keeper.expire(session.session_id)
    lose()
    stores.keeper.connect(session)
    stores.run()
    wait(stores)


WHEN = pytest.mark.parametrize("when", [_in_one_session, _between_two_sessions])
When = Callable[[TwoStores, Callable[[], None]], None]


@WHEN
def test_an_empty_zookeeper_removes_no_offset(stores: TwoStores, when: When) -> None:
    when(stores, lambda: lose(stores.keeper, "/"))
    assert (stores.in_log(), stores.in_log(1)) == (41, 42)
    assert stores.fetched() == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert not any(path.startswith("/consumers") for path in stores.keeper.tree.nodes)


@WHEN
def test_offsets_come_back_to_a_copy_without_the_mark(
    stores: TwoStores, when: When, caplog: pytest.LogCaptureFixture
) -> None:
    when(stores, lambda: lose(stores.keeper, "/consumers", "/headgate"))
    assert [stores.in_log(index) for index in (0, 1)] == [41, 42]
    assert [stores.in_zookeeper(index) for index in (0, 1)] == [41, 42]
    assert MARK in stores.keeper.tree.nodes
    assert caplog.text.count(f"ZooKeeper has lost {MARK}") == 1
    assert stores.committed(43) == ErrorCode.NONE
    stores.write(None, 1)
    wait(stores)
    assert (stores.in_zookeeper(), stores.in_log(), stores.in_log(1)) == (43, 43, None)


def test_older_offsets_without_the_mark_replace_none(stores: TwoStores) -> None:
    """ZooKeeper led when the group became dual; now its copy is older than that."""

    def lose_mark() -> None:
        lose(stores.keeper, "/headgate")
        stores.write(7)
        stores.write(8, 2)

    _between_two_sessions(stores, lose_mark)
    assert [stores.in_zookeeper(index) for index in (0, 1, 2)] == [41, 42, 8]
    assert [stores.in_log(index) for index in (0, 1, 2)] == [41, 42, 8]


def test_a_commit_under_way_outlives_a_lost_mark(stores: TwoStores) -> None:
    lose(stores.keeper, "/consumers", "/headgate")
    heard = [stores.fetch(1), stores.commit(50), stores.fetch(2), stores.commit(51)]
    stores.run()
    assert heard[0][0].code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    wait(stores)
    assert heard[3][0].code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS  # it waited for the other, and is sent again
    assert [stores.in_log(index) for index in (0, 1)] == [50, 42]
    assert [stores.in_zookeeper(index) for index in (0, 1)] == [50, 42]
    dual = stores.broker.stores.dual(GROUP)
    assert dual is not None
    assert dual.state is State.DUAL


def test_a_group_leaves_without_its_mark(stores: TwoStores) -> None:
    lose(stores.keeper, "/consumers", "/headgate")
    stores.configure(SEPARATE)
    wait(stores)
    assert stores.broker.stores.dual(GROUP) is None
    assert (stores.in_log(), stores.fetched()) == (41, (41, 0))


def test_nothing_is_asked_of_a_cluster_before_it_is_checked(stores: TwoStores) -> None:
    stores.broker.stores.follow_session(SessionEvent.CONNECTED)
    stores.write(7)
    wait(stores)
    assert stores.in_log() == 41
    assert stores.fetched() == stores.fetched(version=0) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert stores.committed(43) == stores.committed(43, version=0) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    stores.broker.stores.resume()
    wait(stores)
    assert (stores.in_log(), stores.fetched()) == (7, (7, 0))


@pytest.mark.slow
@pytest.mark.parametrize("is_new_session", [False, True])
def test_a_whole_broker_keeps_offsets_of_an_emptied_zookeeper(tmp_path: Path, is_new_session: bool) -> None:
    broker = WholeBroker(tmp_path, ZooKeeperModel())
    metadata, keeper = broker.services.metadata, broker.keeper
    broker.change(lambda: metadata.create_topic("t", 2))
    broker.change(lambda: metadata.create_topic(CONSUMER_OFFSETS, 1))
    configs = {"headgate.offsets.store": "dual", "headgate.offsets.source": "kafka"}
    broker.change(lambda: metadata.change_group_configs("dual", configs))
    assert [broker.commit(group, "t", 0, 41) for group in ("dual", "separate")] == [0, 0]
    if is_new_session:
        keeper.expire(keeper.sessions[-1].session_id)
    lose(keeper, "/")
    keeper.start()
    broker.settle(8_000)
    [shard] = broker.services.groups.shards()
    assert [shard.offsets.of(group)["t", 0].offset for group in ("dual", "separate")] == [41, 41]

"""The controllership lost and won again, while the broker runs."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest

from headgate.gateway.metadata.image import PartitionState
from headgate.gateway.zookeeper.layout.cluster import CONTROLLER_EPOCH_PATH
from headgate.gateway.zookeeper.session import KeeperError, Operation, Refused, SetData
from headgate.gateway.zookeeper.tests.store_world import StoreWorld
from headgate.protocol.errors import KafkaError


@pytest.fixture
def world() -> StoreWorld:
    return StoreWorld()


def test_a_new_session_elects_this_broker_again(world: StoreWorld) -> None:
    world.change(lambda: world.metadata.create_topic("t", 1))
    world.keeper.expire(world.session.session_id)
    world.tool.write_topic("u", [0])
    world.keeper.start()
    world.settle()
    assert world.read().controller_epoch == 2
    assert world.image.topic("t").partitions[0] == PartitionState(0, 0, (0,), (0,), 0)
    world.change(lambda: world.metadata.create_topic("v", 1))
    world.check()


def test_a_deleted_controller_is_elected_again(world: StoreWorld) -> None:
    world.settle()
    world.tool.delete("/controller")
    world.settle()
    assert world.read().controller_epoch == 2
    world.change(lambda: world.metadata.create_topic("t", 1))
    world.check()


def test_while_another_broker_is_the_controller(world: StoreWorld) -> None:
    world.settle()
    world.tool.delete("/controller")
    world.tool.put("/controller", b'{"version":1,"brokerid":5,"timestamp":"1"}')
    world.tool.put("/controller_epoch", b"2")
    world.settle()
    with pytest.raises(KafkaError, match="Broker 0 is not the controller, broker 5 is"):
        world.metadata.create_topic("t", 1)
    world.tool.delete("/controller")
    world.settle()
    assert world.change(lambda: world.metadata.create_topic("t", 1)).error is None
    assert world.read().controller_epoch == 3
    world.check()


def test_an_epoch_that_others_wrote_is_not_ours(world: StoreWorld) -> None:
    world.settle()
    world.tool.put("/controller_epoch", b"7")
    change = world.change(lambda: world.metadata.create_topic("t", 1))
    assert change.error is None
    assert world.read().controller_epoch == 8
    world.check()


def _refuse_epoch(world: StoreWorld, monkeypatch: pytest.MonkeyPatch, *, is_read: bool) -> None:
    """Somebody has taken a right from the broker: to read `/controller_epoch`, or to write it."""
    session = world.session
    get, multi = session.get, session.multi

    def refuse_read(path: str, done: Any, watch: Any = None) -> None:
        if path == CONTROLLER_EPOCH_PATH:
            world.keeper.put(session.refusals, partial(done, KeeperError.NO_AUTH))
        else:
            get(path, done, watch)

    def refuse_write(operations: Sequence[Operation], done: Any) -> None:
        for place, one in enumerate(operations):
            if isinstance(one, SetData) and one.path == CONTROLLER_EPOCH_PATH:
                world.keeper.put(session.refusals, partial(done, Refused(place, KeeperError.NO_AUTH)))
                return
        multi(operations, done)

    if is_read:
        monkeypatch.setattr(session, "get", refuse_read)
    else:
        monkeypatch.setattr(session, "multi", refuse_write)


@pytest.mark.parametrize("is_read", [False, True])
def test_a_refused_election_is_named_and_follows(
    world: StoreWorld, is_read: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    world.settle()
    with monkeypatch.context() as patched:
        _refuse_epoch(world, patched, is_read=is_read)
        world.keeper.expire(world.session.session_id)
        world.keeper.start()
        for _ in range(40):
            world.settle(1_000)
        [line] = [record.getMessage() for record in caplog.records]
        assert "ZooKeeper's /controller_epoch: NO_AUTH; the next attempt follows" in line
        assert not world.metadata.election.is_elected
    world.settle(1_000)
    world.settle(1_000)
    assert world.metadata.election.is_elected
    assert world.change(lambda: world.metadata.create_topic("t", 1)).error is None
    world.check()

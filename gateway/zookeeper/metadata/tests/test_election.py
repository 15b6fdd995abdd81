"""The controllership lost and won again, while the broker runs."""

from __future__ import annotations

import pytest

from headgate.gateway.metadata.image import PartitionState
from headgate.gateway.zookeeper.tests.store_world import StoreWorld


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


def test_while_another_is_the_controller_changes_wait(world: StoreWorld) -> None:
    world.settle()
    world.tool.delete("/controller")
    world.tool.put("/controller", b'{"version":1,"brokerid":5,"timestamp":"1"}')
    world.tool.put("/controller_epoch", b"2")
    change = world.metadata.create_topic("t", 1)
    world.settle()
    assert not change.is_settled
    world.tool.delete("/controller")
    world.settle()
    assert change.error is None
    assert world.read().controller_epoch == 3
    world.check()


def test_an_epoch_that_others_wrote_is_not_ours(world: StoreWorld) -> None:
    world.settle()
    world.tool.put("/controller_epoch", b"7")
    change = world.change(lambda: world.metadata.create_topic("t", 1))
    assert change.error is None
    assert world.read().controller_epoch == 8
    world.check()

"""Topics that tools write in ZooKeeper while the broker runs, or while it was away. ZooKeeper is the model."""

from __future__ import annotations

import pytest

from headgate.gateway.metadata.image import PartitionState
from headgate.gateway.zookeeper.tests.store_world import StoreWorld


@pytest.fixture
def world() -> StoreWorld:
    return StoreWorld()


def test_a_topic_of_a_tool_is_taken_up(world: StoreWorld) -> None:
    world.settle()
    world.tool.put("/config/topics/t", b'{"version":1,"config":{"retention.ms":"5","nonsense":"1"}}')
    world.tool.write_topic("t", [0], [0])
    world.settle()
    topic = world.image.topic("t")
    assert topic.partitions == (PartitionState(0, 0, (0,), (0,), 0),) * 2
    assert topic.configs == {"retention.ms": "5"}
    assert world.read().image.topic("t").topic_id == topic.topic_id


def test_partitions_of_a_tool_are_taken_up(world: StoreWorld) -> None:
    world.change(lambda: world.metadata.create_topic("t", 1))
    topic_id = world.image.topic("t").topic_id
    world.tool.write_topic("t", [0], [0], [0])  # without the id, as tools before 2.8
    world.settle()
    assert [state.leader for state in world.image.topic("t").partitions] == [0, 0, 0]
    assert world.image.topic("t").topic_id == topic_id
    world.check()


def test_a_topic_that_is_gone_without_an_order_stays(world: StoreWorld) -> None:
    world.change(lambda: world.metadata.create_topic("t", 1))
    for path in ("partitions/0/state", "partitions/0", "partitions"):
        world.tool.delete(f"/brokers/topics/t/{path}")
    world.tool.delete("/brokers/topics/t")
    world.settle()
    assert world.image.topic("t").partitions[0].leader == 0
    topic_id = world.image.topic("t").topic_id
    world.tool.write_topic("t", [0])
    world.settle()
    assert world.image.topic("t").topic_id == topic_id
    world.check()


def test_a_topic_that_lost_its_states_goes_on_with_its_epochs(world: StoreWorld) -> None:
    world.change(lambda: world.metadata.create_topic("t", 1))
    topic_id = world.image.topic("t").topic_id
    for path in ("partitions/0/state", "partitions/0", "partitions"):
        world.tool.delete(f"/brokers/topics/t/{path}")
    world.tool.write_topic("t", [0])
    world.settle()
    assert world.image.topic("t").topic_id == topic_id
    assert world.image.topic("t").partitions == (PartitionState(0, 1, (0,), (0,), 0),)


def test_fewer_partitions_are_ignored(world: StoreWorld, caplog: pytest.LogCaptureFixture) -> None:
    world.change(lambda: world.metadata.create_topic("t", 3))
    world.tool.write_topic("t", [0])
    world.settle()
    assert len(world.image.topic("t").partitions) == 3
    assert "has 1 partitions in ZooKeeper and had 3" in caplog.text


def test_a_topic_that_was_made_anew_at_once(world: StoreWorld) -> None:
    """The version of its node is what it was."""
    world.change(lambda: world.metadata.create_topic("t", 1))
    for path in ("/partitions/0/state", "/partitions/0", "/partitions", ""):
        world.tool.delete(f"/brokers/topics/t{path}")
    world.tool.write_topic("t", [0], [0])
    world.settle()
    assert [state.leader_epoch for state in world.image.topic("t").partitions] == [1, 0]
    world.kill()
    world.start()
    world.settle()
    world.check()

"""What tools write in ZooKeeper while the broker runs, or while it was away. ZooKeeper is the model."""

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


@pytest.mark.parametrize(
    "notification",
    ["t", {"version": 1, "entity_type": "topics", "entity_name": "t"}, {"version": 2, "entity_path": "topics/t"}],
)
def test_configs_of_a_tool_are_taken_up(world: StoreWorld, notification: object) -> None:
    world.change(lambda: world.metadata.create_topic("t", 1, configs={"segment.ms": "9"}))
    world.tool.write_configs("topics/t", {"retention.ms": "8"}, notification)
    world.settle()
    assert world.image.topic("t").configs == {"retention.ms": "8"}
    world.check()


def test_configs_of_brokers_and_groups_are_taken_up(world: StoreWorld) -> None:
    world.settle()
    world.tool.write_configs("brokers/<default>", {"log.retention.ms": "3"})
    world.tool.write_configs("groups/g", {"consumer.session.timeout.ms": "50000"})
    world.tool.write_configs("users/u", {"producer_byte_rate": "3"})
    world.settle()
    world.check()
    assert world.config.log_config({}).retention_ms == 3


def test_old_notifications_are_deleted(world: StoreWorld) -> None:
    world.change(lambda: world.metadata.create_topic("t", 1))
    world.tool.write_configs("topics/t", {"retention.ms": "8"})
    world.settle()
    world.settle(16 * 60 * 1000)
    world.tool.write_configs("topics/t", {"retention.ms": "9"})
    world.settle()
    assert len(world.nodes_there["/config/changes"].children) == 1


def test_an_order_to_delete_is_done(world: StoreWorld) -> None:
    world.change(lambda: world.metadata.create_topic("t", 2))
    world.tool.delete_topic("t")
    world.tool.delete_topic("unknown")
    world.settle()
    assert "t" not in world.image.topics
    assert not world.nodes_there["/admin/delete_topics"].children
    world.check()


def test_an_order_to_delete_is_refused_where_topics_stay() -> None:
    world = StoreWorld(settings="delete.topic.enable=false")
    world.change(lambda: world.metadata.create_topic("t", 2))
    world.tool.delete_topic("t")
    world.settle()
    assert "t" in world.image.topics
    assert not world.nodes_there["/admin/delete_topics"].children


def test_an_order_of_before_the_start_is_done(world: StoreWorld) -> None:
    world.change(lambda: world.metadata.create_topic("t", 2))
    world.kill()
    world.tool.delete_topic("t")
    world.start()
    world.settle()
    assert "t" not in world.image.topics
    world.check()


def test_dead_brokers_leave_the_replicas(world: StoreWorld) -> None:
    world.kill()
    world.tool.write_topic("t", [0, 5], [5, 0])
    world.start()
    world.tool.put(
        "/admin/reassign_partitions",
        b'{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[0]},'
        b'{"topic":"t","partition":1,"replicas":[5]},{"topic":"u","partition":0,"replicas":[0]}]}',
    )
    world.settle()
    first, second = world.image.topic("t").partitions
    assert (first.replicas, first.isr, first.leader) == ((0,), (0,), 0)
    assert (second.replicas, second.leader) == ((5, 0), 0)
    assert "/admin/reassign_partitions" not in world.nodes_there
    world.check()


@pytest.mark.parametrize("data", [b'{"version":1,"partitions":[{"topic":"t","partition":0}]}', b"nonsense", None])
def test_an_election_that_changes_nothing_ends(world: StoreWorld, data: bytes | None) -> None:
    world.change(lambda: world.metadata.create_topic("t", 1))
    world.tool.put("/admin/preferred_replica_election", data)
    world.settle()
    assert "/admin/preferred_replica_election" not in world.nodes_there
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


def test_damaged_nodes_change_nothing(world: StoreWorld, caplog: pytest.LogCaptureFixture) -> None:
    world.change(lambda: world.metadata.create_topic("t", 1, configs={"segment.ms": "9"}))
    before = world.image.topic("t")
    world.tool.put("/brokers/topics/t", b"{")
    world.tool.put("/config/topics/t", b"{")
    world.tool.put("/config/changes/config_change_0000000009", b'"t"')
    world.tool.put("/config/changes/nonsense", b"{")
    world.settle()
    assert world.image.topic("t") == before
    assert caplog.text.count("the data are not JSON") == 3


def test_partitions_of_brokers_that_are_gone_have_no_leader(caplog: pytest.LogCaptureFixture) -> None:
    world = StoreWorld()
    world.kill()
    world.tool.write_topic("t", [5])
    world.start()
    world.settle()
    assert world.image.topic("t").partitions[0].leader == -1
    assert "1 partitions have no copy in sync on this broker, and have no leader (t-0)" in caplog.text


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


def test_one_wrong_config_does_not_take_the_others_along(world: StoreWorld) -> None:
    world.tool.write_configs("groups/g", {"consumer.session.timeout.ms": "1", "consumer.heartbeat.interval.ms": "6000"})
    world.tool.write_configs(
        "groups/h", {"consumer.session.timeout.ms": "50000", "consumer.heartbeat.interval.ms": "6000"}
    )
    world.settle()
    found = {name: configs for (_, name), configs in world.image.configs.items()}
    assert found["g"] == {"consumer.heartbeat.interval.ms": "6000"}
    assert len(found["h"]) == 2

"""Configs that tools write in ZooKeeper while the broker runs."""

from __future__ import annotations

import pytest

from headgate.gateway.zookeeper.tests.store_world import StoreWorld


@pytest.fixture
def world() -> StoreWorld:
    return StoreWorld()


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


def test_one_wrong_config_does_not_take_the_others_along(world: StoreWorld) -> None:
    world.tool.write_configs("groups/g", {"consumer.session.timeout.ms": "1", "consumer.heartbeat.interval.ms": "6000"})
    world.tool.write_configs(
        "groups/h", {"consumer.session.timeout.ms": "50000", "consumer.heartbeat.interval.ms": "6000"}
    )
    world.settle()
    found = {name: configs for (_, name), configs in world.image.configs.items()}
    assert found["g"] == {"consumer.heartbeat.interval.ms": "6000"}
    assert len(found["h"]) == 2

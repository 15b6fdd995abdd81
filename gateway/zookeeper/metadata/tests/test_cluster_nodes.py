"""Own writes and reads make the same knowledge of the nodes: the store's plans need their versions."""

from __future__ import annotations

import pytest

from headgate.gateway.metadata.image import Image
from headgate.gateway.zookeeper.metadata.cluster_nodes import ClusterNodes
from headgate.gateway.zookeeper.tests.store_world import StoreWorld
from headgate.protocol.internal.metadata import FeatureLevelRecord


@pytest.fixture
def world() -> StoreWorld:
    """A cluster with something of each kind, written by a broker."""
    world = StoreWorld()
    metadata = world.metadata
    world.change(lambda: metadata.create_topic("t", 3, configs={"segment.ms": "9"}))
    world.change(lambda: metadata.create_partitions("t", 4))
    world.change(lambda: metadata.create_topic("gone", 1))
    world.change(lambda: metadata.delete_topic("gone"))
    world.change(lambda: metadata.change_broker_configs(None, {"log.retention.ms": "3"}))
    world.change(lambda: metadata.submit([FeatureLevelRecord(name="group.version", feature_level=0)]))
    world.change(lambda: metadata.take_producer_ids()[1])
    return world


def test_own_writes_are_known_as_they_are_read(world: StoreWorld) -> None:
    read = world.read()
    known = world.nodes.tree(read.image)
    assert known._replace(invalid=(), deleting=frozenset(), controller=None) == read._replace(
        invalid=(), deleting=frozenset(), controller=None, state_zxids={}
    )


def test_what_is_read_replaces_what_was_known(world: StoreWorld) -> None:
    read = world.read()
    nodes = ClusterNodes(StoreWorld().read())
    nodes.put_controller_epoch(read)
    nodes.put_versions(read)
    nodes.put_deleting(["a"])
    for entity in read.configs:
        nodes.put_topic("t", read, entity)
    assert nodes.deleting == {"a"}
    assert nodes.topic("t") == read.topics["t"]
    assert nodes.tree(Image.empty()).configs == read.configs
    assert (nodes.controller_epoch, nodes.controller_epoch_version) == (1, read.controller_epoch_version)
    nodes.put_topic("u", read, next(iter(read.configs)))
    assert nodes.topic("u") is None

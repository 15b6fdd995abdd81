"""Reads of the cluster: the whole tree, and the watches that are set with it."""

from __future__ import annotations

from headgate.gateway.zookeeper.layout.cluster import PERSISTENT_PATHS
from headgate.gateway.zookeeper.layout.tree import ZNode
from headgate.gateway.zookeeper.metadata.reading import Watches, ensure_paths, read_topic, read_tree
from headgate.gateway.zookeeper.tests.store_world import StoreWorld


def test_a_tree_is_read_and_watched() -> None:
    world = StoreWorld()
    world.change(lambda: world.metadata.create_topic("t", 2, configs={"segment.ms": "9"}))
    world.change(lambda: world.metadata.change_group_configs("g", {"consumer.session.timeout.ms": "50000"}))
    watches = Watches()
    tree = world.finish(read_tree(world.session, watches.note))
    for path in ("/controller", "/controller_epoch", "/brokers/topics/t/partitions/1/state", "/config/groups/g"):
        node = world.nodes_there[path]
        assert tree[path] == ZNode(node.data, node.version, node.czxid, node.mzxid)
    world.tool.write_topic("t", [0], [0], [0])
    world.tool.write_topic("u", [0])
    world.tool.delete_topic("v")
    world.tool.write_configs("topics/t", {})
    world.tool.put("/admin/reassign_partitions", b"{}")
    world.tool.delete("/controller")
    world.keeper.run()
    assert set(watches.changed) == {
        "/brokers/topics/t",
        "/brokers/topics",
        "/admin/delete_topics",
        "/config/changes",
        "/admin/reassign_partitions",
        "/controller",
    }


def test_a_topic_that_does_not_exist() -> None:
    world = StoreWorld()
    assert world.finish(read_topic(world.session, "t", None)) == {}


def test_directories_are_created_once() -> None:
    world = StoreWorld()
    world.finish(ensure_paths(world.session))
    for path in (*PERSISTENT_PATHS, "/config/groups", "/headgate"):
        assert world.nodes_there[path].version == 0


def test_a_watch_tells_of_a_path_once() -> None:
    watches, told = Watches(), list[int]()
    watches.notify = lambda: told.append(len(watches.changed))
    for path in ("/a", "/a", "/b"):
        watches.note(path)
    assert told == [1, 2]

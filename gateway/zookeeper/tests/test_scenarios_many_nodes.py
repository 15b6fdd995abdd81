"""Reads of many nodes in one request, by the model and by a real ZooKeeper alike."""

from __future__ import annotations

from headgate.gateway.zookeeper.session import READ_AT_ONCE, Create, KeeperError, NodeData
from headgate.gateway.zookeeper.tests.test_scenarios import create, get
from headgate.gateway.zookeeper.tests.worlds import World


def test_many_nodes_are_read_at_once(world: World) -> None:
    a = world.connected()
    create(world, a, Create("/n", b"1"), Create("/n/empty", b""), Create("/n/none"), Create("/n/z", b"26"))
    paths = ["/n", "/n/missing", "/n/empty", "/n/none", "/n/z", "/"]
    many = world.ask(a.session.get_many, paths)
    assert many == tuple(get(world, a, path) for path in paths)
    assert many[1] is KeeperError.NO_NODE
    assert [one.data for one in many if isinstance(one, NodeData)][:4] == [b"1", b"", None, b"26"]
    assert world.ask(a.session.get_many, []) == ()
    assert world.ask(a.session.get_many, ["/n", "none"]) is KeeperError.BAD_ARGUMENTS
    large = [create(world, a, Create(f"/large{number}", bytes([number]) * 60_000)) for number in range(READ_AT_ONCE)]
    read = world.ask(a.session.get_many, large)
    assert [one.data[:1] for one in read] == [bytes([number]) for number in range(READ_AT_ONCE)]

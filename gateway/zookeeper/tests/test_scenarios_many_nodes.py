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


def test_many_watches_are_set_at_once(world: World) -> None:
    a, b = world.connected(), world.connected()
    paths = ["/kept", "/changed", "/gone", "/later"]
    create(world, a, *paths)
    read = world.ask(a.session.get_many, paths)
    zxid = max(node.stat.mzxid for node in read)
    world.ask(b.session.set, "/changed", b"", 0)
    world.ask(b.session.delete, "/gone", 0)
    seen: list[str] = []
    assert world.ask(a.session.watch_many, paths, zxid, seen.append) is None
    world.until(lambda: len(seen) == 2)
    assert sorted(seen) == ["/changed", "/gone"]
    world.ask(b.session.set, "/later", b"1", 0)
    world.until(lambda: len(seen) == 3)
    world.ask(b.session.set, "/later", b"2", 1)
    world.ask(b.session.set, "/changed", b"", 1)
    world.ask(b.session.delete, "/kept", 0)
    world.until(lambda: len(seen) == 4)
    assert seen[2:] == ["/later", "/kept"], "each watch is called once"

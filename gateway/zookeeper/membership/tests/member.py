"""Brokers that join a cluster in the model of ZooKeeper."""

from __future__ import annotations

from typing import TypeVar

from headgate.gateway.runtime.tasks import Task, run
from headgate.gateway.zookeeper.layout.brokers import PLAINTEXT, AdvertisedEndpoint, BrokerRegistration
from headgate.gateway.zookeeper.layout.cluster import Controller
from headgate.gateway.zookeeper.layout.owner import SessionOwner
from headgate.gateway.zookeeper.membership.joining import JoiningBroker
from headgate.gateway.zookeeper.requests import ensure
from headgate.gateway.zookeeper.session import Create
from headgate.gateway.zookeeper.tests.model import ModelSession, ZooKeeperModel

T = TypeVar("T")

OWNER = SessionOwner("here", 4711, 1_700_000_000_000, 18_000, "boot", {"directory": "1:2"})
MEMBER = JoiningBroker("zk:2181/kafka", 0, OWNER)
ADDRESS = BrokerRegistration((AdvertisedEndpoint(PLAINTEXT, "h", 9092, PLAINTEXT),), 1_700_000_000_000)


def connected(keeper: ZooKeeperModel) -> ModelSession:
    session = keeper.session()
    session.start()
    keeper.run()
    return session


def finish(keeper: ZooKeeperModel, steps: Task[T]) -> T:
    """Run steps to their end. Raises what they raise."""
    results: list[T | Exception] = []
    run(steps, results.append)
    keeper.run()
    [result] = results
    if isinstance(result, Exception):
        raise result
    return result


def put(keeper: ZooKeeperModel, session: ModelSession, path: str, data: bytes, *, is_ephemeral: bool = True) -> None:
    """Create a node, and its parents."""
    finish(keeper, ensure(session, path.rpartition("/")[0] or "/x"))
    results: list[object] = []
    session.create(Create(path, data, is_ephemeral), results.append)
    keeper.run()
    assert results == [path]


def put_broker(keeper: ZooKeeperModel, session: ModelSession, node_id: int) -> None:
    put(keeper, session, BrokerRegistration.path(node_id), ADDRESS.encode())


def put_controller(keeper: ZooKeeperModel, session: ModelSession, node_id: int, kraft_epoch: int = -1) -> None:
    put(keeper, session, "/controller", Controller(node_id, 5, kraft_epoch).encode())

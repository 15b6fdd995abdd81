"""The registration: the addresses, and the node."""

import json

import pytest

from headgate.gateway.config import BrokerConfig
from headgate.gateway.zookeeper.layout.brokers import BrokerRegistration
from headgate.gateway.zookeeper.membership.joining import Overtaken, join
from headgate.gateway.zookeeper.membership.registration import register, registration
from headgate.gateway.zookeeper.membership.tests.member import ADDRESS, MEMBER, connected, finish, put_broker
from headgate.gateway.zookeeper.tests.model import ZooKeeperModel

NODE = "/brokers/ids/0"


def ignore(_path: str) -> None:
    """A watch."""


def registered(settings: str, **ports: int) -> BrokerRegistration:
    return registration(BrokerConfig.load(f"zookeeper.connect=zk\n{settings}"), ports, 5)


def test_the_port_of_a_listener() -> None:
    [endpoint] = registered("listeners=PLAINTEXT://h:0\nbroker.rack=r", PLAINTEXT=4711).endpoints
    assert str(endpoint) == "PLAINTEXT://h:4711"


def test_advertised_addresses() -> None:
    settings = (
        "listeners=INTERNAL://h:1,EXTERNAL://:2,THIRD://h:3\nadvertised.listeners=EXTERNAL://out:0,THIRD://x:30\n"
        "listener.security.protocol.map=INTERNAL:PLAINTEXT,EXTERNAL:PLAINTEXT,THIRD:PLAINTEXT"
    )
    found = registered(settings, EXTERNAL=22)
    assert [str(one) for one in found.endpoints] == ["INTERNAL://h:1", "EXTERNAL://out:22", "THIRD://x:30"]
    data = json.loads(found.encode())
    assert (data["host"], data["port"]) == ("h", 1), "the first plain listener is that of old clients"


def test_a_registration_is_made_once() -> None:
    keeper = ZooKeeperModel()
    session = connected(keeper)
    finish(keeper, join(session, MEMBER))
    for _ in range(2):
        finish(keeper, register(session, MEMBER, ADDRESS, ignore))
        assert keeper.tree.nodes[NODE].data == ADDRESS.encode()
        assert keeper.tree.nodes[NODE].owner == session.session_id


def test_the_watch_tells_of_the_end() -> None:
    keeper, seen = ZooKeeperModel(), list[str]()
    session = connected(keeper)
    finish(keeper, join(session, MEMBER))
    finish(keeper, register(session, MEMBER, ADDRESS, seen.append))
    connected(keeper).delete(NODE, -1, lambda _: None)
    keeper.run()
    assert seen == [NODE]


def test_only_who_has_joined_is_registered() -> None:
    keeper = ZooKeeperModel()
    session, other = connected(keeper), connected(keeper)
    finish(keeper, join(session, MEMBER))
    keeper.expire(session.session_id)
    keeper.connect(session)
    keeper.run()
    with pytest.raises(Overtaken):
        finish(keeper, register(session, MEMBER, ADDRESS, ignore))
    put_broker(keeper, other, 0)
    with pytest.raises(Overtaken, match="/brokers/ids/0 is another session's"):
        finish(keeper, register(session, MEMBER, ADDRESS, ignore))

"""Quotas of users and of their clients in ZooKeeper: the nodes of two brokers, and what other programs write."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from headgate.gateway.zookeeper.tests.two_brokers import TwoBrokers
from headgate.protocol.security.quotas import QuotaEntity

PAIR = QuotaEntity.of({"user": "CN=ä,O=*", "client-id": "app"})
ANN, CLIENT, ADDRESS = (
    QuotaEntity.of({kind: name}) for kind, name in (("user", "ann"), ("client-id", "an app/1"), ("ip", "127.0.0.2"))
)
USER_PATH = "/config/users/CN%3D%C3%A4%2CO%3D%2A"
RATE = "consumer_byte_rate"
NUMBERS = count(1_000)


@pytest.fixture
def two(tmp_path: Path) -> Iterator[TwoBrokers]:
    brokers = TwoBrokers(tmp_path)
    brokers.settle()
    yield brokers
    brokers.stop()


def nodes(two: TwoBrokers) -> dict[str, bytes | None]:
    """The configs of users, clients and addresses."""
    found = {path: node.data for path, node in two.keeper.tree.nodes.items()}
    kinds = ("/config/users/", "/config/clients/", "/config/ips/")
    return {path: data for path, data in found.items() if path.startswith(kinds)}


def change(two: TwoBrokers, owner: QuotaEntity, number: int = 1, **changes: float | None) -> None:
    done = two.change(lambda: two.stores[number].change_quotas(owner, changes))
    two.settle()
    assert done.error is None


def configs(text: str) -> bytes:
    return f'{{"version":1,"config":{{{text}}}}}'.encode()


@pytest.mark.parametrize("number", [0, 1])
def test_each_owner_has_the_nodes_that_kafka_makes(two: TwoBrokers, number: int) -> None:
    change(two, CLIENT, number, consumer_byte_rate=1000.0)
    change(two, ADDRESS, number, connection_creation_rate=10.0)
    change(two, PAIR, number, consumer_byte_rate=1000.0)
    assert nodes(two) == {
        "/config/clients/an%20app%2F1": configs('"consumer_byte_rate":"1000"'),
        "/config/ips/127.0.0.2": configs('"connection_creation_rate":"10"'),
        USER_PATH: None,
        f"{USER_PATH}/clients": None,
        f"{USER_PATH}/clients/app": configs('"consumer_byte_rate":"1000"'),
    }
    changes = [node.data for path, node in two.keeper.tree.nodes.items() if path.startswith("/config/changes/")]
    assert changes[-1] == b'{"version":2,"entity_path":"users/CN%3D%C3%A4%2CO%3D%2A/clients/app"}'
    quotas = {CLIENT: {RATE: 1000.0}, ADDRESS: {"connection_creation_rate": 10.0}, PAIR: {RATE: 1000.0}}
    assert [store.image.quotas for store in two.stores] == [quotas, quotas]


def test_what_is_empty_is_deleted_as_by_kafka(two: TwoBrokers) -> None:
    for owner in (CLIENT, PAIR, ANN):
        change(two, owner, consumer_byte_rate=5.0)
    for owner in (CLIENT, PAIR, ANN):
        change(two, owner, consumer_byte_rate=None)
    assert nodes(two) == {}
    assert [store.image.quotas for store in two.stores] == [{}, {}]
    change(two, PAIR, consumer_byte_rate=6.0)
    assert two.stores[0].image.quotas == {PAIR: {RATE: 6.0}}


def test_a_user_with_clients_or_a_password_stays(two: TwoBrokers) -> None:
    user = QuotaEntity.of({"user": "CN=ä,O=*"})
    change(two, user, consumer_byte_rate=5.0)
    change(two, PAIR, consumer_byte_rate=6.0)
    change(two, user, consumer_byte_rate=None)
    assert nodes(two)[USER_PATH] == configs("")
    password = configs('"SCRAM-SHA-256":"salt=x"')
    two.brokers[0].write("/config/users/ann", password)
    notify(two, "users/ann")
    change(two, ANN, producer_byte_rate=5.0)
    both = configs('"SCRAM-SHA-256":"salt=x","producer_byte_rate":"5"')
    assert nodes(two)["/config/users/ann"] == both
    change(two, ANN, producer_byte_rate=None)
    assert nodes(two)["/config/users/ann"] == password


def notify(two: TwoBrokers, entity_path: str) -> None:
    """What a tool does after a write."""
    data = f'{{"version":2,"entity_path":"{entity_path}"}}'.encode()
    two.brokers[0].write(f"/config/changes/config_change_{next(NUMBERS):010d}", data)
    two.settle()


def test_quotas_of_kafkas_tools_are_followed(two: TwoBrokers) -> None:
    two.brokers[0].write("/config/clients/<default>", configs('"producer_byte_rate":"7","request_percentage":"1.5"'))
    notify(two, "clients/<default>")
    default = QuotaEntity.of({"client-id": None})
    assert two.stores[1].image.quotas == {default: {"producer_byte_rate": 7.0, "request_percentage": 1.5}}
    assert two.brokers[0].delete("/config/clients/<default>")
    notify(two, "clients/<default>")
    assert [store.image.quotas for store in two.stores] == [{}, {}]


def test_an_invalid_quota_is_named_and_stays(two: TwoBrokers, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "headgate"):
        two.brokers[0].write("/config/users/ann", configs('"producer_byte_rate":"many","consumer_byte_rate":"5"'))
        notify(two, "users/ann")
    assert two.stores[1].image.quotas == {ANN: {RATE: 5.0}}
    assert "producer_byte_rate: 'many' is no positive number" in caplog.text
    change(two, ANN, consumer_byte_rate=None)
    assert nodes(two)["/config/users/ann"] == configs('"producer_byte_rate":"many"')


def test_a_lost_connection_loses_no_quota(two: TwoBrokers) -> None:
    session = two.keeper.sessions[1]
    change(two, PAIR, consumer_byte_rate=5.0)
    two.keeper.cut(session)
    pending = two.stores[1].change_quotas(PAIR, {RATE: 6.0})
    two.brokers[0].write(f"{USER_PATH}/clients/other", configs('"consumer_byte_rate":"9"'))
    two.settle()
    assert not pending.is_settled
    two.keeper.connect(session)
    two.settle()
    assert pending.is_settled
    other = QuotaEntity.of({"user": "CN=ä,O=*", "client-id": "other"})
    assert two.stores[1].image.quotas == {PAIR: {RATE: 6.0}, other: {RATE: 9.0}}


def test_a_start_reads_all_quotas(tmp_path: Path) -> None:
    two = TwoBrokers(tmp_path)
    two.settle()
    for owner in (PAIR, ANN, CLIENT):
        change(two, owner, consumer_byte_rate=5.0)
    two.kill_first()
    two.settle()
    assert two.stores[0].image.quotas == {owner: {RATE: 5.0} for owner in (PAIR, ANN, CLIENT)}
    two.stop()

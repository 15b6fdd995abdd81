"""Limits and proxies by the settings."""

from headgate.gateway.config import BrokerConfig
from headgate.gateway.network.admission.address_limits import AddressLimits
from headgate.gateway.network.admission.settings import limits_of, proxies_of
from headgate.gateway.runtime.tests.fake_scheduler import FakeScheduler, ManualClock

TWO = "listeners=CLIENTS://:1,BROKERS://:2\nlistener.security.protocol.map=CLIENTS:PLAINTEXT,BROKERS:PLAINTEXT\n"


def load(text: str) -> BrokerConfig:
    return BrokerConfig.load(f"{TWO}inter.broker.listener.name=BROKERS\n{text}")


def test_limits_of_the_moment_are_those_set_at_run_time() -> None:
    config, addresses = (
        load("max.connections=9\nlistener.name.clients.max.connections=5"),
        AddressLimits(FakeScheduler(ManualClock())),
    )
    limits = limits_of(config, 1_000, addresses)
    assert limits.max_connections == 9
    assert limits.max_connections_of_listeners == {"CLIENTS": 5}
    assert limits.protected_listener == "BROKERS"
    assert limits.max_unauthenticated == 4
    config.change(
        {
            "listener.name.clients.max.connections": "6",
            "max.connections.per.ip.overrides": "192.0.2.1:3",
            "listener.name.brokers.max.connection.creation.rate": "7",
            "max.connection.creation.rate": "8",
        },
        {},
    )
    limits = limits_of(config, 1_000, addresses)
    assert limits.max_connections_of_listeners == {"CLIENTS": 6}
    assert limits.max_connections_of_addresses == {"192.0.2.1": 3}
    assert limits.max_creation_rates == {"BROKERS": 7}
    assert limits.max_creation_rate == 8


def test_one_listener_alone_is_not_protected() -> None:
    config = BrokerConfig.load("listeners=PLAINTEXT://:1")
    assert limits_of(config, 10, AddressLimits(FakeScheduler(ManualClock()))).protected_listener is None


def test_proxies_are_those_of_a_listener() -> None:
    assert proxies_of(load("")) == {}
    proxies = proxies_of(load("headgate.proxy.trusted=10.0.0.0/8\nlistener.name.brokers.headgate.proxy.trusted="))
    assert {name: list(map(str, networks)) for name, networks in proxies.items()} == {"CLIENTS": ["10.0.0.0/8"]}

"""Counts of connections and the limits on them."""

from headgate.gateway.network.admission.connection_quotas import UNLIMITED, ConnectionQuotas, Limits
from headgate.gateway.security.quotas.rates import Windows

LIMITS = Limits(1_000, 1_000, UNLIMITED, UNLIMITED, 0, 0, 0, UNLIMITED)


def quotas(number: int = 3, **changed: object) -> ConnectionQuotas:
    return ConnectionQuotas(LIMITS._replace(**changed), Windows(number, 1_000))  # type: ignore[arg-type]


def test_a_listener_has_a_limit_of_its_own() -> None:
    counted = quotas(max_connections_of_listeners={"CLIENTS": 1}, max_connections=3)
    assert counted.refuse_listener("CLIENTS") is None
    counted.opened("CLIENTS")
    counted.opened("OTHERS")
    assert counted.refuse_listener("CLIENTS") == (
        "listener.name.clients.max.connections=1 are open; raise it, or close some"
    )
    assert counted.refuse_listener("OTHERS") is None
    assert counted.refuse_broker() is None
    counted.opened("OTHERS")
    assert counted.refuse_broker() == "max.connections=3 are open; raise it, or close some"
    counted.closed("CLIENTS")
    assert counted.refuse_listener("CLIENTS") is None
    assert counted.refuse_broker() is None


def test_an_override_counts_in_place_of_the_limit() -> None:
    counted = quotas(max_connections_per_ip=1, max_connections_of_addresses={"192.0.2.1": 2, "192.0.2.2": 0})
    for address in ("192.0.2.1", "192.0.2.3"):
        assert counted.refuse_address(address) is None
        counted.opened_from(address)
    assert counted.refuse_address("192.0.2.1") is None
    assert counted.refuse_address("192.0.2.2") == "max.connections.per.ip.overrides=0 are open from that address"
    assert counted.refuse_address("192.0.2.3") == "max.connections.per.ip=1 are open from that address"
    counted.closed_from("192.0.2.3")
    assert counted.refuse_address("192.0.2.3") is None


def test_a_rate_delays_the_next_accept_by_a_window_at_most() -> None:
    counted = quotas(max_creation_rate=2)
    delays = [counted.record("CLIENTS", 0.0) for _ in range(8)]
    assert delays[:4] == [0, 0, 0, 0]  # two windows of two
    assert delays[4:] == [500, 1_000, 1_000, 1_000]
    assert counted.record("CLIENTS", 10_000.0) == 0


def test_the_longer_delay_of_broker_and_listener_counts() -> None:
    counted = quotas(max_creation_rate=1_000, max_creation_rates={"CLIENTS": 1})
    assert [counted.record("CLIENTS", 0.0) for _ in range(3)] == [0, 0, 1_000]
    assert counted.record("OTHERS", 0.0) == 0


def test_the_protected_listener_has_its_own_rate_alone() -> None:
    counted = quotas(max_creation_rate=1, max_creation_rates={"BROKERS": 2}, protected_listener="BROKERS")
    assert [counted.record("BROKERS", 0.0) for _ in range(5)] == [0, 0, 0, 0, 500]
    assert [counted.record("CLIENTS", 0.0) for _ in range(3)] == [0, 0, 1_000]


def test_a_changed_rate_counts_at_once() -> None:
    counted = quotas(max_creation_rate=1)
    for _ in range(4):
        counted.record("CLIENTS", 0.0)
    counted.limits = LIMITS._replace(max_creation_rate=100)
    assert counted.record("CLIENTS", 0.0) == 0
    counted.limits = LIMITS
    assert counted.record("CLIENTS", 0.0) == 0


def test_at_most_half_of_all_connections_are_unauthenticated() -> None:
    assert LIMITS._replace(unauthenticated=2_000).max_unauthenticated == 2_000
    assert LIMITS._replace(unauthenticated=2_000, max_connections=100).max_unauthenticated == 50
    assert LIMITS._replace(unauthenticated=2_000, max_descriptors=1_000).max_unauthenticated == 500
    assert LIMITS._replace(unauthenticated=2_000, max_connections=1).max_unauthenticated == 1


# Seconds after which Apache Kafka 4.1.2 answered each of 14 connections, opened one after another, with
# max.connection.creation.rate=3, quota.window.num=2, quota.window.size.seconds=1
SERVED_BY_KAFKA = (0.01, 0.02, 0.02, 0.34, 0.67, 1.0, 2.01, 2.67, 2.68, 2.69, 2.69, 3.01, 4.01, 4.34)


def test_the_delays_are_those_of_kafka() -> None:
    """Kafka holds the connection that exceeds the rate; here that one is served, and the next one waits so long."""
    counted, now_ms, served = quotas(number=2, max_creation_rate=3), 0.0, []
    for _ in SERVED_BY_KAFKA:
        now_ms += counted.record("CLIENTS", now_ms)
        served.append(now_ms / 1_000)
    assert all(abs(ours - theirs) <= 0.03 for ours, theirs in zip(served, SERVED_BY_KAFKA, strict=True))

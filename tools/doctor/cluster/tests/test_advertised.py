from __future__ import annotations

import pytest

from headgate.tools.client.client import ClientError
from headgate.tools.doctor.check_result import NOTE, OK, WRONG, CheckResult
from headgate.tools.doctor.cluster.advertised import (
    AdvertisedAddress,
    check_advertised,
    dial_advertised,
    listener_at,
)
from headgate.tools.doctor.cluster.broker_configs import BrokerSettings


def check(*addresses: AdvertisedAddress, bootstrap: str = "b:9092") -> list[CheckResult]:
    return list(check_advertised(bootstrap, addresses))


def test_an_address_that_answers() -> None:
    [row] = check(AdvertisedAddress(1, "b:9092"))
    assert row == CheckResult("advertised", OK, "broker 1 at b:9092 answers, as advertised")


def test_an_address_that_does_not_answer() -> None:
    [row] = check(AdvertisedAddress(1, "inner:9092", "no broker answers; start one", "EXTERNAL"))
    assert row.state == WRONG
    assert row.found == "b:9092 answers, and advertises broker 1 at inner:9092: no broker answers"
    assert "advertised.listeners=EXTERNAL://<a name that they reach>:9092 of broker 1" in row.cure


def test_the_address_that_answers_instead_is_the_cure() -> None:
    [row] = check(AdvertisedAddress(1, "inner:9092", "no broker answers", None, "b:9092"))
    assert row.cure == "b:9092 answers: set advertised.listeners=NAME://b:9092 of broker 1"


def test_an_advertised_name_that_no_certificate_has() -> None:
    reason = "the certificate of x:9093 is for other names: hostname mismatch; connect by a name in it"
    [row] = check(AdvertisedAddress(1, "x:9093", reason, "SSL"))
    assert "SSL://<a name in the certificate>:9093" in row.cure


def test_loopback_is_wrong_for_a_bootstrap_elsewhere() -> None:
    local = AdvertisedAddress(1, "localhost:9092")
    assert [row.state for row in check(local, bootstrap="127.0.0.1:9092")] == [NOTE]
    assert [row.state for row in check(local)] == [WRONG]


@pytest.mark.parametrize("address", ["0.0.0.0:9092", "[::]:9092", ":9092"])
def test_an_address_that_nobody_can_dial(address: str) -> None:
    [row] = check(AdvertisedAddress(1, address))
    assert (row.state, "nobody can dial" in row.found) == (WRONG, True)


def test_two_brokers_with_one_address() -> None:
    rows = check(AdvertisedAddress(1, "b:9092"), AdvertisedAddress(2, "b:9092"))
    assert [row.state for row in rows] == [WRONG, WRONG]
    assert "broker 1 and broker 2 advertise the same b:9092" in rows[0].found


def test_another_broker_answers() -> None:
    assert "where broker 2 answers" in check(AdvertisedAddress(1, "b:9092", other_node=2))[0].found
    assert "a broker of another cluster" in check(AdvertisedAddress(1, "b:9092", other_node=-1))[0].found


def test_a_cluster_that_advertises_nothing() -> None:
    [row] = check()
    assert (row.state, row.found) == (WRONG, "b:9092 advertises no broker")


def test_the_listener_of_an_address() -> None:
    values = {"advertised.listeners": "A://b:1,B://b:2", "listeners": "A://:1,B://:2,C://:3"}
    settings = BrokerSettings(1, values)
    assert listener_at(settings, "b:2") == "B"
    assert listener_at(settings, "other:2") == "B"
    assert listener_at(settings, "b:3") == "C"
    assert listener_at(settings, "b:4") is None


@pytest.mark.sockets
def test_a_bootstrap_that_does_not_answer() -> None:
    with pytest.raises(ClientError, match="no broker answers"):
        dial_advertised("127.0.0.1:1", 1.0)

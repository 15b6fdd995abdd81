from __future__ import annotations

from typing import Any

from headgate.tools.doctor.check_result import NOTE, OK, WRONG
from headgate.tools.doctor.host.ports import check_advertising, check_ports, wanted_ports
from headgate.tools.doctor.host.processes import ProcessFacts
from headgate.tools.doctor.inspection import BrokerValues

OURS, OTHER = ProcessFacts(7, "headgate"), ProcessFacts(8, "java")
WANTED = {9092: "listeners (PLAINTEXT)", 9644: "headgate.http.listeners"}


def values(**changed: Any) -> BrokerValues:
    listeners = (("PLAINTEXT", "127.0.0.1", 9092), ("SSL", "", 0))
    return BrokerValues(1, True, (), listeners, (), (("http", "127.0.0.1", 9644),), None, 1, 1, 1)._replace(**changed)


def test_ports_of_settings() -> None:
    assert wanted_ports(values()) == WANTED


def test_free_own_and_taken_ports() -> None:
    [row] = check_ports(WANTED, {}, [])
    assert (row.state, row.found) == (OK, "9092, 9644 are free")
    [row] = check_ports(WANTED, {9092: [OURS]}, [7])
    assert (row.state, row.found) == (OK, "the broker listens at 9092")
    [row] = check_ports(WANTED, {9092: [OTHER]}, [7])
    assert (row.state, row.found) == (WRONG, "port 9092 of listeners (PLAINTEXT) is taken by process 8 (java)")
    [row] = check_ports(WANTED, {9644: [OTHER]}, [])
    assert row.state == NOTE
    [row] = check_ports(WANTED, {9092: []}, [])
    assert "a process of another user" in row.found


def test_advertised_loopback_of_a_listener_for_others() -> None:
    local = (("PLAINTEXT", "localhost", 9092),)
    assert list(check_advertising(values(advertised_listeners=local))) == []
    every = values(listeners=(("PLAINTEXT", "", 9092),), advertised_listeners=local)
    [row] = check_advertising(every)
    assert row.found == "PLAINTEXT listens on every address, and advertises localhost:9092"

from __future__ import annotations

from typing import Any

import pytest

from headgate.protocol.security.client_security import ClientSecurity
from headgate.tools.doctor.check_result import NOTE, OK, WRONG
from headgate.tools.doctor.cluster.health import BrokerHealth, check_health, read_health, readable_address

BROKER = {"node_id": 3, "started_ms": 1000, "uptime_ms": 500}


def health(*unmet: str) -> BrokerHealth:
    conditions: list[Any] = [{"name": name, "is_met": False, "waits_for": "a thing"} for name in unmet]
    return BrokerHealth("http://h:1", [{"name": "loop", "is_met": True}, *conditions], BROKER, 1400, 1600)


def test_conditions_that_are_not_met() -> None:
    assert [row.state for row in check_health(3, health())] == [OK]
    rows = list(check_health(3, health("logs", "disks")))
    assert [row.state for row in rows] == [NOTE, WRONG]
    assert rows[0].found == "broker 3 is not ready: logs waits for a thing"


def test_the_clock_is_start_and_uptime() -> None:
    assert health().clock == (3, 1500, 1400, 1600)


@pytest.mark.parametrize(
    "setting, host, address",
    [
        ("http://127.0.0.1:9644", "localhost", "http://127.0.0.1:9644"),
        ("http://127.0.0.1:9644", "b", None),
        ("http://127.0.0.1:9644,https://0.0.0.0:9645", "b", "https://b:9645"),
        ("https://c:9645", "b", "https://c:9645"),
        ("http://127.0.0.1:0", "localhost", None),
        ("", "b", None),
    ],
)
def test_the_address_that_this_machine_reaches(setting: str, host: str, address: str | None) -> None:
    assert readable_address(setting, host) == address


@pytest.mark.sockets
def test_an_address_without_http() -> None:
    assert "127.0.0.1:1" in str(read_health("http://127.0.0.1:1", 1.0, ClientSecurity()))

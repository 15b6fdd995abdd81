from __future__ import annotations

import pytest

from headgate.tools.doctor.check_result import NOTE, OK, WRONG, CheckResult
from headgate.tools.doctor.cluster.broker_configs import BrokerSettings
from headgate.tools.doctor.cluster.links import accepts, check_links


def broker(node: int, name: str = "INTERNAL", advertised: str = "INTERNAL://h:{},CLIENT://h:1") -> BrokerSettings:
    values = {"inter.broker.listener.name": name, "advertised.listeners": advertised.format(node)}
    return BrokerSettings(node, values)


def check(*brokers: BrokerSettings, refused: str = "") -> list[CheckResult]:
    return list(check_links(brokers, lambda address: "nothing listens there" if address == refused else None))


def test_sound_links() -> None:
    assert [(row.state, "accepts" in row.found) for row in check(broker(1), broker(2))] == [(OK, True)] * 2


def test_one_broker_has_no_links() -> None:
    assert check(broker(1)) == []


def test_names_that_other_brokers_do_not_have() -> None:
    rows = check(broker(1), broker(2, "CLIENT", "CLIENT://h:2"))
    assert rows[0].state == WRONG
    assert "broker 1 reaches others by the listener INTERNAL, and broker 2 has CLIENT" in rows[0].found


def test_a_port_that_this_machine_does_not_reach_is_a_note() -> None:
    rows = check(broker(1), broker(2), refused="h:2")
    assert [row.state for row in rows] == [OK, NOTE]
    assert "from here: nothing listens there" in rows[1].found


def test_brokers_advertise_what_they_listen_on() -> None:
    assert check(broker(1, advertised=""), broker(2, advertised="")) == []
    alike = [
        BrokerSettings(node, {"security.inter.broker.protocol": "SSL", "listeners": "SSL://h:1"}) for node in (1, 2)
    ]
    assert [row.state for row in check(*alike)] == [OK, OK]


@pytest.mark.sockets
def test_an_address_that_accepts_nothing() -> None:
    assert accepts("127.0.0.1:1", 1.0) == "nothing listens there"
    assert "no address" in (accepts(":x", 1.0) or "")

"""The order of the rows; each fault on its own is tried in compat_tests/doctor, beside real brokers."""

from __future__ import annotations

import datetime as dt

import pytest

from headgate.protocol.security.client_security import ClientSecurity
from headgate.tools.doctor.check_result import WRONG
from headgate.tools.doctor.connecting.address import Dialling, check_address

DIALLING = Dialling(ClientSecurity(), 1.0, dt.datetime.now(dt.UTC))


@pytest.mark.sockets
def test_the_first_wrong_row_ends_them() -> None:
    rows = list(check_address("127.0.0.1:1", DIALLING))
    assert [row.check for row in rows] == ["name", "connection"]
    assert rows[-1].state == WRONG


def test_a_name_without_an_address_is_not_dialled() -> None:
    [row] = check_address(f"{'x' * 70}:9092", DIALLING)
    assert (row.check, row.state) == ("name", WRONG)

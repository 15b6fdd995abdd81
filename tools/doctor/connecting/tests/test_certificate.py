from __future__ import annotations

import datetime as dt

import pytest

from headgate.protocol.security.client_security import ClientSecurity
from headgate.protocol.security.tls.tests.certificates import Authority
from headgate.tools.doctor.check_result import NOTE, OK, WRONG
from headgate.tools.doctor.connecting.certificate import (
    CertificateFacts,
    check_certificate,
    check_own_certificate,
    read_facts,
)

NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
DAY = dt.timedelta(days=1)


def facts(begins: int, ends: int) -> CertificateFacts:
    return CertificateFacts(("b", "10.0.0.1"), "CN=ca", NOW + begins * DAY, NOW + ends * DAY)


@pytest.mark.parametrize(
    "begins, ends, state, words",
    [
        (-10, 400, OK, "is valid for 400 more days"),
        (-10, 29, NOTE, "expires in 29 days"),
        (-10, 0, WRONG, "expired 2026-01-01 00:00 UTC"),
        (1, 400, WRONG, "is not valid before 2026-01-02"),
    ],
)
def test_days(begins: int, ends: int, state: str, words: str) -> None:
    row = check_certificate("certificate", "b:9092", facts(begins, ends), NOW, "get a new one")
    assert row.state == state
    assert words in row.found
    assert "of b:9092 for b, 10.0.0.1, signed by CN=ca" in row.found


def test_names_of_a_certificate() -> None:
    issued = Authority().issue("broker")
    found = read_facts(issued.chain[0])
    assert {"localhost", "127.0.0.1"} <= set(found.names)
    assert found.issuer == "CN=Test CA"


def test_a_client_without_a_key_store_has_no_certificate() -> None:
    assert check_own_certificate(ClientSecurity(), NOW) is None

"""Lines of the audit log as values."""

from __future__ import annotations

from headgate.gateway.audit import audit_events
from headgate.gateway.audit.tests.audited import PEER
from headgate.protocol.acls import AclOperation, AclResource


def test_times_are_of_utc_with_milliseconds() -> None:
    assert audit_events.time_text(1_700_000_000_007) == "2023-11-14T22:13:20.007Z"
    assert audit_events.time_text((1 << 63) - 1) == "9999-12-31T23:59:59.999Z"
    assert audit_events.time_text(0) == "1970-01-01T00:00:00.000Z"


def test_each_event_names_its_peer() -> None:
    assert audit_events.login(0, PEER, "PLAIN", is_renewal=False) == {
        "time": "1970-01-01T00:00:00.000Z",
        "event": "login",
        "principal": "User:alice",
        "address": "10.0.0.1",
        "client_id": "app",
        "listener": "CLIENTS",
        "mechanism": "PLAIN",
        "renewal": False,
    }


def test_long_names_of_clients_are_cut() -> None:
    event = audit_events.refusal(
        audit_events.REFUSAL, 0, PEER, "Fetch", AclOperation.READ, AclResource.GROUP, "g" * 30_000
    )
    assert len(event["resource_name"]) == audit_events.MAX_TEXT_LENGTH + 3
    assert audit_events.short(None) is None


def test_an_unknown_user_of_a_login_is_none() -> None:
    assert audit_events.failed_login(0, PEER, "reason")["user"] is None
    assert audit_events.failed_login(0, PEER, "reason", "bob")["user"] == "bob"

"""What is registered: ranges of versions without a gap, each with its handler."""

from __future__ import annotations

from typing import Any

import pytest

from headgate.gateway.api import handler_registration
from headgate.gateway.api.authorization_rules import unrestricted
from headgate.gateway.api.handler_registration import Registration, handles, load
from headgate.protocol.messages.heartbeat import HeartbeatRequest


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> dict[int, Registration]:
    """An empty table in place of the one of all handlers."""
    empty: dict[int, Registration] = {}
    monkeypatch.setattr(handler_registration, "REGISTRATIONS", empty)
    return empty


def new(_request: Any, _context: Any) -> None:
    """A handler of new versions."""


def old(_request: Any, _context: Any) -> None:
    """A handler of old versions."""


def test_a_version_has_the_handler_of_its_range(table: dict[int, Registration]) -> None:
    handles(HeartbeatRequest, versions="3-4", authorize=unrestricted)(new)
    handles(HeartbeatRequest, versions="2", authorize=unrestricted)(old)
    registration = table[HeartbeatRequest.api_key]
    assert (registration.served_min, registration.served_max) == (2, 4)
    found = [registration.find(version) for version in range(1, 6)]
    assert [None if one is None else one.handler for one in found] == [None, old, new, new, None]


@pytest.mark.parametrize("versions", ["0", "0-2", "3-4"])
def test_ranges_with_a_gap_or_in_common_are_refused(table: dict[int, Registration], versions: str) -> None:
    handles(HeartbeatRequest, versions="2-3", authorize=unrestricted)(new)
    with pytest.raises(ValueError, match="of HeartbeatRequest leave a gap"):
        handles(HeartbeatRequest, versions=versions, authorize=unrestricted)(old)
    assert [one.handler for one in table[HeartbeatRequest.api_key].ranges] == [new]


def test_all_handlers_are_loaded() -> None:
    registrations = load()
    assert all(one.request.api_key == key for key, one in registrations.items())
    assert load() is registrations

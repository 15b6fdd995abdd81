"""Limits of single addresses; names are resolved in a thread."""

import socket
from collections.abc import Sequence

import pytest

from headgate.gateway.network.admission.address_limits import AddressLimits, addresses_of
from headgate.gateway.runtime.tests.fake_scheduler import FakeScheduler, ManualClock


def resolve(host: str) -> Sequence[str]:
    if host == "unknown.example":
        raise OSError("Name or service not known")
    return {"web.example": ["192.0.2.8", "2001:db8::8"]}[host]


def test_addresses_count_at_once_and_names_once_resolved(caplog: pytest.LogCaptureFixture) -> None:
    scheduler = FakeScheduler(ManualClock())
    threads = scheduler.hold()
    limits = AddressLimits(scheduler, resolve)
    found = limits.of("192.0.2.1:5, ::1:6,[2001:DB8::1]:7,web.example:8,unknown.example:9,::ffff:192.0.2.2:10")
    known = {"192.0.2.1": 5, "::1": 6, "2001:db8::1": 7, "192.0.2.2": 10}
    assert found == known
    threads.run_all()
    assert found == {**known, "192.0.2.8": 8, "2001:db8::8": 8}
    assert "unknown.example has no address, and no limit" in caplog.text
    assert limits.of("") == {}


def test_an_unchanged_text_is_parsed_once() -> None:
    limits = AddressLimits(FakeScheduler(ManualClock()), resolve)
    assert limits.of("192.0.2.1:5") is limits.of("192.0.2.1:5")
    assert limits.of("192.0.2.1:6") == {"192.0.2.1": 6}


def test_names_are_resolved_by_the_system(monkeypatch: pytest.MonkeyPatch) -> None:
    row = (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("192.0.2.9", 0))
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: [row])
    assert addresses_of("web.example") == ["192.0.2.9"]
    monkeypatch.undo()
    with pytest.raises(OSError, match="is not the name of a host"):
        addresses_of("a" * 70 + ".example")

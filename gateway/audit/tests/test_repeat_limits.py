"""A peer that repeats itself, or invents names, gets a bounded number of lines; the others are counted."""

from __future__ import annotations

from headgate.gateway.audit import repeat_limits
from headgate.gateway.audit.repeat_limits import EVENTS, INTERVAL_MS, PEERS, PeerKey, RepeatLimits

ALICE = PeerKey("refused", "User:alice", "10.0.0.1")


def test_an_equal_event_is_written_once_in_an_interval() -> None:
    limits = RepeatLimits()
    assert [limits.admits(ALICE, "a", now_ms) for now_ms in (0, 1, INTERVAL_MS - 1)] == [True, False, False]
    assert [*limits.ended(INTERVAL_MS - 1)] == []
    assert [*limits.ended(INTERVAL_MS)] == [(ALICE, 2)]
    assert limits.is_idle
    assert limits.admits(ALICE, "a", INTERVAL_MS)


def test_different_events_of_a_peer_are_bounded() -> None:
    limits = RepeatLimits()
    assert sum(limits.admits(ALICE, number, 0) for number in range(1000)) == EVENTS
    assert limits.admits(ALICE._replace(address="10.0.0.2"), 0, 0)
    assert [*limits.ended(None)] == [(ALICE, 1000 - EVENTS)]


def test_an_interval_without_suppressed_events_ends_silently() -> None:
    limits = RepeatLimits()
    limits.admits(ALICE, "a", 0)
    assert [*limits.ended(None)] == []
    assert limits.is_idle


def test_many_peers_share_one_bound() -> None:
    limits = RepeatLimits()
    admitted = sum(limits.admits(ALICE._replace(address=str(number)), number, 0) for number in range(PEERS + 500))
    assert admitted == PEERS + EVENTS
    [(key, count)] = limits.ended(None)
    assert (key, count) == (PeerKey("refused", repeat_limits.OTHERS, repeat_limits.OTHERS), 500 - EVENTS)

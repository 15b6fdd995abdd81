"""Timers: one for each key, the earliest first."""

from headgate.gateway.coordinator.decision import NEVER
from headgate.gateway.coordinator.timers import Timers


def taken(timers: Timers, now_ms: float) -> list[str]:
    found = []
    while (key := timers.take(now_ms)) is not None:
        found.append(key)
    return found


def test_keys_are_due_in_order() -> None:
    timers = Timers()
    for key, when_ms in {"a": 30.0, "b": 10.0, "c": 20.0}.items():
        timers.set(key, when_ms)
    assert timers.due_ms == 10.0
    assert taken(timers, 9.9) == []
    assert taken(timers, 20.0) == ["b", "c"]
    assert timers.due_ms == 30.0
    assert taken(timers, 30.0) == ["a"]
    assert timers.due_ms == NEVER


def test_an_earlier_time_replaces_a_later_one() -> None:
    timers = Timers()
    for when_ms in (30.0, 10.0, 20.0):
        timers.set("a", when_ms)
    assert timers.times == {"a": 10.0}
    assert taken(timers, 10.0) == ["a"]
    assert taken(timers, 30.0) == []


def test_never_sets_nothing() -> None:
    timers = Timers()
    timers.set("a", NEVER)
    assert (timers.times, timers.due_ms, taken(timers, 1e9)) == ({}, NEVER, [])


def test_a_key_can_be_set_again() -> None:
    timers = Timers()
    timers.set("a", 10.0)
    assert taken(timers, 10.0) == ["a"]
    timers.set("a", 5.0)
    assert timers.due_ms == 5.0
    assert taken(timers, 10.0) == ["a"]

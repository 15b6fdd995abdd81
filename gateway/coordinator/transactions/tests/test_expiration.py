"""Transactional ids that nobody uses."""

from __future__ import annotations

from headgate.gateway.coordinator.transactions import expiration
from headgate.gateway.coordinator.transactions.tests.transaction_desk import NOW_MS, Desk
from headgate.protocol.errors import ErrorCode


def expire(desk: Desk, expired_ms: int) -> list[int]:
    """Carry all steps out; returns the number of tombstones of each."""
    counts = []
    for decision in expiration.expire(desk.shard, expired_ms):
        counts.append(len(decision.records))
        for key, _ in decision.records:
            desk.shard.replay(key, None, 0)
    return counts


def test_ids_without_a_transaction_expire() -> None:
    desk = Desk()
    producers = {key: desk.init(key) for key in ("empty", "committed", "aborted", "ongoing", "prepared")}
    for key in ("committed", "aborted", "ongoing", "prepared"):
        desk.add(key, producers[key], {"t": [0]})
    desk.end("committed", producers["committed"])
    desk.end("aborted", producers["aborted"], commit=False)
    desk.write_markers()
    desk.end("prepared", producers["prepared"])
    assert expire(desk, NOW_MS - 1) == [0]
    assert expire(desk, NOW_MS) == [3]
    assert list(desk.shard.transactions) == ["ongoing", "prepared"]
    assert desk.end("empty", producers["empty"]) == ErrorCode.INVALID_PRODUCER_ID_MAPPING


def test_a_use_keeps_an_id() -> None:
    desk = Desk()
    desk.init("a")
    desk.init("b")
    desk.now_ms = 100
    desk.init("b")
    assert expire(desk, NOW_MS + 99) == [1]
    assert list(desk.shard.transactions) == ["b"]


def test_very_many_ids_expire_in_steps_as_they_are_then() -> None:
    desk = Desk()
    for number in range(2 * expiration.IDS_A_STEP):
        desk.init(str(number))
    steps = expiration.expire(desk.shard, NOW_MS)
    assert len(next(steps).records) == expiration.IDS_A_STEP
    desk.now_ms = 1
    desk.init(str(expiration.IDS_A_STEP))
    assert len(next(steps).records) == expiration.IDS_A_STEP - 1

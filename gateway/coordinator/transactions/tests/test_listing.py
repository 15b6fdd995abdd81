"""What clients hear of transactions."""

from __future__ import annotations

from collections.abc import Collection

from headgate.gateway.coordinator.transactions import listing
from headgate.gateway.coordinator.transactions.tests.transaction_desk import FIRST_ID, NOW_MS, TIMEOUT_MS, Desk
from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages.describe_transactions import TopicData, TransactionState


def describe(desk: Desk, key: str) -> TransactionState:
    row = desk.ask(lambda shard, ticket: listing.describe(shard, key, ticket), key)
    assert isinstance(row, TransactionState)
    return row


def test_a_transaction_is_described() -> None:
    desk = Desk()
    desk.add("a", desk.init("a"), {"t": [1, 0]})
    assert describe(desk, "a") == TransactionState(
        ErrorCode.NONE, "a", "Ongoing", TIMEOUT_MS, NOW_MS, FIRST_ID, 0, [TopicData("t", [0, 1])]
    )


def test_what_is_not_there_is_not_described() -> None:
    desk = Desk()
    assert describe(desk, "a") == TransactionState(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, "a")
    assert describe(desk, "") == TransactionState(ErrorCode.INVALID_REQUEST, "")


def test_transactions_are_filtered() -> None:
    desk = Desk()
    producer = desk.init("a")
    desk.add("a", producer, {"t": [0]})
    desk.init("b")

    def matching(states: Collection[str] = (), ids: Collection[int] = (), duration_ms: int = -1) -> list[str]:
        wanted = listing.Filter(states, ids, duration_ms)
        return [key for key, each in desk.shard.transactions.items() if wanted.matches(each, NOW_MS + 100)]

    assert matching() == ["a", "b"]
    assert matching(states={"Ongoing", "PrepareCommit"}) == ["a"]
    assert matching(states={"nonsense"}) == []
    assert matching(ids={FIRST_ID + 1}) == ["b"]
    assert matching(duration_ms=99) == ["a", "b"], "as in Kafka: what has not begun has lasted for ever"
    assert matching(duration_ms=100) == ["b"]
    assert matching({"Ongoing"}, {FIRST_ID + 1}) == []

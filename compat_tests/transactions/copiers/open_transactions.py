"""The transactions that are open at the coordinator, by bytes of our own: ListTransactions v0 (KIP-664).

    request   states: [name], producer ids: [id]
    response  throttle ms, error, unknown states: [name], transactions: [transactional id, producer id, state]

Asked within milliseconds, while the clients are stopped; a process of `headgate txn` takes longer than a transaction.
"""

from __future__ import annotations

from compat_tests.harness import wire
from compat_tests.transactions.copiers.flexible import NO_TAGS, Answer, length, string

LIST_TRANSACTIONS, VERSION = 66, 0


def open_transactions(bootstrap: str) -> set[str]:
    """The transactional ids in the state Ongoing."""
    body = NO_TAGS + length(1) + string("Ongoing") + length(0) + NO_TAGS
    with wire.connect(bootstrap, 60) as stream:
        answer = Answer(wire.ask(stream, LIST_TRANSACTIONS, VERSION, body))
    answer.tags()
    answer.number("i")
    error, unknown = answer.number("h"), answer.length()
    assert (error, unknown) == (0, 0), f"ListTransactions was answered with error {error}"
    return {transactional_id(answer) for _ in range(answer.length())}


def transactional_id(answer: Answer) -> str:
    found = answer.string()
    answer.number("q")
    answer.string()
    answer.tags()
    return found

"""Transactions as their coordinators know them: ListTransactions and DescribeTransactions (KIP-664)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from headgate.protocol.client.failure import Failure
from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages.describe_transactions import DescribeTransactionsRequest, TransactionState
from headgate.protocol.messages.find_coordinator import TRANSACTION
from headgate.protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from headgate.protocol.topic_partition import TopicPartition
from headgate.tools.client.client import Client
from headgate.tools.client.cluster import Answers, Cluster

# Kafka's spelling; PrepareEpochFence and Dead last for a moment only
STATES = (
    *("Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort"),
    *("PrepareEpochFence", "Dead"),
)
OPEN_STATES = ("Ongoing", "PrepareCommit", "PrepareAbort")
"""Brokers remember the begin of a transaction after its end: only in these states it is an age."""
_IDS_AT_ONCE = 200
_DURATION_FILTER, _PATTERN = 1, 2  # the first versions of ListTransactions with these (KIP-994, KIP-1152)
_TOO_OLD = Failure(
    ErrorCode.NONE, "the broker has neither ListTransactions nor DescribeTransactions: Kafka has both since 3.0"
)
_NO_SUCH_ID = Failure(
    ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, "there is no such transactional id; `headgate txn list` shows all"
)


class TransactionFilters(NamedTuple):
    """The filters of a listing; each default matches all. `states` have Kafka's spelling."""

    states: Iterable[str] = ()
    producer_ids: Iterable[int] = ()
    older_than_ms: int = -1
    pattern: str | None = None


ALL_TRANSACTIONS = TransactionFilters()


class TransactionListing(NamedTuple):
    """A transactional id in the answer of ListTransactions; `coordinator` is a node id."""

    transactional_id: str
    state: str
    producer_id: int
    coordinator: int


class ListedTransaction(NamedTuple):
    """A transactional id and its transaction. `start_time_ms`: None outside of a transaction.

    `partitions`: those that belong to the transaction and do not have its marker yet.
    """

    transactional_id: str
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    start_time_ms: int | None
    coordinator: str
    partitions: frozenset[TopicPartition]


def list_transactions(
    cluster: Cluster, filters: TransactionFilters = ALL_TRANSACTIONS
) -> tuple[list[TransactionListing], list[str]]:
    """The matching transactional ids of all brokers, sorted, and a sentence for each broker that failed."""
    request = ListTransactionsRequest(
        list(filters.states), list(filters.producer_ids), filters.older_than_ms, filters.pattern
    )
    oldest = _PATTERN if filters.pattern is not None else _DURATION_FILTER if filters.older_than_ms >= 0 else 0

    def ask(client: Client, nodes: list[int]) -> Answers[int, ListTransactionsResponse]:
        if not client.serves(ListTransactionsRequest):
            yield nodes[0], _TOO_OLD
            return
        version = client.version(ListTransactionsRequest, newest=2, oldest=oldest)
        answer: ListTransactionsResponse = client.ask(request, version)
        yield nodes[0], Failure.of(answer.error_code) if answer.error_code else answer

    found, failed = cluster.ask_all_brokers(ask)
    failures = [f"the transactions of broker {node} are not known: {why.text}" for node, why in failed.items()]
    unknown = sorted({state for answer in found.values() for state in answer.unknown_state_filters})
    failures += [f"a broker does not know the state {state}" for state in unknown]
    listed = [
        TransactionListing(row.transactional_id, row.transaction_state, row.producer_id, node)
        for node, answer in found.items()
        for row in answer.transaction_states
    ]
    return sorted(listed), failures


def describe_transactions(
    cluster: Cluster, transactional_ids: Iterable[str]
) -> tuple[dict[str, ListedTransaction], dict[str, Failure]]:
    """Transactions by id, and failures by id. An unknown id is a failure with TRANSACTIONAL_ID_NOT_FOUND."""

    def ask(client: Client, wanted: list[str]) -> Answers[str, ListedTransaction]:
        if not client.serves(DescribeTransactionsRequest):
            yield from dict.fromkeys(wanted, _TOO_OLD).items()
            return
        for start in range(0, len(wanted), _IDS_AT_ONCE):
            request = DescribeTransactionsRequest(wanted[start : start + _IDS_AT_ONCE])
            for row in client.ask(request).transaction_states:
                if row.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
                    yield row.transactional_id, _NO_SUCH_ID
                elif row.error_code:
                    yield row.transactional_id, Failure.of(row.error_code)
                else:
                    yield row.transactional_id, _transaction(row, client.address)

    return cluster.ask_coordinators(transactional_ids, ask, TRANSACTION)


def _transaction(row: TransactionState, address: str) -> ListedTransaction:
    return ListedTransaction(
        row.transactional_id,
        row.transaction_state,
        row.producer_id,
        row.producer_epoch,
        row.transaction_timeout_ms,
        row.transaction_start_time_ms if row.transaction_start_time_ms >= 0 else None,
        address,
        frozenset(TopicPartition(topic.topic, number) for topic in row.topics for number in topic.partitions),
    )

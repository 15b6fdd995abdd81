"""Questions of producers with transactions, of their coordinators, and of administrators about them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from headgate.gateway.api.tests.under_acls.data_questions import NO_PRODUCER, TOPICS
from headgate.gateway.api.tests.under_acls.questions import Ids, Question, named, question
from headgate.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from headgate.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from headgate.protocol.messages.describe_transactions import DescribeTransactionsRequest
from headgate.protocol.messages.end_txn import EndTxnRequest
from headgate.protocol.messages.init_producer_id import InitProducerIdRequest
from headgate.protocol.messages.list_transactions import ListTransactionsRequest
from headgate.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from headgate.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from headgate.protocol.schema import Message

IDS = ("x", "y", "none")
"""A transactional id of ACLs, another one, and one that does not exist."""


def transaction_questions() -> Iterator[Question]:
    yield question("idempotent", InitProducerIdRequest(None))
    for key in ("x", "y"):
        yield question(key, InitProducerIdRequest(key, 60_000))
        rows = [AddPartitionsToTxnTopic(name, [0]) for name in TOPICS]
        for label, wanted in {"": rows, ", t alone": rows[:1]}.items():
            added = AddPartitionsToTxnRequest([], key, NO_PRODUCER, 0, wanted)
            yield question(f"{key}{label}", added, range(4))
        for group in ("g", "h"):
            yield question(f"{key}, group {group}", AddOffsetsToTxnRequest(key, NO_PRODUCER, 0, group))
            yield Question(f"{key}, group {group}", _commit(key, group), range(7))
        yield question(key, EndTxnRequest(key, NO_PRODUCER, 0, True))
    transactions = [
        AddPartitionsToTxnTransaction(key, NO_PRODUCER, 0, True, [AddPartitionsToTxnTopic("t", [0])]) for key in IDS
    ]
    yield question("of brokers", AddPartitionsToTxnRequest(transactions), [4, 5])
    marker = WritableTxnMarker(NO_PRODUCER, 0, False, [WritableTxnMarkerTopic("gone", [0])], 0)
    yield question("of no topic", WriteTxnMarkersRequest([marker]))
    yield question("some", DescribeTransactionsRequest([*IDS]))
    yield question("all", ListTransactionsRequest())


def _commit(key: str, group: str) -> Callable[[Ids, int], Message]:
    def make(ids: Ids, version: int) -> TxnOffsetCommitRequest:
        rows = [TxnOffsetCommitRequestPartition(0, 1, committed_metadata="")]
        return TxnOffsetCommitRequest(
            key,
            group,
            NO_PRODUCER,
            0,
            topics=[
                TxnOffsetCommitRequestTopic(name, named(ids, name) if version >= 6 else bytes(16), partitions=rows)
                for name in TOPICS
            ],
        )

    return make

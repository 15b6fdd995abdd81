"""Open transactions as the leaders of partitions know them: which of them hang, and the abort of one (KIP-664).

A transaction hangs if no coordinator is going to write its marker: the last stable offset of the partition stays at
the start of the transaction, and readers of committed records never get past it. Clients and brokers before KIP-890
can leave such a transaction, when a delayed batch arrives after the marker of its transaction.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from headgate.protocol.client.failure import Failure
from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from headgate.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from headgate.protocol.topic_partition import TopicPartition, by_topic
from headgate.tools.client.client import Client
from headgate.tools.client.cluster import Answers, Cluster
from headgate.tools.txn.transactions import (
    ListedTransaction,
    TransactionFilters,
    describe_transactions,
    list_transactions,
)

_PARTITIONS_AT_ONCE = 500
_PRODUCERS_AT_ONCE = 5000
_TOO_OLD = Failure(ErrorCode.NONE, "the broker has no DescribeProducers: Kafka has it since 2.8")
_UNKNOWN_PRODUCER = "no transactional id has this producer id"


class ActiveProducer(NamedTuple):
    """An idempotent or transactional producer of a partition, as its leader knows it; None: unknown, or there is none.

    `coordinator_epoch`: of its last marker here. `transaction_start_offset`: None outside of a transaction.
    """

    producer_id: int
    producer_epoch: int
    last_sequence: int | None
    last_timestamp_ms: int | None
    coordinator_epoch: int | None
    transaction_start_offset: int | None


class OpenTransaction(NamedTuple):
    """A transaction that is open in a partition. `start_offset`: None if the broker is too old to say.

    `coordinator_epoch`: of the last marker of this producer here; None if there is none. `last_timestamp_ms`: of the
    newest batch, on the clock of the producer; None if unknown.
    """

    partition: TopicPartition
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int | None
    start_offset: int | None
    last_timestamp_ms: int | None

    def age_ms(self, now_ms: int) -> int | None:
        """The time since the newest batch."""
        return None if self.last_timestamp_ms is None else now_ms - self.last_timestamp_ms

    def is_older(self, limit_ms: int, now_ms: int) -> bool:
        """True if the newest batch is older than the limit, or of an unknown time."""
        age_ms = self.age_ms(now_ms)
        return age_ms is None or age_ms >= limit_ms


class Judgement(NamedTuple):
    """Whether an open transaction hangs, the transactional id of its producer if there is one, and the reason."""

    is_hanging: bool
    transactional_id: str | None
    reason: str


def list_producers(
    cluster: Cluster, partitions: Iterable[TopicPartition]
) -> tuple[dict[TopicPartition, list[ActiveProducer]], dict[TopicPartition, Failure]]:
    """The idempotent and transactional producers of each partition, by producer id, and failures by partition."""

    def ask(client: Client, wanted: list[TopicPartition]) -> Answers[TopicPartition, list[ActiveProducer]]:
        if not client.serves(DescribeProducersRequest):
            yield from dict.fromkeys(wanted, _TOO_OLD).items()
            return
        for start in range(0, len(wanted), _PARTITIONS_AT_ONCE):
            yield from _describe_producers(client, wanted[start : start + _PARTITIONS_AT_ONCE])

    return cluster.ask_leaders(partitions, ask)


def _describe_producers(
    client: Client, partitions: list[TopicPartition]
) -> Iterator[tuple[TopicPartition, list[ActiveProducer] | Failure]]:
    topics = [TopicRequest(name, [one.number for one in rows]) for name, rows in by_topic(partitions).items()]
    for topic in client.ask(DescribeProducersRequest(topics)).topics:
        for row in topic.partitions:
            partition = TopicPartition(topic.name, row.partition_index)
            if row.error_code:
                yield partition, Failure.of(row.error_code, row.error_message)
                continue
            producers = [
                ActiveProducer(
                    producer.producer_id,
                    producer.producer_epoch,
                    _or_none(producer.last_sequence),
                    _or_none(producer.last_timestamp),
                    _or_none(producer.coordinator_epoch),
                    _or_none(producer.current_txn_start_offset),
                )
                for producer in row.active_producers
            ]
            yield partition, sorted(producers)


def list_open_transactions(
    cluster: Cluster, partitions: Iterable[TopicPartition]
) -> tuple[dict[TopicPartition, list[OpenTransaction]], dict[TopicPartition, Failure]]:
    """The open transactions of each partition, by their start offsets, and failures by partition."""
    found, failed = list_producers(cluster, partitions)
    return {partition: _open_transactions(partition, producers) for partition, producers in found.items()}, failed


def _open_transactions(partition: TopicPartition, producers: Iterable[ActiveProducer]) -> list[OpenTransaction]:
    open_ones = [
        OpenTransaction(
            partition,
            producer.producer_id,
            producer.producer_epoch,
            producer.coordinator_epoch,
            producer.transaction_start_offset,
            producer.last_timestamp_ms,
        )
        for producer in producers
        if producer.transaction_start_offset is not None
    ]
    return sorted(open_ones, key=lambda one: one.start_offset or 0)


def _or_none(number: int) -> int | None:
    return number if number >= 0 else None


def judge(
    cluster: Cluster, transactions: Iterable[OpenTransaction]
) -> tuple[dict[OpenTransaction, Judgement], list[str]]:
    """Whether the coordinators still know these transactions, and a sentence for each failure.

    A transaction that may belong to a coordinator without an answer has no judgement.
    """
    wanted = list(transactions)
    producer_ids = sorted({one.producer_id for one in wanted})
    ids: dict[int, str] = {}
    failures: list[str] = []
    for start in range(0, len(producer_ids), _PRODUCERS_AT_ONCE):
        filters = TransactionFilters(producer_ids=producer_ids[start : start + _PRODUCERS_AT_ONCE])
        listed, failed = list_transactions(cluster, filters)
        ids |= {row.producer_id: row.transactional_id for row in listed}
        failures += [one for one in failed if one not in failures]
    known, failed_ids = describe_transactions(cluster, ids.values())
    gone = [name for name, why in failed_ids.items() if why.code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND]
    judgements = {}
    for one in wanted:
        name = ids.get(one.producer_id)
        if name in known:
            judgements[one] = _judge(one, known[name])
        elif name in gone or (name is None and not failures):
            judgements[one] = Judgement(True, None, _UNKNOWN_PRODUCER)
    failures += [f"transactional id {name}: {why.text}" for name, why in failed_ids.items() if name not in gone]
    return judgements, failures


def _judge(one: OpenTransaction, transaction: ListedTransaction) -> Judgement:
    """The coordinator writes the marker of each partition that it names, and of no other."""
    name, state = transaction.transactional_id, transaction.state
    if transaction.producer_id != one.producer_id:
        return Judgement(True, name, f"{name} has another producer id by now: {transaction.producer_id}")
    if one.partition in transaction.partitions:
        return Judgement(False, name, f"{name} is {state}, and its coordinator is going to end it")
    return Judgement(True, name, f"{name} is {state}, without this partition")


def find_hanging(
    cluster: Cluster, partitions: Iterable[TopicPartition], older_than_ms: int, now_ms: int
) -> tuple[dict[OpenTransaction, Judgement], list[str]]:
    """The hanging transactions with a newest batch older than `older_than_ms`, and a sentence for each failure."""
    found, failed = list_open_transactions(cluster, partitions)
    failures = [f"{partition}: {why.text}" for partition, why in sorted(failed.items())]
    candidates = [one for rows in found.values() for one in rows if one.is_older(older_than_ms, now_ms)]
    if not candidates:
        return {}, failures
    judgements, more = judge_confirmed(cluster, candidates)
    hanging = {one: judgements[one] for one in sorted(judgements, key=_place) if judgements[one].is_hanging}
    return hanging, failures + more


def judge_confirmed(
    cluster: Cluster, transactions: Iterable[OpenTransaction]
) -> tuple[dict[OpenTransaction, Judgement], list[str]]:
    """The judgements of `judge`, without hanging transactions that have ended meanwhile.

    A transaction that ends between the questions to the leader and to the coordinator does not hang: the leaders are
    asked again at the end.
    """
    wanted = list(transactions)
    judgements, failures = judge(cluster, wanted)
    if len(judgements) < len(wanted):
        failures.append(f"{len(wanted) - len(judgements)} more open transactions may hang: their state is not known")
    suspects = {one.partition for one, judgement in judgements.items() if judgement.is_hanging}
    still_open, failed = list_open_transactions(cluster, suspects)
    failures += [f"{partition}: {why.text}" for partition, why in sorted(failed.items())]
    confirmed = {_identity(one) for rows in still_open.values() for one in rows}
    return {
        one: judgement
        for one, judgement in judgements.items()
        if not judgement.is_hanging or _identity(one) in confirmed
    }, failures


def _place(one: OpenTransaction) -> tuple[TopicPartition, int]:
    """In a partition, the first one holds the last stable offset."""
    return one.partition, one.start_offset or 0


def _identity(one: OpenTransaction) -> tuple[object, ...]:
    return one.partition, one.producer_id, one.start_offset


def abort_transaction(cluster: Cluster, one: OpenTransaction) -> Failure | None:
    """Have the leader of the partition write the marker of an abort; None if it did.

    The coordinator's epoch is that of the producer's last marker, or 0 without one: never above the epoch of the
    coordinator, which can fence this marker, and is not fenced by it.
    """
    partition = one.partition

    def ask(client: Client, wanted: list[TopicPartition]) -> Answers[TopicPartition, bool]:
        marker = WritableTxnMarker(
            one.producer_id,
            one.producer_epoch,
            False,
            [WritableTxnMarkerTopic(partition.topic, [partition.number])],
            one.coordinator_epoch or 0,
        )
        for result in client.ask(WriteTxnMarkersRequest([marker])).markers:
            for topic in result.topics:
                for row in topic.partitions:
                    code = row.error_code
                    yield TopicPartition(topic.name, row.partition_index), Failure.of(code) if code else True

    return cluster.ask_leaders([partition], ask)[1].get(partition)

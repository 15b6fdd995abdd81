"""One transaction: the driver begins and ends it, the tasks add their partitions and write (KIP-98).

The requests are as in Kafka 0.11 and later, without the parts of KIP-890 that bind a transaction to one client:
every partition is added before its first batch, and each batch of a query begins with InitProducerId. That raises the
epoch, aborts what an earlier try left open, and fences its tasks.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from headgate.protocol.client.failure import Failure
from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from headgate.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from headgate.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from headgate.protocol.messages.end_txn import EndTxnRequest
from headgate.protocol.messages.find_coordinator import GROUP, TRANSACTION
from headgate.protocol.messages.init_producer_id import InitProducerIdRequest
from headgate.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from headgate.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from headgate.protocol.topic_partition import TopicPartition, by_topic
from headgate.spark.sink.connection import FENCING, Connection, SinkFailed
from headgate.spark.sink.encoding import MAX_SEQUENCE, advance, stamp
from headgate.spark.sink.marker import SinkRefused
from headgate.tools.client.client import Client
from headgate.tools.client.cluster import Answers

# The newest versions that one transaction of many clients can use; version 5 and 12 are for one client (KIP-890)
_ADD_PARTITIONS = 3
_COMMIT_OFFSETS = 4
_END = 4
_INIT = 4
_PRODUCE = 11
_OLDEST_PRODUCE = 3
_ALL_REPLICAS = -1
_PRODUCE_TIMEOUT_MS = 30_000


class TransactionalProducer(NamedTuple):
    """The identity of a transaction's writer; tasks have a copy of it."""

    transactional_id: str
    producer_id: int
    epoch: int


class Fenced(SinkFailed):
    """The transaction has ended already: its timeout has passed, or another try has begun."""


def begin(connection: Connection, transactional_id: str, timeout_ms: int) -> TransactionalProducer:
    """A producer with a new epoch. Nothing of an older epoch is open then, or can be written.

    Raises SinkFailed; SinkRefused for a timeout that the brokers do not allow.
    """

    def ask(client: Client) -> TransactionalProducer | Failure:
        version = client.version(InitProducerIdRequest, newest=_INIT)
        request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=timeout_ms)
        answer = client.ask(request, version)
        if answer.error_code:
            return Failure.of(answer.error_code)
        return TransactionalProducer(transactional_id, answer.producer_id, answer.producer_epoch)

    try:
        return connection.ask_coordinator(transactional_id, TRANSACTION, ask)
    except SinkFailed as error:
        if error.code == ErrorCode.INVALID_TRANSACTION_TIMEOUT:
            raise SinkRefused(
                f"kafka.transaction.timeout.ms={timeout_ms} is more than the brokers allow: lower it, or raise their "
                "transaction.max.timeout.ms (15 minutes by default)"
            ) from None
        raise


def add_partitions(
    connection: Connection, producer: TransactionalProducer, partitions: Iterable[TopicPartition]
) -> None:
    """Add partitions to the transaction, before their first batch. Raises SinkFailed."""
    topics = [
        AddPartitionsToTxnTopic(topic, [partition.number for partition in rows])
        for topic, rows in by_topic(partitions).items()
    ]

    def ask(client: Client) -> Failure | None:
        version = client.version(AddPartitionsToTxnRequest, newest=_ADD_PARTITIONS)
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=producer.transactional_id,
            v3_and_below_producer_id=producer.producer_id,
            v3_and_below_producer_epoch=producer.epoch,
            v3_and_below_topics=topics,
        )
        answer = client.ask(request, version)
        codes = [
            row.partition_error_code
            for topic in answer.results_by_topic_v3_and_below
            for row in topic.results_by_partition
        ]
        return _first_failure(codes)

    _ask_coordinator(connection, producer, ask)


def commit_positions(
    connection: Connection,
    producer: TransactionalProducer,
    group: str,
    positions: Mapping[TopicPartition, int],
    metadata: str,
) -> None:
    """Commit the next offsets to read as a group's, within the transaction. Raises SinkFailed."""

    def add(client: Client) -> Failure | None:
        version = client.version(AddOffsetsToTxnRequest, newest=_ADD_PARTITIONS)
        request = AddOffsetsToTxnRequest(producer.transactional_id, producer.producer_id, producer.epoch, group)
        return _first_failure([client.ask(request, version).error_code])

    topics = [
        TxnOffsetCommitRequestTopic(
            name=topic,
            partitions=[
                TxnOffsetCommitRequestPartition(
                    partition_index=partition.number, committed_offset=positions[partition], committed_metadata=metadata
                )
                for partition in rows
            ],
        )
        for topic, rows in by_topic(positions).items()
    ]

    def commit(client: Client) -> Failure | None:
        version = client.version(TxnOffsetCommitRequest, newest=_COMMIT_OFFSETS)
        request = TxnOffsetCommitRequest(
            transactional_id=producer.transactional_id,
            group_id=group,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            topics=topics,
        )
        answer = client.ask(request, version)
        return _first_failure([row.error_code for topic in answer.topics for row in topic.partitions])

    _ask_coordinator(connection, producer, add)
    try:
        connection.ask_coordinator(group, GROUP, commit)
    except SinkFailed as error:
        raise _fenced(error) from None


def end(connection: Connection, producer: TransactionalProducer, *, is_commit: bool) -> None:
    """Commit or abort the transaction. After SinkFailed the outcome is unknown; after Fenced it did not commit."""

    def ask(client: Client) -> Failure | None:
        version = client.version(EndTxnRequest, newest=_END)
        request = EndTxnRequest(producer.transactional_id, producer.producer_id, producer.epoch, is_commit)
        return _first_failure([client.ask(request, version).error_code])

    _ask_coordinator(connection, producer, ask)


def _ask_coordinator(connection: Connection, producer: TransactionalProducer, ask: Any) -> None:
    try:
        connection.ask_coordinator(producer.transactional_id, TRANSACTION, ask)
    except SinkFailed as error:
        raise _fenced(error) from None


def _first_failure(codes: Iterable[int]) -> Failure | None:
    """The failure that explains the others: if one partition cannot be added, none is."""
    wrong = [code for code in codes if code]
    causes = [code for code in wrong if code != ErrorCode.OPERATION_NOT_ATTEMPTED]
    return Failure.of((causes or wrong)[0]) if wrong else None


def _fenced(error: SinkFailed) -> SinkFailed:
    return Fenced(str(error), error.code) if error.code in FENCING else error


# --------------------------------------------------------------------------------------------------------------- writes


class TransactionWriter:
    """Writes batches of the transaction. Each partition has one writer in a transaction, and its sequence starts at 0.

    `records`: the number of written records by partition.
    """

    def __init__(self, connection: Connection, producer: TransactionalProducer) -> None:
        self._connection, self._producer = connection, producer
        self.records: dict[TopicPartition, int] = {}

    def add(self, partitions: Iterable[TopicPartition]) -> None:
        """Add partitions to the transaction, if this writer has not done so. Raises SinkFailed."""
        new = [partition for partition in dict.fromkeys(partitions) if partition not in self.records]
        if new:
            add_partitions(self._connection, self._producer, new)
            self.records |= dict.fromkeys(new, 0)

    def write(self, batches: Mapping[TopicPartition, tuple[int, bytearray]]) -> None:
        """Write one batch a partition: the number of its records, its bytes. Raises SinkFailed, SinkRefused."""
        self.add(batches)
        for partition, (_, data) in batches.items():
            sequence = advance(0, self.records[partition])
            stamp(data, self._producer.producer_id, self._producer.epoch, sequence)
        asked = set[TopicPartition]()

        def ask(client: Client, partitions: list[TopicPartition]) -> Answers[TopicPartition, None]:
            repeated = asked.intersection(partitions)
            asked.update(partitions)
            return self._produce(client, {partition: batches[partition][1] for partition in partitions}, repeated)

        try:
            self._connection.ask_leaders(batches, ask)
        except SinkFailed as error:
            if error.code in _REFUSALS:
                raise SinkRefused(f"the broker refuses a batch: {error}") from None
            raise _fenced(error) from None
        for partition, (records, _) in batches.items():
            self.records[partition] += records

    def _produce(
        self, client: Client, batches: Mapping[TopicPartition, bytearray], repeated: Collection[TopicPartition]
    ) -> Iterator[tuple[TopicPartition, Failure | None]]:
        version = client.version(ProduceRequest, newest=_PRODUCE, oldest=_OLDEST_PRODUCE)
        topics = [
            TopicProduceData(
                name=topic,
                partition_data=[
                    PartitionProduceData(index=partition.number, records=batches[partition]) for partition in rows
                ],
            )
            for topic, rows in by_topic(batches).items()
        ]
        request = ProduceRequest(self._producer.transactional_id, _ALL_REPLICAS, _PRODUCE_TIMEOUT_MS, topics)
        for topic in client.ask(request, version).responses:
            for row in topic.partition_responses:
                partition = TopicPartition(topic.name, row.index)
                is_written = row.error_code == ErrorCode.DUPLICATE_SEQUENCE_NUMBER and partition in repeated
                failed = row.error_code and not is_written
                yield partition, Failure.of(row.error_code, _reason(row)) if failed else None


_REFUSALS = frozenset(
    {
        ErrorCode.INVALID_RECORD,
        ErrorCode.INVALID_TIMESTAMP,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
        ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
    }
)


def _reason(row: Any) -> str | None:
    texts = [error.batch_index_error_message for error in row.record_errors if error.batch_index_error_message]
    reason: str | None = "; ".join([row.error_message or "", *texts[:1]]).strip("; ") or None
    return reason


def check_written(
    connection: Connection, producer: TransactionalProducer, written: Mapping[TopicPartition, int]
) -> None:
    """Compare the numbers of records that tasks report with the last sequences that the leaders have.

    They differ if two attempts of a task wrote: a repeated sequence is acknowledged and dropped, or more was appended
    than is known. Raises SinkFailed. Brokers before Kafka 2.8 cannot say.
    """
    if not written or not connection.ask_any(lambda client: client.serves(DescribeProducersRequest)):
        return

    def ask(client: Client, partitions: list[TopicPartition]) -> Iterator[tuple[TopicPartition, int | Failure]]:
        topics = [
            TopicRequest(name, [partition.number for partition in rows]) for name, rows in by_topic(partitions).items()
        ]
        for topic in client.ask(DescribeProducersRequest(topics)).topics:
            for row in topic.partitions:
                partition = TopicPartition(topic.name, row.partition_index)
                if row.error_code:
                    yield partition, Failure.of(row.error_code, row.error_message)
                    continue
                yield partition, next((_sequence(producer, active) for active in row.active_producers
                                       if active.producer_id == producer.producer_id), -1)  # fmt: skip

    for partition, last in connection.ask_leaders(written, ask).items():
        expected = (written[partition] - 1) & MAX_SEQUENCE
        if last != expected:
            raise SinkFailed(
                f"{partition}: the tasks wrote {written[partition]} records, the leader has {last + 1} of this "
                "transaction: two attempts of a task wrote at the same time, or two tasks wrote one partition"
            )


def _sequence(producer: TransactionalProducer, state: Any) -> int:
    """The last sequence in the epoch of the transaction; -1 for another epoch."""
    return int(state.last_sequence) if state.producer_epoch == producer.epoch else -1

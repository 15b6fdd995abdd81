"""One batch to one partition: the leader answers with the offset once all in-sync replicas have the records.

The batch has no producer id, so that a repetition could append it twice. It is sent again only after an error that
rules out an append: another broker leads the partition, and the answer has no offset. Any other failure ends the
question, and says whether the records may be there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from headgate.protocol.client.failure import Failure
from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)
from headgate.protocol.records import batch
from headgate.protocol.records.batch import Record
from headgate.protocol.topic_partition import TopicPartition
from headgate.tools.client.client import Client
from headgate.tools.client.cluster import Cluster, FailedAnswer

_ALL_IN_SYNC: Final = -1
_TIMEOUT_MS: Final = 8_000
"""Less than clients wait for an answer, so that the broker says what it waits for."""
_OLDEST: Final = 3  # the first version with batches of magic 2, of Kafka 0.11
_NEWEST: Final = 12  # the last version with names of topics
_NOT_APPENDED: Final = frozenset(
    {ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.FENCED_LEADER_EPOCH}
)
_MAY_BE_APPENDED: Final = frozenset({ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND})


class AppendedBatch(NamedTuple):
    """Where the first record is. `log_append_time_ms`: the broker's time for all records; None: they have their own."""

    partition: TopicPartition
    base_offset: int
    log_append_time_ms: int | None


def append_batch(cluster: Cluster, partition: TopicPartition, records: Sequence[Record]) -> AppendedBatch | Failure:
    """Append the records as one batch, not compressed. A Failure: the records may be there or not.

    Raises ClientError, and FailedAnswer for the broker's refusal: the records are not there.
    """
    content = bytes(batch.build(records))
    unanswered: list[Client] = []

    def ask(client: Client, _: list[TopicPartition]) -> list[tuple[TopicPartition, PartitionProduceResponse | Failure]]:
        version = client.version(ProduceRequest, _NEWEST, _OLDEST)
        unanswered.append(client)
        rows = client.ask(_request(partition, content), version).responses
        unanswered.clear()
        return [(partition, _result(row)) for topic in rows for row in topic.partition_responses]

    found, failed = cluster.ask_leaders([partition], ask)
    for failure in failed.values():
        if not unanswered:
            raise FailedAnswer(Failure(failure.code, f"{partition}: {failure.text}"))
        return _unsure(partition, failure)
    row = found[partition]
    if row.error_code in _MAY_BE_APPENDED or _is_appended(row):
        return _unsure(partition, _failure(row))
    if row.error_code:
        raise FailedAnswer(Failure(row.error_code, f"{partition}: {_failure(row).text}"))
    return AppendedBatch(partition, row.base_offset, row.log_append_time_ms if row.log_append_time_ms >= 0 else None)


def _request(partition: TopicPartition, content: bytes) -> ProduceRequest:
    topic = TopicProduceData(name=partition.topic, partition_data=[PartitionProduceData(partition.number, content)])
    return ProduceRequest(acks=_ALL_IN_SYNC, timeout_ms=_TIMEOUT_MS, topic_data=[topic])


def _result(row: PartitionProduceResponse) -> PartitionProduceResponse | Failure:
    """A Failure is asked again."""
    is_repeated = row.error_code in _NOT_APPENDED and not _is_appended(row)
    return Failure.of(row.error_code) if is_repeated else row


def _is_appended(row: PartitionProduceResponse) -> bool:
    """Whether a refusal has an offset: Kafka's leader has appended, and then lost its role before others had it."""
    return bool(row.error_code) and row.base_offset >= 0


def _failure(row: PartitionProduceResponse) -> Failure:
    """All sentences of the broker."""
    sentences = [row.error_message, *(each.batch_index_error_message for each in row.record_errors)]
    return Failure.of(row.error_code, "; ".join(each.rstrip(".") for each in sentences if each) or None)


def _unsure(partition: TopicPartition, failure: Failure) -> Failure:
    after = f"the records may be written all the same: read the end of {partition} before you send them again"
    return Failure(failure.code, f"{partition}: {failure.text}; {after}")

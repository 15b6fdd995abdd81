"""Add partitions to topics, and delete records before offsets: CreatePartitions, DeleteRecords of any broker."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from headgate.protocol.client.failure import Failure
from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from headgate.protocol.messages.create_topics import CreatableTopic, CreatableTopicResult, CreateTopicsRequest
from headgate.protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from headgate.protocol.topic_partition import TopicPartition, by_topic
from headgate.tools.client.client import Client
from headgate.tools.client.cluster import Answers, AnswersAndFailures, Cluster
from headgate.tools.topics import request_creation

_TIMEOUT_S: Final = 10.0
_DEFAULT_COUNTS: Final = 4
"""The first version of CreateTopics whose broker chooses the numbers of partitions and replicas (KIP-464)."""
_NO_DEFAULTS: Final = "the broker is older than Kafka 2.4: name the number of partitions and the replication factor"
_NO_CREATE_PARTITIONS: Final = "the broker has no CreatePartitions: Kafka has it since 1.0"
_NO_DELETE_RECORDS: Final = "the broker has no DeleteRecords: Kafka has it since 0.11"


def create_topic(
    cluster: Cluster, topic: CreatableTopic, *, validate_only: bool = False
) -> CreatableTopicResult | Failure:
    """Create a topic, or only ask whether the controller would. Raises ClientError."""
    needs_defaults = topic.num_partitions < 0 or topic.replication_factor < 0

    def ask(client: Client) -> CreatableTopicResult | Failure:
        if needs_defaults and client.version(CreateTopicsRequest, newest=_DEFAULT_COUNTS) < _DEFAULT_COUNTS:
            return Failure(ErrorCode.NONE, _NO_DEFAULTS)
        [result] = request_creation(client, [topic], _TIMEOUT_S, validate_only=validate_only)
        if result.error_code == ErrorCode.NOT_CONTROLLER:
            return Failure.of(result.error_code, result.error_message)
        return result  # no other failure is repeated: a late answer is no refusal of the first request

    found, failed = cluster.ask_controller(topic.name, ask)
    if failed:
        return failed[topic.name]
    result = found[topic.name]
    return Failure.of(result.error_code, result.error_message) if result.error_code else result


def add_partitions(cluster: Cluster, topic: str, count: int, *, validate_only: bool = False) -> Failure | None:
    """Give a topic `count` partitions; None: the controller did, or would. Raises ClientError."""
    request = CreatePartitionsRequest(
        [CreatePartitionsTopic(topic, count, None)], int(_TIMEOUT_S * 1000), validate_only
    )

    def ask(client: Client) -> Failure | list[Failure]:
        if not client.serves(CreatePartitionsRequest):
            return Failure(ErrorCode.NONE, _NO_CREATE_PARTITIONS)
        [row] = client.ask(request).results
        failure = Failure.of(row.error_code, row.error_message)
        return failure if row.error_code == ErrorCode.NOT_CONTROLLER else [failure] if row.error_code else []

    found, failed = cluster.ask_controller(topic, ask)
    return failed.get(topic) or next(iter(found.get(topic, [])), None)


def delete_records(cluster: Cluster, offsets: Mapping[TopicPartition, int]) -> AnswersAndFailures[TopicPartition, int]:
    """Delete the records before each offset, or all for TO_HIGH_WATERMARK; the first offsets that are left.

    Raises ClientError.
    """

    def ask(client: Client, wanted: list[TopicPartition]) -> Answers[TopicPartition, int]:
        if not client.serves(DeleteRecordsRequest):
            yield from dict.fromkeys(wanted, Failure(ErrorCode.NONE, _NO_DELETE_RECORDS)).items()
            return
        yield from _delete_records(client, {partition: offsets[partition] for partition in wanted})

    return cluster.ask_leaders(offsets, ask)


def _delete_records(
    client: Client, offsets: Mapping[TopicPartition, int]
) -> Iterator[tuple[TopicPartition, int | Failure]]:
    topics = [
        DeleteRecordsTopic(name, [DeleteRecordsPartition(one.number, offsets[one]) for one in rows])
        for name, rows in by_topic(offsets).items()
    ]
    for topic in client.ask(DeleteRecordsRequest(topics, int(_TIMEOUT_S * 1000))).topics:
        for row in topic.partitions:
            partition = TopicPartition(topic.name, row.partition_index)
            yield partition, Failure.of(row.error_code) if row.error_code else row.low_watermark

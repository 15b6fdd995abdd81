"""Questions of producers and consumers about topics and records."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from headgate.gateway.api.tests.under_acls.questions import Ids, Question, named, question
from headgate.protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from headgate.protocol.messages.describe_producers import DescribeProducersRequest
from headgate.protocol.messages.describe_producers import TopicRequest as ProducersOf
from headgate.protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest, TopicRequest
from headgate.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from headgate.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from headgate.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from headgate.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from headgate.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from headgate.protocol.records import batch, legacy
from headgate.protocol.records.batch import Record

TOPICS = ("t", "u", "new")
"""A topic of ACLs, another one, and one of ACLs that does not exist."""
RECORDS = [Record(timestamp=1_700_000_000_000, key=b"k", value=b"v")]
NO_PRODUCER = 99_999
"""The id of no producer."""


def data_questions() -> Iterator[Question]:
    yield from _produce()
    yield from _fetch()
    yield from _lookups()
    yield from _metadata()


def _produce() -> Iterator[Question]:
    yield Question("plain", partial(_produced, None, is_transactional=False), range(14))
    plain = partial(_produced, "x", is_transactional=False)
    yield Question("transactional id without a transaction", plain, range(3, 14))
    for label, key in {"in a transaction": "x", "in another transaction": "y", "in no transaction": None}.items():
        yield Question(label, partial(_produced, key, is_transactional=True), range(3, 14))


def _produced(key: str | None, ids: Ids, version: int, *, is_transactional: bool) -> ProduceRequest:
    """A record for the second partition of each topic: the end of the first one stays where it is."""
    if is_transactional:
        records = batch.build(
            RECORDS, producer_id=NO_PRODUCER, producer_epoch=0, base_sequence=0, is_transactional=True
        )
    else:
        records = batch.build(RECORDS) if version >= 3 else legacy.build(RECORDS, int(version == 2))
    rows = [
        TopicProduceData(
            name, named(ids, name) if version >= 13 else bytes(16), [PartitionProduceData(1, bytes(records))]
        )
        for name in TOPICS
    ]
    return ProduceRequest(key, 1 if key is None else -1, 1000, rows)


def _fetch() -> Iterator[Question]:
    def topics(ids: Ids, version: int) -> list[FetchTopic]:
        row = FetchPartition(0, 0, fetch_offset=0, partition_max_bytes=1_000_000)
        if version >= 13:
            return [FetchTopic(topic_id=named(ids, name), partitions=[row]) for name in TOPICS]
        return [FetchTopic(name, partitions=[row]) for name in TOPICS]

    def of_consumer(ids: Ids, version: int) -> FetchRequest:
        return FetchRequest(max_wait_ms=0, min_bytes=0, session_epoch=-1, topics=topics(ids, version))

    def of_follower(ids: Ids, version: int) -> FetchRequest:
        if version >= 15:
            follower = ReplicaState(7, -1)
            return FetchRequest(replica_state=follower, max_wait_ms=0, min_bytes=0, topics=topics(ids, version))
        return FetchRequest(replica_id=7, max_wait_ms=0, min_bytes=0, topics=topics(ids, version))

    yield Question("of a consumer", of_consumer, range(19))
    yield Question("of a follower", of_follower, range(19))


def _lookups() -> Iterator[Question]:
    offsets = [ListOffsetsTopic(name, [ListOffsetsPartition(0, timestamp=-1)]) for name in TOPICS]
    yield question("ends", ListOffsetsRequest(-1, topics=offsets))
    epochs = [OffsetForLeaderTopic(name, [OffsetForLeaderPartition(0, -1, 0)]) for name in TOPICS]
    yield question("epoch 0", OffsetForLeaderEpochRequest(-2, epochs))
    deleted = [DeleteRecordsTopic(name, [DeleteRecordsPartition(0, 0)]) for name in TOPICS]
    yield question("before 0", DeleteRecordsRequest(deleted, 10_000))
    yield question("some", DescribeProducersRequest([ProducersOf(name, [0]) for name in TOPICS]))


def _metadata() -> Iterator[Question]:
    wanted = [MetadataRequestTopic(name=name) for name in TOPICS]
    yield question("some, not to be created", MetadataRequest(wanted, False), range(4, 14))
    yield question("two", MetadataRequest(wanted[:2]))
    yield question("to be created", MetadataRequest(wanted[2:]), restore=("new",))
    yield question(
        "to be created, without an ACL", MetadataRequest([MetadataRequestTopic(name="other")]), restore=("other",)
    )
    yield question("all", MetadataRequest(None), range(1, 14))
    yield question("all of version 0", MetadataRequest([]), [0])
    yield question("all, with operations", MetadataRequest(None, False, True, True), range(8, 11))
    yield question("all, with operations of topics", MetadataRequest(None, False, False, True), range(11, 14))

    def by_id(ids: Ids, _version: int) -> MetadataRequest:
        return MetadataRequest([MetadataRequestTopic(named(ids, name), None) for name in TOPICS], False)

    yield Question("by id", by_id, range(12, 14))
    yield question("some", DescribeTopicPartitionsRequest([TopicRequest(name) for name in TOPICS]))
    yield question("all", DescribeTopicPartitionsRequest([]))

"""The canary: one record to each partition of one topic, with acks=all, fetched again. Other records stay as they are.

A topic with `message.timestamp.type=LogAppendTime` shows the clock of each leader too: `--create-canary` makes one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple, TypeVar

from headgate.protocol.client.failure import Failure
from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from headgate.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from headgate.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from headgate.protocol.records import batch
from headgate.protocol.records.batch import Record
from headgate.protocol.topic_partition import TopicPartition
from headgate.tools.client.client import Client, ClientError
from headgate.tools.client.cluster import Answers, Cluster
from headgate.tools.doctor.check_result import NOTE, OK, WRONG, CheckResult, of_sentence
from headgate.tools.doctor.cluster.clocks import ClockReading

SLOW_MS: Final = 1_000
MAX_PARTITIONS: Final = 100
_KEY: Final = b"headgate-doctor"
_RETENTION_MS: Final = 3_600_000
_MOST_REPLICAS: Final = 3
_FETCH_BYTES: Final = 1 << 16
_PAUSE_S: Final = 0.1
# The newest versions that name topics; the first of Produce with batches of magic 2
_NEWEST_BY_NAME, _OLDEST_PRODUCE, _OLDEST_FETCH = 12, 3, 4

T = TypeVar("T")


class CanaryResult(NamedTuple):
    """The way of one record. `failure`: None if the same record came back. `clock`: with LogAppendTime."""

    partition: TopicPartition
    failure: str | None = None
    produce_ms: float = 0
    fetch_ms: float = 0
    clock: ClockReading | None = None


class _Produced(NamedTuple):
    offset: int
    clock: ClockReading
    took_ms: float


def create_topic(cluster: Cluster, topic: str, timeout_s: float) -> Failure | None:
    """Create the topic of the canary, with a partition for each broker; one that exists stays. Raises ClientError."""
    cluster.refresh([])
    brokers = max(1, len(cluster.routing.addresses))
    configs = {"message.timestamp.type": "LogAppendTime", "retention.ms": str(_RETENTION_MS)}
    wanted = CreatableTopic(
        name=topic,
        num_partitions=min(brokers, MAX_PARTITIONS),
        replication_factor=min(brokers, _MOST_REPLICAS),
        configs=[CreatableTopicConfig(name, value) for name, value in configs.items()],
    )
    request = CreateTopicsRequest(topics=[wanted], timeout_ms=int(timeout_s * 1000))

    def ask(client: Client) -> bool | Failure:
        [row] = client.ask(request).topics
        if row.error_code in {ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS}:
            return True
        return Failure.of(row.error_code, row.error_message)

    return cluster.ask_controller(topic, ask)[1].get(topic)


def find_partitions(cluster: Cluster, topic: str) -> Sequence[TopicPartition] | str:
    """The partitions of the topic; a sentence if there is none. Raises ClientError."""
    cluster.routing.topics.pop(topic, None)  # no answer from before
    row = cluster.topics([topic]).get(topic)
    if row is None or row.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return f"there is no topic {topic}; create it, or have it created by --create-canary"
    if row.error_code:
        return f"{topic}: {Failure.of(row.error_code).text}; headgate acls why says which rule is missing"
    return sorted(TopicPartition(topic, partition.partition_index) for partition in row.partitions)[:MAX_PARTITIONS]


def fly(cluster: Cluster, partition: TopicPartition, value: bytes) -> CanaryResult:
    """Produce one record to a partition, and fetch it. Raises ClientError."""
    produced = _one(cluster, partition, lambda client: _produce(client, partition, value, cluster))
    if isinstance(produced, Failure):
        return CanaryResult(partition, f"produce: {produced.text}")
    began = time.monotonic()
    fetched = _one(cluster, partition, lambda client: _fetch(client, partition, produced.offset))
    took_ms = (time.monotonic() - began) * 1000
    if isinstance(fetched, Failure):
        return CanaryResult(partition, f"fetch: {fetched.text}", produced.took_ms)
    is_same = any((record.offset, record.value) == (produced.offset, value) for record in fetched)
    failure = None if is_same else f"the record at offset {produced.offset} does not come back as it was sent"
    clock = produced.clock if produced.clock.broker_ms >= 0 else None
    return CanaryResult(partition, failure, produced.took_ms, took_ms, clock)


def _one(cluster: Cluster, partition: TopicPartition, ask: Callable[[Client], T | Failure]) -> T | Failure:
    def ask_leader(client: Client, _: list[TopicPartition]) -> Answers[TopicPartition, T]:
        yield partition, ask(client)

    found, failed = cluster.ask_leaders([partition], ask_leader)
    return failed[partition] if partition in failed else found[partition]


def _produce(client: Client, partition: TopicPartition, value: bytes, cluster: Cluster) -> _Produced | Failure:
    now_ms = time.time() * 1000
    records = memoryview(bytes(batch.build([Record(-1, int(now_ms), _KEY, value)])))
    data = [PartitionProduceData(index=partition.number, records=records)]
    request = ProduceRequest(
        acks=-1, timeout_ms=30_000, topic_data=[TopicProduceData(partition.topic, partition_data=data)]
    )
    version = client.version(ProduceRequest, newest=_NEWEST_BY_NAME, oldest=_OLDEST_PRODUCE)
    before_ms, began = time.time() * 1000, time.monotonic()
    answer = client.ask(request, version)
    took_ms = (time.monotonic() - began) * 1000
    for row in (row for topic in answer.responses for row in topic.partition_responses):
        if row.error_code:
            return Failure.of(row.error_code, row.error_message)
        leader = cluster.routing.leader(partition)
        node = -1 if isinstance(leader, Failure) else leader
        return _Produced(
            row.base_offset, ClockReading(node, row.log_append_time_ms, before_ms, before_ms + took_ms), took_ms
        )
    return Failure(ErrorCode.NONE, "the answer to Produce lacks the partition")


def _fetch(client: Client, partition: TopicPartition, offset: int) -> list[Record] | Failure:
    rows = [FetchPartition(partition=partition.number, fetch_offset=offset, partition_max_bytes=_FETCH_BYTES)]
    request = FetchRequest(
        max_wait_ms=500, min_bytes=1, max_bytes=_FETCH_BYTES, topics=[FetchTopic(partition.topic, partitions=rows)]
    )
    answer = client.ask(request, client.version(FetchRequest, newest=_NEWEST_BY_NAME, oldest=_OLDEST_FETCH))
    if answer.error_code:
        return Failure.of(answer.error_code)
    records: list[Record] = []
    for row in (row for topic in answer.responses for row in topic.partitions):
        if row.error_code:
            return Failure.of(row.error_code)
        for _, view in batch.split(row.records or b""):
            records += batch.iterate(view)
    return records


def check_canary(results: Sequence[CanaryResult]) -> Iterator[CheckResult]:
    """A row for each partition that failed, and one for all others."""
    for result in results:
        if result.failure is not None:
            row = of_sentence("canary", WRONG, f"{result.partition}: {result.failure}")
            yield row if row.cure else row._replace(cure="the row of its leader, or the log of that broker, says why")
    good = [result for result in results if result.failure is None]
    if good:
        slowest = max(good, key=lambda result: result.produce_ms)
        records = "1 record" if len(good) == 1 else f"{len(good)} records"
        found = (
            f"{records} came back: produce with acks=all {slowest.produce_ms:.0f} ms at most, fetch"
            f" {max(result.fetch_ms for result in good):.0f} ms"
        )
        if slowest.produce_ms > SLOW_MS:
            cure = f"{slowest.partition} is the slowest: a disk, the network or a replica of it is slow"
            yield CheckResult("canary", NOTE, found, cure)
        else:
            yield CheckResult("canary", OK, found)


def run_canary(
    cluster: Cluster, topic: str, value: bytes, *, creates: bool, timeout_s: float
) -> list[CanaryResult] | str:
    """All results; a sentence if there is no partition to write to. Raises ClientError."""
    if creates:
        failure = create_topic(cluster, topic, timeout_s)
        if failure is not None:
            return f"{topic} cannot be created: {failure.text}; headgate topics create says more"
    partitions = find_partitions(cluster, topic)
    deadline = time.monotonic() + timeout_s
    while creates and isinstance(partitions, str) and time.monotonic() < deadline:
        time.sleep(_PAUSE_S)  # brokers get a new topic after the controller
        partitions = find_partitions(cluster, topic)
    if isinstance(partitions, str):
        return partitions
    results = []
    for partition in partitions:
        try:
            results.append(fly(cluster, partition, value))
        except ClientError as error:
            results.append(CanaryResult(partition, str(error)))
    return results

"""The topic `__headgate_census`: this broker's rows in it, written and read through the partition's leader.

The topic has one partition, and is created with the first row. In a cluster another broker may lead the partition, also
one of Apache Kafka, to which the topic is like any other: then the rows go by Produce, and come by Fetch.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from headgate.gateway.api.context import Services
from headgate.gateway.census.census_table import UnwrittenRow
from headgate.gateway.coordinator.broker_requests import OtherBrokers
from headgate.gateway.lag.partition_ends import CONSUMER_REPLICA_ID
from headgate.gateway.lag.requests_to_leaders import RequestsToLeaders
from headgate.gateway.metadata.image import CENSUS, Image
from headgate.gateway.metadata.new_topics import configured_factor
from headgate.gateway.replication.replica import Replica
from headgate.gateway.runtime.tasks import PAUSE, Changes, Task, at_most
from headgate.protocol.census.records import CensusRecords, encode_key, encode_value
from headgate.protocol.census.rows import LINK
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from headgate.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from headgate.protocol.records import batch
from headgate.protocol.records.batch import HEADER_SIZE, Record
from headgate.storage.log.validation import BROKER

CONFIGS: Final = {"cleanup.policy": "compact", "segment.bytes": str(8 << 20)}
WRITE_MS: Final = 1_000.0
"""The longest wait for a slow disk."""
READ_BYTES: Final = 1 << 20
ROWS_AT_ONCE: Final = 32
"""Rows that are encoded, or decoded, in one step: some 0.5 ms."""
_LEADER_ALONE: Final = 1  # acks: a row that is lost is written again with its next change
_PRODUCE_MS: Final = 1_000


class CensusTopic:
    """Reads and writes the topic."""

    def __init__(self, services: Services, brokers: OtherBrokers) -> None:
        self._services = services
        self.node_id = brokers.node_id
        self.requests = RequestsToLeaders(brokers, LINK)

    @property
    def _image(self) -> Image:
        return self._services.metadata.image

    @property
    def exists(self) -> bool:
        """Whether the cluster has the topic."""
        return CENSUS in self._image.topics

    def _leader(self) -> int:
        return self._image.topics[CENSUS].partitions[0].leader if self.exists else -1

    # Writing

    def write(self, rows: Sequence[UnwrittenRow], wait_ms: float) -> Task[None]:
        """Write rows as one batch; create the topic before, and wait so long for its leader. Raises KafkaError."""
        if self._leader() < 0:
            yield from self._await_topic(wait_ms)
        records: list[Record] = []
        now_ms = self._services.clock.now_ms()
        for number, row in enumerate(rows, 1):
            value = None if row.uses is None else encode_value(row.uses)
            records.append(Record(-1, now_ms, encode_key(self.node_id, row.client), value))
            if number % ROWS_AT_ONCE == 0:
                yield PAUSE
        data = memoryview(batch.build(records))
        if self._leader() == self.node_id:
            yield from self._append(data, now_ms)
        else:
            yield from self._produce(data)

    def _await_topic(self, wait_ms: float) -> Task[None]:
        services = self._services
        metadata, deadline_ms = services.metadata, services.clock.monotonic_ms() + wait_ms
        if not metadata.knows_topics:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "the controller has not sent the topics yet")
        if CENSUS not in metadata.planned.topics:
            factor = configured_factor(self._image, services.config.offsets_topic_replication_factor)
            factor = min(factor, len(self._image.brokers))
            metadata.create_on_demand(CENSUS, 1, factor, CONFIGS)
        while self._leader() < 0:
            if (yield Changes((metadata.waiters,), deadline_ms)) is None and self._leader() < 0:
                raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"{CENSUS} has no leader")

    def _append(self, data: memoryview, now_ms: int) -> Task[None]:
        replica = self._services.partitions.get(CENSUS, 0)
        writer = replica.writer()
        if writer is None:
            replica.append(data, _LEADER_ALONE, now_ms, BROKER)
            return
        append = partial(writer.append, data, _LEADER_ALONE, now_ms, origin=BROKER)
        if (yield at_most(self._services.scheduler, WRITE_MS, append)) is None:
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, "the disk did not respond in time")

    def _produce(self, data: memoryview) -> Task[None]:
        partition = PartitionProduceData(index=0, records=data)
        topic = TopicProduceData(name=CENSUS, topic_id=self._image.topics[CENSUS].topic_id, partition_data=[partition])
        request = ProduceRequest(acks=_LEADER_ALONE, timeout_ms=_PRODUCE_MS, topic_data=[topic])
        leader = self._leader()
        answer = yield from self.requests.ask(leader, request)
        if not isinstance(answer, ProduceResponse):
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION, f"broker {leader}, the leader, did not answer")
        for row in (row for found in answer.responses for row in found.partition_responses):
            if row.error_code:
                raise KafkaError(ErrorCode(row.error_code), f"broker {leader}, the leader, refuses the rows")

    # Reading

    def read(self, records: CensusRecords) -> Task[None]:
        """Replay all records of the topic, of a replica here or else of the leader. Raises KafkaError."""
        replica, offset = self._services.partitions.hosted(CENSUS, 0), 0  # compaction keeps the start of a log
        while True:
            data = yield from self._fetch(offset) if replica is None else self._read(replica, offset)
            if not data:
                return
            offset = yield from _replay(data, offset, records)

    def _read(self, replica: Replica, offset: int) -> Task[bytes]:
        log = replica.log
        if offset >= log.written_end:
            return b""
        piece = log.read(offset, READ_BYTES, log.written_end, at_least_one=True)
        if piece is None:
            return b""
        try:
            data: bytes = yield partial(self._services.scheduler.in_thread, piece.read)
        finally:
            piece.release()
        return data

    def _fetch(self, offset: int) -> Task[bytes]:
        """The next piece of the leader's log."""
        partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=READ_BYTES)
        topic = FetchTopic(topic=CENSUS, topic_id=self._image.topics[CENSUS].topic_id, partitions=[partition])
        request = FetchRequest(replica_id=CONSUMER_REPLICA_ID, max_bytes=READ_BYTES, topics=[topic])
        answer = yield from self.requests.ask(self._leader(), request)
        if not isinstance(answer, FetchResponse):
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION, f"broker {self._leader()}, the leader, did not answer")
        rows = [row for found in answer.responses for row in found.partitions]
        if not rows or rows[0].error_code:
            code = ErrorCode(rows[0].error_code if rows else answer.error_code)
            raise KafkaError(code, f"broker {self._leader()}, the leader, refuses a fetch")
        records = rows[0].records
        return bytes(records) if isinstance(records, bytes | bytearray | memoryview) else b""


def _replay(data: bytes, offset: int, records: CensusRecords) -> Task[int]:
    """Replay the whole batches of a piece; the offset behind them. Raises KafkaError for a damaged batch."""
    view, position, count = memoryview(data), 0, 0
    while len(data) - position >= HEADER_SIZE:
        header = batch.read_header(view, position)
        if header.size > len(data) - position:
            break
        if not header.is_control:
            for record in batch.iterate(view[position : position + header.size]):
                records.replay(record.key, record.value)
                count += 1
                if count % ROWS_AT_ONCE == 0:
                    yield PAUSE
        position += header.size
        offset = header.last_offset + 1
    return offset

"""The markers in `headgate-spark-batches`, as one sink needs them: the last one under its name that was committed.

A read_committed consumer stops at the first open transaction, and another sink's may be open for minutes: the own
marker behind would be missed, and its batch written twice. So the log is read to its high watermark, and the control
batches decide. The caller has got a producer id for its transactional id before; then none of its transactions is open
(KIP-98), and a record without a control batch is one whose control batch compaction has removed, long after the commit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from operator import itemgetter

from headgate.protocol.client.failure import Failure
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from headgate.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from headgate.protocol.records import Buffer, batch, control
from headgate.protocol.topic_partition import TopicPartition
from headgate.spark.sink.connection import Connection, SinkFailed
from headgate.spark.sink.marker import BATCHES_TOPIC, SinkMarker, SinkRefused, decode_marker
from headgate.tools.client.client import Client
from headgate.tools.client.cluster import Answers
from headgate.tools.topics import describe_configs

PARTITION = TopicPartition(BATCHES_TOPIC, 0)
# Small segments: compaction leaves the newest alone, and every start reads all
CONFIGS = {"cleanup.policy": "compact", "segment.bytes": "16777216"}

_FETCH_BYTES = 8 * 1024 * 1024
_NEWEST_WITH_NAMES = 12
_OLDEST_WITH_BATCHES = 4
_CREATION_TIMEOUT_MS = 30_000
_POLICY = "cleanup.policy"
_EMPTY_ANSWERS = 3
"""Before the end of the log: compaction can have removed the last batches, or the leader is not ready yet."""


class CommittedMarkers:
    """Takes the log's batches in order, and keeps the last committed value of one key."""

    def __init__(self, name: str) -> None:
        self._name, self._key = name, name.encode()
        # By producer id: the offset and the value of a record without a control batch so far
        self._undecided: dict[int, tuple[int, bytes | None]] = {}
        self._committed: tuple[int, bytes | None] = (-1, None)
        self.next_offset = 0

    def take(self, records: Buffer) -> None:
        """Take whole batches; an incomplete one at the end is left for the next call. Raises SinkRefused for damage."""
        view, position = memoryview(records), 0
        try:
            while len(view) - position >= batch.HEADER_SIZE:
                header = batch.read_header(view, position)
                if header.size > len(view) - position:
                    break
                if header.last_offset >= self.next_offset:
                    self._take_batch(header, view[position : position + header.size])
                    self.next_offset = header.last_offset + 1
                position += header.size
        except KafkaError as error:
            raise SinkRefused(f"{PARTITION} cannot be read at offset {self.next_offset}: {error.message}") from None

    def _take_batch(self, header: batch.BatchHeader, whole: memoryview) -> None:
        if header.is_control:
            end = control.read(whole)
            if end is not None and header.producer_id in self._undecided:
                found = self._undecided.pop(header.producer_id)
                if end.is_commit:
                    self._commit(found)
            return
        if not batch.check_crc(whole):
            raise batch.corrupt("the CRC of the batch is wrong")
        for record in batch.iterate(whole):
            if record.key == self._key and record.offset >= self.next_offset:
                found = (record.offset, record.value)
                if not header.is_transactional:
                    self._commit(found)
                    continue
                # A transaction has one marker: the control batch of the earlier one is gone, so that was committed
                if header.producer_id in self._undecided:
                    self._commit(self._undecided.pop(header.producer_id))
                self._undecided[header.producer_id] = found

    def _commit(self, found: tuple[int, bytes | None]) -> None:
        self._committed = max(self._committed, found, key=itemgetter(0))

    def last(self, *, is_fenced: bool = True) -> SinkMarker | None:
        """The last committed marker. Raises SinkRefused.

        `is_fenced`: no transaction under this name is open; else markers without a control batch do not count.
        """
        return self._newest([self._committed, *(self._undecided.values() if is_fenced else ())])

    def unfinished(self) -> SinkMarker | None:
        """The last marker, if its transaction has no control batch so far. Raises SinkRefused."""
        return self._newest(self._undecided.values())

    def _newest(self, found: Iterable[tuple[int, bytes | None]]) -> SinkMarker | None:
        _, value = max(found, key=itemgetter(0), default=(-1, None))
        return None if value is None else decode_marker(self._name, value)


class BatchLog:
    """The markers of one sink, read on from the last question."""

    def __init__(self, connection: Connection, name: str) -> None:
        self._connection = connection
        self._markers = CommittedMarkers(name)

    def last(self, *, is_fenced: bool = True) -> SinkMarker | None:
        """The last committed marker; see `CommittedMarkers.last`. Raises SinkFailed, SinkRefused."""
        markers = self._markers
        start, end = self._connection.bounds(PARTITION)
        if end < markers.next_offset:
            raise SinkRefused(
                f"{BATCHES_TOPIC} ends at offset {end}, before the marker of the last batch: the topic was deleted or "
                "made anew. Start the query again when you know which batches the target topics have"
            )
        markers.next_offset = max(markers.next_offset, start)
        empty_answers = 0
        while markers.next_offset < end and empty_answers < _EMPTY_ANSWERS:
            before = markers.next_offset
            records = self._connection.ask_leader(PARTITION, self._fetch)
            markers.take(records)
            if markers.next_offset == before:
                if len(records):
                    raise SinkFailed(f"{PARTITION}: the broker sent no whole batch from offset {before} on")
                empty_answers += 1
        return markers.last(is_fenced=is_fenced)

    def unfinished(self) -> SinkMarker | None:
        """See `CommittedMarkers.unfinished`; as of the last call of `last`."""
        return self._markers.unfinished()

    def _fetch(self, client: Client, partitions: list[TopicPartition]) -> Answers[TopicPartition, bytes]:
        version = client.version(FetchRequest, newest=_NEWEST_WITH_NAMES, oldest=_OLDEST_WITH_BATCHES)
        row = FetchPartition(
            partition=PARTITION.number, fetch_offset=self._markers.next_offset, partition_max_bytes=_FETCH_BYTES
        )
        topics = [FetchTopic(topic=BATCHES_TOPIC, partitions=[row])]
        answer = client.ask(FetchRequest(max_bytes=_FETCH_BYTES, topics=topics), version)
        for topic in answer.responses:
            for found in topic.partitions:
                if found.error_code:
                    yield PARTITION, Failure.of(found.error_code)
                else:
                    yield PARTITION, bytes(found.records or b"")


def ensure_topic(connection: Connection) -> None:
    """Create the topic if it is missing. Raises SinkFailed; SinkRefused if its markers could expire."""
    if not connection.partition_count(BATCHES_TOPIC):
        code, reason = create_topic(connection, BATCHES_TOPIC, 1, CONFIGS)
        if code not in {ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS}:
            raise SinkFailed(
                f"{BATCHES_TOPIC} cannot be created: {reason}. Create the topic by hand: one partition, "
                f"{', '.join(f'{name}={value}' for name, value in CONFIGS.items())}"
            )
        connection.wait_for_topic(BATCHES_TOPIC)
    found = connection.ask_any(lambda client: describe_configs(client, [BATCHES_TOPIC], [_POLICY]))
    policy = next((row.value for rows in found.values() for row in rows if row.name == _POLICY), None)
    if policy is not None and policy != "compact":
        raise SinkRefused(
            f"{BATCHES_TOPIC} has cleanup.policy={policy}: the marker of a batch could expire, and the batch be "
            "written twice. Set cleanup.policy=compact"
        )


def create_topic(connection: Connection, name: str, partitions: int, configs: Mapping[str, str]) -> tuple[int, str]:
    """Ask the controller to create a topic. Returns its error code and its reason. Raises SinkFailed."""

    def ask(client: Client) -> tuple[int, str] | Failure:
        rows = [CreatableTopicConfig(name=key, value=value) for key, value in configs.items()]
        version = client.version(CreateTopicsRequest, newest=7)
        # Before version 4 there is no default of the broker for the number of replicas (KIP-464)
        replicas = -1 if version >= 4 else 1
        topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=replicas, configs=rows)
        [row] = client.ask(CreateTopicsRequest(topics=[topic], timeout_ms=_CREATION_TIMEOUT_MS), version).topics
        failure = Failure.of(row.error_code, row.error_message)
        return failure if failure.code == ErrorCode.NOT_CONTROLLER else (failure.code, failure.text)

    return connection.ask_controller(ask)

"""The LogReader over Fetch, of any Kafka since 0.11.

A range is read over a connection of its own to the leader of the partition. The next request is sent before a piece is
handed out, so that the broker answers while the caller works. Errors that pass by themselves, a broken connection
too, are tried again until `timeout_s` have gone by without a batch. From Fetch 13 on requests have the topic's id: a
topic that was deleted and made again is refused, not read.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeVar

from headgate.protocol.client.failure import Failure, describe_error_code
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from headgate.protocol.messages.list_offsets import EARLIEST, LATEST
from headgate.protocol.messages.metadata import MetadataResponseTopic
from headgate.protocol.records import Buffer
from headgate.protocol.topic_partition import TopicPartition
from headgate.spark.reading.log_reader import (
    Bounds,
    FetchedBatches,
    IsolationLevel,
    LogUnavailable,
    OffsetOutOfRange,
    OffsetRange,
    TopicDescription,
)
from headgate.storage.segment.legacy_messages import read_head
from headgate.tools.client.client import Client, ClientError
from headgate.tools.client.cluster import Cluster, group_by_failure
from headgate.tools.groups.offsets import READ_COMMITTED, READ_UNCOMMITTED, is_unknown_partition, list_offsets

DEFAULT_TIMEOUT_S: Final = 60.0
PARTITION_BYTES: Final = 4 << 20
MAX_WAIT_MS: Final = 500
_UNKNOWN_FOR_S = 5.0  # a broker that has just started may not know its topics so far
_RETRY_AFTER_S = 0.1
_MOST_BYTES = 1 << 30
_NEWEST_BY_NAME, _NEWEST, _OLDEST = 12, 17, 4
_NO_ID = bytes(16)
_LEVELS = {IsolationLevel.READ_UNCOMMITTED: READ_UNCOMMITTED, IsolationLevel.READ_COMMITTED: READ_COMMITTED}

T = TypeVar("T")


def _always() -> bool:
    return True


class WireReader:
    """Topics as the brokers of a cluster serve them. It connects at the first question; pickle it before."""

    def __init__(
        self,
        bootstrap: str,
        *,
        topic_ids: Mapping[str, bytes] | None = None,
        timeout_s: float = DEFAULT_TIMEOUT_S,
        partition_bytes: int = PARTITION_BYTES,
        max_wait_ms: int = MAX_WAIT_MS,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """`topic_ids`: the ids of the plan; a topic that has another one now is refused."""
        self.bootstrap = bootstrap
        self.timeout_s = timeout_s
        self.partition_bytes = partition_bytes
        self.max_wait_ms = max_wait_ms
        self.clock, self.sleep = clock, sleep
        self.may_come_back: Callable[[], bool] = _always
        """Asked where no broker answers: whether to ask again until `timeout_s` have gone by."""
        self._topic_ids = dict(topic_ids or {})
        self._cluster: Cluster | None = None

    def close(self) -> None:
        """Close the connections. A later question opens new ones."""
        cluster, self._cluster = self._cluster, None
        if cluster is not None:
            cluster.close()

    # -------------------------------------------------------------------------------------------------- questions

    def topics(self) -> Mapping[str, TopicDescription]:
        """All topics by name, internal ones included. Raises LogUnavailable."""
        rows = self._ask(lambda cluster: cluster.topics(None))
        return {
            name: TopicDescription(name, _id_of(row), sorted(partition.partition_index for partition in row.partitions))
            for name, row in sorted(rows.items())
            if not row.error_code
        }

    def bounds(
        self, partitions: Iterable[TopicPartition], isolation: IsolationLevel
    ) -> Mapping[TopicPartition, Bounds]:
        """The bounds of each partition. Raises LogUnavailable for an unknown partition.

        Kafka keeps the last stable offset of an open transaction whose first records DeleteRecords took; the log then
        starts behind it, and nothing can be read.
        """
        wanted = list(partitions)
        starts = self._list_offsets(wanted, EARLIEST, IsolationLevel.READ_UNCOMMITTED)
        ends = self._list_offsets(wanted, LATEST, isolation)
        return {partition: Bounds(starts[partition], max(starts[partition], ends[partition])) for partition in wanted}

    def offsets_for_times(self, times: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int | None]:
        """The first offset with a timestamp (ms) at or after each time; None without such a record."""
        of_time: defaultdict[int, list[TopicPartition]] = defaultdict(list)
        for partition, time_ms in times.items():
            of_time[max(0, time_ms)].append(partition)
        found: dict[TopicPartition, int | None] = {}
        for time_ms, wanted in of_time.items():
            offsets = self._list_offsets(wanted, time_ms, IsolationLevel.READ_UNCOMMITTED)
            found |= {partition: None if offset < 0 else offset for partition, offset in offsets.items()}
        return found

    def _list_offsets(
        self, partitions: Sequence[TopicPartition], time_ms: int, isolation: IsolationLevel
    ) -> dict[TopicPartition, int]:
        """One offset of each partition. Raises LogUnavailable."""

        def ask(cluster: Cluster) -> dict[TopicPartition, int]:
            found, failed = list_offsets(cluster, partitions, time_ms, _LEVELS[isolation])
            if failed:
                reasons = "; ".join(f"{names}: {failure.text}" for names, failure in group_by_failure(failed))
                passes = any(failure.code == ErrorCode.NONE for failure in failed.values())
                raise ClientError(reasons) if passes else LogUnavailable(f"{reasons} (at {self.bootstrap})")
            return found

        return self._ask(ask)

    def _ask(self, question: Callable[[Cluster], T]) -> T:
        """Ask the cluster; ask again over new connections while brokers cannot be reached. Raises LogUnavailable."""
        deadline = self.clock() + self.timeout_s
        while True:
            is_connected = False
            try:
                cluster = self.cluster()
                is_connected = True
                return question(cluster)
            except ClientError as error:
                self.close()
                if self.clock() >= deadline or not (is_connected or self.may_come_back()):
                    raise LogUnavailable(str(error)) from None
                self.sleep(_RETRY_AFTER_S)

    def cluster(self) -> Cluster:
        """The cluster, connected. Raises ClientError."""
        if self._cluster is None:
            self._cluster = Cluster(self.bootstrap, self.timeout_s, self.clock, self.sleep)
        return self._cluster

    # ---------------------------------------------------------------------------------------------------- reading

    def read(self, wanted: OffsetRange, isolation: IsolationLevel) -> Iterator[FetchedBatches]:
        """The batches of a range, a response at a time. Raises OffsetOutOfRange, LogUnavailable."""
        offset = wanted.start_offset
        if offset >= wanted.end_offset:
            return
        fetches = _Fetches(self, wanted, isolation, self._topic_ids.get(wanted.partition.topic))
        try:
            while True:
                answer = fetches.fetch(offset)
                piece = whole_batches(_received(answer), offset)
                if piece.next_offset > offset:
                    offset = piece.next_offset
                    if offset < wanted.end_offset:
                        fetches.ask_ahead(offset)
                    aborted = [
                        (transaction.producer_id, transaction.first_offset)
                        for transaction in answer.aborted_transactions or ()
                    ]
                    yield FetchedBatches(piece.data, aborted, offset)
                    if offset >= wanted.end_offset:
                        return
                elif piece.missing_bytes:
                    fetches.enlarge(piece.missing_bytes)
                elif fetches.is_exhausted(answer):
                    yield FetchedBatches(b"", (), wanted.end_offset)
                    return
                else:
                    fetches.check_progress("no batch came")
        finally:
            fetches.close()


class _Fetches:
    """The fetches of one range: a connection to the leader, one request ahead, tries and their deadline."""

    def __init__(
        self, reader: WireReader, wanted: OffsetRange, isolation: IsolationLevel, topic_id: bytes | None
    ) -> None:
        self._reader = reader
        self._wanted = wanted
        self._isolation = isolation
        self._topic_id = topic_id
        self._bytes = reader.partition_bytes
        self._client: Client | None = None
        self._version = _OLDEST
        self._asked_offset: int | None = None
        self._note_progress()

    def fetch(self, offset: int) -> PartitionData:
        """The answer for this offset, without an error. Raises OffsetOutOfRange, LogUnavailable."""
        while True:
            try:
                if self._asked_offset != offset:
                    self._send(offset)
                answer = self._receive()
            except ClientError as error:
                self.close()
                self.check_progress(str(error))
                continue
            if answer is None:
                self.check_progress("the broker throttles the reader")
            elif answer.error_code == ErrorCode.NONE:
                return answer
            else:
                self._handle_error(answer.error_code, offset)

    def ask_ahead(self, offset: int) -> None:
        """Send the request for this offset, before `fetch` waits for the answer. A failure is left to `fetch`."""
        self._note_progress()
        try:
            self._send(offset)
        except ClientError:
            self.close()

    def enlarge(self, size: int) -> None:
        """Ask for more bytes, as the first batch has so many. Raises LogUnavailable for a batch without end."""
        if size <= self._bytes or size > _MOST_BYTES:
            raise LogUnavailable(f"{self._wanted.partition}: the broker sends a part of a batch of {size} bytes only")
        self._bytes = size

    def is_exhausted(self, answer: PartitionData) -> bool:
        """Whether nothing of the range is left, though no batch ends it: compaction has removed the last ones."""
        is_committed = self._isolation is IsolationLevel.READ_COMMITTED
        end: int = answer.last_stable_offset if is_committed else answer.high_watermark
        return end >= self._wanted.end_offset

    def check_progress(self, reason: str) -> None:
        """Wait before another try. Raises LogUnavailable if no batch has come for the timeout."""
        reader = self._reader
        if reader.clock() >= self._deadline:
            raise self._unavailable(f"no batch came within {reader.timeout_s:g} s: {reason}")
        reader.sleep(_RETRY_AFTER_S)

    def close(self) -> None:
        """Close the connection, with the request that may be under way."""
        client, self._client, self._asked_offset = self._client, None, None
        if client is not None:
            client.close()

    def _note_progress(self) -> None:
        now = self._reader.clock()
        self._deadline = now + self._reader.timeout_s
        self._unknown_deadline = now + min(_UNKNOWN_FOR_S, self._reader.timeout_s)

    def _send(self, offset: int) -> None:
        if self._client is None:
            self._client = self._connect()
        partition = FetchPartition(
            partition=self._wanted.partition.number, fetch_offset=offset, partition_max_bytes=self._bytes
        )
        topic = FetchTopic(
            topic=self._wanted.partition.topic, topic_id=self._topic_id or _NO_ID, partitions=[partition]
        )
        request = FetchRequest(
            max_wait_ms=self._reader.max_wait_ms,
            min_bytes=1,
            max_bytes=self._bytes,
            isolation_level=_LEVELS[self._isolation],
            topics=[topic],
        )
        self._client.send(request, self._version)
        self._asked_offset = offset

    def _connect(self) -> Client:
        """Connect to the leader, which new metadata name. Raises ClientError, LogUnavailable."""
        reader, partition = self._reader, self._wanted.partition
        try:
            cluster = reader.cluster()
            cluster.refresh([partition.topic])
        except ClientError:
            reader.close()
            raise
        leader = cluster.leader(partition)
        if isinstance(leader, Failure):
            if is_unknown_partition(leader) and reader.clock() >= self._unknown_deadline:
                raise self._unavailable(leader.text)
            raise ClientError(leader.text)
        self._check_topic_id(_id_of(cluster.topics([partition.topic])[partition.topic]))
        client = cluster.connect(leader)
        newest = _NEWEST if self._topic_id else _NEWEST_BY_NAME
        self._version = client.version(FetchRequest, newest=newest, oldest=_OLDEST)
        return client

    def _check_topic_id(self, topic_id: bytes | None) -> None:
        if topic_id is None or topic_id == self._topic_id:
            return
        if self._topic_id is not None:
            raise self._unavailable("the topic was deleted and made again since the query was planned")
        self._topic_id = topic_id

    def _receive(self) -> PartitionData | None:
        """The partition's part of the next answer; None if a throttled broker left it out. Raises ClientError."""
        assert self._client is not None
        self._asked_offset = None
        answer = self._client.receive()
        if answer.throttle_time_ms > 0:
            self._reader.sleep(min(answer.throttle_time_ms / 1000, self._reader.timeout_s))
        rows: list[PartitionData] = [row for topic in answer.responses for row in topic.partitions]
        if len(rows) == 1 and rows[0].partition_index == self._wanted.partition.number:
            is_empty = not rows[0].records and not rows[0].error_code
            return None if is_empty and answer.throttle_time_ms > 0 else rows[0]
        if answer.error_code:
            raise ClientError(f"{self._client.address}: {describe_error_code(answer.error_code)}")
        if not rows and answer.throttle_time_ms > 0:
            return None
        raise ClientError(f"{self._client.address} answers Fetch with {len(rows)} other partitions")

    def _handle_error(self, code: int, offset: int) -> None:
        """Connect again after an error that passes. Raises OffsetOutOfRange, LogUnavailable for any other."""
        partition, text = self._wanted.partition, describe_error_code(code)
        if code == ErrorCode.OFFSET_OUT_OF_RANGE:
            bounds = self._reader.bounds([partition], self._isolation)[partition]
            if not bounds.start_offset <= offset <= bounds.end_offset:
                raise OffsetOutOfRange(self._wanted._replace(start_offset=offset), bounds)
        elif not _is_retriable(code):
            raise self._unavailable(text)
        self.close()
        self.check_progress(text)

    def _unavailable(self, reason: str) -> LogUnavailable:
        return LogUnavailable(f"{self._wanted.partition} cannot be read from {self._reader.bootstrap}: {reason}")


def _is_retriable(code: int) -> bool:
    try:
        return ErrorCode(code).retriable
    except ValueError:
        return False


class WholeBatches(NamedTuple):
    """The whole batches at the beginning of a response, and the offset after them.

    `missing_bytes`: the size of the first batch if the response has only a part of it, else 0.
    """

    data: Buffer
    next_offset: int
    missing_bytes: int = 0


def whole_batches(records: Buffer, offset: int) -> WholeBatches:
    """The whole batches of a response to a fetch at `offset`, up to damage. Raises LogUnavailable if none is sound."""
    view, position, next_offset = memoryview(records), 0, offset
    while position < len(view):
        try:
            header = read_head(view, position)
        except KafkaError as error:
            if position:
                break
            raise LogUnavailable(f"the broker's answer has no batch at offset {offset}: {error.message}") from None
        if position + header.size > len(view):
            if not position:
                return WholeBatches(b"", offset, header.size)
            break
        position += header.size
        next_offset = max(next_offset, header.last_offset + 1)
    if position and next_offset == offset:
        raise LogUnavailable(f"the broker's answer has only batches before offset {offset}, which was asked for")
    return WholeBatches(view[:position], next_offset)


def _received(answer: PartitionData) -> Buffer:
    """The records of an answer; only an answer to be sent has a Splice."""
    records: Any = answer.records
    return records or b""


def _id_of(row: MetadataResponseTopic) -> bytes | None:
    return None if row.topic_id == _NO_ID else row.topic_id

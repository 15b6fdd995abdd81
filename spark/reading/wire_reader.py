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
from typing import Any, Final, NamedTuple

from headgate.protocol.client.failure import Failure, Recovery
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from headgate.protocol.messages.list_offsets import EARLIEST, LATEST
from headgate.protocol.messages.metadata import MetadataResponseTopic
from headgate.protocol.records import Buffer
from headgate.protocol.security.client_security import ClientSecurity
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
from headgate.tools.client.client import PLAINTEXT, Client, ClientError
from headgate.tools.client.cluster import Cluster, RetryPolicy, group_by_failure, passes_by_itself
from headgate.tools.groups.offsets import READ_COMMITTED, READ_UNCOMMITTED, is_unknown_partition, list_offsets

DEFAULT_TIMEOUT_S: Final = 60.0
PARTITION_BYTES: Final = 4 << 20
MAX_WAIT_MS: Final = 500
_UNKNOWN_FOR_S = 5.0  # a broker that has just started may not know its topics so far
_MOST_BYTES = 1 << 30
_NEWEST_BY_NAME, _NEWEST, _OLDEST = 12, 17, 4
_NO_ID = bytes(16)
_LEVELS = {IsolationLevel.READ_UNCOMMITTED: READ_UNCOMMITTED, IsolationLevel.READ_COMMITTED: READ_COMMITTED}


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
        security: ClientSecurity = PLAINTEXT,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """`topic_ids`: the ids of the plan; a topic that has another one now is refused."""
        self.bootstrap = bootstrap
        self.timeout_s = timeout_s
        self.partition_bytes = partition_bytes
        self.max_wait_ms = max_wait_ms
        self.security = security
        self.clock, self.sleep = clock, sleep
        self.may_come_back: Callable[[], bool] = _always
        """Asked where no broker answers: whether to ask again until `timeout_s` have gone by."""
        self._topic_ids = dict(topic_ids or {})
        self._cluster = self.connect(self._repeats)

    def close(self) -> None:
        """Close the connections. A later question opens new ones."""
        self._cluster.close()

    # -------------------------------------------------------------------------------------------------- questions

    def topics(self) -> Mapping[str, TopicDescription]:
        """All topics by name, internal ones included. Raises LogUnavailable."""
        found, failed = self._cluster.ask_any(self.bootstrap, lambda _: self._cluster.topics(None))
        for failure in failed.values():
            raise LogUnavailable(failure.text)
        rows = found[self.bootstrap]
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
        found, failed = list_offsets(self._cluster, partitions, time_ms, _LEVELS[isolation])
        if failed:
            reasons = "; ".join(f"{names}: {failure.text}" for names, failure in group_by_failure(failed))
            raise LogUnavailable(f"{reasons} (at {self.bootstrap})")
        return found

    def connect(self, repeats: Callable[[Failure], bool]) -> Cluster:
        """New connections, for the caller alone."""
        return Cluster(
            self.bootstrap,
            self.timeout_s,
            RetryPolicy(repeats),
            security=self.security,
            clock=self.clock,
            sleep=self.sleep,
        )

    def _repeats(self, failure: Failure) -> bool:
        if failure.code == ErrorCode.NONE:
            return self._cluster.is_connected or self.may_come_back()
        return passes_by_itself(failure)

    # ---------------------------------------------------------------------------------------------------- reading

    def read(self, wanted: OffsetRange, isolation: IsolationLevel) -> Iterator[FetchedBatches]:
        """The batches of a range, a response at a time. Raises OffsetOutOfRange, LogUnavailable."""
        offset = wanted.start_offset
        fetches = _Fetches(self, wanted, isolation, self._topic_ids.get(wanted.partition.topic))
        try:
            while offset < wanted.end_offset:
                piece = fetches.fetch(offset)
                offset = piece.next_offset
                if offset < wanted.end_offset:
                    fetches.ask_ahead(offset)
                yield piece
        finally:
            fetches.close()


class _Fetches:
    """The fetches of one range, over connections of its own, with one request ahead."""

    def __init__(
        self, reader: WireReader, wanted: OffsetRange, isolation: IsolationLevel, topic_id: bytes | None
    ) -> None:
        self._reader = reader
        self._wanted = wanted
        self._isolation = isolation
        self._topic_id = topic_id
        self._bytes = reader.partition_bytes
        self._cluster = reader.connect(self._repeats)
        self._client: Client | None = None
        self._asked_offset: int | None = None
        self._began = 0.0

    def fetch(self, offset: int) -> FetchedBatches:
        """The batches from this offset on; asked for until one comes. Raises OffsetOutOfRange, LogUnavailable."""
        self._began = self._reader.clock()
        partition = self._wanted.partition
        found, failed = self._cluster.ask_leaders(
            [partition], lambda client, _: [(partition, self._ask(client, offset))]
        )
        if partition in found:
            return found[partition]
        reason, limit_s = failed[partition].text, self._reader.timeout_s
        if self._reader.clock() - self._began >= limit_s:
            reason = f"no batch came within {limit_s:g} s: {reason}"
        raise self._unavailable(reason)

    def _repeats(self, failure: Failure) -> bool:
        if is_unknown_partition(failure):
            return self._reader.clock() - self._began < _UNKNOWN_FOR_S
        return failure.recovery is not Recovery.NEVER

    def ask_ahead(self, offset: int) -> None:
        """Send the request for this offset, before `fetch` waits for the answer. A failure is left to `fetch`."""
        assert self._client is not None
        try:
            self._send(self._client, offset)
        except ClientError:
            self._cluster.disconnect(self._client)

    def close(self) -> None:
        """Close the connections, with the request that may be under way."""
        self._cluster.close()

    def _ask(self, client: Client, offset: int) -> FetchedBatches | Failure:
        """Raises ClientError, OffsetOutOfRange, LogUnavailable."""
        if client is not self._client:
            self._client, self._asked_offset = client, None
        if self._asked_offset != offset:
            self._send(client, offset)
        answer = self._receive(client)
        if isinstance(answer, Failure):
            return answer
        if answer.error_code:
            return self._failure(answer.error_code, offset)
        piece = whole_batches(_received(answer), offset)
        if piece.missing_bytes:
            self._enlarge(piece.missing_bytes)
            return self._ask(client, offset)
        if piece.next_offset > offset:
            aborted = [(row.producer_id, row.first_offset) for row in answer.aborted_transactions or ()]
            return FetchedBatches(piece.data, aborted, piece.next_offset)
        if self._is_exhausted(answer):
            return FetchedBatches(b"", (), self._wanted.end_offset)
        return Failure(ErrorCode.OFFSET_NOT_AVAILABLE, "no batch came")

    def _send(self, client: Client, offset: int) -> None:
        topic_name, number = self._wanted.partition
        self._check_topic_id(_id_of(self._cluster.routing.topics[topic_name]))
        partition = FetchPartition(partition=number, fetch_offset=offset, partition_max_bytes=self._bytes)
        topic = FetchTopic(topic=topic_name, topic_id=self._topic_id or _NO_ID, partitions=[partition])
        request = FetchRequest(
            max_wait_ms=self._reader.max_wait_ms,
            min_bytes=1,
            max_bytes=self._bytes,
            isolation_level=_LEVELS[self._isolation],
            topics=[topic],
        )
        newest = _NEWEST if self._topic_id else _NEWEST_BY_NAME
        client.send(request, client.version(FetchRequest, newest=newest, oldest=_OLDEST))
        self._asked_offset = offset

    def _check_topic_id(self, topic_id: bytes | None) -> None:
        if topic_id is None or topic_id == self._topic_id:
            return
        if self._topic_id is not None:
            raise self._unavailable("the topic was deleted and made again since the query was planned")
        self._topic_id = topic_id

    def _receive(self, client: Client) -> PartitionData | Failure:
        """The partition's part of the next answer; a throttled broker may leave it out. Raises ClientError."""
        self._asked_offset = None
        answer = client.receive()
        if answer.throttle_time_ms > 0:
            self._reader.sleep(min(answer.throttle_time_ms / 1000, self._reader.timeout_s))
        rows: list[PartitionData] = [row for topic in answer.responses for row in topic.partitions]
        is_empty = not any(row.records or row.error_code for row in rows)
        if is_empty and not answer.error_code and answer.throttle_time_ms > 0:
            return Failure(ErrorCode.THROTTLING_QUOTA_EXCEEDED, "the broker throttles the reader")
        if len(rows) == 1 and rows[0].partition_index == self._wanted.partition.number:
            return rows[0]
        if answer.error_code:
            raise ClientError(f"{client.address}: {Failure.of(answer.error_code).text}")
        raise ClientError(f"{client.address} answers Fetch with {len(rows)} other partitions")

    def _failure(self, code: int, offset: int) -> Failure:
        """Raises OffsetOutOfRange for an offset that the partition does not have."""
        failure = Failure.of(code)
        if code == ErrorCode.OFFSET_OUT_OF_RANGE:
            bounds = self._reader.bounds([self._wanted.partition], self._isolation)[self._wanted.partition]
            if not bounds.start_offset <= offset <= bounds.end_offset:
                raise OffsetOutOfRange(self._wanted._replace(start_offset=offset), bounds)
            return failure._replace(code=ErrorCode.NONE)  # the leader has changed meanwhile
        return failure

    def _enlarge(self, size: int) -> None:
        """Ask for more bytes, as the first batch has so many. Raises LogUnavailable for a batch without end."""
        if size <= self._bytes or size > _MOST_BYTES:
            raise LogUnavailable(f"{self._wanted.partition}: the broker sends a part of a batch of {size} bytes only")
        self._bytes = size

    def _is_exhausted(self, answer: PartitionData) -> bool:
        """Whether nothing of the range is left, though no batch ends it: compaction has removed the last ones."""
        is_committed = self._isolation is IsolationLevel.READ_COMMITTED
        end: int = answer.last_stable_offset if is_committed else answer.high_watermark
        return end >= self._wanted.end_offset

    def _unavailable(self, reason: str) -> LogUnavailable:
        return LogUnavailable(f"{self._wanted.partition} cannot be read from {self._reader.bootstrap}: {reason}")


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

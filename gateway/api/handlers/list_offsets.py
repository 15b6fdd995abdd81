"""ListOffsets: the offset for a timestamp, or at an end of a partition.

v0 offsets where segments begin   v1 one offset   v2 isolation level   v4 leader epochs (KIP-320)   v6 flexible   v7 the
maximum timestamp (KIP-734)   v8 earliest local (KIP-405)   v9 latest tiered (KIP-1005)   v10 timeout for remote lists
(KIP-1075)   v11 earliest pending upload (KIP-1023)
"""

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from itertools import accumulate
from typing import Any, NamedTuple

from headgate.gateway.api.authorization import AclOperation
from headgate.gateway.api.authorization_rules import partitions
from headgate.gateway.api.context import HandlerContext, Services
from headgate.gateway.api.conversion import BYTES_PER_ROW, errors_as_results
from headgate.gateway.api.handler_registration import handles
from headgate.gateway.api.handlers.each import count_rows, each_in_steps, refusal
from headgate.gateway.api.transactions.default_isolation import IsolationOf, default_isolation
from headgate.gateway.replication.replica import Replica
from headgate.gateway.runtime.purgatory import Waiting, WaitList
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
    ListOffsetsTopicResponse,
)
from headgate.protocol.steps import Steps, finish_if_few
from headgate.storage.files import FilePosition, WouldBlock, planned
from headgate.storage.log.log import Log
from headgate.storage.segment.timestamp_lookup import Found, More, TimestampOffset

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD = -1, -2, -3, -4, -5, -6
FIRST_VERSIONS = {
    LATEST: 1,
    EARLIEST: 1,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}
"""The first version that has each special timestamp."""
NOTHING = (-1, -1, -1)
"""Offset, timestamp and leader epoch if nothing matches."""


# The limit of most client libraries is 30 s: a client that waits longer has retried by then.
DEADLINE_MS = 30_000.0
AT_ONCE = 16

MAX_SEGMENT_OFFSETS = 100_000
"""The maximum number of segment offsets in a response; after that, each row has one."""

Row = ListOffsetsPartitionResponse
Answer = Callable[[ListOffsetsPartition, Replica], Row]
Outcome = Found | KafkaError | OSError


class Search(NamedTuple):
    """A search for a timestamp in a partition, with the rows that want the result.

    `more`: the state of a search in progress. `warmed`: the place that a thread has just read for the plan.
    """

    partition: Replica
    timestamp: int
    rows: list[Row]
    more: More | None = None
    warmed: FilePosition | None = None


@handles(ListOffsetsRequest, versions="2-11", authorize=partitions(AclOperation.DESCRIBE), in_steps=True)
def list_offsets(request: ListOffsetsRequest, context: HandlerContext) -> Any:
    """Answer every partition from its log. A search for a timestamp reads records, which may take long."""
    return finish_if_few(_list_offsets(request, context, lambda _: request.isolation_level), count_rows(request.topics))


@handles(ListOffsetsRequest, versions="1", authorize=partitions(AclOperation.DESCRIBE), in_steps=True)
def list_offsets_by_default(request: ListOffsetsRequest, context: HandlerContext) -> Any:
    """Answer a client that cannot ask for an isolation level."""
    isolation_of = default_isolation(context, request.replica_id)
    return finish_if_few(_list_offsets(request, context, isolation_of), count_rows(request.topics))


def _list_offsets(
    request: ListOffsetsRequest, context: HandlerContext, isolation_of: IsolationOf
) -> Steps[ListOffsetsResponse | Waiting]:
    searches: dict[tuple[Replica, int], Search] = {}

    def answer(wanted: ListOffsetsPartition, partition: Replica) -> Row:
        partition.check_leader_epoch(wanted.current_leader_epoch)
        timestamp = wanted.timestamp
        _check_time(timestamp, context.version)
        if timestamp < 0 and timestamp != MAX_TIMESTAMP:
            return Row(wanted.partition_index, ErrorCode.NONE, [], *_place(partition, timestamp, isolation_of))
        search = searches.get((partition, timestamp))
        if search is None:
            search = searches[partition, timestamp] = Search(partition, timestamp, [])
        row = Row(wanted.partition_index)
        search.rows.append(row)
        return row

    response = yield from _respond(request, context, answer)
    return Searching(response, searches.values(), isolation_of, context.broker).answer() if searches else response


@handles(ListOffsetsRequest, versions="0", authorize=partitions(AclOperation.DESCRIBE), in_steps=True)
def list_segments(request: ListOffsetsRequest, context: HandlerContext) -> Any:
    """Answer every partition with the base offsets of its segments."""
    known: dict[Replica, SegmentStarts] = {}
    isolation_of = default_isolation(context, request.replica_id)
    room = MAX_SEGMENT_OFFSETS

    def answer(wanted: ListOffsetsPartition, partition: Replica) -> Row:
        nonlocal room
        starts = known.get(partition)
        if starts is None:
            starts = known[partition] = SegmentStarts(partition.log, context.broker.clock.now_ms())
        offsets = starts.newest(wanted.timestamp, min(max(0, wanted.max_num_offsets), max(1, room)))
        end = partition.readable_end(isolation_of(partition))
        if request.replica_id < 0 and offsets and offsets[0] > end:
            offsets = [end, *(offset for offset in offsets if offset <= end)]
        room -= len(offsets)
        return Row(partition_index=wanted.partition_index, old_style_offsets=offsets)

    return finish_if_few(_respond(request, context, answer), count_rows(request.topics))


def _respond(request: ListOffsetsRequest, context: HandlerContext, answer: Answer) -> Steps[ListOffsetsResponse]:
    def row(topic: ListOffsetsTopic, wanted: ListOffsetsPartition) -> Row:
        return answer(wanted, context.broker.partitions.get(topic.name, wanted.partition_index))

    topics = yield from each_in_steps(
        request.topics,
        lambda topic: topic.partitions,
        row,
        _refuse,
        lambda topic, partitions: ListOffsetsTopicResponse(name=topic.name, partitions=partitions),
    )
    return ListOffsetsResponse(topics=topics)


class Searching:
    """The searches of a request, a few at once: each holds files open until its end."""

    def __init__(
        self, response: ListOffsetsResponse, searches: Iterable[Search], isolation_of: IsolationOf, broker: Services
    ) -> None:
        self._response = response
        self._left = deque(searches)
        self._isolation_of = isolation_of
        self._broker = broker
        self._in_progress: list[Search] = []
        self._reading = 0  # searches that wait for a disk read before their plan
        self._found: list[Outcome] | Exception | None = None
        self._moved = WaitList()

    def answer(self) -> ListOffsetsResponse | Waiting:
        """The response with the results, or a wait; at once if that is little work."""
        deadline_ms = self._broker.clock.monotonic_ms() + DEADLINE_MS
        return self._go_on() or Waiting([self._moved], deadline_ms, lambda _: self._go_on(), _late)

    def _go_on(self) -> ListOffsetsResponse | None:
        """Process results, and begin the next searches. Returns the response once all have ended."""
        while self._take():
            if not self._left or self._reading >= AT_ONCE:
                return None if self._reading else self._response
            self._begin()
        return None

    def _take(self) -> bool:
        """Process results. True if no search is in progress."""
        found, self._found = self._found, None
        if isinstance(found, Exception):
            raise found
        if self._in_progress and found is not None:
            for search, result in zip(self._in_progress, found, strict=True):
                if isinstance(result, More):
                    self._left.append(search._replace(more=result, warmed=None))
                else:
                    _fill(search, result)
            self._in_progress = []
        return not self._in_progress

    def _begin(self) -> None:
        planned: list[Steps[Found]] = []
        for _ in range(min(AT_ONCE - self._reading, len(self._left))):
            search = self._left.popleft()
            try:
                planned.append(self._plan(search))
            except WouldBlock as cold:
                self._warm_log(search, cold)
            except KafkaError as error:
                _fill(search, error)
            else:
                self._in_progress.append(search)
        if planned:
            conversions = self._broker.conversions
            size = len(planned) * BYTES_PER_ROW
            ran = conversions.run(_all(planned), size, self._done, lambda: bool(self._moved.waiters), is_reading=True)
            self._found = self._found if ran is None else ran

    def _warm_log(self, search: Search, cold: WouldBlock) -> None:
        """Read uncached data in a thread of its disk, so that a hanging disk blocks no conversions."""
        self._reading += 1

        def warmed(result: object) -> None:
            self._reading -= 1
            if isinstance(result, OSError):
                _fill(search, result)
            else:
                self._left.append(search._replace(warmed=cold.place))
            self._broker.purgatory.touch(self._moved)

        reads = self._broker.scheduler.reads(cold.disk)
        cold.warm_by(partial(reads.in_thread, is_wanted=lambda: bool(self._moved.waiters)), warmed)

    def _plan(self, search: Search) -> Steps[Found]:
        """The steps of a search. Raises KafkaError, and WouldBlock unless the place just read is uncached again."""
        log, end = search.partition.log, search.partition.readable_end(self._isolation_of(search.partition))

        def plan(blocking: bool) -> Steps[Found]:
            if search.timestamp == MAX_TIMESTAMP:
                return log.max_timestamp(end, search.more, blocking)
            return log.offset_for_time(search.timestamp, end, search.more, blocking)

        return planned(plan, (search.warmed,))

    def _done(self, found: list[Outcome] | Exception) -> None:
        self._found = found
        self._broker.purgatory.touch(self._moved)


def _all(searches: Iterable[Steps[Found]]) -> Steps[list[Outcome]]:
    """The results of these searches; after the first slice they leave the loop."""
    results: list[Outcome] = []
    for steps in searches:
        if results:
            yield
        results.append((yield from errors_as_results(steps)))
    return results


def _fill(search: Search, found: TimestampOffset | KafkaError | OSError | None) -> None:
    for row in search.rows:
        row.offset, row.timestamp, row.leader_epoch = NOTHING
        if isinstance(found, TimestampOffset):
            row.offset, row.timestamp, row.leader_epoch = found
        elif found is not None:
            row.error_code = refusal(found, search.partition.topic, search.partition.index)[0]


def _late() -> ListOffsetsResponse:
    raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, "the search for the timestamp took too long")


class SegmentStarts:
    """The base offsets of a partition's segments, computed once for all rows of the partition: both may be many.

    The log end offset is included. Consumers get the end of what they may read in place of all higher offsets. Source:
    the replies of Apache Kafka 3.9.
    """

    def __init__(self, log: Log, now_ms: int) -> None:
        self._log = log
        self._now_ms = now_ms
        self._offsets = log.starts()
        self._times: list[int] | None = None

    def newest(self, timestamp: int, most: int) -> list[int]:
        """Segments' base offsets by modification time, newest first. Raises KafkaError(KAFKA_STORAGE_ERROR)."""
        count = self._count(timestamp)
        return self._offsets[max(0, count - most) : count][::-1]

    def _count(self, timestamp: int) -> int:
        """The number of segments up to the last one of that time; files' times need not be in order."""
        if timestamp == EARLIEST:
            return 1
        if timestamp == LATEST:
            return len(self._offsets)
        if timestamp < 0:
            return 0
        if self._times is None:
            times = self._log.modified_ms()
            if len(times) < len(self._offsets):
                times.append(self._now_ms)
            self._times = list(accumulate(reversed(times), min))[::-1]  # the least of each and all later
        return bisect_right(self._times, timestamp)


def _check_time(timestamp: int, version: int) -> None:
    if timestamp < 0 and version < FIRST_VERSIONS.get(timestamp, version + 1):
        message = f"timestamp {timestamp} has no meaning in version {version}"
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, message)


def _place(partition: Replica, timestamp: int, isolation_of: IsolationOf) -> tuple[int, int, int]:
    """Timestamp (-1), offset and leader epoch of an end of the log."""
    if timestamp == LATEST:
        return -1, partition.readable_end(isolation_of(partition)), partition.leader_epoch
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        return -1, partition.log.start_offset, partition.log.epochs.epoch_at(partition.log.start_offset)
    return NOTHING  # there is no tiered storage


def _refuse(wanted: ListOffsetsPartition, code: ErrorCode, message: str) -> Row:
    return Row(partition_index=wanted.partition_index, error_code=code, offset=-1, timestamp=-1)

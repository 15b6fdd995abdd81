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
from typing import NamedTuple, TypeAlias

from headgate.gateway.api.authorization import AclOperation
from headgate.gateway.api.authorization_rules import partitions
from headgate.gateway.api.context import HandlerContext, Services
from headgate.gateway.api.conversion import BYTES_PER_ROW, errors_as_results
from headgate.gateway.api.handler_registration import handles
from headgate.gateway.api.handlers.each import count_rows, each_in_steps
from headgate.gateway.api.refusals import refusal
from headgate.gateway.api.transactions.default_isolation import IsolationOf, default_isolation
from headgate.gateway.replication.replica import LOG_END, Replica
from headgate.gateway.runtime.tasks import Caller, Task, Together, at_once_if_few, value_of, within
from headgate.protocol.errors import ErrorCode, KafkaError, without_frames
from headgate.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
    ListOffsetsTopicResponse,
)
from headgate.protocol.steps import Steps
from headgate.storage.files import WouldBlock, planned
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
ListOffsetsOutcome: TypeAlias = ListOffsetsResponse | Task[ListOffsetsResponse]
Result: TypeAlias = Found | KafkaError | OSError


class Search(NamedTuple):
    """A search for a timestamp in a partition, with the rows that want the result.

    `more`: the state of a search in progress.
    """

    replica: Replica
    timestamp: int
    rows: list[Row]
    nothing: ErrorCode = ErrorCode.NONE
    """The error if no record is found."""
    more: More | None = None


@handles(ListOffsetsRequest, versions="2-11", authorize=partitions(AclOperation.DESCRIBE), in_steps=True)
def list_offsets(request: ListOffsetsRequest, context: HandlerContext) -> ListOffsetsOutcome:
    """Answer every partition from its log. A search for a timestamp reads records, which may take long."""
    level = request.isolation_level if request.replica_id < 0 else LOG_END
    return _list_offsets(request, context, lambda _: level)


@handles(ListOffsetsRequest, versions="1", authorize=partitions(AclOperation.DESCRIBE), in_steps=True)
def list_offsets_by_default(request: ListOffsetsRequest, context: HandlerContext) -> ListOffsetsOutcome:
    """Answer a client that cannot ask for an isolation level."""
    return _list_offsets(request, context, default_isolation(context, request.replica_id))


def _list_offsets(
    request: ListOffsetsRequest, context: HandlerContext, isolation_of: IsolationOf
) -> ListOffsetsOutcome:
    searches: dict[tuple[Replica, int], Search] = {}

    def answer(wanted: ListOffsetsPartition, replica: Replica) -> Row:
        replica.check_leader_epoch(wanted.current_leader_epoch)
        timestamp = wanted.timestamp
        _check_time(timestamp, context.version)
        nothing = ErrorCode.NONE
        if replica.is_catching_up and request.replica_id < 0:
            nothing = _not_available(context.version)
            if timestamp == LATEST:
                raise KafkaError(nothing, "the high watermark has not reached the beginning of the leader epoch")
        if timestamp < 0 and timestamp != MAX_TIMESTAMP:
            return Row(wanted.partition_index, ErrorCode.NONE, [], *_place(replica, timestamp, isolation_of))
        search = searches.get((replica, timestamp))
        if search is None:
            search = searches[replica, timestamp] = Search(replica, timestamp, [], nothing)
        row = Row(wanted.partition_index)
        search.rows.append(row)
        return row

    outcome = at_once_if_few(_respond(request, context, answer), count_rows(request.topics))
    if isinstance(outcome, ListOffsetsResponse) and not searches:
        return outcome
    search = _search(searches.values(), isolation_of, context.broker)
    if not isinstance(outcome, ListOffsetsResponse):
        return _answer_later(outcome, search, context.broker)
    rest = at_once_if_few(search, len(searches))
    return outcome if rest is None else _answer_later(outcome, rest, context.broker)


def _answer_later(outcome: ListOffsetsOutcome, search: Task[None], broker: Services) -> Task[ListOffsetsResponse]:
    """The response once all searches have ended. Raises KafkaError(REQUEST_TIMED_OUT)."""
    response = yield from value_of(outcome)
    deadline_ms = broker.clock.monotonic_ms() + DEADLINE_MS
    yield from within(broker.tasks, search, deadline_ms, _late)
    return response


@handles(ListOffsetsRequest, versions="0", authorize=partitions(AclOperation.DESCRIBE), in_steps=True)
def list_segments(request: ListOffsetsRequest, context: HandlerContext) -> ListOffsetsOutcome:
    """Answer every partition with the base offsets of its segments."""
    known: dict[Replica, SegmentStarts] = {}
    isolation_of = default_isolation(context, request.replica_id)
    room = MAX_SEGMENT_OFFSETS

    def answer(wanted: ListOffsetsPartition, replica: Replica) -> Row:
        nonlocal room
        starts = known.get(replica)
        if starts is None:
            starts = known[replica] = SegmentStarts(replica.log, context.broker.clock.now_ms())
        offsets = starts.newest(wanted.timestamp, min(max(0, wanted.max_num_offsets), max(1, room)))
        end = replica.readable_end(isolation_of(replica))
        if request.replica_id < 0 and offsets and offsets[0] > end:
            offsets = [end, *(offset for offset in offsets if offset <= end)]
        room -= len(offsets)
        return Row(partition_index=wanted.partition_index, old_style_offsets=offsets)

    return at_once_if_few(_respond(request, context, answer), count_rows(request.topics))


def _respond(request: ListOffsetsRequest, context: HandlerContext, answer: Answer) -> Steps[ListOffsetsResponse]:
    def row(topic: ListOffsetsTopic, wanted: ListOffsetsPartition) -> Row:
        return answer(wanted, context.broker.partitions.get(topic.name, wanted.partition_index))

    topics = yield from each_in_steps(
        context.broker,
        request.topics,
        lambda topic: topic.partitions,
        row,
        _refuse,
        lambda topic, partitions: ListOffsetsTopicResponse(name=topic.name, partitions=partitions),
    )
    return ListOffsetsResponse(topics=topics)


def _search(searches: Iterable[Search], isolation_of: IsolationOf, broker: Services) -> Task[None]:
    """Fill the rows of all searches, a few at once: each search holds files open until its end."""
    left = deque(searches)
    while left:
        searching = [left.popleft() for _ in range(min(AT_ONCE, len(left)))]
        plans = [_plan(search, isolation_of, broker) for search in searching]
        made = [(yield from plans[0])] if len(plans) == 1 else (yield Together(plans))
        steps, size = _run(made), len(searching) * BYTES_PER_ROW
        found: list[Result] | None = broker.conversions.at_once(steps, size)
        if found is None:
            found = yield from broker.conversions.awaited(steps, size)
        for search, result in zip(searching, found, strict=True):
            if isinstance(result, More):
                left.append(search._replace(more=result))
            else:
                _fill(broker, search, result)


def _plan(search: Search, isolation_of: IsolationOf, broker: Services) -> Task[Steps[Found]]:
    """The steps of a search, which raise its error.

    A thread of the disk reads what a plan needs and what is not in memory: so a hanging disk blocks no conversions. The
    plan itself reads only what is not in memory after that, or planning might never end.
    """
    replica, log = search.replica, search.replica.log

    def plan(blocking: bool) -> Steps[Found]:
        end = replica.readable_end(isolation_of(replica))
        if search.timestamp == MAX_TIMESTAMP:
            return log.max_timestamp(end, search.more, blocking)
        return log.offset_for_time(search.timestamp, end, search.more, blocking)

    warmed, caller = None, Caller()
    try:
        while True:
            try:
                return planned(plan, (warmed,))
            except WouldBlock as error:
                cold = error
            in_thread = broker.scheduler.reads(cold.disk).in_thread
            yield partial(cold.warm_by, partial(in_thread, is_wanted=lambda: not caller.is_gone))
            warmed = cold.place
    except (KafkaError, OSError) as error:
        return _refused(error)
    finally:
        caller.is_gone = True


def _refused(error: KafkaError | OSError) -> Steps[Found]:
    raise without_frames(error)
    yield


def _run(plans: Iterable[Steps[Found]]) -> Steps[list[Result]]:
    """The results of these searches; after the first slice they leave the loop."""
    results: list[Result] = []
    for steps in plans:
        if results:
            yield
        results.append((yield from errors_as_results(steps)))
    return results


def _fill(broker: Services, search: Search, found: TimestampOffset | KafkaError | OSError | None) -> None:
    for row in search.rows:
        row.offset, row.timestamp, row.leader_epoch = NOTHING
        if isinstance(found, TimestampOffset):
            row.offset, row.timestamp, row.leader_epoch = found
        elif found is None:
            row.error_code = search.nothing
        else:
            row.error_code = refusal(broker, found, search.replica.topic, search.replica.index)[0]


def _late() -> KafkaError:
    return KafkaError(ErrorCode.REQUEST_TIMED_OUT, "the search for the timestamp took too long")


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


def _not_available(version: int) -> ErrorCode:
    """The error of a new leader until its high watermark has reached its leader epoch (KIP-207)."""
    return ErrorCode.OFFSET_NOT_AVAILABLE if version >= 5 else ErrorCode.LEADER_NOT_AVAILABLE


def _place(replica: Replica, timestamp: int, isolation_of: IsolationOf) -> tuple[int, int, int]:
    """Timestamp (-1), offset and leader epoch of an end of the log."""
    if timestamp == LATEST:
        return -1, replica.readable_end(isolation_of(replica)), replica.leader_epoch
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        return -1, replica.log.start_offset, replica.log.epochs.epoch_at(replica.log.start_offset)
    return NOTHING  # there is no tiered storage


def _refuse(wanted: ListOffsetsPartition, code: ErrorCode, message: str) -> Row:
    return Row(partition_index=wanted.partition_index, error_code=code, offset=-1, timestamp=-1)

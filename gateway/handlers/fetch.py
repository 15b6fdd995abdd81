"""Fetch: batches from offsets, as pieces of segment files.

v4 read_committed   v5 log_start_offset   v7 sessions (KIP-227)   v9 leader epochs (KIP-320)   v11 rack (KIP-392)   v12
flexible, diverging epochs (KIP-595)   v13 topic ids (KIP-516)   v15 replica state   v16 node endpoints (KIP-951)   v17
directory ids   v18 high watermark

A fetch that finds less than `min_bytes` waits for the partitions it named. Afterwards only a partition that moved is
counted again, and the pieces are planned anew when there is enough, or when the time is up. It never waits for bytes
that its own limits, or the end of an older segment, would keep from the reply.
"""

from bisect import bisect_left
from typing import NamedTuple

from gateway.context import Context
from gateway.handlers import handles
from gateway.handlers.each import refusal
from gateway.replication.partition import Partition
from gateway.sessions import FetchTurn
from gateway.waiting import Waiting, WaitList
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from storage.files import ColdRead
from storage.segment import FileSlice

TopicKey = str | bytes
NO_DIVERGENCE = EpochEndOffset()

# A client's own limit is 30 s in most libraries: who waits longer for a disk has asked again by then.
DISK_DEADLINE_MS = 30_000.0
# As many partitions are brought from the disk together; the others come with the next fetch.
COLD_AT_ONCE = 64


class Row(NamedTuple):
    """One partition that a fetch wants, and what it is told of it; `partition` is None if there is none."""

    key: TopicKey
    wanted: FetchPartition
    partition: Partition | None
    data: PartitionData

    @property
    def size(self) -> int:
        records = self.data.records
        return records.length if isinstance(records, FileSlice) else 0

    @property
    def tells(self) -> bool:
        """Whether it says something that the client must hear without waiting."""
        return self.data.error_code != ErrorCode.NONE or self.data.diverging_epoch is not NO_DIVERGENCE

    def release(self) -> None:
        """Give back the file of a row that is not sent."""
        if isinstance(self.data.records, FileSlice):
            self.data.records.release()


@handles(FetchRequest, versions="4-18")
def fetch(request: FetchRequest, context: Context) -> FetchResponse | Waiting:
    """Plan pieces of files for every partition wanted, or wait until there is enough to plan."""
    turn = context.broker.fetch_sessions.begin(request, context.version, context.broker.clock.monotonic_ms())
    plan = Plan(request, context, turn)
    rows = plan.rows(patient=False)
    if plan.is_blocked(rows) or not plan.is_due(rows):
        for row in rows:
            row.release()
        return plan.warm() if plan.cold else plan.wait()
    plan.warm_ahead()
    return plan.response(rows)


def _late() -> FetchResponse:
    raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, "the disk has not answered in time")


class Plan:
    """One fetch: which partitions, how much each of them has, and the rows made of that."""

    def __init__(self, request: FetchRequest, context: Context, turn: FetchTurn) -> None:
        self._request = request
        self._context = context
        self._turn = turn
        self._max_bytes = min(request.max_bytes, context.broker.config.fetch_max_bytes)
        self._min_bytes = min(request.min_bytes, self._max_bytes)
        self._watched: dict[WaitList, tuple[TopicKey, FetchPartition]] = {}
        self._available: dict[WaitList, int] = {}
        self.cold: list[ColdRead] = []  # what the last plan would have had to wait for

    def rows(self, patient: bool = True) -> list[Row]:
        """Plan every partition now. The first batch comes whole, whatever its size; the rest keeps to the limits.

        If not `patient`, a partition that would have to wait for the disk has nothing for now, and is noted in `cold`.
        """
        rows: list[Row] = []
        left, first = self._max_bytes, True
        for key, wanted in self._turn.partitions:
            try:
                row = self._row(key, wanted, min(left, wanted.partition_max_bytes), first, patient)
            except ColdRead as cold:
                self._note_cold(cold)
                row = self._row(key, wanted, 0, False)
            size = row.size
            if size:
                left, first = max(left - size, 0), False
            rows.append(row)
        return rows

    def _note_cold(self, cold: ColdRead) -> None:
        if len(self.cold) < COLD_AT_ONCE:
            cold.__traceback__ = None  # it holds the frames of what was given up
            self.cold.append(cold)
        else:
            cold.release()

    def is_due(self, rows: list[Row]) -> bool:
        """Whether the reply need not wait: enough bytes, an error to tell, or a client that does not want to wait."""
        if self._request.max_wait_ms <= 0 or not rows:
            return True
        if sum([row.size for row in rows]) >= self._min_bytes or any(row.tells for row in rows):
            return True
        first = True
        for row in rows:
            self._watch(row, first)
            first = first and not row.size
        return self._has_enough()

    def wait(self) -> Waiting:
        """Park until a partition has moved far enough, or `max_wait_ms` are over."""
        deadline_ms = self._context.broker.clock.monotonic_ms() + self._request.max_wait_ms
        return Waiting(list(self._watched), deadline_ms, self._attempt, lambda: self.response(self.rows()))

    def is_blocked(self, rows: list[Row]) -> bool:
        """Whether everything that there may be to answer has to wait for the disk."""
        return bool(self.cold) and not any(row.size or row.tells for row in rows)

    def warm(self) -> Waiting:
        """Have a thread read what the plan needs, then plan again, until there is something; then answer with that.

        A position is looked up in an index and in the batches behind it: on a cold disk each of these may wait.
        """
        brought = WaitList()
        places = self._start(brought)

        def attempt(_: WaitList) -> FetchResponse | None:
            nonlocal places
            rows = self.rows(patient=False)
            if self.is_blocked(rows):
                before, places = places, self._start(brought)
                if places != before:
                    return None
                rows = self.rows()  # it was brought, and is gone again: that would have no end
            self.warm_ahead()
            return self.response(rows)

        return Waiting([brought], self._context.broker.clock.monotonic_ms() + DISK_DEADLINE_MS, attempt, _late)

    def warm_ahead(self) -> None:
        """Have a thread read what this answer has to do without, as it will be asked for again."""
        if self.cold:
            self._start(WaitList())

    def _start(self, brought: WaitList) -> set[tuple[str, int]]:
        """Have a thread read all that is cold; then `brought` is touched. Gives the places."""
        broker = self._context.broker
        cold, self.cold = self.cold, []

        def read() -> None:
            for one in cold:
                one.warm()

        def done(_: object) -> None:  # if it failed, the next plan fails too, and says so
            for one in cold:
                one.release()
            broker.purgatory.touch(brought)

        broker.scheduler.in_thread(read, done)
        return {one.place for one in cold}

    def response(self, rows: list[Row]) -> FetchResponse:
        """The rows that the session wants told, grouped by topic."""
        topics: dict[TopicKey, FetchableTopicResponse] = {}
        for row in rows:
            key = row.key
            if not self._turn.keep(key, row.data):
                row.release()
                continue
            topic = topics.get(key)
            if topic is None:
                topic = topics[key] = (
                    FetchableTopicResponse(topic=key) if isinstance(key, str) else FetchableTopicResponse(topic_id=key)
                )
            topic.partitions.append(row.data)
        return FetchResponse(session_id=self._turn.session_id, responses=list(topics.values()))

    def _has_enough(self) -> bool:
        return sum(self._available.values()) >= self._min_bytes

    def _attempt(self, wait_list: WaitList) -> FetchResponse | None:
        key, wanted = self._watched[wait_list]
        row = self._row(key, wanted, wanted.partition_max_bytes, True)
        lists = len(self._watched)
        self._watch(row, True)
        is_another = len(self._watched) > lists  # made anew under its name: nothing here would hear of its appends
        is_ready = is_another or row.tells or self._has_enough()
        if is_ready and len(self._turn.partitions) == 1 and wanted.partition_max_bytes <= self._max_bytes:
            return self.response([row])  # all that planning once more would find
        row.release()
        return self.response(self.rows()) if is_ready else None

    def _row(self, key: TopicKey, wanted: FetchPartition, max_bytes: int, first: bool, patient: bool = True) -> Row:
        partition = None
        try:
            partitions = self._context.broker.partitions
            partition = partitions.get(key if isinstance(key, str) else partitions.topic_name(key), wanted.partition)
            partition.check_leader_epoch(wanted.current_leader_epoch)
            diverging = NO_DIVERGENCE if wanted.last_fetched_epoch < 0 else _diverging(partition, wanted)
            piece = None
            if diverging is NO_DIVERGENCE and (max_bytes > 0 or first):
                isolation = self._request.isolation_level
                piece = partition.read(wanted.fetch_offset, max_bytes, isolation, first, patient)
        except (KafkaError, OSError) as error:
            code, _ = refusal(error)
            return Row(key, wanted, None, PartitionData(wanted.partition, code, -1, records=b""))
        data = PartitionData(
            wanted.partition,
            ErrorCode.NONE,
            partition.high_watermark,
            partition.last_stable_offset,
            partition.log.start_offset,
            diverging,
            records=b"" if piece is None else piece,
        )
        return Row(key, wanted, partition, data)

    def _watch(self, row: Row, first: bool) -> None:
        """Note what a partition adds towards `min_bytes`, and that its moves matter."""
        if row.partition is not None:
            self._watched[row.partition.waiters] = row.key, row.wanted
            self._available[row.partition.waiters] = self._count(row.partition, row, first)

    def _count(self, partition: Partition, row: Row, first: bool) -> int:
        """The bytes that a partition adds towards `min_bytes`: all of these where waiting would not bring more."""
        size, piece = row.size, row.data.records
        if size >= self._min_bytes:
            return size
        end = partition.readable_end(self._request.isolation_level)
        if isinstance(piece, FileSlice):
            return size if _reaches(piece, partition, end) else self._min_bytes
        return 0 if first or row.wanted.fetch_offset >= end else self._min_bytes


def _reaches(piece: FileSlice, partition: Partition, end: int) -> bool:
    """Whether a piece goes up to the offset `end`; not if a limit cut it, or more is in the next segment."""
    segments = partition.log.segments
    last = segments[max(0, bisect_left(segments, end, key=lambda segment: segment.base_offset) - 1)]
    limit = last.size if end == partition.log.end_offset else last.locate(end)
    return piece.fileno == last.file.fileno and piece.position + len(piece) >= limit


def _diverging(partition: Partition, wanted: FetchPartition) -> EpochEndOffset:
    """Where the client's history leaves this leader's, NO_DIVERGENCE if it does not (KIP-595).

    Raises KafkaError(OFFSET_OUT_OF_RANGE) for an epoch that this leader has never heard of, as Kafka does.
    """
    epoch, end_offset = partition.log.epochs.end_offset_for(wanted.last_fetched_epoch)
    if epoch < 0:
        raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, f"nothing is known of epoch {wanted.last_fetched_epoch}")
    if epoch == wanted.last_fetched_epoch and end_offset >= wanted.fetch_offset:
        return NO_DIVERGENCE
    return EpochEndOffset(epoch=epoch, end_offset=end_offset)

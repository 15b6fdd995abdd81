"""Fetch: batches from offsets, as pieces of segment files.

v4 read_committed   v5 log_start_offset   v7 sessions (KIP-227)   v9 leader epochs (KIP-320)   v11 rack (KIP-392)   v12
flexible, diverging epochs (KIP-595)   v13 topic ids (KIP-516)   v15 replica state   v16 node endpoints (KIP-951)   v17
directory ids   v18 high watermark

A fetch that finds less than `min_bytes` waits for the partitions it named. Afterwards only a partition that moved is
counted again, and the pieces are planned anew when there is enough, or when the time is up. It never waits for bytes
that its own limits, or the end of an older segment, would keep from the reply.
"""

from bisect import bisect_left
from collections.abc import Sized

from gateway.context import Context, Services
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
from protocol.wire import ZERO_UUID
from storage.files import ColdRead
from storage.segment import FileSlice

TopicKey = str | bytes
_BLANK = PartitionData()
# The defaults themselves, which the writer need not look into.
NO_DIVERGENCE, NO_LEADER, NO_SNAPSHOT = _BLANK.diverging_epoch, _BLANK.current_leader, _BLANK.snapshot_id

# A client's own limit is 30 s in most libraries: who waits longer for a disk has asked again by then.
DISK_DEADLINE_MS = 30_000.0
# As many partitions are brought from the disk together; the others come with the next fetch.
COLD_AT_ONCE = 64


@handles(FetchRequest, versions="4-18")
def fetch(request: FetchRequest, context: Context) -> FetchResponse | Waiting:
    """Plan pieces of files for every partition wanted, or wait until there is enough to plan."""
    broker = context.broker
    turn = broker.fetch_sessions.begin(request, context.version, broker.clock.monotonic_ms())
    plan = Plan(request, broker, turn)
    rows = plan.rows(patient=False)
    if plan.is_due(rows):
        plan.warm_ahead()
        return plan.response(rows)
    for row in rows:
        _release(row)
    return plan.warm() if plan.cold else plan.wait()


def _late() -> FetchResponse:
    raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, "the disk has not answered in time")


class Plan:
    """One fetch: which partitions, how much each of them has, and the rows made of that: one for each, in order."""

    __slots__ = (
        "_broker",
        "_is_told",
        "_isolation_level",
        "_max_bytes",
        "_min_bytes",
        "_request",
        "_size",
        "_turn",
        "_watched",
        "cold",
    )

    def __init__(self, request: FetchRequest, broker: Services, turn: FetchTurn) -> None:
        self._request = request
        self._broker = broker
        self._turn = turn
        self._isolation_level = request.isolation_level
        self._max_bytes = min(request.max_bytes, broker.config.fetch_max_bytes)
        self._min_bytes = min(request.min_bytes, self._max_bytes)
        self._watched: dict[WaitList, tuple[int, int]] = {}
        """Which row hears of the list, and how many bytes it adds towards `min_bytes`."""
        self._size = 0
        """The bytes of records in the last rows."""
        self._is_told = False
        """Whether one of the last rows says something that the client must hear without waiting."""
        self.cold: list[ColdRead] = []
        """What the last plan would have had to wait for."""

    def rows(self, patient: bool = True) -> list[PartitionData]:
        """Plan every partition now. The first batch comes whole, whatever its size; the rest keeps to the limits.

        If not `patient`, a partition that would have to wait for the disk has nothing for now, and is noted in `cold`.
        """
        rows: list[PartitionData] = []
        size, most = 0, self._max_bytes
        self._is_told = False
        for key, wanted in self._turn.partitions:
            limit = wanted.partition_max_bytes
            if limit > most - size:
                limit = max(0, most - size)
            try:
                row = self._row(key, wanted, limit, not size, patient)
            except ColdRead as cold:
                self._note_cold(cold)
                row = self._row(key, wanted, 0, False)
            size += len(row.records or b"")
            rows.append(row)
        self._size = size
        return rows

    def _note_cold(self, cold: ColdRead) -> None:
        if len(self.cold) < COLD_AT_ONCE:
            cold.__traceback__ = None  # it holds the frames of what was given up
            self.cold.append(cold)
        else:
            cold.release()

    def is_due(self, rows: list[PartitionData]) -> bool:
        """Whether the reply need not wait: enough bytes, an error to tell, or a client that does not want to wait.

        If all that there may be is on the disk, it waits for that.
        """
        if self._is_told:
            return True
        if self._size >= self._min_bytes or not rows or self._request.max_wait_ms <= 0:
            return not self.is_blocked
        is_first = True
        for number, row in enumerate(rows):
            self._watch(number, row, is_first)
            is_first = is_first and not row.records
        return self._has_enough() and not self.is_blocked

    @property
    def is_blocked(self) -> bool:
        """Whether everything that there may be to answer has to wait for the disk."""
        return bool(self.cold) and not (self._size or self._is_told)

    def wait(self) -> Waiting:
        """Park until a partition has moved far enough, or `max_wait_ms` are over."""
        deadline_ms = self._broker.clock.monotonic_ms() + self._request.max_wait_ms
        return Waiting(self._watched, deadline_ms, self._attempt, self._expire)

    def _expire(self) -> FetchResponse:
        return self.response(self.rows())

    def warm(self) -> Waiting:
        """Have a thread read what the plan needs, then plan again, until there is something; then answer with that.

        A position is looked up in an index and in the batches behind it: on a cold disk each of these may wait.
        """
        brought = WaitList()
        places = self._start(brought)

        def attempt(_: WaitList) -> FetchResponse | None:
            nonlocal places
            rows = self.rows(patient=False)
            if self.is_blocked:
                before, places = places, self._start(brought)
                if places != before:
                    return None
                rows = self.rows()  # it was brought, and is gone again: that would have no end
            self.warm_ahead()
            return self.response(rows)

        return Waiting([brought], self._broker.clock.monotonic_ms() + DISK_DEADLINE_MS, attempt, _late)

    def warm_ahead(self) -> None:
        """Have a thread read what this answer has to do without, as it will be asked for again."""
        if self.cold:
            self._start(WaitList())

    def _start(self, brought: WaitList) -> set[tuple[str, int]]:
        """Have a thread read all that is cold; then `brought` is touched. Gives the places."""
        broker = self._broker
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

    def response(self, rows: list[PartitionData]) -> FetchResponse:
        """The rows that the session wants told, grouped by topic."""
        turn = self._turn
        topics: dict[TopicKey, FetchableTopicResponse] = {}
        for (key, _), row in zip(turn.partitions, rows, strict=True):
            if not turn.keep(key, row):
                _release(row)
            elif key in topics:
                topics[key].partitions.append(row)
            elif isinstance(key, str):
                topics[key] = FetchableTopicResponse(key, ZERO_UUID, [row])
            else:
                topics[key] = FetchableTopicResponse("", key, [row])
        return FetchResponse(0, ErrorCode.NONE, turn.session_id, [*topics.values()])

    def _has_enough(self) -> bool:
        return sum([size for _, size in self._watched.values()]) >= self._min_bytes

    def _attempt(self, wait_list: WaitList) -> FetchResponse | None:
        number, _ = self._watched[wait_list]
        key, wanted = self._turn.partitions[number]
        self._is_told = False
        row = self._row(key, wanted, wanted.partition_max_bytes, True)
        lists = len(self._watched)
        if not self._is_told:
            self._watch(number, row, True)
        is_another = len(self._watched) > lists  # made anew under its name: nothing here would hear of its appends
        is_ready = is_another or self._is_told or self._has_enough()
        if is_ready and len(self._turn.partitions) == 1 and wanted.partition_max_bytes <= self._max_bytes:
            return self.response([row])  # all that planning once more would find
        _release(row)
        return self.response(self.rows()) if is_ready else None

    def _find(self, key: TopicKey, index: int) -> Partition:
        partitions = self._broker.partitions
        return partitions.get(key if isinstance(key, str) else partitions.topic_name(key), index)

    def _row(
        self, key: TopicKey, wanted: FetchPartition, max_bytes: int, is_first: bool, patient: bool = True
    ) -> PartitionData:
        """What a partition has; notes in `_is_told` an error or a diverging epoch. Raises ColdRead if not `patient`."""
        diverging, records = NO_DIVERGENCE, None
        try:
            partition = self._find(key, wanted.partition)
            if wanted.current_leader_epoch != -1:
                partition.check_leader_epoch(wanted.current_leader_epoch)
            if wanted.last_fetched_epoch >= 0:
                diverging = _diverging(partition, wanted)
            if diverging is not NO_DIVERGENCE:
                self._is_told = True
            elif max_bytes > 0 or is_first:
                records = partition.read(wanted.fetch_offset, max_bytes, self._isolation_level, is_first, patient)
        except (KafkaError, OSError) as error:
            self._is_told = True
            code, _ = refusal(error)
            return PartitionData(wanted.partition, code, -1, records=b"")
        return PartitionData(
            wanted.partition,
            ErrorCode.NONE,
            partition.high_watermark,
            partition.last_stable_offset,
            partition.log.start_offset,
            diverging,
            NO_LEADER,
            NO_SNAPSHOT,
            [],
            -1,
            b"" if records is None else records,
        )

    def _watch(self, number: int, row: PartitionData, is_first: bool) -> None:
        """Note what a partition adds towards `min_bytes`, and that its moves matter."""
        key, wanted = self._turn.partitions[number]
        partition = self._find(key, wanted.partition)
        self._watched[partition.waiters] = number, self._count(partition, wanted.fetch_offset, row.records, is_first)

    def _count(self, partition: Partition, offset: int, records: Sized | None, is_first: bool) -> int:
        """The bytes that a partition adds towards `min_bytes`: all of these where waiting would not bring more."""
        if isinstance(records, FileSlice):
            size = records.length
            if size >= self._min_bytes or _reaches(records, partition, self._end(partition)):
                return size
            return self._min_bytes
        return 0 if is_first or offset >= self._end(partition) else self._min_bytes

    def _end(self, partition: Partition) -> int:
        return partition.readable_end(self._isolation_level)


def _release(row: PartitionData) -> None:
    """Give back the file of a row that is not sent."""
    if isinstance(row.records, FileSlice):
        row.records.release()


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

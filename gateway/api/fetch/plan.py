"""The plan of one fetch: its partitions, their rows, and whether these are enough for a response.

A fetch that finds less than `min_bytes` waits (`gateway.api.handlers.fetch`). Then only a changed partition is counted
again; the rows are planned again when there are enough bytes, or when the time is up. The fetch never waits for bytes
that its own limits, or the end of an older segment, would keep from the response.

More than `FEW` partitions are planned, and put into the response, in slices. Partitions that become dirty meanwhile are
planned before the fetch waits.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sized
from typing import TYPE_CHECKING, TypeAlias

from headgate.gateway.api.fetch.rows import NO_DIVERGENCE, PartitionReader, release, release_all
from headgate.gateway.api.fetch_sessions import FEW, CachedPartition, FetchTurn, SessionTurn, TopicKey
from headgate.gateway.runtime.disk_reads import DiskReads
from headgate.gateway.runtime.tasks import Changes, Task, WaitList, shielded
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from headgate.protocol.wire import ZERO_UUID
from headgate.storage.files import WouldBlock
from headgate.storage.segment.file_slice import FileSlice

if TYPE_CHECKING:
    from headgate.gateway.api.context import Services
    from headgate.gateway.replication.replica import Replica

# The limit of most client libraries is 30 s: a client that waits longer for a disk has retried by then.
DISK_DEADLINE_MS = 30_000.0
AT_ONCE = 16
"""Partitions between two readings of the clock, if there are many."""
_NOTHING_COUNTED = (-1, 0)

FetchRows: TypeAlias = list[PartitionData]
RowsByTopic: TypeAlias = dict[TopicKey, FetchableTopicResponse]
ReadRow: TypeAlias = Callable[[TopicKey, FetchPartition, int, bool, bool], PartitionData]
"""`PartitionReader.read`, or a function that calls it."""


def disk_is_late() -> KafkaError:
    """The error of a wait for something other than records."""
    return KafkaError(ErrorCode.REQUEST_TIMED_OUT, "the disk did not respond in time")


class FetchPlan:
    """One fetch: its partitions, their bytes, and their rows, one for each partition, in order."""

    __slots__ = (
        "_counted",
        "_is_first",
        "_max_bytes",
        "_max_wait_ms",
        "_min_bytes",
        "_read",
        "_size",
        "_watched",
        "broker",
        "cold",
        "deadline_ms",
        "reader",
        "turn",
    )

    def __init__(
        self,
        request: FetchRequest,
        broker: Services,
        turn: FetchTurn,
        now_ms: float,
        reader: PartitionReader,
        read: ReadRow | None = None,
    ) -> None:
        self.broker = broker
        self.turn = turn
        self.reader = reader
        self.deadline_ms = now_ms + request.max_wait_ms
        self.cold: DiskReads | None = None
        """The disk reads that the last plan needs."""
        self._read = reader.read if read is None else read
        self._max_wait_ms = request.max_wait_ms
        self._max_bytes = min(request.max_bytes, broker.config.fetch_max_bytes)
        self._min_bytes = min(request.min_bytes, self._max_bytes)
        self._watched: dict[WaitList, tuple[int, int]] = {}
        """The wait lists, each with its row's number, and the row's bytes towards `min_bytes`."""
        self._counted = 0
        """The sum of these bytes."""
        self._is_first = True
        """Whether no counted row has records."""
        self._size = 0
        """The bytes of records in the last rows."""

    def limit(self, max_bytes: int) -> int:
        """Lower the limit of the response. Returns the limit."""
        self._max_bytes = min(self._max_bytes, max_bytes)
        self._min_bytes = min(self._min_bytes, self._max_bytes)
        return self._max_bytes

    # Planning

    def few_rows(self, *, blocking: bool = False) -> FetchRows | None:
        """The rows; None if there are many, which take several slices."""
        turn = self.turn
        if len(turn.partitions) > FEW or turn.pending_update is not None:
            return None
        rows: FetchRows = []
        self._plan_some(rows, FEW, blocking)
        return rows

    def all_rows(self, *, blocking: bool = False) -> Task[FetchRows]:
        """The rows of any plan. Raises KafkaError(FETCH_SESSION_ID_NOT_FOUND) for a session that has grown too large.

        If not `blocking`, a partition that would wait for the disk gets an empty row, and a note in `cold`.
        """
        turn, update = self.turn, self.turn.pending_update
        if update is not None:  # the session remembers what the fetch names, also if the client has disconnected
            yield from shielded(self.broker.tasks, lambda _: update, self.disk_deadline_ms(), disk_is_late)
        rows = self.few_rows(blocking=blocking)
        if rows is not None:
            return rows
        rows = []
        while len(rows) < len(turn.partitions):
            start = len(rows)
            self._plan_some(rows, start + AT_ONCE, blocking)
            if self._max_wait_ms > 0:
                self._count_some(rows, start)
            yield None
        return rows

    def new_rows(self, *, blocking: bool = False) -> Task[FetchRows]:
        """Plan every partition again, including those that are dirty now."""
        if self.turn.items is not None:
            self.turn.gather()
        self._size = self._counted = 0
        self.reader.is_urgent = False
        self._is_first = True
        if self._watched:
            self._watched = {}  # a new dict: a parked fetch is in the lists of the old one
        return self.all_rows(blocking=blocking)

    def _plan_some(self, rows: FetchRows, end: int, blocking: bool) -> None:
        """Add rows up to the number `end`. The first batch comes whole, whatever its size; the rest keeps limits."""
        turn, size, most = self.turn, self._size, self._max_bytes
        items = turn.items
        for key, wanted in turn.partitions[len(rows) : end]:
            limit = wanted.partition_max_bytes
            if limit > most - size:
                limit = max(0, most - size)
            try:
                row = self._read(key, wanted, limit, not size, blocking)
            except WouldBlock as cold:
                self._note_cold(cold)
                row = self._read(key, wanted, 0, False, True)
            if items is not None:
                self._note_read(items[len(rows)], wanted, row)
            records = row.records
            if records is not None:
                size += records.length if isinstance(records, FileSlice) else len(records)
            rows.append(row)
        self._size = size

    def _note_read(self, item: CachedPartition, wanted: FetchPartition, row: PartitionData) -> None:
        """Make a partition clean if it has nothing to read now; its session watches it for the next change."""
        item.is_clean = False
        replica = self.reader.replica
        if row.records or replica is None or row.diverging_epoch is not NO_DIVERGENCE:
            return
        # After the limits were used up, no read has checked whether the log has the offset at all.
        if self._end(replica) <= wanted.fetch_offset <= replica.log.end_offset:
            item.is_clean = True
            item.watch(self.reader.waiters(replica))

    def _note_cold(self, cold: WouldBlock) -> None:
        if self.cold is None:
            self.cold = DiskReads(self.broker.scheduler, self.broker.tasks)
        if self.cold and self.broker.partitions.held.is_full:  # one read is always kept
            cold.release()
        else:
            self.cold.note(cold)

    # Is it enough?

    def answers_now(self, rows: FetchRows) -> bool:
        """Whether to answer without a wait: enough bytes, an urgent row, or a client that does not want to wait.

        If all possible data is on the disk, the fetch waits for the disk.
        """
        if self.reader.is_urgent:
            return True
        is_about_nothing = not rows and self.turn.changed is None
        if self._size >= self._min_bytes or is_about_nothing or self._max_wait_ms <= 0:
            return not self.is_blocked
        if len(rows) <= FEW:  # more rows were counted as they were planned
            self._count_some(rows, 0)
        return self._counted >= self._min_bytes and not self.is_blocked

    def enough(self, rows: FetchRows) -> FetchRows | None:
        """The rows if the answer is due; otherwise they are released."""
        if self.answers_now(rows):
            return rows
        release_all(rows)
        return None

    @property
    def has_enough(self) -> bool:
        """Whether what was counted is worth a response."""
        return self.reader.is_urgent or self._counted >= self._min_bytes

    @property
    def is_blocked(self) -> bool:
        """Whether all possible data has to be read from the disk first."""
        return bool(self.cold) and not (self._size or self.reader.is_urgent)

    @property
    def is_late(self) -> bool:
        """Whether the client's time is up."""
        return self.broker.clock.monotonic_ms() >= self.deadline_ms

    def disk_deadline_ms(self) -> float:
        """The deadline of a wait for a disk that begins now."""
        return self.broker.clock.monotonic_ms() + DISK_DEADLINE_MS

    def _count_some(self, rows: FetchRows, start: int) -> None:
        """Count the rows from number `start` on towards `min_bytes`, and keep the partitions with something to send."""
        if self.reader.is_urgent:  # the fetch does not wait
            return
        turn, is_first = self.turn, self._is_first or not start
        items = turn.items
        for number in range(start, len(rows)):
            row = rows[number]
            if items is None:
                self._watch(number, row, is_first)
            elif turn.keep(items[number], row):
                self._watch(number, row, is_first, items[number])
            is_first = is_first and not row.records
        self._is_first = is_first

    # Changes while the fetch waits

    def changes(self) -> Changes:
        """The wait for a change that may bring data. A follower is called back for another partition to fetch."""
        follower = self.reader.follower
        if follower is None:
            return Changes(self.changing, self.deadline_ms)
        first_fetches, node_id = self.broker.partitions.leadership.in_sync_replicas.first_fetches, follower.node_id
        until_ms = self.deadline_ms
        if first_fetches.is_expecting:
            until_ms = min(until_ms, first_fetches.park_until_ms(node_id))
        return Changes((*self.changing, first_fetches.called(node_id)), until_ms)

    @property
    def changing(self) -> Collection[WaitList]:
        """The lists whose change may bring data: one for each partition, or the one of the session."""
        changed = self.turn.changed
        return self._watched if changed is None else (changed,)

    def count_changed(self, changed: WaitList) -> FetchRows | None:
        """Without a session: plan and count the changed partition. None: it has to be read from its disk.

        None also if the change is no partition's: the follower has another partition to fetch.
        """
        if changed not in self._watched:
            return None
        number, _ = self._watched[changed]
        key, wanted = self.turn.partitions[number]
        reader, lists = self.reader, len(self._watched)
        reader.is_urgent = False
        try:
            row = self._read(key, wanted, wanted.partition_max_bytes, True, False)
        except WouldBlock as cold:
            self._note_cold(cold)
            return None
        if not reader.is_urgent:
            self._watch(number, row, True)
            reader.is_urgent = len(self._watched) > lists  # a new topic of that name: its appends would not be seen
        return [row]

    def count_marked(self, marked: list[CachedPartition], turn: SessionTurn) -> FetchRows | None:
        """In a session: plan and count the partitions that became dirty. None: one has to be read from its disk."""
        self.reader.is_urgent = False
        rows: FetchRows = []
        for number, item in enumerate(marked):
            try:
                rows.append(self._recount(item, turn))
            except WouldBlock as cold:
                self._note_cold(cold)
                release_all(rows)
                for unread in marked[number:]:
                    unread.mark()
                return None
        return rows

    def is_within_limits(self, wanted: tuple[TopicKey, FetchPartition]) -> bool:
        """Whether a partition's own limit is the lowest."""
        return wanted[1].partition_max_bytes <= self._max_bytes

    def _recount(self, item: CachedPartition, turn: SessionTurn) -> PartitionData:
        """Count a partition again. Raises WouldBlock."""
        key, wanted = item.wanted
        row = self._read(key, wanted, wanted.partition_max_bytes, True, False)
        self._note_read(item, wanted, row)
        replica = self.reader.replica
        if turn.keep(item, row) and replica is not None:
            waiters = self.reader.waiters(replica)
            self._note(waiters, -1, self._count(replica, wanted.fetch_offset, row.records, True))
            if self._counted < self._min_bytes:
                item.watch(waiters)
        return row

    def _watch(self, number: int, row: PartitionData, is_first: bool, item: CachedPartition | None = None) -> None:
        """Count a partition's bytes towards `min_bytes`, and wait for its changes."""
        key, wanted = self.turn.partitions[number]
        replica = self.reader.find(key, wanted.partition)
        waiters = self.reader.waiters(replica)
        if item is not None:
            item.watch(waiters)  # also if the partition has data already
        self._note(waiters, number, self._count(replica, wanted.fetch_offset, row.records, is_first))

    def _note(self, waiters: WaitList, number: int, size: int) -> None:
        _, before = self._watched.get(waiters, _NOTHING_COUNTED)
        self._watched[waiters] = number, size
        self._counted += size - before

    def _count(self, replica: Replica, offset: int, records: Sized | None, is_first: bool) -> int:
        """The bytes that a partition adds towards `min_bytes`; all of `min_bytes` if a wait would bring no more."""
        if isinstance(records, FileSlice):
            size = records.length
            if size >= self._min_bytes or _reaches(records, replica, self._end(replica)):
                return size
            return self._min_bytes
        return 0 if is_first or offset >= self._end(replica) else self._min_bytes

    def _end(self, replica: Replica) -> int:
        return replica.readable_end(self.reader.isolation_level)

    # Answering

    def response(self, rows: FetchRows) -> FetchResponse:
        """The response with the rows to send, grouped by topic. Threads read the rest for the next fetch."""
        if self.cold:
            self.cold.start()
        return self._respond(self._select_some({}, rows))

    def response_in_slices(self, rows: FetchRows) -> Task[FetchResponse]:
        """`response`, with any number of rows."""
        if self.cold:
            self.cold.start()
        topics: RowsByTopic = {}
        for start in range(0, len(rows), AT_ONCE):
            self._select_some(topics, rows[start : start + AT_ONCE], start)
            yield None
        return self._respond(topics)

    def _select_some(self, topics: RowsByTopic, rows: FetchRows, start: int = 0) -> RowsByTopic:
        """Add the rows from number `start` on to their topics."""
        turn, count = self.turn, self.reader.count_out
        is_remembered = turn.items is not None
        partitions = turn.partitions[start : start + AT_ONCE] if start else turn.partitions
        for number, ((key, _), row) in enumerate(zip(partitions, rows, strict=False), start):
            if is_remembered and not turn.select(number, row):
                release(row)
                continue
            records = row.records
            size = records.length if isinstance(records, FileSlice) else len(records or b"")
            if size:
                count(key, row.partition_index, size)
            if key in topics:
                topics[key].partitions.append(row)
            elif isinstance(key, str):
                topics[key] = FetchableTopicResponse(key, ZERO_UUID, [row])
            else:
                topics[key] = FetchableTopicResponse("", key, [row])
        return topics

    def _respond(self, topics: RowsByTopic) -> FetchResponse:
        turn = self.turn
        if turn.items is not None:
            turn.end()
        return FetchResponse(0, ErrorCode.NONE, turn.session_id, [*topics.values()], self.reader.endpoints)


def _reaches(piece: FileSlice, replica: Replica, end: int) -> bool:
    """Whether a piece extends to the offset `end`: no limit cut it, and no later segment has more."""
    segments = replica.log.segments
    last = segments.owner(end - 1)
    limit = last.size
    if end != replica.log.end_offset:
        owner, position = segments.locate(end)  # the plan has just looked this up: nothing is read
        limit = position if owner is last else limit
    return piece.fileno == last.file.fileno and piece.position + len(piece) >= limit

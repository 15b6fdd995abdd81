"""One fetch: the decision to answer now or to wait, what ends the wait, and the partitions of the response.

A fetch that finds less than `min_bytes` waits for its partitions, or for its session. Later only a changed partition is
counted again; the rows are planned anew when there are enough bytes, or when the time is up. The fetch never waits for
bytes that its own limits, or the end of an older segment, would keep from the response.

More than `FEW` partitions are planned, and sent, a millisecond at a time. Partitions that become dirty meanwhile are
planned before the fetch is parked.

`gateway.api.handlers.fetch` makes the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sized
from typing import TYPE_CHECKING, TypeAlias

from headgate.gateway.api.fetch_sessions import FEW, CachedPartition, FetchTurn, SessionTurn, TopicKey
from headgate.gateway.runtime.disk_reads import DiskReads
from headgate.gateway.runtime.purgatory import Waiting, WaitList
from headgate.protocol.errors import ErrorCode, KafkaError, without_frames
from headgate.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    NodeEndpoint,
    PartitionData,
)
from headgate.protocol.wire import ZERO_UUID
from headgate.storage.files import WouldBlock
from headgate.storage.segment.file_slice import FileSlice

if TYPE_CHECKING:
    from headgate.gateway.api.context import HandlerContext
    from headgate.gateway.replication.replica import Replica

NO_DIVERGENCE = PartitionData().diverging_epoch
"""The default instance: the writer skips it without a look at its fields."""
NO_ENDPOINTS: list[NodeEndpoint] = []

# The limit of most client libraries is 30 s: a client that waits longer for a disk has retried by then.
DISK_DEADLINE_MS = 30_000.0
AT_ONCE = 16
"""Partitions between two readings of the clock, if there are many."""
_NOTHING_COUNTED = (-1, 0)

Then: TypeAlias = Callable[[list[PartitionData]], FetchResponse | Waiting]
"""Makes a response of the rows of a plan."""
Topics: TypeAlias = dict[TopicKey, FetchableTopicResponse]


def late() -> FetchResponse:
    """Raises KafkaError(REQUEST_TIMED_OUT): a wait for something other than records took too long."""
    raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, "the disk did not respond in time")


class DelayedFetch:
    """One fetch: its partitions, their bytes, and their rows, one for each partition, in order.

    More than `FEW` partitions are planned, and sent, in steps; partitions that become dirty meanwhile are planned
    afterwards.
    """

    __slots__ = (
        "_broker",
        "_context",
        "_counted",
        "_deadline_ms",
        "_endpoints",
        "_is_first",
        "_is_urgent",
        "_isolation_level",
        "_max_bytes",
        "_min_bytes",
        "_request",
        "_seen",
        "_size",
        "_turn",
        "_watched",
        "cold",
    )

    def __init__(self, request: FetchRequest, context: HandlerContext, turn: FetchTurn, now_ms: float) -> None:
        broker = context.broker
        self._request = request
        self._context = context
        self._broker = broker
        self._turn = turn
        self._isolation_level = request.isolation_level
        self._max_bytes = min(request.max_bytes, broker.config.fetch_max_bytes)
        self._min_bytes = min(request.min_bytes, self._max_bytes)
        self._deadline_ms = now_ms + request.max_wait_ms
        self._watched: dict[WaitList, tuple[int, int]] = {}
        """The wait lists, each with its row's number, and the row's bytes towards `min_bytes`."""
        self._counted = 0
        """The sum of these bytes."""
        self._is_first = True
        """Whether no counted row has records."""
        self._size = 0
        """The bytes of records in the last rows."""
        self._is_urgent = False
        """Whether one of the last rows must be sent without a wait."""
        self._seen: Replica | None = None
        """The last planned partition, unless that was an error."""
        self._endpoints = NO_ENDPOINTS
        self.cold: DiskReads | None = None
        """The disk reads that the last plan needs."""

    # Planning

    def answer(self) -> FetchResponse | Waiting:
        """Plan every partition. Returns the response, or what it waits for."""
        turn = self._turn
        if len(turn.partitions) > FEW or turn.pending_update is not None:
            return self._plan_in_slices(self._answer_with, blocking=False)
        rows: list[PartitionData] = []
        self._plan_some(rows, FEW, blocking=False)
        return self._answer_with(rows)

    def _answer_now(self) -> FetchResponse | Waiting:
        """Plan every partition anew, and answer with the data in memory."""
        return self._plan_again(self._last)

    def _plan_again(self, then: Then, blocking: bool = False) -> FetchResponse | Waiting:
        """Plan every partition anew, including those that are dirty now, and continue with the rows."""
        if self._turn.items is not None:
            self._turn.gather()
        self._size = self._counted = 0
        self._is_urgent = False
        self._is_first = True
        if self._watched:
            self._watched = {}  # a new dict: a parked fetch is in the lists of the old one
        turn = self._turn
        if len(turn.partitions) > FEW or turn.pending_update is not None:
            return self._plan_in_slices(then, blocking)
        rows: list[PartitionData] = []
        self._plan_some(rows, FEW, blocking)
        return then(rows)

    def _answer_with(self, rows: list[PartitionData]) -> FetchResponse | Waiting:
        if self.answers_now(rows):
            return self._last(rows)
        for row in rows:
            release(row)
        return self.warm() if self.cold else self.wait()

    def _last(self, rows: list[PartitionData]) -> FetchResponse | Waiting:
        """Answer with the data in memory. Threads read the rest for the next fetch, which may wait for it."""
        if self.cold:
            self.cold.start(None)
        return self.response(rows)

    def _plan_in_slices(self, then: Then, blocking: bool) -> Waiting:
        rows: list[PartitionData] = []
        turn = self._turn

        def steps() -> Iterator[None]:
            yield from turn.pending_update or ()
            while len(rows) < len(turn.partitions):
                start = len(rows)
                self._plan_some(rows, start + AT_ONCE, blocking)
                if self._request.max_wait_ms > 0:
                    self._count_some(rows, start)
                yield

        return self._run_in_slices(steps(), lambda: then(rows))

    def _run_in_slices(self, steps: Iterator[None], then: Callable[[], FetchResponse | Waiting]) -> Waiting:
        """Run steps a millisecond at a time, then call `then`."""
        is_done, failed, turn = WaitList(), list[Exception](), self._turn

        def run() -> Iterator[None]:
            try:
                for _ in steps:
                    yield
                    if not is_done.waiters and turn.pending_update is None:  # the client has disconnected
                        return
            except Exception as error:  # noqa: BLE001  `attempt` raises the error again
                failed.append(without_frames(error))

        def attempt(_: WaitList) -> FetchResponse | Waiting:
            if failed:
                raise failed[0]
            return then()

        sessions, purgatory = self._broker.fetch_sessions, self._broker.purgatory
        sessions.run_in_slices(run(), lambda: purgatory.touch(is_done))
        return Waiting([is_done], self._broker.clock.monotonic_ms() + DISK_DEADLINE_MS, attempt, late)

    def _plan_some(self, rows: list[PartitionData], end: int, blocking: bool) -> None:
        """Add rows up to the number `end`. The first batch is complete, whatever its size; the rest keeps the limits.

        If not `blocking`, a partition that would wait for the disk gets an empty row, and a note in `cold`.
        """
        turn, size, most = self._turn, self._size, self._max_bytes
        items = turn.items
        for key, wanted in turn.partitions[len(rows) : end]:
            limit = wanted.partition_max_bytes
            if limit > most - size:
                limit = max(0, most - size)
            try:
                row = self._row(key, wanted, limit, not size, blocking)
            except WouldBlock as cold:
                self._note_cold(cold)
                row = self._row(key, wanted, 0, False)
            if items is not None:
                self._note_look(items[len(rows)], wanted, row)
            size += len(row.records or b"")
            rows.append(row)
        self._size = size

    def _note_look(self, item: CachedPartition, wanted: FetchPartition, row: PartitionData) -> None:
        """Make a partition clean if it has nothing to read now; its session watches it for the next change."""
        item.is_clean = False
        partition = self._seen
        if row.records or partition is None or row.diverging_epoch is not NO_DIVERGENCE:
            return
        # After the limits were used up, no read has checked whether the log has the offset at all.
        if self._end(partition) <= wanted.fetch_offset <= partition.log.end_offset:
            item.is_clean = True
            item.watch(partition.waiters)

    def _note_cold(self, cold: WouldBlock) -> None:
        if self.cold is None:
            self.cold = DiskReads(self._broker.scheduler, self._broker.purgatory)
        if self.cold and self._broker.partitions.held.is_full:  # one read is always kept
            cold.release()
        else:
            self.cold.note(cold)

    def answers_now(self, rows: list[PartitionData]) -> bool:
        """Whether to answer without a wait: enough bytes, an urgent row, or a client that does not want to wait.

        If all possible data is on the disk, the fetch waits for the disk.
        """
        if self._is_urgent:
            return True
        is_about_nothing = not rows and self._turn.changed is None
        if self._size >= self._min_bytes or is_about_nothing or self._request.max_wait_ms <= 0:
            return not self.is_blocked
        if len(rows) <= FEW:  # more rows were counted as they were planned
            self._count_some(rows, 0)
        return self._counted >= self._min_bytes and not self.is_blocked

    def _count_some(self, rows: list[PartitionData], start: int) -> None:
        """Count the rows from number `start` on towards `min_bytes`, and keep the partitions with something to send."""
        if self._is_urgent:  # the fetch does not wait
            return
        turn, is_first = self._turn, self._is_first or not start
        items = turn.items
        for number in range(start, len(rows)):
            row = rows[number]
            if items is None:
                self._watch(number, row, is_first)
            elif turn.keep(items[number], row):
                self._watch(number, row, is_first, items[number])
            is_first = is_first and not row.records
        self._is_first = is_first

    @property
    def is_blocked(self) -> bool:
        """Whether all possible data has to be read from the disk first."""
        return bool(self.cold) and not (self._size or self._is_urgent)

    # Waiting

    def wait(self) -> FetchResponse | Waiting:
        """Park until a partition has enough data, or `max_wait_ms` since the request's arrival are over."""
        turn = self._turn
        if not isinstance(turn, SessionTurn) or turn.changed is None:
            return Waiting(self._watched, self._deadline_ms, self._attempt, self._answer_now)
        turn.park()
        moved = self._plan_marked(turn) if turn.marked else None  # marked while others were planned
        if moved is not None:
            return moved
        return Waiting((turn.changed,), self._deadline_ms, lambda _: self._plan_marked(turn), self._answer_now)

    def warm(self) -> Waiting:
        """Read the plan's data in threads, then plan again, until there is some data; then answer with that.

        A position is looked up in an index and in the batches behind it: on a cold disk each of these may block.
        """
        assert self.cold is not None
        cold, warmed = self.cold, WaitList()
        places = cold.start(warmed)
        deadline_ms = self._broker.clock.monotonic_ms() + DISK_DEADLINE_MS

        def again(rows: list[PartitionData]) -> FetchResponse | Waiting:
            nonlocal places
            if self.is_blocked:
                others = bool(cold.in_progress)  # some may be on a hanging disk
                before, places = places, cold.start(warmed)
                if others or places != before:
                    return waiting()
                return self._plan_again(self._last, blocking=True)  # read and evicted: repetition might not end
            return self._last(rows)

        def waiting() -> Waiting:
            changed = self._turn.changed
            others = self._watched if changed is None else (changed,)  # new data of these needs no disk
            return Waiting([warmed, *others], deadline_ms, lambda _: self._plan_again(again), late)

        return waiting()

    # Answering

    def response(self, rows: list[PartitionData]) -> FetchResponse | Waiting:
        """The response with the rows to send, grouped by topic; or a wait for the steps that build it."""
        if len(rows) <= FEW:
            return self._respond(self._select_some({}, rows))
        topics: Topics = {}

        def steps() -> Iterator[None]:
            for start in range(0, len(rows), AT_ONCE):
                self._select_some(topics, rows[start : start + AT_ONCE], start)
                yield

        return self._run_in_slices(steps(), lambda: self._respond(topics))

    def _select_some(self, topics: Topics, rows: list[PartitionData], start: int = 0) -> Topics:
        """Add the rows from number `start` on to their topics."""
        turn = self._turn
        is_remembered = turn.items is not None
        partitions = turn.partitions[start : start + AT_ONCE] if start else turn.partitions
        for number, ((key, _), row) in enumerate(zip(partitions, rows, strict=False), start):
            if is_remembered and not turn.select(number, row):
                release(row)
            elif key in topics:
                topics[key].partitions.append(row)
            elif isinstance(key, str):
                topics[key] = FetchableTopicResponse(key, ZERO_UUID, [row])
            else:
                topics[key] = FetchableTopicResponse("", key, [row])
        return topics

    def _respond(self, topics: Topics) -> FetchResponse:
        turn = self._turn
        if turn.items is not None:
            turn.end()
        return FetchResponse(0, ErrorCode.NONE, turn.session_id, [*topics.values()], self._endpoints)

    # What has changed while it waits

    def _attempt(self, wait_list: WaitList) -> FetchResponse | Waiting | None:
        """Without a session: plan the changed partition."""
        number, _ = self._watched[wait_list]
        key, wanted = self._turn.partitions[number]
        self._is_urgent = False
        try:
            row = self._row(key, wanted, wanted.partition_max_bytes, True, blocking=False)
        except WouldBlock as cold:
            self._note_cold(cold)
            return self._answer_now()
        lists = len(self._watched)
        if not self._is_urgent:
            self._watch(number, row, True)
        is_another = len(self._watched) > lists  # a new topic of that name: this fetch would not see its appends
        is_ready = is_another or self._is_urgent or self._counted >= self._min_bytes
        if is_ready and len(self._turn.partitions) == 1 and wanted.partition_max_bytes <= self._max_bytes:
            return self.response([row])  # a new plan would find nothing more
        release(row)
        return self._answer_now() if is_ready else None

    def _plan_marked(self, turn: SessionTurn) -> FetchResponse | Waiting | None:
        """In a session: plan the partitions that became dirty."""
        if turn.is_over:
            return self._answer_now()
        marked, rows = turn.take_marked(), list[PartitionData]()
        if marked is None:
            is_late = self._broker.clock.monotonic_ms() >= self._deadline_ms
            return self._plan_again(self._last if is_late else self._answer_with)
        self._is_urgent = False
        for item in marked:
            try:
                rows.append(self._look_at(item, turn))
            except WouldBlock as cold:
                self._note_cold(cold)
                item.mark()
                return self._answer_now()
        if not self._is_urgent and self._counted < self._min_bytes:
            return None
        limit = marked[0].wanted[1].partition_max_bytes if len(marked) == 1 else self._max_bytes + 1
        if limit <= self._max_bytes and turn.narrow():
            return self.response(rows)  # a new plan would find nothing more
        return self._answer_now()

    def _look_at(self, item: CachedPartition, turn: SessionTurn) -> PartitionData:
        """Count a partition anew. Raises WouldBlock."""
        key, wanted = item.wanted
        row = self._row(key, wanted, wanted.partition_max_bytes, True, blocking=False)
        self._note_look(item, wanted, row)
        partition = self._seen
        if turn.keep(item, row) and partition is not None:
            self._note(partition, -1, self._count(partition, wanted.fetch_offset, row.records, True))
            if self._counted < self._min_bytes:
                item.watch(partition.waiters)
        return row

    def _row(
        self, key: TopicKey, wanted: FetchPartition, max_bytes: int, is_first: bool, blocking: bool = True
    ) -> PartitionData:
        """Plan a partition. Sets `_seen`, and `_is_urgent` for an error or a diverging epoch.

        Raises WouldBlock if not `blocking`.
        """
        raise NotImplementedError

    def _find(self, key: TopicKey, index: int) -> Replica:
        partitions = self._broker.partitions
        return partitions.get(key if isinstance(key, str) else partitions.topic_name(key), index)

    def _watch(self, number: int, row: PartitionData, is_first: bool, item: CachedPartition | None = None) -> None:
        """Count a partition's bytes towards `min_bytes`, and wait for its changes."""
        key, wanted = self._turn.partitions[number]
        partition = self._find(key, wanted.partition)
        if item is not None:
            item.watch(partition.waiters)  # also if the partition has data already
        self._note(partition, number, self._count(partition, wanted.fetch_offset, row.records, is_first))

    def _note(self, partition: Replica, number: int, size: int) -> None:
        _, before = self._watched.get(partition.waiters, _NOTHING_COUNTED)
        self._watched[partition.waiters] = number, size
        self._counted += size - before

    def _count(self, partition: Replica, offset: int, records: Sized | None, is_first: bool) -> int:
        """The bytes that a partition adds towards `min_bytes`; all of `min_bytes` if a wait would bring no more."""
        if isinstance(records, FileSlice):
            size = records.length
            if size >= self._min_bytes or _reaches(records, partition, self._end(partition)):
                return size
            return self._min_bytes
        return 0 if is_first or offset >= self._end(partition) else self._min_bytes

    def _end(self, partition: Replica) -> int:
        return partition.readable_end(self._isolation_level)


def release(row: PartitionData) -> None:
    """Release the file of a row that is not sent."""
    if isinstance(row.records, FileSlice):
        row.records.release()


def _reaches(piece: FileSlice, partition: Replica, end: int) -> bool:
    """Whether a piece extends to the offset `end`: no limit cut it, and no later segment has more."""
    segments = partition.log.segments
    last = segments.owner(end - 1)
    limit = last.size
    if end != partition.log.end_offset:
        owner, position = segments.locate(end)  # the plan has just looked this up: nothing is read
        limit = position if owner is last else limit
    return piece.fileno == last.file.fileno and piece.position + len(piece) >= limit

"""Fetch: batches from offsets, as pieces of segment files.

v0-1 message sets of magic 0   v2-3 of magic 1   v3 max_bytes (KIP-74)   v4 batches, read_committed   v5
log_start_offset   v7 sessions (KIP-227)   v9 leader epochs (KIP-320)   v10 zstd (KIP-110)   v11 rack (KIP-392)   v12
flexible, diverging epochs (KIP-595)   v13 topic ids (KIP-516)   v15 replica state   v16 node endpoints (KIP-951)   v17
directory ids   v18 high watermark

A fetch that finds less than `min_bytes` waits for the partitions it named. Afterwards only a partition that moved is
counted again, and the pieces are planned anew when there is enough, or when the time is up. It never waits for bytes
that its own limits, or the end of an older segment, would keep from the reply.

Versions before 10 do not know zstd, and those before 4 no batches: what they get is made from the pieces, in bytes.
Versions from 4 on know nothing but batches: they are made of messages of magic 0 and 1, which an adopted log may hold.
"""

import contextlib
from bisect import bisect_left
from collections.abc import Callable, Sized
from functools import partial
from typing import Any, TypeAlias

from gateway import conversion
from gateway.advertised import leader_of
from gateway.context import Context
from gateway.conversion import Steps
from gateway.handlers import handles
from gateway.handlers.each import known_code, refusal
from gateway.replication.partition import READ_COMMITTED, Partition
from gateway.sessions import FetchTurn
from gateway.waiting import Waiting, WaitList
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)
from protocol.wire import ZERO_UUID
from storage.files import ColdRead, Place
from storage.slices import FileSlice, MessagesSlice

TopicKey = str | bytes
_BLANK = PartitionData()
# The defaults themselves, which the writer need not look into.
NO_DIVERGENCE, NO_LEADER, NO_SNAPSHOT = _BLANK.diverging_epoch, _BLANK.current_leader, _BLANK.snapshot_id
NO_ENDPOINTS: list[NodeEndpoint] = []
NO_PLACES = frozenset[Place]()

# A client's own limit is 30 s in most libraries: who waits longer for a disk has asked again by then.
DISK_DEADLINE_MS = 30_000.0
# As many partitions are brought from the disk together; the others come with the next fetch.
COLD_AT_ONCE = 64

# What is converted is held in memory until it is sent: no more of it at once, unless a single batch is larger. While
# others wait for their conversions it is less.
CONVERTED_BYTES, LEAST_CONVERTED_BYTES = 1 << 20, 1 << 16
# So much is looked at in a slice of that, with so much counted for a partition in which nothing is to be done.
SLICE_BYTES, LOOK_BYTES = 1 << 14, 1 << 8

HINTED = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)
"""The errors with which a client is told the leader (KIP-951)."""
Converted: TypeAlias = conversion.Made | KafkaError | OSError | None
STORAGE_ERROR_SINCE = 6
"""The version from which on a client knows KAFKA_STORAGE_ERROR (KIP-112)."""


def _late() -> FetchResponse:
    raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, "the disk has not answered in time")


class Plan:
    """One fetch: which partitions, how much each of them has, and the rows made of that: one for each, in order."""

    __slots__ = (
        "_broker",
        "_context",
        "_endpoints",
        "_is_told",
        "_isolation_level",
        "_max_bytes",
        "_min_bytes",
        "_request",
        "_size",
        "_turn",
        "_under_way",
        "_watched",
        "cold",
    )

    def __init__(self, request: FetchRequest, context: Context, turn: FetchTurn) -> None:
        broker = context.broker
        self._request = request
        self._context = context
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
        self._endpoints = NO_ENDPOINTS
        self._under_way = NO_PLACES
        """The places of what threads read for it."""
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

    def _expire(self) -> FetchResponse | Waiting:
        """Answer with what is in memory. The rest is brought for the next fetch, which may wait for it."""
        rows = self.rows(patient=False)
        self.warm_ahead()
        return self.response(rows)

    def warm(self) -> Waiting:
        """Have a thread read what the plan needs, then plan again, until there is something; then answer with that.

        A position is looked up in an index and in the batches behind it: on a cold disk each of these may wait.
        """
        brought = WaitList()
        places = self._start(brought)

        def attempt(_: WaitList) -> FetchResponse | Waiting | None:
            nonlocal places
            rows = self.rows(patient=False)
            if self.is_blocked:
                others = bool(self._under_way)  # which may be of a disk that hangs
                before, places = places, self._start(brought)
                if others or places != before:
                    return None
                rows = self.rows()  # it was brought, and is gone again: that would have no end
            self.warm_ahead()
            return self.response(rows)

        deadline_ms = self._broker.clock.monotonic_ms() + DISK_DEADLINE_MS
        return Waiting([brought, *self._watched], deadline_ms, attempt, _late)  # what comes to others needs no disk

    def warm_ahead(self) -> None:
        """Have threads read what this answer has to do without, as it will be asked for again."""
        if self.cold:
            self._start(None)

    def _start(self, brought: WaitList | None) -> set[Place]:
        """Have a thread of each disk read what is cold and not read yet; `brought` is touched. Gives the places.

        If nobody waits for it, it is only read where a thread is free at once.
        """
        by_disk: dict[str, list[ColdRead]] = {}
        cold, self.cold = self.cold, []
        for one in cold:
            is_full = brought is None and self._broker.scheduler.reads(one.disk).is_full
            if is_full or one.place in self._under_way:
                one.release()
            else:
                by_disk.setdefault(one.disk, []).append(one)
        for disk, these in by_disk.items():
            self._read(disk, these, brought)
        return {one.place for these in by_disk.values() for one in these}

    def _read(self, disk: str, cold: list[ColdRead], brought: WaitList | None) -> None:
        places = {one.place for one in cold}
        self._under_way |= places

        def read() -> None:
            for one in cold:
                one.warm()

        def done(_: object) -> None:  # if it failed, the next plan fails too, and says so
            self._under_way -= places
            for one in cold:
                one.release()
            if brought is not None:
                self._broker.purgatory.touch(brought)

        def is_wanted() -> bool:
            return brought is not None and bool(brought.waiters)

        self._broker.scheduler.reads(disk).in_thread(read, done, is_wanted)

    def response(self, rows: list[PartitionData]) -> FetchResponse | Waiting:
        """The rows that the session wants told, grouped by topic; or what they are awaited by."""
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
        return FetchResponse(0, ErrorCode.NONE, turn.session_id, [*topics.values()], self._endpoints)

    def _has_enough(self) -> bool:
        return sum([size for _, size in self._watched.values()]) >= self._min_bytes

    def _attempt(self, wait_list: WaitList) -> FetchResponse | Waiting | None:
        number, _ = self._watched[wait_list]
        key, wanted = self._turn.partitions[number]
        self._is_told = False
        try:
            row = self._row(key, wanted, wanted.partition_max_bytes, True, patient=False)
        except ColdRead as cold:
            self._note_cold(cold)
            return self._expire()
        lists = len(self._watched)
        if not self._is_told:
            self._watch(number, row, True)
        is_another = len(self._watched) > lists  # made anew under its name: nothing here would hear of its appends
        is_ready = is_another or self._is_told or self._has_enough()
        if is_ready and len(self._turn.partitions) == 1 and wanted.partition_max_bytes <= self._max_bytes:
            return self.response([row])  # all that planning once more would find
        _release(row)
        return self._expire() if is_ready else None

    def _find(self, key: TopicKey, index: int) -> Partition:
        partitions = self._broker.partitions
        return partitions.get(key if isinstance(key, str) else partitions.topic_name(key), index)

    def _row(
        self, key: TopicKey, wanted: FetchPartition, max_bytes: int, is_first: bool, patient: bool = True
    ) -> PartitionData:
        """What a partition has; notes in `_is_told` an error or a diverging epoch. Raises ColdRead if not `patient`."""
        diverging, records, aborted = NO_DIVERGENCE, None, list[AbortedTransaction]()
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
                if records and self._isolation_level == READ_COMMITTED and partition.log.has_transactions:
                    found = partition.aborted(wanted.fetch_offset, records, patient)
                    aborted = [AbortedTransaction(*one) for one in found]
        except (KafkaError, OSError) as error:
            return self._refused(key, wanted, error)
        return PartitionData(
            wanted.partition,
            ErrorCode.NONE,
            partition.high_watermark,
            partition.last_stable_offset,
            partition.log.start_offset,
            diverging,
            NO_LEADER,
            NO_SNAPSHOT,
            aborted,
            -1,
            b"" if records is None else records,
        )

    def _refused(self, key: TopicKey, wanted: FetchPartition, error: KafkaError | OSError) -> PartitionData:
        self._is_told = True
        context = self._context
        code, _ = refusal(error, self._topic(key), wanted.partition)
        row = PartitionData(wanted.partition, code, -1, records=b"")
        if code in HINTED:
            topic = key if isinstance(key, str) else self._broker.partitions.topic_name(key)
            leader_id, leader_epoch, endpoint = leader_of(context, topic, wanted.partition)
            row.current_leader = LeaderIdAndEpoch(leader_id, leader_epoch)
            if endpoint is not None and endpoint.node_id not in [known.node_id for known in self._endpoints]:
                self._endpoints = [*self._endpoints, NodeEndpoint(*endpoint)]
        else:
            row.error_code = self._known(code)
        return row

    def _topic(self, key: TopicKey) -> str:
        """The name behind a key; nothing where there is none."""
        with contextlib.suppress(KafkaError):
            return key if isinstance(key, str) else self._broker.partitions.topic_name(key)
        return ""

    def _known(self, code: ErrorCode) -> ErrorCode:
        return known_code(code, self._context.version, STORAGE_ERROR_SINCE)

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


@handles(FetchRequest, versions="10-18")
def fetch(
    request: FetchRequest, context: Context, kind: Callable[[FetchRequest, Context, FetchTurn], Plan] = Plan
) -> FetchResponse | Waiting:
    """Plan pieces of files for every partition wanted, or wait until there is enough to plan."""
    broker = context.broker
    if kind is Plan and broker.partitions.hold_messages:
        kind = PlanOfBatches
    turn = broker.fetch_sessions.begin(request, context.version, broker.clock.monotonic_ms())
    plan = kind(request, context, turn)
    rows = plan.rows(patient=False)
    if plan.is_due(rows):
        plan.warm_ahead()
        return plan.response(rows)
    for row in rows:
        _release(row)
    return plan.warm() if plan.cold else plan.wait()


@handles(FetchRequest, versions="4-9")
def fetch_without_zstd(request: FetchRequest, context: Context) -> FetchResponse | Waiting:
    """The same for versions that do not know zstd: such batches are sent as gzip."""
    return fetch(request, context, PlanWithoutZstd)


@handles(FetchRequest, versions="0-3")
def fetch_sets(request: FetchRequest, context: Context) -> FetchResponse | Waiting:
    """The same for versions that know no batches: message sets."""
    return fetch(request, context, PlanOfSets)


class _Converting(Plan):
    """A plan whose pieces are looked into, and converted if they must be, before they are sent."""

    __slots__ = ("_deadline_ms", "_parked")

    def __init__(self, request: FetchRequest, context: Context, turn: FetchTurn) -> None:
        super().__init__(request, context, turn)
        self._deadline_ms = context.broker.clock.monotonic_ms() + request.max_wait_ms
        self._parked: Waiting | None = None

    def _convert_one(
        self, piece: FileSlice, wanted: FetchPartition, room: int, is_first: bool
    ) -> Steps[conversion.Made | None]:
        """What is to be sent in the place of a piece; None: the piece itself.

        Runs in a thread, where nothing but the piece may be touched. `room`: bytes that may be made.
        """
        raise NotImplementedError

    def _apply(self, wanted: FetchPartition, row: PartitionData, made: conversion.Made) -> bool:
        """Put what was made into its row. Whether all of the piece was left out, and the next offset was noted."""
        raise NotImplementedError

    def _convert(self, rows: list[PartitionData]) -> Steps[list[Converted]]:
        found: list[Converted] = []
        room, spent = CONVERTED_BYTES, 0
        for (_, wanted), row in zip(self._turn.partitions, rows, strict=True):
            one: Converted = None
            if isinstance(row.records, FileSlice) and self._is_open(row):
                if spent > SLICE_BYTES:
                    spent = 0
                    yield
                steps = self._convert_one(row.records, wanted, room, room == CONVERTED_BYTES)
                one = yield from conversion.caught(steps)
                room -= 0 if one is None or isinstance(one, Exception) else len(one.records or b"")
                spent += LOOK_BYTES if one is None else len(row.records)
            found.append(one)
        return found

    def _is_open(self, row: PartitionData) -> bool:
        """Whether its piece has to be looked into."""
        return isinstance(row.records, FileSlice)

    def _first_bytes(self, rows: list[PartitionData]) -> int:
        """What the first slice of `_convert` takes at most, in bytes that are converted."""
        first = 0
        for row in rows:
            if first > SLICE_BYTES:
                break
            if self._is_open(row):
                first += min(len(row.records or b""), SLICE_BYTES)
        return first

    def response(self, rows: list[PartitionData]) -> FetchResponse | Waiting:
        """The response once the rows are converted."""
        if not any(self._is_open(row) for row in rows):
            return super().response(rows)
        return self._run(rows, partial(self._broker.conversions.run, first_bytes=self._first_bytes(rows)))

    def _run(self, rows: list[PartitionData], start: Callable[..., Any]) -> FetchResponse | Waiting:
        converted, late = WaitList(), list[Any]()

        def done(result: Any) -> None:
            late.append(result)
            self._broker.purgatory.touch(converted)

        size = sum(map(self._is_open, rows)) * conversion.ROW_BYTES
        made = start(self._convert(rows), size, done, lambda: bool(converted.waiters), is_reading=True)
        if made is None and not late:
            deadline_ms = self._broker.clock.monotonic_ms() + DISK_DEADLINE_MS
            waiting = Waiting([converted], deadline_ms, lambda _: self._take(rows, late[0]) if late else None, _late)
            return self._follow(waiting)
        return self._take(rows, late[0] if made is None else made)

    def _take(self, rows: list[PartitionData], made: Any) -> FetchResponse | Waiting:
        """Answer with what was made; if all was left out, as if the client had asked for what comes behind it."""
        if isinstance(made, Exception):
            raise made
        has_moved = False
        for (key, wanted), row, one in zip(self._turn.partitions, rows, made, strict=True):
            if isinstance(one, KafkaError | OSError):
                self._is_told = True
                code = self._known(refusal(one, self._topic(key), wanted.partition)[0])
                # A fetching client knows one word for records that cannot be read, whatever is wrong with them.
                row.error_code = ErrorCode.CORRUPT_MESSAGE if isinstance(one, KafkaError) else code
                _give_up(row, b"")
            elif one is not None:
                has_moved = self._apply(wanted, row, one) or has_moved
        is_something = self._is_told or any(row.records for row in rows)
        return self._again() if has_moved and not is_something else super().response(rows)

    def _again(self) -> FetchResponse | Waiting:
        rows = self.rows(patient=False)
        if not self.is_due(rows):
            for row in rows:
                _release(row)
            return self.warm() if self.cold else self.wait()
        if not any(self._is_open(row) for row in rows):
            return super().response(rows)
        return self._run(rows, self._broker.conversions.submit)

    def wait(self) -> Waiting:
        """Park until there is more, or `max_wait_ms` are over since the request came."""
        waiting = super().wait()
        waiting.deadline_ms = self._deadline_ms
        return self._follow(waiting)

    def warm(self) -> Waiting:
        """Have a thread read what the plan needs."""
        return self._follow(super().warm())

    def _follow(self, waiting: Waiting) -> Waiting:
        """Where this waiting leads to another, go on with that under the name that was parked first."""

        def follow(make: Callable[..., Any]) -> Callable[..., Any]:
            def made(*arguments: Any) -> Any:
                outcome = make(*arguments)
                if isinstance(outcome, Waiting) and self._parked is not None:
                    self._broker.purgatory.instead(self._parked, outcome)
                    return None
                return outcome

            return made

        waiting.attempt, waiting.expire = follow(waiting.attempt), follow(waiting.expire)
        self._parked = self._parked or waiting
        return waiting


class PlanOfBatches(_Converting):
    """For versions from 10 on, where there may be messages of magic 0 and 1: these are sent as batches."""

    __slots__ = ()

    def _is_open(self, row: PartitionData) -> bool:
        return isinstance(row.records, MessagesSlice)

    def _convert_one(
        self, piece: FileSlice, wanted: FetchPartition, room: int, is_first: bool
    ) -> Steps[conversion.Made | None]:
        return conversion.batches_of(piece, room)

    def _apply(self, wanted: FetchPartition, row: PartitionData, made: conversion.Made) -> bool:
        assert made.records is not None
        _give_up(row, made.records)
        return False


class PlanWithoutZstd(_Converting):
    """For versions 4 to 9: a piece ends where zstd begins, or is sent in bytes if it begins so."""

    __slots__ = ()

    def _is_open(self, row: PartitionData) -> bool:
        piece = row.records
        if not isinstance(piece, FileSlice):
            return False
        if isinstance(piece, MessagesSlice):
            return True
        known_from, known_to = piece.passed
        return not known_from <= 0 < len(piece) <= known_to

    def _first_bytes(self, rows: list[PartitionData]) -> int:
        """Of a batch its head is looked at, so that even of the smallest a quarter of the time is taken."""
        return super()._first_bytes(rows) >> 2

    def _convert_one(
        self, piece: FileSlice, wanted: FetchPartition, room: int, is_first: bool
    ) -> Steps[conversion.Made | None]:
        return conversion.without_zstd(piece, room)

    def _apply(self, wanted: FetchPartition, row: PartitionData, made: conversion.Made) -> bool:
        if made.records is not None:
            _give_up(row, made.records)
        elif isinstance(row.records, FileSlice):
            row.records.length = made.position
        return False


class PlanOfSets(_Converting):
    """For versions 0 to 3: message sets of magic 0 or 1.

    In versions 0 to 2 a partition's limit is a hard one: what is larger is cut, which tells the client of it. These
    clients ask for all partitions in the same order each time, so that each time another comes first here.
    """

    __slots__ = ("_is_hard", "_magic")

    def __init__(self, request: FetchRequest, context: Context, turn: FetchTurn) -> None:
        super().__init__(request, context, turn)
        share = context.broker.conversions.share(CONVERTED_BYTES, LEAST_CONVERTED_BYTES)
        self._max_bytes = min(self._max_bytes, share)
        self._min_bytes = min(self._min_bytes, self._max_bytes)
        self._magic = 0 if context.version < 2 else 1
        self._is_hard = context.version < 3
        if self._is_hard and len(turn.partitions) > 1:
            first = context.broker.random.randrange(len(turn.partitions))
            turn.partitions = turn.partitions[first:] + turn.partitions[:first]

    def _row(
        self, key: TopicKey, wanted: FetchPartition, max_bytes: int, is_first: bool, patient: bool = True
    ) -> PartitionData:
        return super()._row(key, wanted, max_bytes, is_first or (self._is_hard and max_bytes > 0), patient)

    def _convert_one(
        self, piece: FileSlice, wanted: FetchPartition, room: int, is_first: bool
    ) -> Steps[conversion.Made | None]:
        limit = min(wanted.partition_max_bytes, self._max_bytes - CONVERTED_BYTES + room)
        is_first = is_first or (self._is_hard and limit > 0)
        return conversion.set_of(piece, self._magic, wanted.fetch_offset, limit, is_first)

    def _apply(self, wanted: FetchPartition, row: PartitionData, made: conversion.Made) -> bool:
        assert made.records is not None
        _give_up(row, made.records[: wanted.partition_max_bytes] if self._is_hard else made.records)
        if made.records or made.position <= wanted.fetch_offset:
            return False
        wanted.fetch_offset = made.position
        return True


def _give_up(row: PartitionData, records: bytes | bytearray) -> None:
    """Send these bytes and not the piece."""
    _release(row)
    row.records = records


def _release(row: PartitionData) -> None:
    """Give back the file of a row that is not sent."""
    if isinstance(row.records, FileSlice):
        row.records.release()


def _reaches(piece: FileSlice, partition: Partition, end: int) -> bool:
    """Whether a piece goes up to the offset `end`; not if a limit cut it, or more is in the next segment."""
    segments = partition.log.segments
    last = segments[max(0, bisect_left(segments, end, key=lambda segment: segment.base_offset) - 1)]
    limit = last.size
    if end != partition.log.end_offset:
        owner, position = partition.log.locate(end)  # which the plan has just looked up: nothing is read
        limit = position if owner is last else limit
    return piece.fileno == last.file.fileno and piece.position + len(piece) >= limit


def _diverging(partition: Partition, wanted: FetchPartition) -> EpochEndOffset:
    """Where the client's history leaves this leader's, NO_DIVERGENCE if it does not (KIP-595).

    Raises KafkaError(OFFSET_OUT_OF_RANGE) for an epoch that this leader has never heard of, as Kafka does.
    """
    epoch, end_offset = partition.end_offset_for(wanted.last_fetched_epoch)
    if epoch < 0:
        raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, f"nothing is known of epoch {wanted.last_fetched_epoch}")
    if epoch == wanted.last_fetched_epoch and end_offset >= wanted.fetch_offset:
        return NO_DIVERGENCE
    return EpochEndOffset(epoch=epoch, end_offset=end_offset)

"""Fetch: batches from offsets, as pieces of segment files.

v0-1 message sets of magic 0   v2-3 of magic 1   v3 max_bytes (KIP-74)   v4 batches, read_committed   v5
log_start_offset   v7 sessions (KIP-227)   v9 leader epochs (KIP-320)   v10 zstd (KIP-110)   v11 rack (KIP-392)   v12
flexible, diverging epochs (KIP-595)   v13 topic ids (KIP-516)   v15 replica state   v16 node endpoints (KIP-951)   v17
directory ids   v18 high watermark

When a fetch is answered, and what it waits for, is said in `gateway.api.fetch_plan`; here is what its rows say.

Versions before 10 do not know zstd, and those before 4 no batches: what they get is made from the pieces, in bytes.
Versions from 4 on know nothing but batches: they are made of messages of magic 0 and 1, which an adopted log may hold.
"""

import contextlib
from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

from headgate.gateway.api import conversion
from headgate.gateway.api.authorization import AclOperation, AclResource, Authorization
from headgate.gateway.api.context import HandlerContext
from headgate.gateway.api.conversion import Steps
from headgate.gateway.api.endpoints import leader_of
from headgate.gateway.api.fetch_plan import DISK_DEADLINE_MS, NO_DIVERGENCE, FetchPlan, late, release
from headgate.gateway.api.fetch_sessions import FetchTurn, TopicKey
from headgate.gateway.api.handlers import handles
from headgate.gateway.api.handlers.each import known_code, refusal
from headgate.gateway.replication.replica import READ_COMMITTED, Replica
from headgate.gateway.runtime.purgatory import Waiting, WaitList
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)
from headgate.storage.segment.file_slice import FileSlice, MessagesSlice

_BLANK = PartitionData()
# The defaults themselves, which the writer need not look into.
NO_LEADER, NO_SNAPSHOT = _BLANK.current_leader, _BLANK.snapshot_id

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


class Plan(FetchPlan):
    """A plan whose rows are pieces of segment files."""

    __slots__ = ()

    def _row(
        self, key: TopicKey, wanted: FetchPartition, max_bytes: int, is_first: bool, blocking: bool = True
    ) -> PartitionData:
        """Read one partition; note an error or a diverging epoch in `_is_told`.

        Raises WouldBlock if not `blocking`.
        """
        diverging, records, aborted = NO_DIVERGENCE, None, list[AbortedTransaction]()
        self._seen = None
        try:
            partition = self._find(key, wanted.partition)
            if wanted.current_leader_epoch != -1:
                partition.check_leader_epoch(wanted.current_leader_epoch)
            if wanted.last_fetched_epoch >= 0:
                diverging = _diverging(partition, wanted)
            if diverging is not NO_DIVERGENCE:
                self._is_told = True
            elif max_bytes > 0 or is_first:
                records = partition.read(wanted.fetch_offset, max_bytes, self._isolation_level, is_first, blocking)
                if records and self._isolation_level == READ_COMMITTED and partition.log.has_transactions:
                    found = partition.aborted(wanted.fetch_offset, records, blocking)
                    aborted = [AbortedTransaction(*one) for one in found]
        except (KafkaError, OSError) as error:
            return self._refused(key, wanted, error)
        self._seen = partition
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


def _authorize(authorization: Authorization) -> None:
    """READ on each topic; of a follower, CLUSTER_ACTION. A denied topic has TOPIC_AUTHORIZATION_FAILED in both cases.

    The partitions of a session are authorized whenever they are looked at: what was allowed once can be denied later.
    """
    request = authorization.request
    if max(request.replica_id, request.replica_state.replica_id) >= 0:
        is_allowed = authorization.allows_cluster(AclOperation.CLUSTER_ACTION)
        authorization.limit_partitions(lambda topic: is_allowed)
    else:
        authorization.limit_partitions(partial(authorization.allows, AclOperation.READ, AclResource.TOPIC))


@handles(FetchRequest, versions="10-18", authorize=_authorize)
def fetch(
    request: FetchRequest,
    context: HandlerContext,
    kind: Callable[[FetchRequest, HandlerContext, FetchTurn, float], Plan] = Plan,
) -> FetchResponse | Waiting:
    """Plan pieces of files for every partition wanted, or wait until there is enough to plan."""
    broker = context.broker
    if kind is Plan and broker.partitions.has_legacy_format:
        kind = PlanOfBatches
    now_ms = broker.clock.monotonic_ms()
    turn = broker.fetch_sessions.begin(request, context.version, now_ms)
    return kind(request, context, turn, now_ms).answer()


@handles(FetchRequest, versions="4-9", authorize=_authorize)
def fetch_without_zstd(request: FetchRequest, context: HandlerContext) -> FetchResponse | Waiting:
    """The same for versions that do not know zstd: such batches are sent as gzip."""
    return fetch(request, context, PlanWithoutZstd)


@handles(FetchRequest, versions="0-3", authorize=_authorize)
def fetch_sets(request: FetchRequest, context: HandlerContext) -> FetchResponse | Waiting:
    """The same for versions that know no batches: message sets."""
    return fetch(request, context, PlanOfSets)


class _Converting(Plan):
    """A plan whose pieces are looked into, and converted if they must be, before they are sent."""

    __slots__ = ()

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
        converted, results = WaitList(), list[Any]()

        def done(result: Any) -> None:
            results.append(result)
            self._broker.purgatory.touch(converted)

        size = sum(map(self._is_open, rows)) * conversion.ROW_BYTES
        made = start(self._convert(rows), size, done, lambda: bool(converted.waiters), is_reading=True)
        if made is None and not results:
            deadline_ms = self._broker.clock.monotonic_ms() + DISK_DEADLINE_MS
            return Waiting([converted], deadline_ms, lambda _: self._take(rows, results[0]) if results else None, late)
        return self._take(rows, results[0] if made is None else made)

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
        return self._plan_again(self._convert_again)

    def _convert_again(self, rows: list[PartitionData]) -> FetchResponse | Waiting:
        if self.is_due(rows) and any(self._is_open(row) for row in rows):
            return self._run(rows, self._broker.conversions.submit)
        return self._answer_with(rows)


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

    def __init__(self, request: FetchRequest, context: HandlerContext, turn: FetchTurn, now_ms: float) -> None:
        super().__init__(request, context, turn, now_ms)
        share = context.broker.conversions.share(CONVERTED_BYTES, LEAST_CONVERTED_BYTES)
        self._max_bytes = min(self._max_bytes, share)
        self._min_bytes = min(self._min_bytes, self._max_bytes)
        self._magic = 0 if context.version < 2 else 1
        self._is_hard = context.version < 3
        if self._is_hard and len(turn.partitions) > 1:
            first = context.broker.random.randrange(len(turn.partitions))
            turn.partitions = turn.partitions[first:] + turn.partitions[:first]

    def _row(
        self, key: TopicKey, wanted: FetchPartition, max_bytes: int, is_first: bool, blocking: bool = True
    ) -> PartitionData:
        is_whole = is_first or (self._is_hard and max_bytes > 0 and not self._broker.partitions.held.is_full)
        return super()._row(key, wanted, max_bytes, is_whole, blocking)

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
    release(row)
    row.records = records


def _diverging(partition: Replica, wanted: FetchPartition) -> EpochEndOffset:
    """Where the client's history leaves this leader's, NO_DIVERGENCE if it does not (KIP-595).

    Raises KafkaError(OFFSET_OUT_OF_RANGE) for an epoch that this leader has never heard of, as Kafka does.
    """
    epoch, end_offset = partition.end_offset_for(wanted.last_fetched_epoch)
    if epoch < 0:
        raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, f"nothing is known of epoch {wanted.last_fetched_epoch}")
    if epoch == wanted.last_fetched_epoch and end_offset >= wanted.fetch_offset:
        return NO_DIVERGENCE
    return EpochEndOffset(epoch=epoch, end_offset=end_offset)

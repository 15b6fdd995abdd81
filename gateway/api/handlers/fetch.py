"""Fetch: batches from offsets, as pieces of segment files.

v0-1 message sets of magic 0   v2-3 of magic 1   v3 max_bytes (KIP-74)   v4 batches, read_committed   v5
log_start_offset   v7 sessions (KIP-227)   v9 leader epochs (KIP-320)   v10 zstd (KIP-110)   v11 rack (KIP-392)   v12
flexible, diverging epochs (KIP-595)   v13 topic ids (KIP-516)   v15 replica state   v16 node endpoints (KIP-951)   v17
directory ids   v18 high watermark

`gateway.api.delayed_fetch` decides when a fetch is answered, and what it waits for; this module makes the rows.

Versions before 10 do not know zstd, and those before 4 no batches: these clients get converted bytes instead of pieces.
Versions since 4 know only batches: messages of magic 0 and 1, which an adopted log may hold, are converted for them.
"""

import contextlib
from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

from headgate.gateway.api import conversion
from headgate.gateway.api.authorization import AclOperation, AclResource, Authorization
from headgate.gateway.api.broker_endpoints import leader_of
from headgate.gateway.api.context import HandlerContext, SkippedOffsets
from headgate.gateway.api.conversion import Steps
from headgate.gateway.api.delayed_fetch import DISK_DEADLINE_MS, NO_DIVERGENCE, DelayedFetch, late, release
from headgate.gateway.api.fetch_sessions import FetchTurn, TopicKey
from headgate.gateway.api.handler_registration import handles
from headgate.gateway.api.handlers.each import known_code, refusal
from headgate.gateway.api.transactions.default_isolation import default_isolation
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
# The default instances: the writer skips them without a look at their fields.
NO_LEADER, NO_SNAPSHOT = _BLANK.current_leader, _BLANK.snapshot_id

# Converted data stays in memory until it is sent. This is the limit of one response, unless a single batch is larger;
# while other conversions wait, the limit is lower.
CONVERTED_BYTES, MIN_CONVERTED_BYTES = 1 << 20, 1 << 16
# How many bytes a slice of a conversion covers; a partition with nothing to convert counts as `LOOK_BYTES`.
SLICE_BYTES, LOOK_BYTES = 1 << 14, 1 << 8

# How many bytes one plan covers at least, after a piece without a message for the client: such a log is read in large
# pieces, whatever the client's limits, which hold for messages.
SKIPPED_BYTES = 1 << 18
# How many bytes without a message one fetch reads, even if its time is over; a plan counts as `LEAST_SKIPPED_BYTES`.
MAX_SKIPPED_BYTES, LEAST_SKIPPED_BYTES = 1 << 20, 1 << 12
MAX_SKIPPED = 1_000
"""The most partitions of one client with an entry in `Client.skipped`."""

HINTED = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)
"""The errors with a leader hint (KIP-951)."""
Converted: TypeAlias = conversion.ConvertedPiece | KafkaError | OSError | None
STORAGE_ERROR_SINCE = 6
"""The first version that has KAFKA_STORAGE_ERROR (KIP-112)."""


class FetchAsStored(DelayedFetch):
    """A plan whose rows are pieces of segment files."""

    __slots__ = ()

    def _row(
        self, key: TopicKey, wanted: FetchPartition, max_bytes: int, is_first: bool, blocking: bool = True
    ) -> PartitionData:
        """Read one partition; an error or a diverging epoch sets `_is_urgent`.

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
                self._is_urgent = True
            elif max_bytes > 0 or is_first:
                records = partition.read(wanted.fetch_offset, max_bytes, self._isolation_level, is_first, blocking)
                if records and self._isolation_level == READ_COMMITTED and partition.log.has_transactions:
                    ranges = partition.aborted(wanted.fetch_offset, records, blocking)
                    aborted = [AbortedTransaction(*transaction) for transaction in ranges]
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
        self._is_urgent = True
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
        """The topic name of a key; empty if the topic is unknown."""
        with contextlib.suppress(KafkaError):
            return key if isinstance(key, str) else self._broker.partitions.topic_name(key)
        return ""

    def _known(self, code: ErrorCode) -> ErrorCode:
        return known_code(code, self._context.version, STORAGE_ERROR_SINCE)


def _authorize(authorization: Authorization) -> None:
    """Require READ on each topic; of a follower, CLUSTER_ACTION. Denied topics have TOPIC_AUTHORIZATION_FAILED.

    A session's partitions are authorized at every read: an earlier permission may be revoked.
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
    kind: Callable[[FetchRequest, HandlerContext, FetchTurn, float], FetchAsStored] = FetchAsStored,
) -> FetchResponse | Waiting:
    """Plan pieces of files for every wanted partition, or wait until there is enough data."""
    broker = context.broker
    if kind is FetchAsStored and broker.partitions.leadership.has_legacy_format:
        kind = FetchAsBatches
    now_ms = broker.clock.monotonic_ms()
    turn = broker.fetch_sessions.begin(request, context.version, now_ms)
    return kind(request, context, turn, now_ms).answer()


@handles(FetchRequest, versions="4-9", authorize=_authorize)
def fetch_without_zstd(request: FetchRequest, context: HandlerContext) -> FetchResponse | Waiting:
    """Fetch for versions that do not know zstd: such batches are sent as gzip."""
    return fetch(request, context, FetchWithoutZstd)


@handles(FetchRequest, versions="0-3", authorize=_authorize)
def fetch_sets(request: FetchRequest, context: HandlerContext) -> FetchResponse | Waiting:
    """Fetch for versions that know no batches: message sets."""
    return fetch(request, context, FetchAsMessageSets)


class _FetchConverted(FetchAsStored):
    """A plan whose pieces are checked, and if necessary converted, before they are sent."""

    __slots__ = ()

    def _convert_one(
        self, piece: FileSlice, row: PartitionData, wanted: FetchPartition, room: int, is_first: bool
    ) -> Steps[conversion.ConvertedPiece | None]:
        """The replacement of a piece; None: send the piece itself.

        Runs in a thread, and so may touch only the piece, and read its row. `room`: the bytes that the replacement may
        have.
        """
        raise NotImplementedError

    def _apply(
        self, key: TopicKey, wanted: FetchPartition, row: PartitionData, made: conversion.ConvertedPiece
    ) -> bool:
        """Put a conversion into its row. True if all of the piece was omitted; then `wanted` has the next offset."""
        raise NotImplementedError

    def _convert(self, rows: list[PartitionData]) -> Steps[list[Converted]]:
        replacements: list[Converted] = []
        room, spent = CONVERTED_BYTES, 0
        for (_, wanted), row in zip(self._turn.partitions, rows, strict=True):
            replacement: Converted = None
            if isinstance(row.records, FileSlice) and self._is_open(row):
                if spent > SLICE_BYTES:
                    spent = 0
                    yield
                steps = self._convert_one(row.records, row, wanted, room, room == CONVERTED_BYTES)
                replacement = yield from conversion.errors_as_results(steps)
                if replacement is not None and not isinstance(replacement, Exception):
                    room -= len(replacement.records or b"")
                spent += LOOK_BYTES if replacement is None else len(row.records)
            replacements.append(replacement)
        return replacements

    def _is_open(self, row: PartitionData) -> bool:
        """Whether the row's piece has to be checked."""
        return isinstance(row.records, FileSlice)

    def _first_bytes(self, rows: list[PartitionData]) -> int:
        """How many bytes the first slice of `_convert` converts at most."""
        first = 0
        for row in rows:
            if first > SLICE_BYTES:
                break
            if self._is_open(row):
                first += min(len(row.records or b""), SLICE_BYTES)
        return first

    def response(self, rows: list[PartitionData]) -> FetchResponse | Waiting:
        """The response, after the rows are converted."""
        if not any(self._is_open(row) for row in rows):
            return super().response(rows)
        return self._run(rows, partial(self._broker.conversions.run, first_bytes=self._first_bytes(rows)))

    def _run(self, rows: list[PartitionData], start: Callable[..., Any]) -> FetchResponse | Waiting:
        converted, results = WaitList(), list[Any]()

        def done(result: Any) -> None:
            results.append(result)
            self._broker.purgatory.touch(converted)

        size = sum(map(self._is_open, rows)) * conversion.BYTES_PER_ROW
        made = start(self._convert(rows), size, done, lambda: bool(converted.waiters), is_reading=True)
        if made is None and not results:
            deadline_ms = self._broker.clock.monotonic_ms() + DISK_DEADLINE_MS
            return Waiting([converted], deadline_ms, lambda _: self._take(rows, results[0]) if results else None, late)
        return self._take(rows, results[0] if made is None else made)

    def _take(self, rows: list[PartitionData], made: Any) -> FetchResponse | Waiting:
        """Answer with the conversions. If all data was omitted, plan again from the offsets behind it, in time."""
        if isinstance(made, Exception):
            raise made
        has_moved = False
        for (key, wanted), row, replacement in zip(self._turn.partitions, rows, made, strict=True):
            if isinstance(replacement, KafkaError | OSError):
                self._is_urgent = True
                code = self._known(refusal(replacement, self._topic(key), wanted.partition)[0])
                # Fetching clients have one error for unreadable records, whatever the cause.
                row.error_code = ErrorCode.CORRUPT_MESSAGE if isinstance(replacement, KafkaError) else code
                _replace(row, b"")
            elif replacement is not None:
                has_moved = self._apply(key, wanted, row, replacement) or has_moved
        is_something = self._is_urgent or any(row.records for row in rows)
        return self._again() if has_moved and not is_something and self._has_time else super().response(rows)

    @property
    def _has_time(self) -> bool:
        """Whether another plan may follow one that found nothing."""
        return self._broker.clock.monotonic_ms() < self._deadline_ms

    def _again(self) -> FetchResponse | Waiting:
        return self._plan_again(self._convert_again)

    def _convert_again(self, rows: list[PartitionData]) -> FetchResponse | Waiting:
        if self.answers_now(rows) and any(self._is_open(row) for row in rows):
            return self._run(rows, self._broker.conversions.submit)
        return self._answer_with(rows)


class FetchAsBatches(_FetchConverted):
    """The plan for versions since 10 and logs with messages of magic 0 and 1, which are sent as batches."""

    __slots__ = ()

    def _is_open(self, row: PartitionData) -> bool:
        return isinstance(row.records, MessagesSlice)

    def _convert_one(
        self, piece: FileSlice, row: PartitionData, wanted: FetchPartition, room: int, is_first: bool
    ) -> Steps[conversion.ConvertedPiece | None]:
        return conversion.convert_to_batches(piece, room)

    def _apply(
        self, key: TopicKey, wanted: FetchPartition, row: PartitionData, made: conversion.ConvertedPiece
    ) -> bool:
        assert made.records is not None
        _replace(row, made.records)
        return False


class FetchWithoutZstd(_FetchConverted):
    """The plan for versions 4 to 9: a piece ends before its first zstd batch; if zstd is first, bytes are sent."""

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
        """Only the header of a batch is read, so that even the smallest batches take a quarter of the time."""
        return super()._first_bytes(rows) >> 2

    def _convert_one(
        self, piece: FileSlice, row: PartitionData, wanted: FetchPartition, room: int, is_first: bool
    ) -> Steps[conversion.ConvertedPiece | None]:
        return conversion.replace_zstd(piece, room)

    def _apply(
        self, key: TopicKey, wanted: FetchPartition, row: PartitionData, made: conversion.ConvertedPiece
    ) -> bool:
        if made.records is not None:
            _replace(row, made.records)
        elif isinstance(row.records, FileSlice):
            row.records.length = made.position
        return False


class FetchAsMessageSets(_FetchConverted):
    """The plan for versions 0 to 3: message sets of magic 0 or 1.

    In versions 0 to 2 a partition's limit is hard: a larger message is cut, by which the client notices its size. These
    clients ask for all partitions in the same order each time, so each response begins with another partition. In all
    of these versions a client cannot ask for an isolation level: see `gateway.api.transactions.default_isolation`.

    Markers and aborted batches become no message. The fetch reads on behind them until its time is over, then answers
    with an empty set. A client would repeat its offset for ever, so `Client.skipped` has the place to read on from.
    Apache Kafka 3.9 stops at the end of the piece, and answers as if the next message were too large.
    """

    __slots__ = ("_first_offsets", "_histories", "_is_hard", "_isolation_of", "_magic", "_skipped_bytes")

    def __init__(self, request: FetchRequest, context: HandlerContext, turn: FetchTurn, now_ms: float) -> None:
        super().__init__(request, context, turn, now_ms)
        share = context.broker.conversions.share(CONVERTED_BYTES, MIN_CONVERTED_BYTES)
        self._max_bytes = min(self._max_bytes, share)
        self._min_bytes = min(self._min_bytes, self._max_bytes)
        self._magic = 0 if context.version < 2 else 1
        self._skipped_bytes = 0
        self._histories: dict[tuple[object, int], tuple[bytes | None, int, int]] = {}
        """The history of each planned partition, as in `SkippedOffsets`."""
        self._first_offsets: dict[tuple[object, int], int] = {}
        """The client's offset in each partition without a message so far."""
        self._is_hard = context.version < 3
        self._isolation_of = default_isolation(context, request.replica_id)
        if self._is_hard and len(turn.partitions) > 1:
            first = context.broker.random.randrange(len(turn.partitions))
            turn.partitions = turn.partitions[first:] + turn.partitions[:first]

    def _row(
        self, key: TopicKey, wanted: FetchPartition, max_bytes: int, is_first: bool, blocking: bool = True
    ) -> PartitionData:
        if self._context.client.skipped:
            self._resume(key, wanted)
        if self._skipped_bytes and (max_bytes > 0 or is_first):
            max_bytes = max(max_bytes, SKIPPED_BYTES)
        is_whole = is_first or (self._is_hard and max_bytes > 0 and not self._broker.partitions.held.is_full)
        row = super()._row(key, wanted, max_bytes, is_whole, blocking)
        if self._seen is not None:
            self._histories[key, wanted.partition] = self._history(self._seen)
        if self._isolation_level == READ_COMMITTED and row.error_code == ErrorCode.NONE:
            row.high_watermark = row.last_stable_offset  # the end of the log, for such a client
        return row

    def _find(self, key: TopicKey, index: int) -> Replica:
        """The partition; the level of its reader is set with each look at it."""
        partition = super()._find(key, index)
        self._isolation_level = self._isolation_of(partition)
        return partition

    def _convert_one(
        self, piece: FileSlice, row: PartitionData, wanted: FetchPartition, room: int, is_first: bool
    ) -> Steps[conversion.ConvertedPiece | None]:
        limit = min(wanted.partition_max_bytes, self._max_bytes - CONVERTED_BYTES + room)
        is_first = is_first or (self._is_hard and limit > 0)
        aborted = [(one.producer_id, one.first_offset) for one in row.aborted_transactions or ()]
        return conversion.convert_to_message_set(piece, self._magic, wanted.fetch_offset, limit, is_first, aborted)

    def _apply(
        self, key: TopicKey, wanted: FetchPartition, row: PartitionData, made: conversion.ConvertedPiece
    ) -> bool:
        assert made.records is not None
        read_bytes = len(row.records or b"")
        _replace(row, made.records[: wanted.partition_max_bytes] if self._is_hard else made.records)
        if made.records or made.position <= wanted.fetch_offset:
            return False
        self._skipped_bytes += max(read_bytes, LEAST_SKIPPED_BYTES)
        self._skip(key, wanted, made.position)
        return True

    @property
    def _has_time(self) -> bool:
        """A client that does not wait has time for some pieces: it may take an empty set for the end of the log."""
        return self._skipped_bytes < MAX_SKIPPED_BYTES or super()._has_time

    def _history(self, partition: Replica) -> tuple[bytes | None, int, int]:
        return partition.log.topic_id, partition.leader_epoch, self._isolation_level

    def _skip(self, key: TopicKey, wanted: FetchPartition, next_offset: int) -> None:
        """Read on from an offset, in this fetch and in the next one of the client."""
        place, client = (key, wanted.partition), self._context.client
        first_offset = self._first_offsets.setdefault(place, wanted.fetch_offset)
        wanted.fetch_offset = next_offset
        if client.skipped is None or len(client.skipped) >= MAX_SKIPPED:
            client.skipped = {}
        client.skipped[place] = SkippedOffsets(self._histories[place], first_offset, next_offset)

    def _resume(self, key: TopicKey, wanted: FetchPartition) -> None:
        """Read on where the client's last fetch ended, if the client repeats its offset."""
        place, skipped = (key, wanted.partition), self._context.client.skipped
        known = skipped.get(place) if skipped else None
        if known is None or known.first_offset != wanted.fetch_offset:
            return
        with contextlib.suppress(KafkaError):  # the row reports the error
            if known.history == self._history(self._find(*place)):
                self._first_offsets[place] = wanted.fetch_offset
                wanted.fetch_offset = known.next_offset


def _replace(row: PartitionData, records: bytes | bytearray) -> None:
    """Send these bytes instead of the piece."""
    release(row)
    row.records = records


def _diverging(partition: Replica, wanted: FetchPartition) -> EpochEndOffset:
    """Where the client's log diverges from this leader's; NO_DIVERGENCE if it does not (KIP-595).

    Raises KafkaError(OFFSET_OUT_OF_RANGE) for an epoch that this leader does not know, as Kafka does.
    """
    epoch, end_offset = partition.end_offset_for(wanted.last_fetched_epoch)
    if epoch < 0:
        raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, f"leader epoch {wanted.last_fetched_epoch} is unknown")
    if epoch == wanted.last_fetched_epoch and end_offset >= wanted.fetch_offset:
        return NO_DIVERGENCE
    return EpochEndOffset(epoch=epoch, end_offset=end_offset)

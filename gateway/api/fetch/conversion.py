"""The conversion of a fetch's pieces, for clients and logs of old versions.

Versions before 10 do not know zstd, and those before 4 no batches: these clients get converted bytes instead of pieces.
Versions since 4 know only batches: messages of magic 0 and 1, which an adopted log may hold, are converted for them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from headgate.gateway.api import conversion
from headgate.gateway.api.context import HandlerContext, SkippedOffsets
from headgate.gateway.api.conversion import ConvertedPiece
from headgate.gateway.api.fetch.plan import FetchPlan, FetchRows, disk_is_late
from headgate.gateway.api.fetch.rows import PartitionReader, replace_records
from headgate.gateway.api.transactions.default_isolation import default_isolation
from headgate.gateway.replication.replica import READ_COMMITTED, Replica
from headgate.gateway.runtime.tasks import Task, within
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.messages.fetch import FetchPartition, FetchRequest, PartitionData
from headgate.protocol.steps import Steps
from headgate.storage.segment.file_slice import FileSlice, MessagesSlice

if TYPE_CHECKING:
    from headgate.gateway.api.fetch_sessions import TopicKey

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

Converted: TypeAlias = ConvertedPiece | KafkaError | OSError | None


def _put(_: TopicKey, wanted: FetchPartition, row: PartitionData, made: ConvertedPiece) -> bool:
    """Put a conversion into its row, or end the row's piece where the conversion has ended."""
    if made.records is not None:
        replace_records(row, made.records)
    elif isinstance(row.records, FileSlice):
        row.records.length = made.position
    return False


class Form(NamedTuple):
    """The format that a fetch is converted to. The functions get a piece, or its row, and what the client wants."""

    is_open: Callable[[PartitionData], bool]
    """Whether the row's piece has to be checked, and if necessary converted."""
    convert: Callable[[FileSlice, PartitionData, FetchPartition, int, bool], Steps[ConvertedPiece | None]]
    """The replacement of a piece, from its room in bytes and whether it is the first; None: send the piece itself.

    Runs in a thread, and so may touch only the piece, and read its row.
    """
    reads_headers: bool = False
    """Only the headers of batches are read, so that even the smallest batches take a quarter of the time."""
    put: Callable[[TopicKey, FetchPartition, PartitionData, ConvertedPiece], bool] = _put
    """Put a conversion into its row. True if all of the piece was omitted: then `wanted` has the next offset."""
    reads_on: Callable[[FetchPlan], bool] = lambda _: False
    """Whether another plan may follow one whose pieces were all omitted."""


def is_open(form: Form, rows: FetchRows) -> bool:
    """Whether rows have to be checked before they are sent."""
    return any(map(form.is_open, rows))


def convert(plan: FetchPlan, form: Form, rows: FetchRows, *, begins_now: bool) -> Task[bool]:
    """Convert the pieces of the rows. True if the client sees none of the data, and another plan follows.

    `begins_now`: small conversions may end at once. Raises KafkaError(REQUEST_TIMED_OUT) if a disk hangs.
    """
    count = sum(map(form.is_open, rows))
    if not count:
        return False
    conversions, steps, size = plan.broker.conversions, _steps(plan, form, rows), count * conversion.BYTES_PER_ROW
    made = conversions.at_once(steps, max(size, _first_bytes(form, rows))) if begins_now else None
    if made is None:
        rest = conversions.awaited(steps, size)
        made = yield from within(plan.broker.tasks, rest, plan.disk_deadline_ms(), disk_is_late)
    has_moved = False
    for (key, wanted), row, replacement in zip(plan.turn.partitions, rows, made, strict=True):
        if isinstance(replacement, KafkaError | OSError):
            plan.reader.refuse_records(key, wanted, row, replacement)
        elif replacement is not None:
            has_moved = form.put(key, wanted, row, replacement) or has_moved
    is_something = plan.reader.is_urgent or any(row.records for row in rows)
    return has_moved and not is_something and form.reads_on(plan)


def _steps(plan: FetchPlan, form: Form, rows: FetchRows) -> Steps[list[Converted]]:
    replacements: list[Converted] = []
    room, spent = CONVERTED_BYTES, 0
    for (_, wanted), row in zip(plan.turn.partitions, rows, strict=True):
        replacement: Converted = None
        if isinstance(row.records, FileSlice) and form.is_open(row):
            if spent > SLICE_BYTES:
                spent = 0
                yield
            steps = form.convert(row.records, row, wanted, room, room == CONVERTED_BYTES)
            replacement = yield from conversion.errors_as_results(steps)
            if replacement is not None and not isinstance(replacement, Exception):
                room -= len(replacement.records or b"")
            spent += LOOK_BYTES if replacement is None else len(row.records)
        replacements.append(replacement)
    return replacements


def _first_bytes(form: Form, rows: FetchRows) -> int:
    """How many bytes the first slice of `_steps` reads at most."""
    first = 0
    for row in rows:
        if first > SLICE_BYTES:
            break
        if isinstance(row.records, FileSlice) and form.is_open(row):
            first += min(len(row.records), SLICE_BYTES) >> (2 if form.reads_headers else 0)
    return first


def _has_piece(row: PartitionData) -> bool:
    return isinstance(row.records, FileSlice)


def _has_messages(row: PartitionData) -> bool:
    return isinstance(row.records, MessagesSlice)


def _may_have_zstd(row: PartitionData) -> bool:
    piece = row.records
    if not isinstance(piece, FileSlice):
        return False
    if isinstance(piece, MessagesSlice):
        return True
    known_from, known_to = piece.passed
    return not known_from <= 0 < len(piece) <= known_to


BATCHES = Form(_has_messages, lambda piece, row, wanted, room, is_first: conversion.convert_to_batches(piece, room))
"""For versions since 10 and logs with messages of magic 0 and 1."""
BATCHES_WITHOUT_ZSTD = Form(
    _may_have_zstd, lambda piece, row, wanted, room, is_first: conversion.replace_zstd(piece, room), reads_headers=True
)
"""For versions 4 to 9: a piece ends before its first zstd batch; if zstd is first, bytes are sent."""


class MessageSets:
    """Message sets of magic 0 or 1, for versions 0 to 3.

    In versions 0 to 2 a partition's limit is hard: a larger message is cut, by which the client notices its size. These
    clients ask for all partitions in the same order each time, so each response begins with another partition. In all
    of these versions a client cannot ask for an isolation level: see `gateway.api.transactions.default_isolation`.

    Markers and aborted batches become no message. The fetch reads on behind them until its time is over, then answers
    with an empty set. A client would repeat its offset for ever, so `Client.skipped` has the place to read on from.
    Apache Kafka 3.9 stops at the end of the piece, and answers as if the next message were too large.
    """

    def __init__(self, request: FetchRequest, context: HandlerContext) -> None:
        self._client = context.client
        self._broker = context.broker
        self._max_bytes = 0
        self._magic = 0 if context.version < 2 else 1
        self._is_hard = context.version < 3
        self._skipped_bytes = 0
        self._histories: dict[tuple[object, int], tuple[bytes | None, int, int]] = {}
        """The history of each planned partition, as in `SkippedOffsets`."""
        self._first_offsets: dict[tuple[object, int], int] = {}
        """The client's offset in each partition without a message so far."""
        isolation_of = default_isolation(context, request.replica_id)
        self.reader = PartitionReader(context, request.isolation_level, isolation_of)

    def limit(self, plan: FetchPlan) -> None:
        """Limit a plan to what may be converted for one response."""
        self._max_bytes = plan.limit(self._broker.conversions.share(CONVERTED_BYTES, MIN_CONVERTED_BYTES))
        turn = plan.turn
        if self._is_hard and len(turn.partitions) > 1:
            first = self._broker.random.randrange(len(turn.partitions))
            turn.partitions = turn.partitions[first:] + turn.partitions[:first]

    def read(
        self, key: TopicKey, wanted: FetchPartition, max_bytes: int, is_first: bool, blocking: bool = True
    ) -> PartitionData:
        """Read a partition as `PartitionReader.read` does, from where the client's last fetch ended."""
        reader = self.reader
        if self._client.skipped:
            self._resume(key, wanted)
        if self._skipped_bytes and (max_bytes > 0 or is_first):
            max_bytes = max(max_bytes, SKIPPED_BYTES)
        is_whole = is_first or (self._is_hard and max_bytes > 0 and not self._broker.partitions.held.is_full)
        row = reader.read(key, wanted, max_bytes, is_whole, blocking)
        if reader.replica is not None:
            self._histories[key, wanted.partition] = self._history(reader.replica)
        if reader.isolation_level == READ_COMMITTED and row.error_code == ErrorCode.NONE:
            row.high_watermark = row.last_stable_offset  # the end of the log, for such a client
        return row

    @property
    def form(self) -> Form:
        """The conversion to message sets."""
        return Form(_has_piece, self._convert, put=self._put, reads_on=self._reads_on)

    def _convert(
        self, piece: FileSlice, row: PartitionData, wanted: FetchPartition, room: int, is_first: bool
    ) -> Steps[ConvertedPiece | None]:
        limit = min(wanted.partition_max_bytes, self._max_bytes - CONVERTED_BYTES + room)
        is_first = is_first or (self._is_hard and limit > 0)
        aborted = [(one.producer_id, one.first_offset) for one in row.aborted_transactions or ()]
        return conversion.convert_to_message_set(piece, self._magic, wanted.fetch_offset, limit, is_first, aborted)

    def _put(self, key: TopicKey, wanted: FetchPartition, row: PartitionData, made: ConvertedPiece) -> bool:
        assert made.records is not None
        read_bytes = len(row.records or b"")
        replace_records(row, made.records[: wanted.partition_max_bytes] if self._is_hard else made.records)
        if made.records or made.position <= wanted.fetch_offset:
            return False
        self._skipped_bytes += max(read_bytes, LEAST_SKIPPED_BYTES)
        self._skip(key, wanted, made.position)
        return True

    def _reads_on(self, plan: FetchPlan) -> bool:
        """A client that does not wait has time for some pieces: it may take an empty set for the end of the log."""
        return self._skipped_bytes < MAX_SKIPPED_BYTES or not plan.is_late

    def _history(self, replica: Replica) -> tuple[bytes | None, int, int]:
        return replica.log.topic_id, replica.leader_epoch, self.reader.isolation_level

    def _skip(self, key: TopicKey, wanted: FetchPartition, next_offset: int) -> None:
        """Read on from an offset, in this fetch and in the next one of the client."""
        place, client = (key, wanted.partition), self._client
        first_offset = self._first_offsets.setdefault(place, wanted.fetch_offset)
        wanted.fetch_offset = next_offset
        if client.skipped is None or len(client.skipped) >= MAX_SKIPPED:
            client.skipped = {}
        client.skipped[place] = SkippedOffsets(self._histories[place], first_offset, next_offset)

    def _resume(self, key: TopicKey, wanted: FetchPartition) -> None:
        """Read on where the client's last fetch ended, if the client repeats its offset."""
        place, skipped = (key, wanted.partition), self._client.skipped
        known = skipped.get(place) if skipped else None
        if known is None or known.first_offset != wanted.fetch_offset:
            return
        with contextlib.suppress(KafkaError):  # the row reports the error
            if known.history == self._history(self.reader.find(*place)):
                self._first_offsets[place] = wanted.fetch_offset
                wanted.fetch_offset = known.next_offset

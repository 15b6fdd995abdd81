"""The read side of a log: its values, its segments, and lookups in them. Nothing changes here."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random

from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.records.batch import BatchHeader
from headgate.protocol.records.control import Marker
from headgate.protocol.steps import Steps
from headgate.storage.config import LogConfig
from headgate.storage.disk.pool import Pool
from headgate.storage.log import rolling, timestamp_lookup
from headgate.storage.log.epochs import Epochs
from headgate.storage.log.log_lock import FLUSH
from headgate.storage.log.producers import Producers
from headgate.storage.log.replacement import Compacted
from headgate.storage.log.segments import Segments
from headgate.storage.log.state import LogState
from headgate.storage.log.timestamp_lookup import More
from headgate.storage.segment.file_slice import FileSlice
from headgate.storage.segment.segment import Segment
from headgate.storage.segment.transaction_index import Reaching

_RECALL_BYTES = 64 * 1024 * 1024


class LogReader(LogState):
    """The values and the segments of a log."""

    __slots__ = (
        "_jitter",
        "_random",
        "_segments",
        "_snapshot_offset",
        "config",
        "directory",
        "epochs",
        "pool",
        "producers",
        "topic_id",
    )

    def __init__(
        self,
        pool: Pool,
        directory: str,
        topic: str,
        partition: int,
        topic_id: bytes | None,
        config: LogConfig,
        segments: Sequence[Segment],
        random: Random,
        *,
        names_unsynced: bool = False,
    ) -> None:
        """An empty log at the last segment's base offset; `recovery.open_log` adds the content of the segments.

        `names_unsynced`: the directory of a new partition is not synced.
        """
        super().__init__((topic, partition), segments[-1].base_offset, names_unsynced=names_unsynced)
        self.pool = pool
        self.directory = directory
        self.topic_id = topic_id
        self.config = config
        self._segments = Segments(segments)
        self.producers = Producers()
        self.epochs = Epochs(pool.files, directory)
        self._snapshot_offset = self.end_offset
        self._random = random
        self._jitter = random.random()  # the share of segment.jitter.ms that the active segment has

    def __repr__(self) -> str:
        return f"Log({self.topic}-{self.partition}, offsets {self.start_offset} to {self.end_offset})"

    @property
    def stable_offset(self) -> int:
        """The first offset of a transaction that is open, or whose end is above the last known high watermark.

        The log's end without such a transaction. See `Transactions.replicated`.
        """
        if not self.has_transactions:
            return self.end_offset
        return max(self.start_offset, min(self.producers.transactions.first_unstable, self.end_offset))

    @property
    def segments(self) -> tuple[Segment, ...]:
        """The segments, from the oldest to the active one."""
        return tuple(self._segments)

    @property
    def active(self) -> Segment:
        """The segment for appends."""
        return self._segments.active

    @property
    def active_base_offset(self) -> int:
        """The base offset of the active segment."""
        return self._segments.active.base_offset

    @property
    def compacted(self) -> Compacted:
        """The state of compaction, created at first use (`was_compacted`)."""
        return self._segments.compacted

    @property
    def was_compacted(self) -> bool:
        """Whether `compacted` was used."""
        return self._segments.were_compacted

    @property
    def size(self) -> int:
        """The size of all segments in bytes."""
        return self._segments.size

    @property
    def has_legacy_format(self) -> bool:
        """Whether the log may have messages of magic 0 and 1, as an adopted log of Apache Kafka."""
        return self._segments.has_legacy_format

    @property
    def has_own_start(self) -> bool:
        """Whether a checkpoint must have the start: it is within a segment, or a crash may bring segments back."""
        may_come_back = self.names_unsynced or self.flushing is not None or self._segments.are_being_replaced
        return self.start_offset > (0 if may_come_back else self._segments[0].base_offset)

    @property
    def snapshot_offset(self) -> int:
        """The offset of the last snapshot of the producers' state, or the start of their tracking."""
        return self._snapshot_offset

    def is_aged(self, now_ms: int) -> bool:
        """Whether the active segment is not empty, and was begun longer ago than segment.ms.

        An append rolls by the time of its records, which may be years old. With that time here, a log of old records
        would roll at each check.
        """
        active = self._segments.active
        return active.size > 0 and now_ms - active.created_ms > self.longest_ms()

    def longest_ms(self) -> int:
        """The age in ms at which the active segment ends."""
        config = self.config
        return rolling.longest_ms(config, self._jitter) if config.segment_jitter_ms else config.max_segment_ms

    def is_flush_due(self, now_ms: int) -> bool:
        """Whether a flush is due: by flush.ms, or after a roll."""
        is_wanted = bool(self.indexes_unsynced)
        if self.recovery_point < self.end_offset:
            is_wanted = (
                is_wanted
                or now_ms - self.last_flush_ms >= self.config.flush_ms
                or self.recovery_point < self._segments.active.base_offset
                or self.config.fsync_before_commit
            )
        return is_wanted and self.may(FLUSH)

    def since(self, offset: int) -> list[Segment]:
        """The segments from the one with an offset on."""
        return self._segments.since(offset)

    def locate(self, offset: int) -> tuple[Segment, int]:
        """The segment and position of the batch with `offset`, or of the next one. Raises OSError, KafkaError."""
        return self._segments.locate(offset)

    def headers(self, offset: int) -> Iterator[BatchHeader]:
        """The headers of all batches from the one with `offset` on.

        Raises KafkaError(KAFKA_STORAGE_ERROR) at a damaged place.
        """
        return self._segments.headers(offset)

    def batches(self, offset: int) -> Iterator[tuple[BatchHeader, Marker | None]]:
        """`headers`, each with the transaction marker of the batch, if any."""
        return self._segments.batches(offset)

    def recall(self, producer_id: int, end: int) -> Iterator[BatchHeader]:
        """A producer's batches up to the offset `end`, from the last part of the log that may have them."""
        for header in self._segments.headers_before(end, _RECALL_BYTES):
            if header.producer_id == producer_id and not header.is_control:
                yield header

    def read(
        self, offset: int, max_bytes: int, up_to: int, at_least_one: bool, blocking: bool = True
    ) -> FileSlice | None:
        """Plan a read of whole batches from `offset` on, at most `max_bytes`, none reaching `up_to`.

        `up_to` is a batch boundary, or the end. With `at_least_one` the first batch is included even if it is larger
        than `max_bytes`, and even if slices may keep no more files open (`HeldFiles`). None if there is nothing:
        `offset` is `up_to`, not even one batch fits, or the file may not be kept open. Raises KafkaError:
        OFFSET_OUT_OF_RANGE outside of [start, end], KAFKA_STORAGE_ERROR. If not `blocking`, raises WouldBlock instead
        of waiting for the disk.
        """
        if not self.start_offset <= offset <= self.end_offset:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"{self.topic}-{self.partition} has offsets {self.start_offset} to {self.end_offset}, not {offset}",
            )
        if offset >= up_to:
            return None
        if not at_least_one and self.pool.held.is_full and not self._segments.owner(offset).is_held:
            return None
        try:
            return self._segments.plan(offset, max_bytes, up_to, self.end_offset, at_least_one, blocking)
        except OSError as error:
            raise self.disk_error(error) from error

    def aborted(self, start: int, up_to: int, piece: FileSlice | None = None, blocking: bool = True) -> Reaching:
        """The aborted transactions with records from `start` on and before `up_to`, also removed records.

        With a slice that `read` planned from `start` on, little more than the slice needs. Raises
        KafkaError(KAFKA_STORAGE_ERROR), and WouldBlock if not `blocking`.
        """
        try:
            if piece is not None:
                up_to = min(up_to, self._segments.bound(start, piece, self.end_offset, blocking))
            return self._segments.aborted(start, up_to, blocking)
        except OSError as error:
            raise self.disk_error(error) from error

    def offset_for_time(
        self, timestamp_ms: int, up_to: int, more: More | None = None, blocking: bool = True
    ) -> Steps[timestamp_lookup.Found]:
        """In slices, the first record of this time or later, below `up_to`. The slices do not use the log.

        If they end with `More`, call again with it. Raises KafkaError(KAFKA_STORAGE_ERROR), and WouldBlock if not
        `blocking`; the slices raise OSError.
        """
        start_offset = self.start_offset if more is None else max(self.start_offset, more.base_offset)
        try:
            segments = self._segments.since(start_offset)
            return timestamp_lookup.first_from(segments, timestamp_ms, start_offset, blocking).steps(up_to)
        except OSError as error:
            raise self.disk_error(error) from error

    def max_timestamp(
        self, up_to: int, more: More | None = None, blocking: bool = True
    ) -> Steps[timestamp_lookup.Found]:
        """`offset_for_time` for the first record with the highest timestamp, if below `up_to`. Source: KIP-734."""
        try:
            segments = self._segments.since(self.start_offset)
            return timestamp_lookup.newest(segments, self.start_offset, more, blocking).steps(up_to)
        except OSError as error:
            raise self.disk_error(error) from error

    def starts(self) -> list[int]:
        """The base offset of each segment, the oldest first, and the end of the last, unless it is empty."""
        found = [max(segment.base_offset, self.start_offset) for segment in self._segments]
        return [*found, self.end_offset] if self._segments.active.size else found

    def modified_ms(self) -> list[int]:
        """The time of each segment's last write, the oldest first. Raises KafkaError(KAFKA_STORAGE_ERROR)."""
        try:
            return [segment.modified_ms for segment in self._segments]
        except OSError as error:
            raise self.disk_error(error) from error

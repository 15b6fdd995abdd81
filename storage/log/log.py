"""A partition's log: its parts, its values, and reads.

Synchronous and single-writer; knows nothing of connections or replication. The parts:

    segments    the files, from the oldest to the active one, the one for appends; finding and reading in them
    producers   the sequences and transactions of producers
    epochs      the leader epochs
    lock        the operations under way, and the operations that they exclude

A log is changed by the modules of this folder alone, each of which takes the log: `appending`, `following`, `rolling`,
`flushing`, `segment_deletion`, `closing`. Appended bytes are in the page cache when `appending.append` returns, as in
Apache Kafka; a flush makes them durable and moves `recovery_point`, below which nothing may be missing after a crash.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from random import Random

from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.steps import Steps, finish
from headgate.storage.config import LogConfig
from headgate.storage.disk.pool import Pool
from headgate.storage.log import snapshots
from headgate.storage.log.epochs import Epochs
from headgate.storage.log.flush import Flush
from headgate.storage.log.log_lock import RETIRED, LogLock
from headgate.storage.log.pending_write import AppendInfo, PendingWrite
from headgate.storage.log.producers import Producers
from headgate.storage.log.segments import Segments
from headgate.storage.segment import timestamp_lookup
from headgate.storage.segment.file_slice import FileSlice
from headgate.storage.segment.segment import Segment
from headgate.storage.segment.segment_file import GROWING
from headgate.storage.segment.timestamp_lookup import More, TimestampOffset
from headgate.storage.segment.transaction_index import Reaching

__all__ = ["AppendInfo", "FileSlice", "Log", "LogConfig", "TimestampOffset"]


class Log:
    """The log of one partition. Offsets: start <= stable <= end; `end_offset` is the next offset."""

    __slots__ = (
        "batches_in",
        "being_written",
        "bytes_in",
        "bytes_out",
        "bytes_replicated",
        "config",
        "directory",
        "end_offset",
        "epochs",
        "flushing",
        "has_transactions",
        "indexes_unsynced",
        "is_ahead",
        "jitter",
        "key",
        "last_decided_offset",
        "last_flush_ms",
        "lock",
        "names_unsynced",
        "pool",
        "producers",
        "random",
        "reads_out",
        "records_elsewhere",
        "recovery_point",
        "segments",
        "staged",
        "start_offset",
        "sync_error",
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
        self.key = (topic, partition)
        """The key of all mappings by partition is this very tuple: one for each would take half a kilobyte."""
        self.pool = pool
        self.directory = directory
        self.topic_id = topic_id
        self.config = config
        self.start_offset = self.end_offset = self.recovery_point = offset = segments[-1].base_offset
        """The first offset, the next one, and the offset below which a crash loses nothing."""
        self.has_transactions = False
        """Whether the log has, or had, a transaction."""
        self.is_ahead = False
        """Whether files are older than the log in memory, until a repair updates them."""
        self.segments = Segments(segments)
        self.producers = Producers(offset)
        self.epochs = Epochs(pool.files, directory)
        self.lock = LogLock()
        self.staged: PendingWrite | None = None
        self.being_written: PendingWrite | None = None
        """The write of a thread, from `appending.begin_write` to `appending.end_write`."""
        self.names_unsynced = names_unsynced
        """Whether names in the log's directory, or its own name, may not be on the disk."""
        self.indexes_unsynced: list[str] = []
        """Files to sync: indexes of segments rolled since the last flush, and truncated segments."""
        self.last_decided_offset = 0
        """Every transaction below this offset has ended with a durable marker, as far as is known."""
        self.last_flush_ms = 0
        self.flushing: Flush | None = None
        """The flush, from `flushing.begin` to `flushing.end`."""
        self.sync_error: KafkaError | None = None
        """The error of a failed sync: the content of the disk is unknown since, and the log is not flushed."""
        self.bytes_in = self.batches_in = self.bytes_replicated = 0
        """Bytes and batches appended as the leader, and bytes as a follower, since the log was opened."""
        self.records_elsewhere = offset
        """The end offset without the records that were appended as the leader since the log was opened."""
        self.bytes_out = self.reads_out = 0
        """Bytes sent to consumers since the log was opened, and answers with records."""
        self.random = random
        self.jitter = random.random()
        """The share of segment.jitter.ms that the active segment has."""

    def __repr__(self) -> str:
        return f"Log({self.name}, offsets {self.start_offset} to {self.end_offset})"

    @property
    def topic(self) -> str:
        return self.key[0]

    @property
    def partition(self) -> int:
        return self.key[1]

    @property
    def name(self) -> str:
        """The topic and the number of the partition, for errors."""
        return f"{self.key[0]}-{self.key[1]}"

    @property
    def is_retired(self) -> bool:
        """Whether the log is deleted, or about to be."""
        return bool(self.lock.operations & RETIRED)

    @property
    def written_end(self) -> int:
        """The offset after the last batch in the file, without batches that are staged or being written."""
        unwritten = self.being_written or self.staged
        return self.end_offset if unwritten is None else unwritten.first_offset

    @property
    def records_in(self) -> int:
        """The offsets that were appended as the leader since the log was opened; no truncation lowers the number."""
        return self.written_end - self.records_elsewhere

    @property
    def stable_offset(self) -> int:
        """The first offset of a transaction that is open, or whose end is above the last known high watermark.

        The log's end without such a transaction. See `Producers.replicated`.
        """
        if not self.has_transactions:
            return self.end_offset
        return max(self.start_offset, min(self.producers.transactions.first_unstable, self.end_offset))

    @property
    def has_own_start(self) -> bool:
        """Whether a checkpoint must have the start: it is within a segment, or a crash may bring segments back."""
        may_come_back = self.names_unsynced or self.flushing is not None or self.segments.are_being_replaced
        return self.start_offset > (0 if may_come_back else self.segments[0].base_offset)

    def count_read(self, size: int) -> None:
        """Count an answer to a consumer, with so many bytes."""
        self.bytes_out += size
        self.reads_out += 1

    def configure(self, config: LogConfig) -> None:
        """Use these settings from now on."""
        self.config = config

    def share_topic_id(self, topic_id: bytes) -> None:
        """Use this object for the topic's id, as all partitions of the topic do."""
        self.topic_id = topic_id

    def disk_error(self, error: OSError) -> KafkaError:
        """The error for clients where the disk refuses something."""
        return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"the disk of {self.name} refuses: {error}")

    def follow_transactions(self) -> None:
        """Note that the log has transactions from now on."""
        self.has_transactions = True
        self.segments.active.follow_transactions()

    # Reading

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
                f"{self.name} has offsets {self.start_offset} to {self.end_offset}, not {offset}",
            )
        if offset >= up_to:
            return None
        if not at_least_one and self.pool.held.is_full and not self.segments.owner(offset).is_held:
            return None
        try:
            return self.segments.plan(offset, max_bytes, up_to, self.end_offset, at_least_one, blocking)
        except OSError as error:
            raise self.disk_error(error) from error

    def aborted(self, start: int, up_to: int, piece: FileSlice | None = None, blocking: bool = True) -> Reaching:
        """The aborted transactions with records from `start` on and before `up_to`, also removed records.

        With a slice that `read` planned from `start` on, little more than the slice needs. Raises
        KafkaError(KAFKA_STORAGE_ERROR), and WouldBlock if not `blocking`.
        """
        try:
            if piece is not None:
                up_to = min(up_to, self.segments.bound(start, piece, self.end_offset, blocking))
            return self.segments.aborted(start, up_to, blocking)
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
            segments = self.segments.since(start_offset)
            return timestamp_lookup.first_from(segments, timestamp_ms, start_offset, blocking).steps(up_to)
        except OSError as error:
            raise self.disk_error(error) from error

    def max_timestamp(
        self, up_to: int, more: More | None = None, blocking: bool = True
    ) -> Steps[timestamp_lookup.Found]:
        """`offset_for_time` for the first record with the highest timestamp, if below `up_to`. Source: KIP-734."""
        try:
            segments = self.segments.since(self.start_offset)
            return timestamp_lookup.newest(segments, self.start_offset, more, blocking).steps(up_to)
        except OSError as error:
            raise self.disk_error(error) from error

    def starts(self) -> list[int]:
        """The base offset of each segment, the oldest first, and the end of the last, unless it is empty."""
        found = [max(segment.base_offset, self.start_offset) for segment in self.segments]
        return [*found, self.end_offset] if self.segments.active.size else found

    def modified_ms(self) -> list[int]:
        """The time of each segment's last write, the oldest first. Raises KafkaError(KAFKA_STORAGE_ERROR)."""
        try:
            return [segment.modified_ms for segment in self.segments]
        except OSError as error:
            raise self.disk_error(error) from error

    def advance_start(self, offset: int) -> None:
        """Stop serving records before `offset`; retention deletes their segments."""
        if offset > self.start_offset:
            self.start_offset = offset
            self.epochs.start_from(offset)

    # Recovery and repair

    def _move_end(self, offset: int) -> None:
        """Let another offset be the next one, without an append."""
        self.records_elsewhere += offset - self.end_offset
        self.end_offset = offset

    def recovered(self, end_offset: int, unsynced: Sequence[str] = (), *, is_clean: bool) -> None:
        """Take the end of the log that a start has found; `unsynced`: files for the next flush.

        After a crash it is unknown whether the leader epochs' file is on the disk.
        """
        self._move_end(end_offset)
        self.indexes_unsynced += unsynced
        if not is_clean:
            self.epochs.is_synced = False

    def start_at(self, start_offset: int, recovery_point: int) -> None:
        """Let the log begin at `start_offset` or its first segment; it is durable up to `recovery_point`."""
        self.start_offset = max(start_offset, self.segments[0].base_offset)
        self.recovery_point = min(self.end_offset, recovery_point)

    def opened(self, *, is_clean: bool) -> None:
        """Note that a start has opened the log."""
        self.segments.active.was_truncated = not is_clean  # perhaps: a killed broker may have truncated it
        self.names_unsynced = not is_clean or not self.segments.size  # an empty log never needed a flush

    def note_transactions(self) -> None:
        self.has_transactions = True

    def forget_behind(self, base_offset: int, position: int, offset: int) -> None:
        """Truncate the log in memory alone, after a position of a segment that was renewed up to that position.

        A thread rebuilds the producers' state, and changes the files.
        """
        self.segments.forget_behind(base_offset, position)
        self._move_end(offset)
        self.epochs.forget_behind(offset)
        self.is_ahead = True

    def forget_all(self, offset: int, start_offset: int) -> None:
        """Forget all records, in memory alone: the next one gets `offset`."""
        segments = self.segments
        segments.replace_all(Segment(self.pool, self.directory, offset, created_ms=segments.active.created_ms))
        segments.active.state = GROWING
        self.start_offset = start_offset
        self._move_end(offset)
        self.has_transactions = False
        self.epochs.forget_behind(0)
        self.is_ahead = True

    def emptied(self, offset: int) -> None:
        """Note that the only segment is empty, and that the next record gets `offset`."""
        self.start_offset = self.recovery_point = offset
        self._move_end(offset)
        self.names_unsynced, self.has_transactions = True, False
        self.epochs.truncate_to(0)
        self.reload_producers()

    def renew(self, segment: Segment) -> None:
        """Replace a segment by one with rebuilt indexes, all in memory."""
        segment.move_to(self.pool)
        self.segments.renew(segment)
        self.is_ahead = self.is_ahead or segment is self.segments.active

    def reload_producers(self) -> None:
        """Rebuild the producers' state from the last snapshot and all later batches."""
        finish(self.reload_producers_steps())

    def reload_producers_steps(
        self, known: Iterable[int] | None = None, producers: Producers | None = None
    ) -> Steps[None]:
        """`reload_producers` in slices. Snapshots behind the log's end are deleted.

        `known`: the offsets of the snapshots, `producers`: their state, if the caller has them.
        """
        files = self.pool.files
        if known is None:
            known = snapshots.offsets(files.list(self.directory))
        known = snapshots.remove_behind(files, self.directory, known, self.end_offset)
        if producers is None:
            producers = yield from snapshots.replayed(files, self.directory, known, self.segments, self.end_offset)
        else:
            producers.snapshot_offset = self.segments[0].base_offset
        self.take_producers(producers)

    def take_producers(self, producers: Producers) -> None:
        self.producers = producers
        self.has_transactions = self.has_transactions or producers.are_transactional

    def move_to(self, pool: Pool) -> None:
        """Move to this pool; the files are closed, and nothing is loaded."""
        pool.pending_deletions.extend(self.pool.pending_deletions)
        self.pool = pool
        for segment in self.segments:
            segment.move_to(pool)

    def close_files(self) -> None:
        """Close the files; the next use opens them again."""
        for segment in self.segments:
            segment.close()

    def retire(self) -> None:
        """Close the files for good: the directory is renamed, and another log may get its name."""
        self.lock.operations |= RETIRED
        for segment in self.segments:
            segment.retire()

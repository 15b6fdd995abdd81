"""One replica of a partition in the leader's role: leader epoch, in-sync replicas, high watermark.

A topic with one replica is a replicated topic with factor one. Consumers see only records below the high watermark,
`acks=all` waits for it, and the last stable offset never passes it; the place of the replicas makes no difference here.
With `headgate.flush=commit` a record that is not on the disk is not replicated: the high watermark follows the synced
end of the log. The high watermark never passes the written end: batches that are only staged, or that a thread still
writes, can be dropped again.

`replica_manager.py` has all partitions, `append.py` the waiting appends, `append_queue.py` the writes of threads. This
module knows no network and no requests. Sources: the replication chapter of Apache Kafka's design document, KIP-101
(leader epochs), KIP-320 (fencing of fetchers).
"""

from collections.abc import Callable
from functools import partial

from headgate.gateway.replication.append import ACKS_ALL, Append, CommitQueue
from headgate.gateway.replication.append_queue import COLD, AppendQueue, Cold, DiskMonitor, RollIsDue
from headgate.gateway.runtime.tasks import WaitList
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.storage.config import LogConfig
from headgate.storage.files import WouldBlock
from headgate.storage.log import appending, flushing
from headgate.storage.log.log import AppendInfo, Log
from headgate.storage.log.log_lock import ROLL
from headgate.storage.log.validation import BROKER, CLIENT, HEADER, BatchFacts, BatchOrigin, Depth
from headgate.storage.segment.file_slice import FileSlice

READ_UNCOMMITTED, READ_COMMITTED = 0, 1
GATHER_BYTES = 4096
"""Batches up to this size are written together with others of the turn: a copy is cheaper than a system call."""


class Replica:
    """The leader's state of one log. Synchronous.

    `advanced(replica)` is called when a fact in fetch responses has changed: the start of the log, the leader epoch, or
    the high watermark, if a fetch waits or watches.
    """

    __slots__ = (
        "_commits",
        "_read_only",
        "_writer",
        "advanced",
        "converting",
        "depth",
        "disk",
        "fsync_before_commit",
        "high_watermark",
        "index",
        "isr",
        "leader_epoch",
        "log",
        "origin",
        "replicas",
        "stores_verbatim",
        "topic",
        "waiters",
    )

    def __init__(
        self,
        topic: str,
        index: int,
        log: Log,
        leader_epoch: int,
        advanced: Callable[["Replica"], None],
        disk: DiskMonitor,
        depth: Depth = HEADER,
        origin: BatchOrigin = CLIENT,
    ) -> None:
        """`depth`: headgate.validate.records. `origin`: BROKER if only the broker writes to the partition."""
        self.topic = topic
        self.index = index
        self.log = log
        self.leader_epoch = leader_epoch
        self.replicas: tuple[int, ...] = ()
        self.isr: tuple[int, ...] = ()
        self.fsync_before_commit = log.config.fsync_before_commit
        """Whether the high watermark waits for a sync. If not, the write alone moves it, and acknowledges acks=all."""
        self.high_watermark = log.recovery_point if self.fsync_before_commit else log.end_offset
        if log.has_transactions:
            log.producers.replicated(self.high_watermark)
        self.depth = depth
        self.origin = origin
        self._read_only: KafkaError | None = None
        self.stores_verbatim = log.config.allows_verbatim and depth is HEADER and origin is CLIENT
        """Whether a valid batch is appended as the client sent it, without decoding its records."""
        self.converting = 0
        """The number of appends that wait for their conversion: later ones have to stay after them."""
        self.waiters = WaitList()
        """Fetches that wait for records, or watch the start of the log and the leader epoch."""
        self._commits: CommitQueue | None = None  # in most partitions no append ever waits
        self.disk = disk
        self._writer: AppendQueue | Cold | None = COLD if log.segments.active.is_sealed else None
        self.advanced = advanced

    def __repr__(self) -> str:
        return f"Partition({self.topic}-{self.index}, epoch {self.leader_epoch}, high watermark {self.high_watermark})"

    @property
    def read_only(self) -> KafkaError | None:
        """The reason why clients cannot produce now; the broker itself still writes."""
        return self._read_only

    @read_only.setter
    def read_only(self, reason: KafkaError | None) -> None:
        self._read_only = reason
        self._update_verbatim(self.log.config)

    def check_writable(self) -> None:
        """Raises KafkaError with the reason of `read_only`. Not called where `stores_verbatim` holds."""
        if self._read_only is not None:
            raise KafkaError(self._read_only.code, self._read_only.message)

    def configure(self, config: LogConfig) -> None:
        """Apply new settings to the log and the replica."""
        log = self.log
        log.configure(config)
        self._update_verbatim(config)
        self.fsync_before_commit = config.fsync_before_commit
        if log.staged is None and log.being_written is None:
            self.advance_high_watermark()
            if self.high_watermark < log.end_offset:
                self.sync_soon()

    def _update_verbatim(self, config: LogConfig) -> None:
        is_client = self.origin is CLIENT and self._read_only is None
        self.stores_verbatim = config.allows_verbatim and self.depth is HEADER and is_client

    @property
    def last_stable_offset(self) -> int:
        """The end offset for read_committed consumers."""
        return min(self.high_watermark, self.log.stable_offset)

    def append(
        self,
        records: memoryview,
        acks: int,
        now_ms: int,
        origin: BatchOrigin | None = None,
        facts: BatchFacts | None = None,
    ) -> AppendInfo:
        """Append batches as the leader; offsets are patched into `records` in place.

        `origin`: None for the topic's. `facts`: a coordinator has just made the batch. Raises KafkaError:
        NOT_ENOUGH_REPLICAS, and the errors of `appending.append`.
        """
        info = self.stage_owned(records, acks, now_ms, origin, facts)
        self.write_staged()
        return info

    def stage(self, records: memoryview, acks: int, now_ms: int) -> AppendInfo:
        """Append a client's batch where `stores_verbatim` holds, but leave the write of small ones to `write_staged`.

        Until then no client may learn of the batches, and nothing may read the log. Raises KafkaError as `append` does.
        """
        if acks == ACKS_ALL:
            self._check_in_sync()
        info = appending.stage(self.log, records, self.leader_epoch, now_ms, GATHER_BYTES, self)
        if len(records) > GATHER_BYTES:
            self.write_staged()
        return info

    def stage_fresh(self, batch: memoryview, facts: BatchFacts, now_ms: int) -> AppendInfo:
        """`stage` what a coordinator has just made."""
        self._check_in_sync()
        self.check_writable()
        log, leader_epoch = self.log, self.leader_epoch
        return appending.stage(log, batch, leader_epoch, now_ms, GATHER_BYTES, self, origin=BROKER, facts=facts)

    def stage_owned(
        self,
        records: memoryview,
        acks: int,
        now_ms: int,
        origin: BatchOrigin | None = None,
        facts: BatchFacts | None = None,
    ) -> AppendInfo:
        """`stage` for a caller that writes itself: `records` must not change until the write."""
        if acks == ACKS_ALL:
            self._check_in_sync()
        self.check_writable()
        origin = origin or self.origin
        return appending.stage(self.log, records, self.leader_epoch, now_ms, 0, self, self.depth, origin, facts)

    def _check_in_sync(self) -> None:
        least = self.log.config.min_insync_replicas
        if len(self.isr) < least:
            in_sync = f"{len(self.isr)} replicas are in sync, min.insync.replicas={least}"
            raise KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS, in_sync)

    def write_staged(self) -> None:
        """Write the staged batches. Raises KafkaError(KAFKA_STORAGE_ERROR) if none of them was appended."""
        try:
            self.disk.write(appending.write_staged, self.log)
        finally:
            self.advance_high_watermark()

    def writer(self) -> AppendQueue | None:
        """The queue for appends while the disk is slow; None to write inline.

        The first append since the start also goes through a queue, if it would have to read from the disk.
        """
        if not (self.disk.is_slow or self._writer):
            return None
        if self.log.staged is not None:  # promised before the disk became slow: the turn's end writes it
            return None
        if isinstance(self._writer, Cold):
            self._writer = None if self.disk.is_slow or self._is_warm() else AppendQueue(self, self.disk)
            return self._writer or self.writer()
        if self._writer is None:
            self._writer = AppendQueue(self, self.disk)
        elif self._writer.is_idle and not self.disk.is_slow:
            self._writer = None
        return self._writer

    def give_up_writer(self) -> None:
        """Drop the queue, in which no append waits, if the disk is not slow."""
        if not self.disk.is_slow:
            self._writer = COLD if self.log.segments.active.is_sealed else None

    def _is_warm(self) -> bool:
        """Whether an append needs no read from the disk; true for an append that fails."""
        try:
            appending.look_up(self.log)
        except WouldBlock as cold:
            cold.release()
            return False
        except (OSError, KafkaError):
            return True
        return True

    def advance_high_watermark(self) -> None:
        """Move the high watermark to the offset that every in-sync replica has.

        With one replica that is the written end of its log; with `headgate.flush=commit`, the synced end.
        """
        log = self.log
        is_written = log.staged is None and log.being_written is None
        end_offset = log.end_offset if is_written else log.written_end
        if end_offset != self.high_watermark:
            if self.fsync_before_commit:
                end_offset = min(log.recovery_point, end_offset)
                if end_offset <= self.high_watermark:  # the high watermark does not follow a lower recovery point
                    return
            self.high_watermark = end_offset
            if log.has_transactions:
                log.producers.replicated(end_offset)
            if self._commits is not None:
                self._commits.advance(end_offset)
            if self.waiters.waiters or self.waiters.watches:
                self.advanced(self)

    def await_commit(self, append: Append) -> None:
        """Have an append committed once the high watermark has reached its end."""
        if self._commits is None:
            self._commits = CommitQueue()
        self._commits.add(append)

    @property
    def uncommitted(self) -> int:
        """The number of appends that wait for the high watermark."""
        return 0 if self._commits is None else len(self._commits)

    def fail_lost_appends(self) -> None:
        """Fail the appends that can never be committed: the log lost them, or is read-only, or is deleted."""
        if self._commits is not None:
            self._commits.fail_lost()

    def apply_truncation(self) -> bool:
        """Apply a truncation of the log: lower the high watermark, and fail the appends that wait for lost records.

        True if consumers may have read lost records: then the partition needs a higher leader epoch.
        """
        log = self.log
        was_readable = log.end_offset < self.high_watermark
        self.high_watermark = min(self.high_watermark, log.end_offset)
        self.fail_lost_appends()
        self.advanced(self)
        return was_readable

    def repaired(self) -> None:
        """Apply a repair of the log: it accepts records again, and all its records are on the disk."""
        log = self.log
        self.advance_high_watermark()
        if log.has_transactions:  # the state of the producers may have been rebuilt
            log.producers.replicated(self.high_watermark)
        self.advanced(self)

    def run_roll(self, roll: Callable[[], None]) -> None:
        """Roll inline, and time the roll. Raises RollIsDue if a thread of the queue has to roll."""
        if self._writer is not None and self._writer.rolls:
            raise RollIsDue
        self.disk.write(roll)

    def roll_soon(self, roll: Callable[[], None], resume: Callable[[OSError | None], None]) -> None:
        """Have a thread create a new segment while appends wait; then call `resume` with the error, if any.

        `resume` is not called if the log cannot be rolled now.
        """
        if self.log.staged is not None:
            return
        writer = (self._writer is not COLD and self.writer()) or AppendQueue(self, self.disk)
        if writer.is_idle and self.log.lock.may(ROLL):
            self._writer = writer
            writer.roll(roll, resume)

    def sync_soon(self) -> None:
        """Have the log flushed: at once, together with others, if a client may wait; else after others."""
        if self.fsync_before_commit:
            self.disk.group_commit.sync_after_turn(self)
        else:
            self.disk.group_commit.flush(self)

    def write_epochs_soon(self) -> None:
        """Have a thread write the leader epochs of the log: then a start need not search the batches for them."""
        self.disk.group_commit.write(partial(flushing.write_epochs, self.log))

    def synced(self) -> None:
        """Move the high watermark after a flush of the log, or fail the appends that wait for it."""
        self.advance_high_watermark()
        if self.log.sync_error is not None or self.log.is_retired:
            self.fail_lost_appends()

    def readable_end(self, isolation_level: int) -> int:
        """The offset after the last one that a consumer of this isolation level may see."""
        return self.last_stable_offset if isolation_level == READ_COMMITTED else self.high_watermark

    def read(
        self, offset: int, max_bytes: int, isolation_level: int, at_least_one: bool, blocking: bool = True
    ) -> FileSlice | None:
        """Plan a read for a consumer; None if there is nothing to read yet.

        Raises KafkaError(OFFSET_OUT_OF_RANGE) outside of [log start, log end]; WouldBlock, if not `blocking`, instead
        of waiting for the disk.
        """
        if not self.log.start_offset <= offset <= self.high_watermark:
            if self.high_watermark < offset <= self.log.end_offset:  # a producer with acks=1 may know this offset
                return None
            there = f"[{self.log.start_offset}, {self.high_watermark}] of {self.topic}-{self.index}"
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, f"offset {offset} is outside of {there}")
        end = self.readable_end(isolation_level)
        if offset >= end:
            return None
        return self.log.read(offset, max_bytes, end, at_least_one, blocking)

    def aborted(self, offset: int, piece: FileSlice, blocking: bool = True) -> list[tuple[int, int]]:
        """(producer id, first offset) of the aborted transactions in a slice that `read` planned for read_committed.

        Raises as `read` does.
        """
        return self.log.aborted(offset, self.last_stable_offset, piece, blocking)

    @property
    def latest_epoch(self) -> int:
        """The highest leader epoch in which the partition was served, or that its log has."""
        return max(self.leader_epoch, self.log.epochs.latest)

    def end_offset_for(self, epoch: int) -> tuple[int, int]:
        """The largest leader epoch at most `epoch`, and its end offset: see `Epochs.end_offset_led`."""
        return self.log.epochs.end_offset_led(epoch, self.leader_epoch, self.log.end_offset)

    def check_leader_epoch(self, current_leader_epoch: int) -> None:
        """Refuse a client with another leader epoch (KIP-320). -1: the client sends no epoch.

        Raises KafkaError: FENCED_LEADER_EPOCH for an older epoch, UNKNOWN_LEADER_EPOCH for a newer one.
        """
        if current_leader_epoch in (-1, self.leader_epoch):
            return
        older = current_leader_epoch < self.leader_epoch
        code = ErrorCode.FENCED_LEADER_EPOCH if older else ErrorCode.UNKNOWN_LEADER_EPOCH
        raise KafkaError(code, f"leader epoch {current_leader_epoch} is not the present one, {self.leader_epoch}")

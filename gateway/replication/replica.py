"""One replica of a partition in the leader's role: leader epoch, in-sync replicas, high watermark.

A topic with one replica is a replicated topic with factor one. Consumers see only records below the high watermark,
`acks=all` waits for it, and the last stable offset never passes it. While `commits_at_write` holds, the write alone
moves it, and no append has to wait. With `headgate.flush=commit` a record that is not on the disk is not replicated:
the high watermark follows the synced end of the log. The high watermark never passes the written end: batches that are
only staged, or that a thread still writes, can be dropped again.

`replica_manager.py` has all partitions, `append.py` the waiting appends, `append_queue.py` the writes of threads,
`progress.py` the followers, `in_sync_replicas.py` the changes of the in-sync set. This module knows no network and no
requests. Sources: the replication chapter of Apache Kafka's design document, KIP-101 (leader epochs), KIP-207 (offsets
of new leaders), KIP-320 (fencing of fetchers).
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial

from headgate.gateway.replication.append import ACKS_ALL, Append, CommitQueue
from headgate.gateway.replication.append_queue import COLD, AppendQueue, Cold, DiskMonitor, RollIsDue
from headgate.gateway.replication.progress import FollowerFetch, Progress
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
LOG_END = 2
"""The isolation level of followers, which no client can ask for: they read what is not committed yet."""
_NO_FOLLOWERS = Progress()
GATHER_BYTES = 4096
"""Batches up to this size are written together with others of the turn: a copy is cheaper than a system call."""


class Replica:
    """The leader's state of one log. Synchronous."""

    __slots__ = (
        "_commits",
        "_read_only",
        "_resigned",
        "_touch",
        "_writer",
        "commits_at_write",
        "converting",
        "depth",
        "disk",
        "high_watermark",
        "index",
        "isr",
        "leader_epoch",
        "log",
        "origin",
        "partition_epoch",
        "progress",
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
        touch: Callable[[WaitList], None],
        disk: DiskMonitor,
        depth: Depth = HEADER,
        origin: BatchOrigin = CLIENT,
        high_watermark: int | None = None,
    ) -> None:
        """`touch`: `Tasks.touch`. `depth`: headgate.validate.records.

        `origin`: BROKER if only the broker writes to the partition. `high_watermark`: the last known one, if followers
        have a part in it; None for the end of the log.
        """
        self.topic = topic
        self.index = index
        self.log = log
        self.leader_epoch = leader_epoch
        self.replicas: tuple[int, ...] = ()
        self.isr: tuple[int, ...] = ()
        """The in-sync set, as it is stored."""
        self.partition_epoch = -1
        """The version of the stored state; -1 before the first."""
        self.progress: Progress | None = None  # None: the partition has no other replicas
        self.commits_at_write = not log.config.fsync_before_commit
        """Whether the write alone moves the high watermark, and acknowledges acks=all.

        So it is while this broker alone is in sync, no follower is about to join, and no sync is awaited.
        """
        self.high_watermark = log.end_offset if self.commits_at_write else log.recovery_point
        if high_watermark is not None:
            self.high_watermark = max(log.start_offset, min(self.high_watermark, high_watermark))
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
        self._resigned: KafkaError | None = None
        self.disk = disk
        self._writer: AppendQueue | Cold | None = COLD if log.segments.active.is_sealed else None
        self._touch = touch

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
        self._update_commits()
        if log.staged is None and log.being_written is None:
            self.advance_high_watermark()
            if self.high_watermark < log.end_offset:
                self.sync_soon()

    def _update_verbatim(self, config: LogConfig) -> None:
        is_client = self.origin is CLIENT and self._read_only is None
        self.stores_verbatim = config.allows_verbatim and self.depth is HEADER and is_client

    def notify(self) -> None:
        """Wake fetches: a fact in their responses has changed, such as the log start, the epoch or the watermark."""
        self._touch(self.waiters)
        if self.progress is not None:
            self._touch(self.progress.waiters)

    # In-sync replicas

    def assign(
        self,
        leader: int,
        leader_epoch: int,
        replicas: tuple[int, ...],
        isr: tuple[int, ...],
        partition_epoch: int,
        now_ms: float,
    ) -> None:
        """Take over the stored state of the partition, which this broker leads, unless a later one is known."""
        is_new_epoch = leader_epoch != self.leader_epoch
        if partition_epoch <= self.partition_epoch and not is_new_epoch:
            return
        self.leader_epoch, self.partition_epoch = leader_epoch, partition_epoch
        self.replicas, self.isr = replicas, isr
        followers = [node_id for node_id in replicas if node_id != leader]
        progress = self.progress
        if followers and progress is None:
            progress = self.progress = Progress()
            is_new_epoch = True
        if progress is not None:
            if is_new_epoch:
                progress.begin_epoch(self.log.written_end)
            progress.assign(followers, [node_id for node_id in isr if node_id != leader], now_ms)
        if is_new_epoch:
            self.notify()
        if not followers:
            self.progress = None
        self._update_commits()
        if progress is not None:
            self.advance_high_watermark()

    def count_joining(self, followers: Collection[int]) -> None:
        """Have the high watermark wait for these followers too: the stored in-sync set may have them any moment."""
        if self.progress is not None:
            self.progress.join(followers)
            self._update_commits()
            self.advance_high_watermark()

    def note_fetch(self, follower: FollowerFetch, offset: int, log_start: int) -> None:
        """Note that a follower has everything before `offset`; this may move the high watermark.

        A fetch that has waited for records comes again, and is noted once.
        Raises KafkaError as `Progress.check`, and OFFSET_OUT_OF_RANGE for an offset that this log does not have.
        """
        log, progress = self.log, self.progress or _NO_FOLLOWERS
        replicated = progress.check(follower.node_id, follower.broker_epoch)
        has_moved_start = replicated.log_start != log_start
        if replicated.fetch_ms == follower.arrival_ms and replicated.log_end == offset and not has_moved_start:
            return
        written_end = log.written_end
        if not log.start_offset <= offset <= written_end:
            raise self._out_of_range(offset)
        replicated.note_fetch(offset, log_start, written_end, follower.arrival_ms)
        self.advance_high_watermark()
        if has_moved_start:
            self._touch(progress.starts)

    def _update_commits(self) -> None:
        is_alone = self.progress is None or self.progress.is_leader_alone
        self.commits_at_write = is_alone and not self.log.config.fsync_before_commit and self._resigned is None

    def _committed_end(self, written_end: int) -> int:
        """The end of what all in-sync replicas have, on their disks if syncs are awaited."""
        if self._resigned is not None:
            return self.high_watermark
        end, progress = written_end, self.progress
        if self.log.config.fsync_before_commit:
            end = min(self.log.recovery_point, end)
        if progress is not None:
            if written_end != progress.leader_end and progress.note_write(written_end, self.disk.clock.monotonic_ms()):
                self._touch(progress.waiters)
            end = progress.committed_end(end)
        return end

    @property
    def is_catching_up(self) -> bool:
        """Whether the high watermark has not reached the beginning of this leader epoch (KIP-207)."""
        return self.progress is not None and self.high_watermark < self.progress.epoch_start

    @property
    def last_stable_offset(self) -> int:
        """The end offset for read_committed consumers."""
        log = self.log
        return min(self.high_watermark, log.stable_offset) if log.has_transactions else self.high_watermark

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
            self.check_in_sync(ErrorCode.NOT_ENOUGH_REPLICAS)
        info = appending.stage(self.log, records, self.leader_epoch, now_ms, GATHER_BYTES, self)
        if len(records) > GATHER_BYTES:
            self.write_staged()
        return info

    def stage_fresh(self, batch: memoryview, facts: BatchFacts, now_ms: int) -> AppendInfo:
        """`stage` what a coordinator has just made."""
        self.check_in_sync(ErrorCode.NOT_ENOUGH_REPLICAS)
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
            self.check_in_sync(ErrorCode.NOT_ENOUGH_REPLICAS)
        self.check_writable()
        origin = origin or self.origin
        return appending.stage(self.log, records, self.leader_epoch, now_ms, 0, self, self.depth, origin, facts)

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
            if not self.commits_at_write:
                end_offset = self._committed_end(end_offset)
                if end_offset <= self.high_watermark:  # the high watermark never falls with what it follows
                    return
            self.high_watermark = end_offset
            if log.has_transactions:
                log.producers.replicated(end_offset)
            if self._commits is not None:
                self._commits.advance(end_offset)
            if self.progress is not None:
                self._touch(self.waiters)
                for watch in self.progress.waiters.watches:  # followers wait for records alone
                    watch.note()
            elif self.waiters.waiters or self.waiters.watches:
                self.notify()

    def check_in_sync(self, code: ErrorCode) -> None:
        """Raises KafkaError with this code if the in-sync set is smaller than min.insync.replicas."""
        least = self.log.config.min_insync_replicas
        if len(self.isr) < least:
            raise KafkaError(code, f"{len(self.isr)} replicas are in sync, min.insync.replicas={least}")

    def check_leads(self) -> None:
        """Raises the reason of `resign`, if this broker leads the partition no more."""
        if self._resigned is not None:
            raise self._resigned.copy()

    def resign(self, reason: KafkaError) -> None:
        """Stop leading, for good: fail the appends that wait, and all later ones. The high watermark stays."""
        self._resigned = self.read_only = reason
        self.commits_at_write = False
        self.fail_waiting_appends(reason)
        self.notify()
        if self.progress is not None:
            self._touch(self.progress.starts)

    @property
    def has_resigned(self) -> bool:
        """Whether this broker leads the partition no more; another `Replica` may lead it later."""
        return self._resigned is not None

    def await_commit(self, append: Append) -> None:
        """Have an append committed once the high watermark has reached its end."""
        if self._resigned is not None:
            append.fail(self._resigned.copy())
            return
        if self._commits is None:
            self._commits = CommitQueue()
        self._commits.add(append)

    @property
    def uncommitted(self) -> int:
        """The number of appends that wait for the high watermark."""
        return 0 if self._commits is None else len(self._commits)

    def fail_waiting_appends(self, error: KafkaError) -> None:
        """Fail the appends that wait for the high watermark. Their records stay in the log."""
        if self._commits is not None:
            self._commits.fail_all(error)

    def fail_lost_appends(self) -> None:
        """Fail the appends that can never be committed: the log lost them, or is read-only, or is deleted."""
        if self._commits is not None:
            self._commits.fail_lost()

    def apply_truncation(self) -> bool:
        """Apply a truncation of the log: lower the high watermark, and fail the appends that wait for lost records.

        True if consumers may have read lost records, or followers may have them, which read above the high watermark:
        then the partition needs a higher leader epoch.
        """
        log = self.log
        may_be_elsewhere = log.end_offset < self.high_watermark or self.progress is not None
        self.high_watermark = min(self.high_watermark, log.end_offset)
        self.fail_lost_appends()
        self.notify()
        return may_be_elsewhere

    def repaired(self) -> None:
        """Apply a repair of the log: it accepts records again, and all its records are on the disk."""
        log = self.log
        self.advance_high_watermark()
        if log.has_transactions:  # the state of the producers may have been rebuilt
            log.producers.replicated(self.high_watermark)
        self.notify()

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
        if self.log.config.fsync_before_commit:
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
        if isolation_level == READ_COMMITTED:
            return self.last_stable_offset
        return self.log.written_end if isolation_level == LOG_END else self.high_watermark

    def _out_of_range(self, offset: int) -> KafkaError:
        there = f"[{self.log.start_offset}, {self.log.end_offset}] of {self.topic}-{self.index}"
        return KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, f"offset {offset} is outside of {there}")

    def read(
        self, offset: int, max_bytes: int, isolation_level: int, at_least_one: bool, blocking: bool = True
    ) -> FileSlice | None:
        """Plan a read for a consumer or a follower; None if there is nothing to read yet.

        Raises KafkaError(OFFSET_OUT_OF_RANGE) outside of [log start, log end]; WouldBlock, if not `blocking`, instead
        of waiting for the disk.
        """
        if not self.log.start_offset <= offset <= self.log.end_offset:
            raise self._out_of_range(offset)
        end = self.readable_end(isolation_level)
        if offset >= end:  # a producer with acks=1 may know an offset above the high watermark
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

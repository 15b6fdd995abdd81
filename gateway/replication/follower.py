"""One replica of a partition in the follower's role: its log is a copy of the leader's, up to the last fetch.

`fetcher.py` decides what happens to the log, `replica_fetchers.py` has the tasks; this module does the work. Appends
are inline while the disk is fast, and by a thread otherwise, as those of a leader (`append_queue.py`). A truncation
looks up its place in a thread, cuts the log in memory, and has the thread change the files. The leader alone moves the
high watermark. Flushes, retention, compaction, checkpoints and repairs treat the replica as they do a led one.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple

from headgate.gateway.replication.append_queue import AppendQueue, DiskMonitor
from headgate.gateway.replication.fetching.fetcher import ReceivedRecords
from headgate.gateway.replication.replica import Replica
from headgate.gateway.runtime.backoff import Backoff
from headgate.gateway.runtime.tasks import Changes, Outcome, Task, WaitList, sleep
from headgate.protocol.client.fetch_session import FetchKey
from headgate.protocol.errors import ErrorCode, KafkaError, without_frames
from headgate.storage.log.following import FollowerAppend, UnexpectedAppendOffset
from headgate.storage.log.log import Log
from headgate.storage.log.log_lock import FAILED, RETIRED, ROLLING, STAGED, WRITING
from headgate.storage.recovery import log_truncation
from headgate.storage.recovery.log_truncation import BeginRecoveryPoints, LogTruncation

logger = logging.getLogger("headgate.replication")

BUSY_MS: Final = 10.0
"""The pause of work on a log that another operation has."""
SYNC_MS: Final = 1_000.0
"""The time after which a sync that could not begin is asked for again."""
FIRST_WAIT_MS, MAX_WAIT_MS = 100.0, 10_000.0
"""The pauses after failed changes of files, to which there is no alternative."""
_BEING_WRITTEN = STAGED | WRITING | ROLLING


class FollowerServices(NamedTuple):
    """The parts of the broker that followers use."""

    touch: Callable[[WaitList], None]
    begin_recovery_points: Callable[[Log], BeginRecoveryPoints]
    renew: Callable[[FetchKey], None]
    """`ReplicaFetchers.renew`."""


class Follower(Replica):
    """The follower's state of one log. `append_as_follower` and the like are works of `ReplicaFetchers`."""

    __slots__ = ("_begin_recovery_points", "_renew", "key")

    def __init__(
        self,
        key: FetchKey,
        log: Log,
        leader_epoch: int,
        disk: DiskMonitor,
        high_watermark: int,
        services: FollowerServices,
    ) -> None:
        """`high_watermark`: the last known one."""
        self.key = key
        self._renew = services.renew
        self._begin_recovery_points = services.begin_recovery_points
        super().__init__(key.topic, key.number, log, leader_epoch, services.touch, disk, high_watermark=high_watermark)

    def notify(self) -> None:
        """Continue the tasks that wait for a sync, and fetch from the present position: the log may have changed."""
        super().notify()
        self._renew(self.key)

    # The facts that decide the next fetch

    @property
    def start_offset(self) -> int:
        return self.log.start_offset

    @property
    def end_offset(self) -> int:
        return self.log.end_offset

    @property
    def last_epoch(self) -> int:
        return self.log.epochs.latest

    @property
    def is_durable(self) -> bool:
        log = self.log
        if log.sync_error is not None:  # the repair may find that the disk has less
            return False
        durable_end = log.recovery_point if log.config.fsync_before_commit else log.written_end
        return min(durable_end, log.written_end) >= log.end_offset

    def end_offset_for(self, epoch: int) -> tuple[int, int]:
        return self.log.epochs.end_offset_for(epoch, self.log.end_offset)

    # Work

    def append_as_follower(self, records: ReceivedRecords) -> Outcome[None]:
        """Append whole batches as they are; see `FollowerReplica`. Raises KafkaError as `FollowerAppend` does."""
        view = memoryview(records)
        if self.log.lock.operations & _BEING_WRITTEN or self.writer() is not None:
            return self._append_by_threads(view)
        try:
            append = FollowerAppend(self.log, view, self.leader_epoch)
        except UnexpectedAppendOffset:
            return self._append_by_threads(view)
        self.disk.write(append.write, self.disk.clock.now_ms(), self)
        return None

    def _append_by_threads(self, records: memoryview) -> Task[None]:
        """Append while a thread has the log, or the disk is slow, or an empty log begins within the first batch."""
        log = self.log
        while log.lock.operations & _BEING_WRITTEN:
            yield sleep(self.disk.scheduler, BUSY_MS)
        try:
            append = FollowerAppend(log, records, self.leader_epoch)
        except UnexpectedAppendOffset as error:
            if log.segments.size or error.last_offset < log.end_offset:
                raise
            yield from self._cut(partial(log_truncation.begin_again, log, error.first_offset, log.start_offset))
            append = FollowerAppend(log, records, self.leader_epoch)
        while not append.is_staged:
            now_ms = self.disk.clock.now_ms()
            self._writer = queue = self.writer() or AppendQueue(self, self.disk)
            yield partial(queue.write, partial(append.stage, now_ms, self), now_ms)

    def sync(self) -> Task[None]:
        """Wait until all records are durable. Raises KafkaError(KAFKA_STORAGE_ERROR)."""
        while not self.is_durable:
            if self.log.lock.operations & _BEING_WRITTEN:  # a write of the time as the leader
                yield sleep(self.disk.scheduler, BUSY_MS)
                continue
            if self.log.sync_error is not None or self.log.is_retired:
                raise self._refusal("be synced")
            self.disk.group_commit.sync_after_turn(self)
            yield Changes((self.waiters,), self.disk.clock.monotonic_ms() + SYNC_MS)

    def synced(self) -> None:
        super().synced()
        self.notify()

    def truncate(self, offset: int) -> Task[None]:
        """Remove all records from `offset` on; the high watermark is at most `offset` then. Raises as `_cut`."""
        return self._cut(partial(log_truncation.begin, self.log, offset))

    def restart_at(self, offset: int) -> Task[None]:
        """Remove all records, and continue at `offset`, with the high watermark there. Raises as `_cut`."""
        yield from self._cut(partial(log_truncation.begin_again, self.log, offset))
        self._move_high_watermark(offset)

    def _cut(self, begin: Callable[[], LogTruncation | None]) -> Task[None]:
        """Truncate the log. Raises KafkaError(KAFKA_STORAGE_ERROR) if the log is unchanged.

        Once the log is cut in memory, its files must follow: a disk that fails is tried again.
        """
        log, scheduler = self.log, self.disk.scheduler
        while (work := begin()) is None:
            if log.lock.operations & (FAILED | RETIRED):
                raise self._refusal("be cut")
            yield sleep(scheduler, BUSY_MS)
        try:
            yield partial(scheduler.in_slices, work.steps())
        except Exception as error:  # noqa: BLE001  decides about the files
            work.error = without_frames(error)
        if log_truncation.apply(log, work, self._begin_recovery_points(log)):
            self.apply_truncation()
            yield from self._write_files(work)
        if not log_truncation.end(log, work):
            raise self._refusal("be cut", work.error)
        self.notify()

    def _write_files(self, work: LogTruncation) -> Task[None]:
        scheduler, backoff = self.disk.scheduler, Backoff(FIRST_WAIT_MS, MAX_WAIT_MS)
        while True:
            try:
                yield partial(scheduler.in_slices, work.write_steps())
            except Exception as error:  # noqa: BLE001  decides about the next attempt
                work.error = without_frames(error)
            if work.error is None or scheduler.is_over or self.log.is_retired:
                return
            self.disk.failed(work.error)
            wait_ms = backoff.next_wait_ms()
            message = "%s-%d is cut to offset %d, but its files are not so far; the next attempt is in %.1f s: %s"
            logger.error(message, *self.log.key, work.offset, wait_ms / 1000, work.error)
            yield sleep(scheduler, wait_ms)

    def _refusal(self, what: str, error: BaseException | None = None) -> KafkaError:
        reason = error or self.log.sync_error or "it was deleted"
        return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"the log of {self.log.name} cannot {what}: {reason}")

    def take_over(self, high_watermark: int, start_offset: int) -> None:
        """Move the high watermark and the start of the log. Neither goes back."""
        if high_watermark != self.high_watermark:
            self._move_high_watermark(high_watermark)
        self.log.advance_start(start_offset)

    def _move_high_watermark(self, offset: int) -> None:
        self.high_watermark = offset
        if self.log.has_transactions:
            self.log.producers.replicated(offset)

"""Slow disks: a thread appends to each partition, one write after another, in the order of arrival.

A write goes to the page cache and takes microseconds while the kernel has room. Without room a write waits for the
disk. The loop must not wait: that would stop all clients, also those of other disks. So writes are timed. After a long
write the disk is suspect; another process may only have had the processor. After a second long write, during which the
writing thread went to sleep, the disk is slow. For a while then a thread writes every append, together with all that
arrived for the partition meanwhile. A thread also rolls a segment that is full or old before it writes to the next one.
Then the loop tries again.

`append.py` has the further course of an append; `storage.log.log_lock` has the operations that are allowed on a log
during a thread's write.
"""

from __future__ import annotations

import errno
import itertools
import logging
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from headgate.gateway.replication.group_commit import GroupCommit
from headgate.gateway.runtime.clock import Clock
from headgate.gateway.runtime.scheduler import Scheduler
from headgate.gateway.runtime.tasks import SingleTask, Task
from headgate.gateway.runtime.workers import BoundedExecutor
from headgate.protocol.errors import ErrorCode, KafkaError, without_frames
from headgate.protocol.records import batch
from headgate.storage.files import FilePosition, WouldBlock
from headgate.storage.log import appending, rolling
from headgate.storage.log.log_lock import ROLLING
from headgate.storage.log.pending_write import AppendInfo, PendingWrite
from headgate.storage.log.validation import BatchFacts, BatchOrigin

if TYPE_CHECKING:
    from headgate.gateway.replication.replica import Replica

try:
    import resource
except ImportError:
    resource = None  # type: ignore[assignment]

logger = logging.getLogger("headgate.replication")

SLOW_MS = 5.0
CALM_MS = 10_000.0
# Maximum bytes that wait for one directory. Reservations of `Connection` limit live clients to less; but clients that
# time out and retry would fill the memory.
MAX_WAITING_BYTES = 256 << 20
PAUSE_BYTES = 16 << 20
"""Above so many waiting bytes, the broker stops reading from clients that want no reply."""
_OF_THREAD: int | None = getattr(resource, "RUSAGE_THREAD", None)
_unknown = itertools.count()

_Resume = Callable[[AppendInfo | KafkaError], None]


class RollIsDue(Exception):
    """An append needs a new segment first, and a thread has to create it."""


class _Queued(NamedTuple):
    """A waiting append. `records`: those that it owns."""

    records: memoryview
    now_ms: int
    stage: Callable[[], AppendInfo]
    resume: _Resume


def voluntary_waits() -> int:
    """How often this thread gave up the processor voluntarily, as it does to wait for a disk.

    Where the system does not report the number, each call returns a higher one.
    """
    if _OF_THREAD is None or resource is None:
        return next(_unknown)
    return resource.getrusage(_OF_THREAD).ru_nvcsw


class _Taken(NamedTuple):
    """A staged append. A new segment ends a write, so appends of one batch may be in several writes."""

    append: _Queued
    info: AppendInfo
    staged: PendingWrite | None  # None for a duplicate, which needs no write


class DiskMonitor:
    """The speed of one log directory's disk, for all its partitions."""

    def __init__(
        self,
        clock: Clock,
        scheduler: Scheduler,
        failed: Callable[[object], None],
        waits: Callable[[], int] = voluntary_waits,
    ) -> None:
        """`failed` is called with each error of a write or a sync."""
        self.clock = clock
        self.scheduler = scheduler
        self.failed = failed
        self.group_commit = GroupCommit(clock, scheduler, failed)
        self.is_slow = False
        self.waiting_bytes = 0  # of appends in queues
        self._when_uncrowded: list[Callable[[], None]] = []
        self._waits = waits
        self._is_suspect = False
        self._share = BoundedExecutor(scheduler)

    def in_thread(self, work: Callable[[], object], resume: Callable[[object], None]) -> None:
        """Have a thread do work that waits for this disk, after earlier work. See `Scheduler`."""
        self._share.in_thread(work, resume)

    @property
    def is_full(self) -> bool:
        """Whether all threads for appends on this disk are busy."""
        return self._share.is_full

    def when_free(self, resume: Callable[[None], None]) -> None:
        """Call `resume` on the loop once a thread is free for its `in_thread`."""
        self._share.when_free(partial(resume, None))

    @property
    def is_crowded(self) -> bool:
        """Whether so many bytes wait that clients without acks have to be held up."""
        return self.waiting_bytes > PAUSE_BYTES

    def when_uncrowded(self, resume: Callable[[], None]) -> None:
        """Call `resume()` once the disk is no longer crowded."""
        self._when_uncrowded.append(resume)

    def taken(self, size: int) -> None:
        """Subtract bytes of appends that have left their queue."""
        self.waiting_bytes -= size
        if self._when_uncrowded and not self.is_crowded:
            callbacks, self._when_uncrowded = self._when_uncrowded, []
            for callback in callbacks:
                callback()

    def write(self, write: Callable[..., None], *arguments: object) -> None:
        """Call `write(*arguments)` inline, and time it. Raises what `write` raises."""
        began_ms = self.clock.monotonic_ms()
        waits = self._waits() if self._is_suspect else None
        try:
            write(*arguments)
        except (KafkaError, OSError) as error:
            self.failed(error)
            raise
        finally:
            if self.clock.monotonic_ms() - began_ms > SLOW_MS:
                self._note_slow(waits)

    def _note_slow(self, waits: int | None) -> None:
        if waits is None:
            self._suspect()
        elif not self.is_slow and self._waits() > waits:
            self.is_slow = True
            logger.warning("the disk is slow: threads make appends for %d s", CALM_MS / 1000)
            self.scheduler.call_after(CALM_MS, self._try_again)

    def _suspect(self) -> None:
        if not self._is_suspect:
            self._is_suspect = True
            self.scheduler.call_after(CALM_MS, self._trust)

    def _trust(self) -> None:
        self._is_suspect = self.is_slow

    def _try_again(self) -> None:
        self.is_slow = False
        self._is_suspect = False
        self._suspect()


class Cold:
    """A placeholder for the queue before the first append since the start: that append may have to read first."""

    rolls = False


COLD = Cold()


class AppendQueue:
    """Appends to one partition by a thread, one write at a time."""

    def __init__(self, replica: Replica, disk: DiskMonitor) -> None:
        self._replica = replica
        self._disk = disk
        self._queue: deque[_Queued] = deque()
        self._work = SingleTask()
        self._warmed_place: FilePosition | None = None  # the last place read into the page cache
        self.rolls = False
        """Whether a thread creates new segments, as it will write the staged batches."""

    @property
    def is_idle(self) -> bool:
        """Whether no append waits or is being written."""
        return not (self._work.is_running or self._queue)

    def append(
        self,
        records: memoryview,
        acks: int,
        now_ms: int,
        resume: _Resume,
        origin: BatchOrigin | None = None,
        facts: BatchFacts | None = None,
    ) -> None:
        """Append a copy of `records`; `resume` is called once, with their place or the reason of a refusal."""
        if self._disk.waiting_bytes > MAX_WAITING_BYTES and acks:  # clients without acks are held up instead
            message = f"the disk is slow: {self._disk.waiting_bytes} bytes wait for it"
            resume(KafkaError(ErrorCode.REQUEST_TIMED_OUT, message))
            return
        self._disk.waiting_bytes += len(records)
        owned = memoryview(bytearray(records))
        stage = partial(self._replica.stage_owned, owned, acks, now_ms, origin, facts)
        self._queue.append(_Queued(owned, now_ms, stage, resume))
        self._work.start(self._write_all)

    def write(self, stage: Callable[[], AppendInfo], now_ms: int, resume: _Resume) -> None:
        """Write what `stage` stages; `resume` is called once, with the place or the error. Raises nothing itself."""
        self._queue.append(_Queued(memoryview(b""), now_ms, stage, resume))
        self._work.start(self._write_all)

    def _write_all(self) -> Task[None]:
        """Write the waiting appends, one write at a time."""
        log = self._replica.log
        while self._queue and not self._disk.scheduler.is_over:
            if self._disk.is_full:  # the queue opens no file before a thread is free
                yield self._disk.when_free
            cold = self._cold()
            if cold is not None:
                with suppress(Exception):  # the append reports the error
                    yield partial(cold.warm_by, self._disk.in_thread)
                continue
            try:
                staged, taken = self._stage()
            except RollIsDue:
                yield from self._roll(partial(rolling.roll, log, self._queue[0].now_ms), self._rolled_for_append)
                continue
            if staged is not None:
                error = None
                try:
                    yield partial(self._disk.in_thread, staged.write)
                except Exception as failure:  # noqa: BLE001  ends the write
                    self._disk.failed(failure)
                    error = without_frames(failure)
                with suppress(KafkaError):  # `PendingWrite.error` has it
                    appending.end_write(log, staged, error)
            self._notify(taken)
        self._replica.give_up_writer()

    def _cold(self) -> WouldBlock | None:
        """A read from the disk that the first append since the start needs; a thread reads first.

        If the page cache has dropped the data again before the append, the append itself waits for the disk. The append
        reports errors too.
        """
        try:
            appending.look_up(self._replica.log)
        except WouldBlock as cold:
            if cold.place == self._warmed_place:
                cold.release()
                return None
            self._warmed_place = cold.place
            return cold
        except (OSError, KafkaError):
            return None
        return None

    def roll(self, roll: Callable[[], None], resume: Callable[[OSError | None], None]) -> None:
        """Have a thread create a new segment; then call `resume` with the error, if any, and write the queue."""
        self._work.start(partial(self._roll_and_write, roll, resume))

    def _roll_and_write(self, roll: Callable[[], None], resume: Callable[[OSError | None], None]) -> Task[None]:
        yield from self._roll(roll, resume)
        yield from self._write_all()

    def _roll(self, roll: Callable[[], None], resume: Callable[[OSError | None], None]) -> Task[None]:
        log = self._replica.log
        log.lock.acquire(ROLLING)
        error = None
        try:
            yield partial(self._disk.in_thread, roll)
        except OSError as failure:
            error = without_frames(failure)
            self._disk.failed(error)
        except Exception:
            logger.exception("no segment of %r can be created", log)
            error = OSError(errno.EIO, "internal error; see the broker's log")
        log.lock.release(ROLLING)
        try:
            resume(error)
        finally:
            self._replica.sync_soon()  # a flush could not begin meanwhile, and may be due

    def _rolled_for_append(self, error: OSError | None) -> None:
        if error is not None:
            self._drop_first(self._replica.log.disk_error(error))

    def _drop_first(self, error: KafkaError) -> None:
        append = self._queue.popleft()
        self._disk.taken(len(append.records))
        append.resume(error)

    def _stage(self) -> tuple[PendingWrite | None, list[_Taken]]:
        """Stage the appends of one write. The write is None if all are duplicates, or if the write cannot begin."""
        log, taken = self._replica.log, list[_Taken]()
        while self._queue and (log.staged is None or _fits(log.staged, self._queue[0].records)):
            append = self._queue[0]
            self.rolls = True
            try:
                info = append.stage()
            except KafkaError as error:
                self._drop_first(error)
                continue
            except RollIsDue:
                if not taken:
                    raise
                break
            finally:
                self.rolls = False
            self._queue.popleft()
            self._disk.taken(len(append.records))
            taken.append(_Taken(append, info, log.staged))
        with suppress(KafkaError):  # `PendingWrite.error` has it
            return appending.begin_write(log), taken
        return None, taken

    def _notify(self, taken: list[_Taken]) -> None:
        self._replica.advance_high_watermark()
        for append, info, staged in taken:
            try:
                append.resume((staged and staged.error) or info)
            except Exception:  # the other appends do not wait for this one
                logger.exception("an append to %r has ended, but its result cannot be used", self._replica.log)


def _fits(staged: PendingWrite, records: memoryview) -> bool:
    """Whether these records fit into the staged write: otherwise staging would write it on the loop first."""
    try:
        header = batch.read_header(records[: batch.HEADER_SIZE])
    except KafkaError:
        return False
    is_one = header.size == len(records)
    return is_one and staged.has_bytes(len(records)) and header.max_timestamp <= staged.max_timestamp
